package bth_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"github.com/go-roce/roce/bth"
)

// TestEncap_Put compares the headers with those of a packet that Soft-RoCE sent.
func TestEncap_Put(t *testing.T) {
	for _, c := range []struct{ vector, kind string }{{"V1", "IPv4"}, {"V7", "IPv6"}, {"V12", "IPv4 VLAN"}} {
		frame := vector(t, c.vector).frame
		var e bth.Envelope
		if d := e.Decode(frame); d != bth.DropNone {
			t.Fatalf("%s: %v", c.vector, d)
		}
		encap := newEncap(t, bth.Path{
			SrcMAC: e.SrcMAC, DstMAC: e.DstMAC, VLAN: e.VLAN, Src: e.Src, Dst: e.Dst,
			SrcPort: e.SrcPort, TrafficClass: e.TrafficClass, HopLimit: e.HopLimit,
		})
		b := bytes.Repeat([]byte{0xEE}, 100)
		n := encap.Put(b, len(e.IB), binary.BigEndian.Uint16(e.Head[4:]))
		if want := frame[:len(frame)-len(e.IB)]; n != len(want) || n != encap.Len() || !bytes.Equal(b[:n], want) {
			t.Errorf("%s: headers are\n%x, want\n%x", c.kind, b[:n], want)
		}
		if encap.L3() != e.L3 {
			t.Errorf("%s: IP header at %d, want %d", c.kind, encap.L3(), e.L3)
		}
		if b[n] != 0xEE {
			t.Errorf("%s: Put wrote behind the headers", c.kind)
		}
	}
}

// TestEncap_Checksum tries every identification: the checksum is always that of the textbook.
func TestEncap_Checksum(t *testing.T) {
	encap := newEncap(t, testPaths["IPv4"])
	got, want := make([]byte, 64), make([]byte, 64)
	for id := range 1 << 16 {
		encap.Put(got, id, uint16(id))
		copy(want, got)
		fixChecksum(want, encap.L3())
		if !bytes.Equal(got, want) {
			t.Fatalf("identification %d: checksum is %x, want %x", id, got[24:26], want[24:26])
		}
	}
}

func TestNewEncap_Defaults(t *testing.T) {
	p := testPaths["IPv4"]
	p.HopLimit = 0
	p.Src, p.Dst = netip.MustParseAddr("::ffff:10.7.0.1"), netip.MustParseAddr("::ffff:10.7.0.2")
	encap := newEncap(t, p)
	b := make([]byte, 64)
	encap.Put(b, 16, 1)
	if ttl := b[14+8]; ttl != bth.DefaultHopLimit {
		t.Errorf("TTL is %d, want %d", ttl, bth.DefaultHopLimit)
	}
	if kind := binary.BigEndian.Uint16(b[12:]); kind != 0x0800 {
		t.Errorf("addresses in the form of GIDs went out with EtherType 0x%04x, want IPv4", kind)
	}
}

func TestNewEncap_Errors(t *testing.T) {
	for want, change := range map[string]func(*bth.Path){
		"lacks an address":       func(p *bth.Path) { p.Src = netip.Addr{} },
		"from 10.7.0.1 to":       func(p *bth.Path) { p.Dst = netip.Addr{} },
		"different IP versions":  func(p *bth.Path) { p.Dst = netip.MustParseAddr("fd00::1") },
		"source port 0":          func(p *bth.Path) { p.SrcPort = 0 },
		"flow label 0x100000 of": func(p *bth.Path) { p.FlowLabel = 1 << 20 },
	} {
		p := testPaths["IPv4"]
		change(&p)
		if _, err := bth.NewEncap(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
}

// TestSourcePort has the values that the captures of Soft-RoCE show.
func TestSourcePort(t *testing.T) {
	for _, c := range []struct {
		label      uint32
		lqpn, rqpn bth.QPN
		want       uint16
	}{
		{0, 0x12, 0x12, 0xC144},       // rc_send
		{0x8BC0B, 0x43, 0x44, 0xFC29}, // cm_rping
		{0xFFF00000, 0x12, 0x12, 0xC144},
		{1, 0, 0, 0xC001},
		{0, 0, 0, 0xC000},
		{0xFFFFF, 0, 0, 0xC000 | 0x3FFF ^ 0x3F},
		{0, 0xFFFFFF, 0xFFFFFF, 0xFF21},
	} {
		got := bth.SourcePort(c.label, c.lqpn, c.rqpn)
		if got != c.want {
			t.Errorf("label 0x%x, QPs 0x%x and 0x%x: port 0x%x, want 0x%x", c.label, uint32(c.lqpn), uint32(c.rqpn), got, c.want)
		}
		if back := bth.SourcePort(c.label, c.rqpn, c.lqpn); back != got {
			t.Errorf("label 0x%x, QPs 0x%x and 0x%x: the other end sends from port 0x%x", c.label, uint32(c.lqpn), uint32(c.rqpn), back)
		}
	}
}

func TestPathMTU(t *testing.T) {
	valid := map[int]bool{256: true, 512: true, 1024: true, 2048: true, 4096: true}
	for n := -1; n <= 8192; n++ {
		if bth.ValidPathMTU(n) != valid[n] {
			t.Errorf("path MTU %d is valid: %v", n, !valid[n])
		}
	}
	for link, want := range map[int]int{
		0: 0, 335: 0, 336: 256, 591: 256, 592: 512, 1103: 512, 1104: 1024, 1500: 1024, 2127: 1024, 2128: 2048, 4175: 2048, 4176: 4096, 9000: 4096, 65536: 4096,
	} {
		if got := bth.PathMTUFor(link); got != want {
			t.Errorf("a link MTU of %d carries path MTU %d, want %d", link, got, want)
		}
	}
}

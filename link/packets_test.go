package link_test

import (
	"net/netip"
	"testing"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/link"
)

// wire is a pair of memory devices and what packets from the first to the second need.
type wire struct {
	a, b  *link.Mem
	encap bth.Encap
}

func newWire(t testing.TB, v6 bool, vlan uint16, o link.MemOptions) *wire {
	t.Helper()
	w := new(wire)
	w.a, w.b = link.NewMemPair(o)
	p := bth.Path{
		SrcMAC: w.a.MAC(), DstMAC: w.b.MAC(), VLAN: vlan, SrcPort: 0xC001, TrafficClass: 1 << 2,
		Src: netip.MustParseAddr("10.77.0.1"), Dst: netip.MustParseAddr("10.77.0.2"),
	}
	if v6 {
		p.Src, p.Dst = netip.MustParseAddr("fd77::1"), netip.MustParseAddr("fd77::2")
	}
	var err error
	if w.encap, err = bth.NewEncap(p); err != nil {
		t.Fatal(err)
	}
	return w
}

// write builds the frame of a RC SEND MIDDLE with the PSN and n bytes of payload into b.
func (w *wire) write(b []byte, psn bth.PSN, n int) []byte {
	return w.writeSuper(b, psn, n, 1, n)
}

// writeSuper builds a super-frame of count packets of n bytes of payload, the last of
// last bytes, with PSNs from psn on.
func (w *wire) writeSuper(b []byte, psn bth.PSN, n, count, last int) []byte {
	const id = 0xFFFE // which wraps inside a super-frame
	head := w.encap.Len()
	b = append(b[:0], make([]byte, head)...)
	var icrc bth.ICRC
	for i := range count {
		if i == count-1 {
			n = last
		}
		h := bth.Headers{Header: bth.Header{
			Opcode: bth.RCSendMiddle, PKey: bth.DefaultPKey, DestQP: 0x12, PSN: psn.Add(uint32(i)), Pad: uint8(-n & 3),
		}}
		start := len(b)
		b = h.AppendTo(b)
		for j := range n {
			b = append(b, byte(j)+byte(psn)+byte(i))
		}
		b = append(b, make([]byte, -n&3+bth.ICRCLen)...)
		ib := b[start:]
		crc := icrc.StartPacket(&w.encap, len(ib), uint16(id+i), ib[:bth.Len])
		bth.PutICRC(ib[len(ib)-bth.ICRCLen:], bth.UpdateICRC(crc, ib[bth.Len:len(ib)-bth.ICRCLen]))
	}
	w.encap.Put(b, len(b)-head, id)
	return b
}

// lease gets buffers of the link, all that were asked for.
func lease(t testing.TB, l link.Link, fs []link.Frame) link.Queue {
	t.Helper()
	q := l.Queues()[0]
	if n := q.Alloc(fs); n != len(fs) {
		t.Fatalf("%d of %d buffers", n, len(fs))
	}
	return q
}

// send sends the packets with PSNs from first up to but without last, in batches.
func (w *wire) send(t testing.TB, l link.Link, first, last bth.PSN, payload int) {
	t.Helper()
	var fs [16]link.Frame
	for first != last {
		n := min(len(fs), last.Diff(first))
		q := lease(t, l, fs[:n])
		for i := range fs[:n] {
			fs[i].Data = w.write(fs[i].Data, first, payload)
			first = first.Next()
		}
		q.Submit(fs[:n])
		if err := q.Flush(); err != nil {
			t.Fatal(err)
		}
	}
}

// received is a packet that came, and what decoding it said.
type received struct {
	psn  bth.PSN
	drop bth.Drop
	ecn  uint8
	at   clock.Time
	data []byte
}

// receive takes what waits at b.
func (w *wire) receive(t testing.TB) []received {
	t.Helper()
	q := w.b.Queues()[0]
	var got []received
	var icrc bth.ICRC
	var p bth.Packet
	fs := make([]link.Frame, 16)
	for {
		n, err := q.Recv(fs)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return got
		}
		for _, f := range fs[:n] {
			drop := p.DecodeFrame(&icrc, f.Data)
			got = append(got, received{p.PSN, drop, p.ECN, clock.System().Now(), append([]byte(nil), f.Data...)})
		}
		q.Release(fs[:n])
	}
}

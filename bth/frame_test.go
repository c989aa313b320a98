package bth_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/go-roce/roce/bth"
)

// goodFrame returns a SEND ONLY of four bytes over a path of the given kind, with right checksums.
func goodFrame(t testing.TB, kind string) (frame []byte, l3 int) {
	t.Helper()
	var c bth.ICRC
	encap := newEncap(t, testPaths[kind])
	h := sampleHeaders(bth.RCSendOnly)
	payload, _ := payloadOf(4)
	return buildFrame(&c, encap, &h, payload, 0x1234), encap.L3()
}

// insert returns b with more put in at i.
func insert(b []byte, i int, more ...byte) []byte {
	return append(append(bytes.Clone(b[:i]), more...), b[i:]...)
}

// TestEnvelope_Verdicts changes one thing about a good frame at a time.
func TestEnvelope_Verdicts(t *testing.T) {
	const eth, v4, v6 = 14, 20, 40 // lengths of the headers
	put16 := func(b []byte, i int, v int) { binary.BigEndian.PutUint16(b[i:], uint16(v)) }
	add16 := func(b []byte, i int, v int) { put16(b, i, int(binary.BigEndian.Uint16(b[i:]))+v) }
	for _, c := range []struct {
		name, kind string
		change     func(f []byte) []byte
		want       bth.Drop
	}{
		{"as it is", "IPv4", func(f []byte) []byte { return f }, bth.DropNone},
		{"as it is", "IPv6", func(f []byte) []byte { return f }, bth.DropNone},
		{"802.1ad tag", "IPv4 VLAN", func(f []byte) []byte { put16(f, 12, 0x88A8); return f }, bth.DropNone},
		{"tag of 0", "IPv4", func(f []byte) []byte { return insert(f, 12, 0x81, 0, 0, 0) }, bth.DropNone},
		{"empty", "IPv4", func([]byte) []byte { return nil }, bth.DropShort},
		{"no EtherType", "IPv4", func(f []byte) []byte { return f[:13] }, bth.DropShort},
		{"no tag", "IPv4 VLAN", func(f []byte) []byte { return f[:17] }, bth.DropShort},
		{"two tags", "IPv4 VLAN", func(f []byte) []byte { return insert(f, 12, 0x88, 0xA8, 0, 9) }, bth.DropVLAN},
		{"two tags of old", "IPv6 VLAN", func(f []byte) []byte { return insert(f, 12, 0x91, 0, 0, 9) }, bth.DropVLAN},
		{"RoCE version 1", "IPv6", func(f []byte) []byte { put16(f, 12, 0x8915); return f }, bth.DropNotRoCE},
		{"ARP of no length", "IPv4", func(f []byte) []byte { put16(f, 12, 0x0806); return f[:14] }, bth.DropNotRoCE},
		{"tagged ARP", "IPv4 VLAN", func(f []byte) []byte { put16(f, 16, 0x0806); return f }, bth.DropNotRoCE},

		{"IPv4 header cut", "IPv4", func(f []byte) []byte { return f[:eth+v4-1] }, bth.DropShort},
		{"version 5", "IPv4", func(f []byte) []byte { f[eth] = 0x55; return f }, bth.DropNotRoCE},
		{"TCP", "IPv4", func(f []byte) []byte { f[eth+9] = 6; return f }, bth.DropNotRoCE},
		{"header of 16 bytes", "IPv4", func(f []byte) []byte { f[eth] = 0x44; return f }, bth.DropLength},
		{"other port", "IPv4", func(f []byte) []byte { f[eth+v4+3]++; return f }, bth.DropNotRoCE},
		{"other port, wrong checksum", "IPv4", func(f []byte) []byte { f[eth+v4+3]++; f[eth+10]++; return f }, bth.DropNotRoCE},
		{"UDP header cut", "IPv4", func(f []byte) []byte { return f[:eth+v4+7] }, bth.DropShort},
		{"wrong checksum", "IPv4", func(f []byte) []byte { f[eth+11]++; return f }, bth.DropIPChecksum},
		{"options", "IPv4", func(f []byte) []byte {
			f[eth] = 0x46
			return insert(f, eth+v4, 0x94, 4, 0, 0)
		}, bth.DropIPOptions},
		{"options, other port", "IPv4", func(f []byte) []byte {
			f[eth], f[eth+v4+3] = 0x46, 0
			return insert(f, eth+v4, 0x94, 4, 0, 0)
		}, bth.DropNotRoCE},
		{"options only", "IPv4", func(f []byte) []byte { f[eth] = 0x4F; return f[:eth+60] }, bth.DropShort},
		{"first fragment", "IPv4", func(f []byte) []byte { f[eth+6] = 0x20; fixChecksum(f, eth); return f }, bth.DropFragment},
		{"first fragment, other port", "IPv4", func(f []byte) []byte { f[eth+6] = 0x20; f[eth+v4+3] = 0; return f }, bth.DropNotRoCE},
		{"later fragment", "IPv4", func(f []byte) []byte { f[eth+7] = 1; fixChecksum(f, eth); return f }, bth.DropFragment},
		{"later fragment, short", "IPv4", func(f []byte) []byte { f[eth+7] = 1; return f[:eth+v4] }, bth.DropFragment},
		{"later fragment of TCP", "IPv4", func(f []byte) []byte { f[eth+7] = 1; f[eth+9] = 6; return f }, bth.DropNotRoCE},
		{"reserved flag", "IPv4", func(f []byte) []byte { f[eth+6] |= 0x80; fixChecksum(f, eth); return f }, bth.DropNone},

		{"IP longer than the frame", "IPv4", func(f []byte) []byte { return f[:len(f)-1] }, bth.DropLength},
		{"IP longer than the frame, UDP ending before", "IPv4", func(f []byte) []byte {
			put16(f, eth+2, 200)
			fixChecksum(f, eth)
			return append(f, make([]byte, 20)...)
		}, bth.DropLength},
		{"IP longer than UDP", "IPv4", func(f []byte) []byte { add16(f, eth+v4+4, -4); return f }, bth.DropLength},
		{"IP shorter than UDP", "IPv4", func(f []byte) []byte { add16(f, eth+2, -4); fixChecksum(f, eth); return f }, bth.DropLength},
		{"IP shorter than its header", "IPv4", func(f []byte) []byte { put16(f, eth+2, 19); fixChecksum(f, eth); return f }, bth.DropLength},
		{"UDP shorter than its header", "IPv4", func(f []byte) []byte { put16(f, eth+v4+4, 7); return f }, bth.DropLength},
		{"UDP of 0", "IPv4", func(f []byte) []byte { put16(f, eth+v4+4, 0); return f }, bth.DropLength},
		{"no payload", "IPv4", func(f []byte) []byte {
			put16(f, eth+v4+4, 8)
			put16(f, eth+2, 28)
			fixChecksum(f, eth)
			return f[:eth+28]
		}, bth.DropNone},

		{"IPv6 header cut", "IPv6", func(f []byte) []byte { return f[:eth+v6-1] }, bth.DropShort},
		{"IPv6 of version 4", "IPv6", func(f []byte) []byte { f[eth] = 0x40; return f }, bth.DropNotRoCE},
		{"IPv6 UDP header cut", "IPv6", func(f []byte) []byte { return f[:eth+v6+7] }, bth.DropShort},
		{"IPv6 other port", "IPv6", func(f []byte) []byte { f[eth+v6+2]++; return f }, bth.DropNotRoCE},
		{"ICMPv6", "IPv6", func(f []byte) []byte { f[eth+6] = 58; return f }, bth.DropNotRoCE},
		{"IPv6 of payload length 0", "IPv6", func(f []byte) []byte { put16(f, eth+4, 0); return f }, bth.DropLength},
		{"IPv6 longer than the frame", "IPv6", func(f []byte) []byte { return f[:len(f)-1] }, bth.DropLength},
		{"IPv6 longer than UDP", "IPv6", func(f []byte) []byte { add16(f, eth+v6+4, -4); return f }, bth.DropLength},
		{"hop by hop", "IPv6", func(f []byte) []byte {
			f[eth+6] = 0
			return insert(f, eth+v6, 17, 0, 1, 4, 0, 0, 0, 0)
		}, bth.DropIPOptions},
		{"hop by hop, routing, destination", "IPv6", func(f []byte) []byte {
			f[eth+6] = 0
			return insert(f, eth+v6, 43, 0, 1, 4, 0, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0, 17, 1, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
		}, bth.DropIPOptions},
		{"hop by hop before ICMPv6", "IPv6", func(f []byte) []byte {
			f[eth+6] = 0
			return insert(f, eth+v6, 58, 0, 1, 4, 0, 0, 0, 0)
		}, bth.DropNotRoCE},
		{"hop by hop, other port", "IPv6", func(f []byte) []byte {
			f[eth+6], f[eth+v6+2] = 0, 0
			return insert(f, eth+v6, 17, 0, 1, 4, 0, 0, 0, 0)
		}, bth.DropNotRoCE},
		{"hop by hop cut", "IPv6", func(f []byte) []byte { f[eth+6] = 0; return f[:eth+v6+7] }, bth.DropShort},
		{"UDP behind hop by hop cut", "IPv6", func(f []byte) []byte {
			f[eth+6] = 0
			return insert(f, eth+v6, 17, 0, 1, 4, 0, 0, 0, 0)[:eth+v6+8+7]
		}, bth.DropShort},
		{"IPv6 first fragment", "IPv6", func(f []byte) []byte {
			f[eth+6] = 44
			return insert(f, eth+v6, 17, 0, 0, 1, 0, 0, 0, 7)
		}, bth.DropFragment},
		{"IPv6 first fragment, other port", "IPv6", func(f []byte) []byte {
			f[eth+6], f[eth+v6+2] = 44, 0
			return insert(f, eth+v6, 17, 0, 0, 1, 0, 0, 0, 7)
		}, bth.DropNotRoCE},
		{"IPv6 later fragment", "IPv6", func(f []byte) []byte {
			f[eth+6] = 44
			return insert(f, eth+v6, 17, 0, 0, 8, 0, 0, 0, 7)
		}, bth.DropFragment},
		{"IPv6 fragment of TCP", "IPv6", func(f []byte) []byte {
			f[eth+6] = 44
			return insert(f, eth+v6, 6, 0, 0, 8, 0, 0, 0, 7)
		}, bth.DropNotRoCE},
		{"IPv6 fragment header cut", "IPv6", func(f []byte) []byte { f[eth+6] = 44; return f[:eth+v6+3] }, bth.DropShort},
	} {
		frame, _ := goodFrame(t, c.kind)
		var e bth.Envelope
		if got := e.Decode(c.change(frame)); got != c.want {
			t.Errorf("%s, %s: %s, want %s", c.kind, c.name, got.String(), c.want.String())
		}
	}
}

// TestEnvelope_Truncated cuts every kind of frame at every place. Whatever is missing, the
// frame is refused, or (with nothing but a trailer missing) taken as before.
func TestEnvelope_Truncated(t *testing.T) {
	var (
		c bth.ICRC
		p bth.Packet
	)
	for kind, path := range testPaths {
		encap := newEncap(t, path)
		spoken(func(o bth.Opcode, info *bth.Info) {
			h := sampleHeaders(o)
			var payload []byte
			if info.Flags.Has(bth.HasPayload) {
				payload, h.Pad = payloadOf(7)
			}
			frame := buildFrame(&c, encap, &h, payload, 1)
			for n := range frame {
				if d := p.DecodeFrame(&c, frame[:n:n]); d == bth.DropNone {
					t.Fatalf("%v over %s: taken with %d of %d bytes", o, kind, n, len(frame))
				}
			}
			if d := p.DecodeFrame(&c, append(frame, 0, 0)); d != bth.DropNone {
				t.Fatalf("%v over %s with two bytes of trailer: %v", o, kind, d)
			}
		})
	}
}

// TestPacket_Truncated cuts the IB packet of every opcode and sends the rest with
// lengths and ICRC that are right for it: what lacks a header is refused by its length
// alone.
func TestPacket_Truncated(t *testing.T) {
	var (
		c bth.ICRC
		p bth.Packet
	)
	for kind, path := range testPaths {
		encap := newEncap(t, path)
		spoken(func(o bth.Opcode, info *bth.Info) {
			h := sampleHeaders(o)
			whole := h.AppendTo(make([]byte, encap.Len()))
			for n := encap.Len(); n < len(whole); n++ {
				frame := bytes.Clone(whole[:n])
				ibLen := n - encap.Len() + bth.ICRCLen
				encap.Put(frame, ibLen, 1)
				if n < encap.Len()+bth.Len {
					frame = append(frame, 0, 0, 0, 0)
				} else {
					frame = appendICRC(frame, c.Start(frame[encap.L3():]))
				}
				if d := p.DecodeFrame(&c, frame); d != bth.DropHeaderLength {
					t.Errorf("%v over %s with %d bytes up to the ICRC: %s, want header_length", o, kind, n-encap.Len(), d.String())
				}
			}
		})
	}
}

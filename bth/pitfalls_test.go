package bth_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/go-roce/roce/bth"
)

// Each test here holds a thing that other RoCE implementations once had wrong.

// TestPitfall01_ICRCCoversThePad: at every size around a word and around each path MTU,
// of every opcode with payload, over IPv4 and IPv6, the ICRC is over payload and pad,
// built and verified.
func TestPitfall01_ICRCCoversThePad(t *testing.T) {
	sizes := []int{1, 2, 3, 4, 5}
	for mtu := bth.MinPathMTU; mtu <= bth.MaxPathMTU; mtu *= 2 {
		for d := -3; d <= 3; d++ {
			if mtu+d <= bth.MaxPathMTU {
				sizes = append(sizes, mtu+d)
			}
		}
	}
	var (
		c bth.ICRC
		p bth.Packet
	)
	for kind, path := range testPaths {
		encap := newEncap(t, path)
		spoken(func(o bth.Opcode, info *bth.Info) {
			if !info.Flags.Has(bth.HasPayload) {
				return
			}
			for _, size := range sizes {
				h := sampleHeaders(o)
				payload, pad := payloadOf(size)
				h.Pad = pad
				frame := buildFrame(&c, encap, &h, payload, 3)
				name := fmt.Sprintf("%v over %s, %d bytes", o, kind, size)
				if n := len(frame) - encap.Len() - info.HeaderLen - bth.ICRCLen; n%4 != 0 {
					t.Fatalf("%s: payload and pad are %d bytes", name, n)
				}
				want := referenceICRC(frame, encap.L3(), len(frame)-encap.Len())
				if got := binary.LittleEndian.Uint32(frame[len(frame)-4:]); got != want {
					t.Errorf("%s: the ICRC is 0x%08x, want 0x%08x", name, got, want)
				}
				if d := p.DecodeFrame(&c, frame); d != bth.DropNone || !bytes.Equal(p.Payload, payload) {
					t.Errorf("%s: %s with %d bytes", name, d.String(), len(p.Payload))
				}
				for i := range int(pad) {
					frame[len(frame)-5-i] ^= 1
					if d := p.DecodeFrame(&c, frame); d != bth.DropICRC {
						t.Errorf("%s: with a pad byte changed: %s, want icrc", name, d.String())
					}
					frame[len(frame)-5-i] ^= 1
				}
			}
		})
	}
}

// maskedBytes is the offsets behind the IP header's beginning that the ICRC does not
// cover, and that no other check looks at, with the bits that may change.
var maskedBytes = map[string]map[int]byte{
	"IPv4": {
		1:  0xFF, // TOS
		8:  0xFF, // TTL
		26: 0xFF, // UDP checksum
		27: 0xFF,
		32: 0xFF, // FECN, BECN
	},
	"IPv6": {
		0:  0x0F, // traffic class
		1:  0xFF, // and flow label
		2:  0xFF,
		3:  0xFF,
		7:  0xFF, // hop limit
		46: 0xFF, // UDP checksum
		47: 0xFF,
		52: 0xFF, // FECN, BECN
	},
}

// TestPitfall02_ICRCIsOverTheFinalHeaders: the packet is refused when any bit that the
// ICRC covers is another on arrival: identification, Don't Fragment, lengths, ports,
// addresses, headers, payload.
func TestPitfall02_ICRCIsOverTheFinalHeaders(t *testing.T) {
	flipEveryBit(t, func(kind string, offset, bit int, d bth.Drop) {
		if maskedBytes[kind][offset]&(1<<bit) == 0 && d == bth.DropNone {
			t.Errorf("%s: taken though bit %d of byte %d changed", kind, bit, offset)
		}
	})
}

// TestPitfall03_ICRCMasks: and it is taken when a bit that routers and switches may change did.
func TestPitfall03_ICRCMasks(t *testing.T) {
	flipEveryBit(t, func(kind string, offset, bit int, d bth.Drop) {
		if maskedBytes[kind][offset]&(1<<bit) != 0 && d != bth.DropNone {
			t.Errorf("%s: bit %d of byte %d changed and %s", kind, bit, offset, d.String())
		}
	})
}

// flipEveryBit gives the verdict on a good frame with each bit from the IP header on
// flipped and, in IPv4, the header checksum right for it, as a router leaves it. Where
// the bit is one of the checksum that is left wrong.
func flipEveryBit(t *testing.T, verdict func(kind string, offset, bit int, d bth.Drop)) {
	t.Helper()
	var (
		c bth.ICRC
		p bth.Packet
	)
	for kind := range maskedBytes {
		frame, l3 := goodFrame(t, kind)
		for i := range len(frame) - l3 {
			for bit := range 8 {
				f := bytes.Clone(frame)
				f[l3+i] ^= 1 << bit
				if kind == "IPv4" && i != 10 && i != 11 {
					fixChecksum(f, l3)
				}
				verdict(kind, i, bit, p.DecodeFrame(&c, f))
			}
		}
	}
}

// TestPitfall04_ReservedBits: zero when sent, ignored on receipt (IBA C9-6); MigReq is
// taken either way.
func TestPitfall04_ReservedBits(t *testing.T) {
	var p, q bth.Packet
	spoken(func(o bth.Opcode, info *bth.Info) {
		h := sampleHeaders(o)
		for i, b := range map[int]byte{4: 0x3F, 8: 0x7F} {
			ib := append(h.AppendTo(nil), 0, 0, 0, 0)
			if ib[i]&b != 0 {
				t.Errorf("%v is sent with reserved bits 0x%02x in byte %d", o, ib[i]&b, i)
			}
			d1 := decodeIB(&p, ib)
			ib[i] |= b
			d2 := decodeIB(&q, ib)
			if d1 != d2 || p.Headers != q.Headers {
				t.Errorf("%v with reserved bits set in byte %d: %s and\n%+v, want %s and\n%+v", o, i, d2.String(), q.Headers, d1.String(), p.Headers)
			}
		}
		for _, migrated := range []bool{false, true} {
			h.MigReq = migrated
			if d := decodeIB(&p, append(h.AppendTo(nil), make([]byte, 12)...)); info.Flags.Has(bth.HasPayload) && (d != bth.DropNone || p.MigReq != migrated) {
				t.Errorf("%v with MigReq %v: %s, MigReq %v", o, migrated, d.String(), p.MigReq)
			}
		}
	})
	ib := append(sampleFor(bth.UDSendOnly), 0, 0, 0, 0)
	ib[bth.Len+4] = 0xFF
	if d := decodeIB(&p, ib); d != bth.DropNone || p.DETH.SrcQP != 0xF5F6F7 {
		t.Errorf("DETH with reserved bits: %s, source QP 0x%x", d.String(), uint32(p.DETH.SrcQP))
	}
	ib = append(sampleFor(bth.RCFlush), 0, 0, 0, 0)
	ib[bth.Len], ib[bth.Len+3] = 0xFF, ib[bth.Len+3]|0xC0
	if d := decodeIB(&p, ib); d != bth.DropNone || p.FETH != (bth.FETH{Placement: 3, Selectivity: 1}) {
		t.Errorf("FETH with reserved bits: %s, %+v", d.String(), p.FETH)
	}
}

// sampleFor encodes sampleHeaders of an opcode.
func sampleFor(o bth.Opcode) []byte {
	h := sampleHeaders(o)
	return h.AppendTo(nil)
}

// TestPitfall05_ShortBeforeArithmetic: whatever the first bytes say, a packet shorter
// than its headers, pad and ICRC is refused, and one whose opcode has no name before
// its length is looked at.
func TestPitfall05_ShortBeforeArithmetic(t *testing.T) {
	var p bth.Packet
	for o := range 256 {
		info, named := bth.Opcode(o).Info()
		for pad := range 4 {
			for n := range 60 {
				ib := bytes.Repeat([]byte{0xFF}, n)
				if n > 1 {
					ib[0], ib[1] = byte(o), byte(pad<<4)
				}
				d := decodeIB(&p, ib)
				switch {
				case n < bth.Len+bth.ICRCLen:
					if d != bth.DropHeaderLength {
						t.Fatalf("opcode 0x%02x of %d bytes: %s, want header_length", o, n, d.String())
					}
				case !named:
					if d != bth.DropOpcode {
						t.Fatalf("opcode 0x%02x of %d bytes: %s, want opcode", o, n, d.String())
					}
				case n < info.HeaderLen+pad+bth.ICRCLen:
					if d == bth.DropNone {
						t.Fatalf("%v of %d bytes with pad %d is taken", bth.Opcode(o), n, pad)
					}
				}
			}
		}
	}
}

// TestPitfall06_Checksums: a wrong IPv4 header checksum is a reason to drop, a wrong
// UDP checksum is none: the ICRC decides.
func TestPitfall06_Checksums(t *testing.T) {
	var (
		c bth.ICRC
		p bth.Packet
	)
	for kind := range testPaths {
		frame, l3 := goodFrame(t, kind)
		udp := l3 + len(frame[l3:]) - (8 + bth.Len + 4 + bth.ICRCLen)
		for _, sum := range []uint16{0, 1, 0x1234, 0xFFFF} {
			binary.BigEndian.PutUint16(frame[udp+6:], sum)
			if d := p.DecodeFrame(&c, frame); d != bth.DropNone {
				t.Errorf("%s with UDP checksum 0x%04x: %s", kind, sum, d.String())
			}
		}
		if frame[l3]>>4 != 4 {
			continue
		}
		right := binary.BigEndian.Uint16(frame[l3+10:])
		for _, sum := range []uint16{0, right + 1, ^right} {
			binary.BigEndian.PutUint16(frame[l3+10:], sum)
			if d := p.DecodeFrame(&c, frame); d != bth.DropIPChecksum {
				t.Errorf("%s with header checksum 0x%04x instead of 0x%04x: %s", kind, sum, right, d.String())
			}
		}
	}
}

// TestPitfall07_OddEncapsulation: fragments, IP options, IPv6 extension headers and
// second tags, cut at every place, have a name each and never a panic.
// TestEnvelope_Verdicts has the cases one by one.
func TestPitfall07_OddEncapsulation(t *testing.T) {
	v4, _ := goodFrame(t, "IPv4")
	v6, _ := goodFrame(t, "IPv6")
	tagged, _ := goodFrame(t, "IPv4 VLAN")
	options := insert(v4, 34, 0x94, 4, 0, 0)
	options[14] = 0x46
	fragment := bytes.Clone(v4)
	fragment[20] = 0x20
	fixChecksum(fragment, 14)
	extended := insert(v6, 54, 17, 0, 1, 4, 0, 0, 0, 0)
	extended[20] = 0
	fragment6 := insert(v6, 54, 17, 0, 0, 1, 0, 0, 0, 7)
	fragment6[20] = 44
	endless := insert(v6, 54, bytes.Repeat([]byte{60, 0, 1, 4, 0, 0, 0, 0}, 200)...)
	endless[20] = 60
	for _, c := range []struct {
		name  string
		frame []byte
		want  bth.Drop
	}{
		{"IPv4 options", options, bth.DropIPOptions},
		{"IPv4 fragment", fragment, bth.DropFragment},
		{"IPv6 extension header", extended, bth.DropIPOptions},
		{"IPv6 fragment", fragment6, bth.DropFragment},
		{"200 extension headers", endless, bth.DropNotRoCE},
		{"two VLAN tags", insert(tagged, 12, 0x81, 0, 0, 9), bth.DropVLAN},
	} {
		var e bth.Envelope
		if d := e.Decode(c.frame); d != c.want {
			t.Errorf("%s: %s, want %s", c.name, d.String(), c.want.String())
		}
		for n := range len(c.frame) {
			if d := e.Decode(c.frame[:n:n]); d == bth.DropNone {
				t.Errorf("%s, %d bytes of it: taken", c.name, n)
			}
		}
	}
}

// TestPitfall08_SilentDropsHaveNames: a wrong transport version is dropped here; what
// the endpoint drops for its P_Key, destination or source reaches it undisturbed, and
// those drops have counters.
func TestPitfall08_SilentDropsHaveNames(t *testing.T) {
	var p bth.Packet
	for v := range uint8(16) {
		h := bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly, TVer: v}}
		want := bth.DropTVer
		if v == 0 {
			want = bth.DropNone
		}
		if d := decodeIB(&p, append(h.AppendTo(nil), 0, 0, 0, 0)); d != want || p.TVer != v {
			t.Errorf("transport version %d: %s, want %s", v, d.String(), want.String())
		}
	}
	h := bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly, PKey: 0x1234, DestQP: 0x777777}}
	if d := decodeIB(&p, append(h.AppendTo(nil), 0, 0, 0, 0)); d != bth.DropNone || p.PKey != 0x1234 || p.DestQP != 0x777777 {
		t.Errorf("%s, P_Key 0x%04x, QP 0x%06x", d.String(), p.PKey, uint32(p.DestQP))
	}
	for d, want := range map[bth.Drop]string{
		bth.DropPKey: "pkey", bth.DropTVer: "tver", bth.DropUnknownQP: "unknown_qp", bth.DropSource: "source", bth.DropNotOurs: "not_ours",
	} {
		if d.String() != want {
			t.Errorf("the counter of reason %d is %s, want %s", uint8(d), d.String(), want)
		}
	}
}

// TestPitfall09_MergedFrames: bytes behind the datagram are a trailer as long as no
// packet fits in them; more is counted as merged, with advice, and so is a datagram
// with more than one packet in it.
func TestPitfall09_MergedFrames(t *testing.T) {
	var (
		c bth.ICRC
		p bth.Packet
	)
	for kind := range testPaths {
		frame, _ := goodFrame(t, kind)
		for n := range 40 {
			want := bth.DropNone
			if n >= bth.Len+bth.ICRCLen {
				want = bth.DropMerged
			}
			if d := p.DecodeFrame(&c, append(bytes.Clone(frame), make([]byte, n)...)); d != want {
				t.Errorf("%s with %d bytes of trailer: %s, want %s", kind, n, d.String(), want.String())
			}
		}
		encap := newEncap(t, testPaths[kind])
		for _, n := range []int{2, 3, 15} {
			super, _ := superFrame(&c, encap, n, 4096, 4096, 9, true)
			if d := p.DecodeFrame(&c, super); d != bth.DropMerged {
				t.Errorf("%s: %d packets of 4096 bytes in a frame: %s", kind, n, d.String())
			}
			super, _ = superFrame(&c, encap, n, 256, 100, 9, true)
			if d := p.DecodeFrame(&c, super); d != bth.DropMerged {
				t.Errorf("%s: %d packets of 256 bytes in a frame: %s", kind, n, d.String())
			}
		}
		// IP went over both packets, UDP over the first alone.
		twice := append(bytes.Clone(frame), frame[encap.Len():]...)
		l3 := encap.L3()
		if twice[l3]>>4 == 4 {
			binary.BigEndian.PutUint16(twice[l3+2:], uint16(len(twice)-l3))
			fixChecksum(twice, l3)
		} else {
			binary.BigEndian.PutUint16(twice[l3+4:], uint16(len(twice)-l3-40))
		}
		if d := p.DecodeFrame(&c, twice); d != bth.DropMerged {
			t.Errorf("%s: a packet behind the UDP length: %s", kind, d.String())
		}
	}
	if advice := bth.DropMerged.Error(); !bytes.Contains([]byte(advice), []byte("ethtool -K INTERFACE gro off")) {
		t.Errorf("merged packets give no advice: %s", advice)
	}
}

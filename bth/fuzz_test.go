package bth_test

import (
	"bytes"
	"testing"

	"github.com/go-roce/roce/bth"
)

// addCaptures seeds a fuzz target with frames of every kind: the first few of each
// capture, and all of those with odd frames.
func addCaptures(f *testing.F, add func(frame []byte)) {
	f.Helper()
	for _, name := range captureNames(f) {
		frames := captureFrames(f, name)
		for _, frame := range frames[:min(len(frames), 4)] {
			add(frame)
		}
	}
	for _, name := range []string{"probe_accept", "k612_probe_flushdup", "k612_probe_iba15", "probe_unkop"} {
		for _, frame := range captureFrames(f, name) {
			add(frame)
		}
	}
}

// FuzzDecodeFrame: no frame panics, and what is taken has lengths that add up, a right
// ICRC by the reference, and is the same after encoding and decoding.
func FuzzDecodeFrame(f *testing.F) {
	addCaptures(f, func(frame []byte) { f.Add(frame) })
	var (
		c bth.ICRC
		e bth.Envelope
		p bth.Packet
	)
	f.Fuzz(func(t *testing.T, frame []byte) {
		d := p.DecodeFrame(&c, frame)
		if _, known := seenDrop[d]; !known {
			t.Fatalf("%s is no verdict on a frame", d.String())
		}
		if d != bth.DropNone {
			return
		}
		if d := e.Decode(frame); d != bth.DropNone {
			t.Fatalf("the packet is taken, its envelope is not: %v", d)
		}
		if end := e.L3 + len(e.Head) + len(e.IB); end > len(frame) {
			t.Fatalf("the packet ends at %d of %d", end, len(frame))
		}
		if got := referenceICRC(frame, e.L3, len(e.IB)); !bytes.Equal(appendICRC(nil, got), e.IB[len(e.IB)-bth.ICRCLen:]) {
			t.Fatalf("taken with ICRC %x, the reference computes %08x", e.IB[len(e.IB)-bth.ICRCLen:], got)
		}
		checkReencode(t, &p)
	})
}

// seenDrop has the verdicts that decoding a frame can give.
var seenDrop = func() map[bth.Drop]struct{} {
	m := map[bth.Drop]struct{}{}
	for d := bth.DropNone; d <= bth.DropICRC; d++ {
		m[d] = struct{}{}
	}
	return m
}()

// FuzzDecodePacket is FuzzDecodeFrame without the ICRC in the way: any bytes as an IB packet.
func FuzzDecodePacket(f *testing.F) {
	var e bth.Envelope
	addCaptures(f, func(frame []byte) {
		if e.Decode(frame) == bth.DropNone {
			f.Add(e.IB)
		}
	})
	var p bth.Packet
	f.Fuzz(func(t *testing.T, ib []byte) {
		if decodeIB(&p, ib) == bth.DropNone {
			checkReencode(t, &p)
			if info, _ := p.Opcode.Info(); info.HeaderLen+len(p.Payload)+int(p.Pad)+bth.ICRCLen != len(ib) {
				t.Fatalf("%v of %d bytes has %d of payload and %d of pad", p.Opcode, len(ib), len(p.Payload), p.Pad)
			}
		}
	})
}

// checkReencode encodes a packet and decodes it again.
func checkReencode(t *testing.T, p *bth.Packet) {
	t.Helper()
	ib := append(p.AppendTo(nil), p.Payload...)
	ib = append(ib, make([]byte, int(p.Pad)+bth.ICRCLen)...)
	var q bth.Packet
	if d := decodeIB(&q, ib); d != bth.DropNone {
		t.Fatalf("encoded again it is refused: %v", d)
	}
	if want := onlyWhat(p.Flags, p.Headers); q.Headers != want || !bytes.Equal(q.Payload, p.Payload) {
		t.Fatalf("encoded again it is\n%+v, was\n%+v", q.Headers, want)
	}
}

// FuzzSuperFrame cuts any datagram at any segment size: no panic, and no packet passes whose ICRC
// the reference does not find, with counting or constant identification.
func FuzzSuperFrame(f *testing.F) {
	var c bth.ICRC
	for _, kind := range []string{"IPv4", "IPv6 VLAN"} {
		for _, counts := range []bool{false, true} {
			frame, segment := superFrame(&c, newEncap(f, testPaths[kind]), 3, 64, 9, 0xFFFF, counts)
			f.Add(frame, segment)
		}
	}
	var e bth.Envelope
	f.Fuzz(func(t *testing.T, frame []byte, segment int) {
		if e.Decode(frame) != bth.DropNone || segment <= 0 {
			return
		}
		rest := e.IB
		for i := 0; len(rest) > 0; i++ {
			ib := rest[:min(segment, len(rest))]
			rest = rest[len(ib):]
			if !c.Verify(&e, ib, i) {
				continue
			}
			alone := append(bytes.Clone(frame[:e.L3+len(e.Head)]), ib...)
			if !aloneIsRight(alone, &e, len(ib), uint16(i)) && !aloneIsRight(alone, &e, len(ib), 0) {
				t.Fatalf("packet %d of %d bytes passes and should not", i, len(ib))
			}
		}
	})
}

// aloneIsRight checks a packet cut out of a super-frame by the reference, its
// identification so many above the frame's.
func aloneIsRight(frame []byte, e *bth.Envelope, ibLen int, above uint16) bool {
	frame = bytes.Clone(frame)
	ip := frame[e.L3:]
	udp := len(e.Head) - 8
	if e.Src.Is4() {
		putUint16(ip[2:], len(e.Head)+ibLen)
		putUint16(ip[4:], int(ip[4])<<8+int(ip[5])+int(above))
	} else {
		putUint16(ip[4:], 8+ibLen)
	}
	putUint16(ip[udp+4:], 8+ibLen)
	return bytes.Equal(appendICRC(nil, referenceICRC(frame, e.L3, ibLen)), frame[len(frame)-bth.ICRCLen:])
}

func putUint16(b []byte, v int) { b[0], b[1] = byte(v>>8), byte(v) }

// FuzzRoundTrip builds a packet of any header fields over IPv4 and IPv6 and takes it apart.
func FuzzRoundTrip(f *testing.F) {
	spoken(func(o bth.Opcode, _ *bth.Info) {
		f.Add(uint8(o), uint8(0x80), uint16(0xFFFF), uint32(0x12), uint32(0xFFFFFE), uint64(0x7F0000001000), uint32(0x1a10), uint64(5), uint16(1), []byte("payload"))
	})
	var (
		c bth.ICRC
		p bth.Packet
	)
	f.Fuzz(func(t *testing.T, op, bits uint8, pkey uint16, qpn, psn uint32, va uint64, key uint32, operand uint64, id uint16, payload []byte) {
		o := bth.Opcode(op)
		info, ok := o.Info()
		if !ok || info.Flags.Has(bth.Unsupported) || len(payload) > bth.MaxPathMTU {
			return
		}
		if !info.Flags.Has(bth.HasPayload) {
			payload = nil
		}
		h := bth.Headers{
			Header: bth.Header{
				Opcode: o, SE: bits&1 != 0, MigReq: bits&2 != 0, FECN: bits&4 != 0, BECN: bits&8 != 0, AckReq: bits&16 != 0,
				Pad: uint8(-len(payload) & 3), PKey: pkey, DestQP: bth.QPN(qpn & 0xFFFFFF), PSN: bth.PSN(psn & 0xFFFFFF),
			},
			RETH:      bth.RETH{VA: va, RKey: key, Length: psn},
			AETH:      bth.AETH{Syndrome: bth.Syndrome(bits), MSN: key & 0xFFFFFF},
			AtomicETH: bth.AtomicETH{VA: va, RKey: key, SwapAdd: operand, Compare: ^operand},
			AtomicAck: operand,
			DETH:      bth.DETH{QKey: key, SrcQP: bth.QPN(psn & 0xFFFFFF)},
			FETH:      bth.FETH{Placement: bits & 15, Selectivity: bits >> 4 & 3},
			Imm:       key,
			Inv:       key,
		}
		for _, kind := range []string{"IPv4", "IPv6"} {
			frame := buildFrame(&c, newEncap(t, testPaths[kind]), &h, payload, id)
			p = bth.Packet{}
			if d := p.DecodeFrame(&c, frame); d != bth.DropNone {
				t.Fatalf("%v over %s: %v", o, kind, d)
			}
			if want := onlyWhat(info.Flags, h); p.Headers != want || !bytes.Equal(p.Payload, payload) {
				t.Fatalf("%v over %s: decoded as\n%+v, want\n%+v", o, kind, p.Headers, want)
			}
		}
	})
}

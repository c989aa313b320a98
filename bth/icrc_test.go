package bth_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/go-roce/roce/bth"
)

// icrcVector is a frame of Soft-RoCE and the masked bytes its ICRC is the CRC-32 of.
type icrcVector struct {
	name         string
	frame, input []byte
}

func icrcVectors(t testing.TB) []icrcVector {
	t.Helper()
	var vs []icrcVector
	for _, row := range readTSV(t, "vectors.tsv") {
		v := icrcVector{name: row[0]}
		var err1, err2 error
		v.frame, err1 = hex.DecodeString(row[1])
		v.input, err2 = hex.DecodeString(row[2])
		if err1 != nil || err2 != nil {
			t.Fatalf("%s: %v, %v", v.name, err1, err2)
		}
		vs = append(vs, v)
	}
	if len(vs) != 12 {
		t.Fatalf("%d vectors, want 12", len(vs))
	}
	return vs
}

// vector returns the vector whose name begins with id.
func vector(t testing.TB, id string) icrcVector {
	t.Helper()
	for _, v := range icrcVectors(t) {
		if strings.HasPrefix(v.name, id+" ") {
			return v
		}
	}
	t.Fatalf("no vector %s", id)
	return icrcVector{}
}

// TestICRC_Vectors covers IPv4, IPv6, VLAN, traffic class, RC, UD and every extension header that
// Soft-RoCE sends.
func TestICRC_Vectors(t *testing.T) {
	var (
		e bth.Envelope
		p bth.Packet
		c bth.ICRC
	)
	for _, v := range icrcVectors(t) {
		wire := v.frame[len(v.frame)-bth.ICRCLen:]
		if crc := crc32.ChecksumIEEE(v.input); crc != binary.LittleEndian.Uint32(wire) {
			t.Fatalf("%s: the vector's own input has CRC 0x%x", v.name, crc)
		}
		if d := e.Decode(v.frame); d != bth.DropNone {
			t.Errorf("%s: %v", v.name, d)
			continue
		}
		if !c.Verify(&e, e.IB, 0) {
			t.Errorf("%s: the ICRC is called wrong", v.name)
		}
		if d := p.DecodeFrame(&c, v.frame); d != bth.DropNone {
			t.Errorf("%s: %v", v.name, d)
		}
		var got [bth.ICRCLen]byte
		bth.PutICRC(got[:], c.Start(v.frame[e.L3:len(v.frame)-bth.ICRCLen]))
		if string(got[:]) != string(wire) {
			t.Errorf("%s: the ICRC is computed as %x, want %x", v.name, got, wire)
		}
		if crc := referenceICRC(v.frame, e.L3, len(e.IB)); crc != binary.LittleEndian.Uint32(wire) {
			t.Errorf("%s: the reference computes 0x%08x", v.name, crc)
		}
	}
}

// TestICRC_InParts gives the same CRC however headers and payload are split into Start
// and UpdateICRC, and whether the headers are read from the frame or come from the
// path.
func TestICRC_InParts(t *testing.T) {
	var c bth.ICRC
	for kind, path := range testPaths {
		encap := newEncap(t, path)
		for _, size := range []int{0, 1, 63, 64, 65, 100, 256, 1024, 4096} {
			h := sampleHeaders(bth.RCWriteOnlyImm)
			payload, pad := payloadOf(size)
			h.Pad = pad
			frame := buildFrame(&c, encap, &h, payload, 0xFFFE)
			ibLen := len(frame) - encap.Len()
			want := referenceICRC(frame, encap.L3(), ibLen)
			body := frame[:len(frame)-bth.ICRCLen]
			for cut := encap.Len() + bth.Len; cut <= len(body); cut += 1 + size/16 {
				if got := bth.UpdateICRC(c.Start(body[encap.L3():cut]), body[cut:]); got != want {
					t.Fatalf("%s, %d bytes, cut at %d: 0x%08x, want 0x%08x", kind, size, cut, got, want)
				}
				if got := bth.UpdateICRC(c.StartPacket(encap, ibLen, 0xFFFE, body[encap.Len():cut]), body[cut:]); got != want {
					t.Fatalf("%s, %d bytes, cut at %d, headers of the path: 0x%08x, want 0x%08x", kind, size, cut, got, want)
				}
			}
			if got := binary.LittleEndian.Uint32(frame[len(body):]); got != want {
				t.Errorf("%s, %d bytes: the frame has 0x%08x, want 0x%08x", kind, size, got, want)
			}
		}
	}
}

// TestICRC_TooShort: what cannot even hold a BTH and an ICRC has no right ICRC.
func TestICRC_TooShort(t *testing.T) {
	var (
		e bth.Envelope
		c bth.ICRC
	)
	if d := e.Decode(vector(t, "V1").frame); d != bth.DropNone {
		t.Fatal(d)
	}
	for n := range bth.Len + bth.ICRCLen {
		if c.Verify(&e, e.IB[:n], 0) || c.Verify(&e, e.IB[:n], 1) {
			t.Errorf("an IB packet of %d bytes has a right ICRC", n)
		}
	}
}

// superFrame builds n packets of size bytes of payload, the last of lastSize, behind
// one header, as they go to a kernel that cuts them: the ICRC of each is the one for
// the header it will have.
func superFrame(c *bth.ICRC, encap *bth.Encap, n, size, lastSize int, id uint16, counts bool) (frame []byte, segment int) {
	frame = make([]byte, encap.Len())
	for i := range n {
		h := bth.Headers{Header: bth.Header{Opcode: bth.RCWriteMiddle, PKey: bth.DefaultPKey, DestQP: 0x12, PSN: bth.PSN(i)}}
		m := size
		if i == n-1 {
			m = lastSize
		}
		payload, pad := payloadOf(m)
		h.Pad = pad
		at := len(frame)
		frame = append(h.AppendTo(frame), payload...)
		frame = append(frame, make([]byte, pad)...)
		ibLen := len(frame) - at + bth.ICRCLen
		own := id
		if counts {
			own += uint16(i)
		}
		frame = appendICRC(frame, c.StartPacket(encap, ibLen, own, frame[at:]))
		if i == 0 {
			segment = ibLen
		}
	}
	encap.Put(frame, len(frame)-encap.Len(), id)
	return frame, segment
}

// TestICRC_SuperFrame verifies the packets of super-frames uncut, from senders that count the
// IPv4 identification and from such that do not, in any order, and cut as the kernel cuts them.
func TestICRC_SuperFrame(t *testing.T) {
	var c, verifier bth.ICRC
	for kind, path := range testPaths {
		encap := newEncap(t, path)
		for _, counts := range []bool{true, false, false, true, true} {
			const n = 15
			frame, segment := superFrame(&c, encap, n, 4096, 1001, 0xFFF8, counts)
			var e bth.Envelope
			if d := e.Decode(frame); d != bth.DropNone {
				t.Fatalf("%s: %v", kind, d)
			}
			rest, i := e.IB, 0
			for ; len(rest) > 0; i++ {
				ib := rest[:min(segment, len(rest))]
				rest = rest[len(ib):]
				if !verifier.Verify(&e, ib, i) {
					t.Errorf("%s, identification counts %v: packet %d is called wrong", kind, counts, i)
				}
				if i > 0 && counts && path.Src.Is4() && verifier.Verify(&e, ib, i+1) {
					t.Errorf("%s: packet %d passes as packet %d", kind, i, i+1)
				}
				cut := make([]byte, encap.Len(), encap.Len()+len(ib))
				id := uint16(0xFFF8)
				if counts {
					id += uint16(i)
				}
				encap.Put(cut, len(ib), id)
				cut = append(cut, ib...)
				var p bth.Packet
				if d := p.DecodeFrame(&verifier, cut); d != bth.DropNone || p.PSN != bth.PSN(i) {
					t.Errorf("%s, identification counts %v: packet %d cut out: %v", kind, counts, i, d)
				}
				ib[len(ib)-5] ^= 1
				if verifier.Verify(&e, ib, i) {
					t.Errorf("%s: packet %d passes though it is damaged", kind, i)
				}
				ib[len(ib)-5] ^= 1
			}
			if i != n {
				t.Errorf("%s: %d packets in the super-frame, want %d", kind, i, n)
			}
		}
	}
}

// TestICRC_Laws compares with the bit-by-bit reference whatever is sent, and finds
// every flipped bit of the IB packet but in the masked byte.
func TestICRC_Laws(t *testing.T) {
	var c bth.ICRC
	rapid.Check(t, func(t *rapid.T) {
		h, path := drawHeaders(t), drawPath(t)
		var payload []byte
		if h.Opcode.Flags().Has(bth.HasPayload) {
			payload, h.Pad = payloadOf(rapid.IntRange(0, 300).Draw(t, "payload"))
		}
		encap, err := bth.NewEncap(path)
		if err != nil {
			t.Fatal(err)
		}
		frame := buildFrame(&c, &encap, &h, payload, rapid.Uint16().Draw(t, "id"))
		var e bth.Envelope
		if d := e.Decode(frame); d != bth.DropNone {
			t.Fatal(d)
		}
		if got, want := binary.LittleEndian.Uint32(frame[len(frame)-4:]), referenceICRC(frame, e.L3, len(e.IB)); got != want {
			t.Fatalf("the ICRC is 0x%08x, want 0x%08x", got, want)
		}
		i := rapid.IntRange(0, len(e.IB)-1).Draw(t, "byte")
		e.IB[i] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if got := c.Verify(&e, e.IB, 0); got != (i == 4) {
			t.Fatalf("with byte %d changed the ICRC is right: %v", i, got)
		}
	})
}

// TestICRC_Explain tells merged packets from damaged ones.
func TestICRC_Explain(t *testing.T) {
	var c bth.ICRC
	for _, kind := range []string{"IPv4", "IPv6"} {
		encap := newEncap(t, testPaths[kind])
		for _, size := range []int{0, 4, 256, 1024} {
			name := fmt.Sprintf("%s, %d bytes", kind, size)
			frame, segment := superFrame(&c, encap, 2, size, size, 7, true)
			var p bth.Packet
			if d := p.DecodeFrame(&c, frame); d != bth.DropMerged {
				t.Errorf("%s: two packets in a frame: %s", name, d.String())
			}
			frame[len(frame)-segment-1] ^= 1 // the first packet's ICRC
			if d := p.DecodeFrame(&c, frame); d != bth.DropICRC {
				t.Errorf("%s: two packets, the first one damaged: %s", name, d.String())
			}
		}
	}
}

// TestICRC_ExplainIsBounded: a payload made to look like packets all over costs a few
// CRCs, not one a word, so the packet at the end of such a row is not looked for.
func TestICRC_ExplainIsBounded(t *testing.T) {
	var c bth.ICRC
	encap := newEncap(t, testPaths["IPv4"])
	h := bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly, PKey: bth.DefaultPKey, DestQP: 0xFFFF}}
	bait := h.AppendTo(nil)[:8]
	var payload []byte
	for range 64 {
		payload = append(payload, bait...)
	}
	frame := buildFrame(&c, encap, &h, payload, 0)
	frame = append(frame, frame[encap.Len():]...)
	encap.Put(frame, len(frame)-encap.Len(), 0)
	var p bth.Packet
	if d := p.DecodeFrame(&c, frame); d != bth.DropICRC {
		t.Errorf("two packets full of bait: %s, want icrc", d.String())
	}
}

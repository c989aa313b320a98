package bth_test

import (
	"testing"

	"github.com/go-roce/roce/bth"
)

// TestNoAllocation asserts that nothing on the way of a packet, in or out, taken or
// dropped, allocates.
func TestNoAllocation(t *testing.T) {
	var (
		e bth.Envelope
		p = new(bth.Packet)
		c = new(bth.ICRC)
	)
	drops := 0
	for kind, path := range testPaths {
		encap := newEncap(t, path)
		h := sampleHeaders(bth.RCWriteOnlyImm)
		payload, _ := payloadOf(4096)
		frame := buildFrame(c, encap, &h, payload, 1)
		super, segment := superFrame(c, encap, 4, 1024, 1024, 1, false)
		damaged := append([]byte(nil), frame...)
		damaged[len(damaged)-1] ^= 1
		if d := e.Decode(frame); d != bth.DropNone {
			t.Fatal(d)
		}
		room := make([]byte, 0, bth.MaxHeaderLen)
		for name, f := range map[string]func(){
			"Envelope.Decode": func() { _ = e.Decode(frame) },
			"Packet.Decode":   func() { _ = p.Decode(&e, e.IB) },
			"DecodeFrame": func() {
				if p.DecodeFrame(c, frame) != bth.DropNone {
					drops++
				}
			},
			"DecodeFrame of a damaged frame": func() {
				if p.DecodeFrame(c, damaged) != bth.DropICRC {
					drops++
				}
			},
			"Verify": func() { c.Verify(&e, e.IB, 0) },
			"Verify in a super-frame": func() {
				_ = e.Decode(super)
				for i := range 4 {
					if !c.Verify(&e, e.IB[i*segment:(i+1)*segment], i) {
						drops++
					}
				}
			},
			"Explain":   func() { _ = c.Explain(&e, e.IB) },
			"AppendTo":  func() { h.AppendTo(room) },
			"Encap.Put": func() { encap.Put(frame, len(frame)-encap.Len(), 1) },
			"Start, UpdateICRC, PutICRC": func() {
				bth.PutICRC(frame[len(frame)-bth.ICRCLen:], bth.UpdateICRC(c.Start(frame[encap.L3():200]), frame[200:len(frame)-bth.ICRCLen]))
			},
			"StartPacket": func() { c.StartPacket(encap, len(frame)-encap.Len(), 1, frame[encap.Len():]) },
			"NewEncap":    func() { *encap, _ = bth.NewEncap(path) },
			"Drop": func() {
				_ = bth.DropICRC.String()
				_ = error(bth.DropICRC)
			},
		} {
			if n := testing.AllocsPerRun(100, f); n != 0 {
				t.Errorf("%s over %s allocates %v times", name, kind, n)
			}
		}
	}
	if drops != 0 {
		t.Errorf("%d verdicts were not as expected", drops)
	}
}

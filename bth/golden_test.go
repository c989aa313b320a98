package bth_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/go-roce/roce/bth"
)

// TestGolden_Counts holds every capture to the numbers of testdata/counts.tsv: frames, RoCEv2
// packets, and packets whose ICRC is wrong.
func TestGolden_Counts(t *testing.T) {
	type counts struct{ frames, roce, bad int }
	want := map[string]counts{}
	for _, row := range readTSV(t, "counts.tsv") {
		want[row[0]] = counts{number(t, row[1]), number(t, row[2]), number(t, row[3])}
	}
	names := captureNames(t)
	if len(names) != len(want) {
		t.Errorf("%d captures, but counts for %d", len(names), len(want))
	}
	var (
		e bth.Envelope
		c bth.ICRC
	)
	for _, name := range names {
		var got counts
		for _, frame := range captureFrames(t, name) {
			got.frames++
			if e.Decode(frame) != bth.DropNone {
				continue
			}
			got.roce++
			if !c.Verify(&e, e.IB, 0) {
				got.bad++
			}
		}
		if got != want[name] {
			t.Errorf("%s: %+v, want %+v", name, got, want[name])
		}
	}
}

// TestGolden_Verdicts decodes every frame of every capture: each that is not taken must be
// in testdata/verdicts.tsv with that very reason, and every row there must be met.
func TestGolden_Verdicts(t *testing.T) {
	type place struct{ name, frame string }
	want := map[place]string{}
	for _, row := range readTSV(t, "verdicts.tsv") {
		want[place{row[0], row[1]}] = row[2]
	}
	var (
		p bth.Packet
		c bth.ICRC
	)
	for _, name := range captureNames(t) {
		for i, frame := range captureFrames(t, name) {
			at := place{name, fmt.Sprint(i + 1)}
			wanted, listed := want[at]
			if !listed {
				wanted = bth.DropNone.String()
			}
			if got := p.DecodeFrame(&c, frame); got.String() != wanted {
				t.Errorf("%s frame %s: %s, want %s", at.name, at.frame, got.String(), wanted)
			}
			delete(want, at)
		}
	}
	for at := range want {
		t.Errorf("verdicts.tsv names frame %s of %s, which does not exist", at.frame, at.name)
	}
}

// TestGolden_Reencode builds every packet anew from what was decoded. All come
// out as the same bytes but those that differ for a reason named here, which are counted.
func TestGolden_Reencode(t *testing.T) {
	var (
		e bth.Envelope
		p bth.Packet
		c bth.ICRC
	)
	reasons := map[string]int{}
	for _, name := range captureNames(t) {
		for i, frame := range captureFrames(t, name) {
			if e.Decode(frame) != bth.DropNone || p.Decode(&e, e.IB) != bth.DropNone {
				continue
			}
			ib := e.IB
			ipv4 := e.Src.Is4()
			trailer := len(frame) - e.L3 - len(e.Head) - len(ib)
			switch {
			case ib[4]&0x3F != 0 || ib[8]&0x7F != 0:
				reasons["reserved bits"]++
				continue
			case !allZero(ib[len(ib)-bth.ICRCLen-int(p.Pad) : len(ib)-bth.ICRCLen]):
				reasons["pad bytes"]++
				continue
			}
			if !bytes.Equal(rebuildIB(&c, &e, &p), withRightICRC(&c, &e)) {
				t.Errorf("%s frame %d: the IB packet is built as\n%x, was\n%x", name, i+1, rebuildIB(&c, &e, &p), ib)
			}
			switch {
			case !c.Verify(&e, ib, 0):
				reasons["wrong ICRC"]++
			case ipv4 && e.Head[6]&0x40 == 0:
				reasons["Don't Fragment clear"]++
			case e.Head[len(e.Head)-1]|e.Head[len(e.Head)-2] != 0:
				reasons["UDP checksum"]++
			case trailer != 0:
				reasons["trailer"]++
			default:
				reasons["none"]++
				if got := rebuildFrame(t, &c, &e, &p); !bytes.Equal(got, frame) {
					t.Errorf("%s frame %d: built as\n%x, was\n%x", name, i+1, got, frame)
				}
			}
		}
	}
	want := map[string]int{
		"none": 5415, "reserved bits": 4, "pad bytes": 2, "wrong ICRC": 6,
		"Don't Fragment clear": 2, "UDP checksum": 4, "trailer": 2,
	}
	if fmt.Sprint(reasons) != fmt.Sprint(want) {
		t.Errorf("packets by reason not to be the same bytes: %v, want %v", reasons, want)
	}
}

// rebuildIB encodes a decoded packet, with the ICRC for the headers it came with.
func rebuildIB(c *bth.ICRC, e *bth.Envelope, p *bth.Packet) []byte {
	ib := p.AppendTo(nil)
	ib = append(ib, p.Payload...)
	ib = append(ib, make([]byte, p.Pad)...)
	return appendICRC(ib, c.Start(append(bytes.Clone(e.Head), ib...)))
}

// withRightICRC returns the IB packet of an envelope with the ICRC that Start computes
// for it, which is another one than its own where that is wrong.
func withRightICRC(c *bth.ICRC, e *bth.Envelope) []byte {
	ib := e.IB[:len(e.IB)-bth.ICRCLen]
	return appendICRC(bytes.Clone(ib), c.Start(append(bytes.Clone(e.Head), ib...)))
}

// rebuildFrame encodes a decoded packet with all headers, from a path made of what its
// envelope says.
func rebuildFrame(t *testing.T, c *bth.ICRC, e *bth.Envelope, p *bth.Packet) []byte {
	t.Helper()
	path := bth.Path{
		SrcMAC: e.SrcMAC, DstMAC: e.DstMAC, VLAN: e.VLAN, Src: e.Src, Dst: e.Dst,
		SrcPort: e.SrcPort, TrafficClass: e.TrafficClass, HopLimit: e.HopLimit,
	}
	id := binary.BigEndian.Uint16(e.Head[4:])
	if e.Src.Is6() {
		path.FlowLabel = binary.BigEndian.Uint32(e.Head) & 0xFFFFF
		id = 0
	}
	encap, err := bth.NewEncap(path)
	if err != nil {
		t.Fatal(err)
	}
	return buildFrame(c, &encap, &p.Headers, p.Payload, id)
}

func allZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

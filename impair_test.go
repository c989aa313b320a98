package roce_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/link"
	"github.com/go-roce/roce/test/exercise"
)

// Over a link that loses, doubles, reorders and damages packets every operation still does what it
// should, exactly once; and the capture shows what went over the wire.
func TestImpair_OperationsSurvive(t *testing.T) {
	var pcap bytes.Buffer
	la, lb := link.NewMemPair(link.MemOptions{})
	o := options{QP: exercise.OperationsQP, Memory: exercise.OperationsMemory(1024), Tweak: func(r *roce.Remote) {
		r.PathMTU, r.Timeout = 1024, new(uint8(12)) // 50 ms
	}}
	o.Device.Impair = link.Impairment{Loss: 0.02, Dup: 0.02, Reorder: 0.02, Corrupt: 0.02, Seed: 7}
	oa := o
	oa.Device.Pcap = &pcap
	a, b := exercise.New(t, la, oa), exercise.New(t, lb, o)
	exercise.Join(t, a, b, o)
	exercise.Operations(t, a, b, 1024)
	exercise.Operations(t, b, a, 1024)

	ca, cb := a.Dev.Counters(), b.Dev.Counters()
	if i := ca.Impaired; i.Lost == 0 || i.Duplicated == 0 || i.Reordered == 0 || i.Corrupted == 0 {
		t.Errorf("the impairment did too little: %+v", i)
	}
	// A damaged packet may have been doubled as well.
	if n := malformed(cb); n < ca.Impaired.Corrupted || n > ca.Impaired.Corrupted+ca.Impaired.Duplicated {
		t.Errorf("%d packets were damaged, %d dropped for it: %v", ca.Impaired.Corrupted, n, cb.Drops)
	}
	if ca.QPs.Retransmits == 0 || ca.QPs.DuplicateRequests == 0 {
		t.Errorf("nothing was sent again: %+v", ca.QPs)
	}
	if err := a.Dev.Close(); err != nil {
		t.Fatal(err)
	}
	checkCapture(t, &pcap, ca)
}

// checkCapture compares the capture of a device with its counters.
func checkCapture(t *testing.T, pcap io.Reader, c roce.DeviceCounters) {
	t.Helper()
	r, err := pcapgo.NewNgReader(pcap, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	var packets, damaged uint64
	var icrc bth.ICRC
	for {
		frame, _, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		packets++
		var p bth.Packet
		if p.DecodeFrame(&icrc, frame) != bth.DropNone {
			damaged++
		}
	}
	if want := c.Link.RxFrames + c.Link.TxFrames; packets != want {
		t.Errorf("the capture has %d frames, %d passed", packets, want)
	}
	if least := c.Impaired.Corrupted + malformed(c); damaged < least || damaged > least+c.Impaired.Duplicated {
		t.Errorf("the capture has %d damaged packets, there were %d", damaged, least)
	}
}

// malformed counts the packets that were dropped for what they look like. A damaged one
// usually has a wrong ICRC, but may be no packet at all.
func malformed(c roce.DeviceCounters) (n uint64) {
	for d := range bth.Drops() {
		if d <= bth.DropICRC {
			n += c.Drops[d.String()]
		}
	}
	return n
}

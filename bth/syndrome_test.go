package bth_test

import (
	"math"
	"testing"
	"time"

	"github.com/go-roce/roce/bth"
)

func TestSyndrome_Kinds(t *testing.T) {
	for i := range 256 {
		s := bth.Syndrome(i)
		ack, rnr, nak := i < 0x20, i >= 0x20 && i < 0x40, i >= 0x60 && i < 0x80
		if s.IsAck() != ack || s.IsRNR() != rnr || s.IsNAK() != nak {
			t.Errorf("syndrome 0x%02x: ack %v, rnr %v, nak %v; want %v, %v, %v", i, s.IsAck(), s.IsRNR(), s.IsNAK(), ack, rnr, nak)
		}
	}
}

func TestSyndrome_String(t *testing.T) {
	for s, want := range map[bth.Syndrome]string{
		bth.AckNoCredits:        "ACK",
		0x00:                    "ACK CREDITS 0",
		0x1E:                    "ACK CREDITS 32768",
		bth.RNRNAK(12):          "RNR NAK 640µs",
		bth.RNRNAK(0):           "RNR NAK 655.36ms",
		0x3F:                    "RNR NAK 491.52ms",
		bth.NAKSequence:         "NAK PSN SEQUENCE ERROR",
		bth.NAKInvalidRequest:   "NAK INVALID REQUEST",
		bth.NAKRemoteAccess:     "NAK REMOTE ACCESS ERROR",
		bth.NAKRemoteOperation:  "NAK REMOTE OPERATIONAL ERROR",
		bth.NAKInvalidRDRequest: "NAK INVALID RD REQUEST",
		0x65:                    "NAK RESERVED 0x65",
		0x40:                    "RESERVED SYNDROME 0x40",
		0xFF:                    "RESERVED SYNDROME 0xFF",
	} {
		if got := s.String(); got != want {
			t.Errorf("syndrome 0x%02x is %q, want %q", uint8(s), got, want)
		}
	}
}

// TestSyndrome_RNRTimer has the times of IBA table 46, in milliseconds.
func TestSyndrome_RNRTimer(t *testing.T) {
	for code, ms := range []float64{
		655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92,
		2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52,
	} {
		want := time.Duration(math.Round(ms*1e3)) * time.Microsecond
		if got := bth.RNRTimer(uint8(code)); got != want {
			t.Errorf("timer code %d is %v, want %v", code, got, want)
		}
		if got := bth.RNRNAK(uint8(code)).RNRTimer(); got != want {
			t.Errorf("RNR NAK of code %d asks for %v, want %v", code, got, want)
		}
	}
}

func TestSyndrome_Credits(t *testing.T) {
	for n, want := range map[int]int{-1: 0, 0: 0, 1: 1, 4: 4, 5: 4, 7: 6, 33: 32, 100: 96, 32767: 24576, 32768: 32768, 1 << 20: 32768} {
		if got, ok := bth.AckCredits(n).Credits(); !ok || got != want {
			t.Errorf("%d receives are advertised as %d (%v), want %d", n, got, ok, want)
		}
	}
	for _, s := range []bth.Syndrome{bth.AckNoCredits, bth.RNRNAK(3), bth.NAKSequence, 0x40} {
		if n, ok := s.Credits(); ok || n != 0 {
			t.Errorf("%v has %d credits", s, n)
		}
	}
	// IBA table 45.
	for code, want := range []int{
		0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
		4096, 6144, 8192, 12288, 16384, 24576, 32768,
	} {
		if got, ok := bth.Syndrome(code).Credits(); !ok || got != want {
			t.Errorf("credit code %d is %d (%v), want %d", code, got, ok, want)
		}
	}
}

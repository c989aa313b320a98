package bth

import (
	"fmt"
	"time"
)

// Syndrome is the first byte of an AETH (IBA 9.7.5.2.3): its upper three bits
// say ACK, RNR NAK or NAK, the lower five are credits, a timer or a code.
type Syndrome uint8

// Syndromes with a fixed value. A Syndrome below AckNoCredits is an ACK that
// carries a credit code; see [Syndrome.Credits].
const (
	AckNoCredits        Syndrome = 0x1F
	NAKSequence         Syndrome = 0x60
	NAKInvalidRequest   Syndrome = 0x61
	NAKRemoteAccess     Syndrome = 0x62
	NAKRemoteOperation  Syndrome = 0x63
	NAKInvalidRDRequest Syndrome = 0x64
)

// IsAck reports a positive acknowledgement.
func (s Syndrome) IsAck() bool { return s&0xE0 == 0x00 }

// IsRNR reports a receiver-not-ready NAK.
func (s Syndrome) IsRNR() bool { return s&0xE0 == 0x20 }

// IsNAK reports a NAK of any code, reserved ones included.
func (s Syndrome) IsNAK() bool { return s&0xE0 == 0x60 }

// AckCredits returns the ACK that advertises the largest credit count the code
// can express that is not above n.
func AckCredits(n int) Syndrome {
	code := len(creditCodes) - 1
	for code > 0 && int(creditCodes[code]) > n {
		code--
	}
	return Syndrome(code)
}

// Credits returns how many receive work requests an ACK says the responder has
// beyond its MSN; ok is false when it does not do credits, or s is no ACK.
func (s Syndrome) Credits() (n int, ok bool) {
	if !s.IsAck() || s == AckNoCredits {
		return 0, false
	}
	return int(creditCodes[s]), true
}

// creditCodes is IBA table 45.
var creditCodes = [31]uint16{
	0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
	1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
}

// RNRNAK returns the RNR NAK with a timer code, 0..31.
func RNRNAK(code uint8) Syndrome { return 0x20 | Syndrome(code&0x1F) }

// RNRTimer returns how long the requester must wait after an RNR NAK.
func (s Syndrome) RNRTimer() time.Duration { return RNRTimer(uint8(s & 0x1F)) }

// RNRTimer returns the time of an RNR timer code (IBA table 46). Code 0 is the
// longest, not none.
func RNRTimer(code uint8) time.Duration {
	return time.Duration(rnrTimers[code&0x1F]) * 10 * time.Microsecond
}

// rnrTimers is in units of 10 microseconds.
var rnrTimers = [32]uint32{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// String says what the syndrome means: ACK, with its credits if it has some, RNR
// NAK with its time, or NAK with its code.
func (s Syndrome) String() string {
	switch {
	case s == AckNoCredits:
		return "ACK"
	case s.IsAck():
		return fmt.Sprintf("ACK CREDITS %d", creditCodes[s])
	case s.IsRNR():
		return fmt.Sprintf("RNR NAK %v", s.RNRTimer())
	}
	switch s {
	case NAKSequence:
		return "NAK PSN SEQUENCE ERROR"
	case NAKInvalidRequest:
		return "NAK INVALID REQUEST"
	case NAKRemoteAccess:
		return "NAK REMOTE ACCESS ERROR"
	case NAKRemoteOperation:
		return "NAK REMOTE OPERATIONAL ERROR"
	case NAKInvalidRDRequest:
		return "NAK INVALID RD REQUEST"
	}
	if s.IsNAK() {
		return fmt.Sprintf("NAK RESERVED 0x%02X", uint8(s))
	}
	return fmt.Sprintf("RESERVED SYNDROME 0x%02X", uint8(s))
}

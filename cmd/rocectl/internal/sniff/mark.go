package sniff

import "strings"

// Mark says what is remarkable about a packet.
type Mark uint8

// Marks.
const (
	// BadICRC: the invariant CRC is wrong.
	BadICRC Mark = 1 << iota
	// Retransmission: a request or a response with data whose sequence number was seen before.
	Retransmission
	// DuplicateAck: the acknowledgement says what the last one said.
	DuplicateAck
	// Gap: packets before this one were not seen.
	Gap
	// NAK: a sequence or error NAK.
	NAK
	// RNRNAK: the receiver was not ready.
	RNRNAK
	// CongestionMarked: a router marked the packet as having met congestion.
	CongestionMarked
)

var markNames = [...]string{"bad ICRC", "retransmission", "duplicate ack", "gap", "NAK", "RNR NAK", "CE"}

// Has reports whether n is among m.
func (m Mark) Has(n Mark) bool { return m&n != 0 }

// String lists the marks, separated by commas.
func (m Mark) String() string {
	var names []string
	for i, name := range markNames {
		if m.Has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

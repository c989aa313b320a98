package transport

import "github.com/go-roce/roce/bth"

// Out is one packet to send, as PollTransmit fills it: headers to encode and a
// gather list of payload. The queue pair's path supplies Ethernet, IP and UDP,
// the driver pad bytes (Headers.Pad, zero) and ICRC.
type Out struct {
	bth.Headers
	// Payload lists the payload in order. The slices alias registered memory or the
	// send queue and are good until a call into the queue pair other than
	// PollTransmit. The backing array is reused.
	Payload [][]byte
	// Length is the bytes of payload in all.
	Length int
	// Copy: the payload may change under us (READ responses), so it must be copied
	// before its ICRC is computed.
	Copy bool
	// Retransmit: a packet with this PSN was sent before.
	Retransmit bool
}

package bth

import "net/netip"

// Packet is a decoded RoCEv2 packet. It is decoded into again and again;
// Payload aliases the frame and is good only while the frame is.
type Packet struct {
	Headers
	// Flags is the opcode's row of the table.
	Flags Flags
	// Payload excludes pad bytes and ICRC.
	Payload []byte
	// Src and Dst are the addresses of the IP header.
	Src, Dst netip.Addr
	// ECN is the two ECN bits of the IP header; 3 is congestion experienced.
	ECN uint8
}

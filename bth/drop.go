package bth

// Drop says why a packet was not taken. It is an error that indexes the drop
// counters, so that nothing is ever discarded without a name. DropNone, the zero
// value, means the packet was taken.
type Drop uint8

// Reasons a frame is not RoCEv2 for us, in the order they are found.
const (
	DropNone Drop = iota
	// DropNotRoCE: no UDP datagram to port 4791. Not a fault: the frame belongs to somebody else.
	DropNotRoCE
	DropShort        // the frame ends inside a header of Ethernet, IP or UDP
	DropVLAN         // more than one VLAN tag
	DropIPOptions    // IPv4 options, or IPv6 extension headers
	DropFragment     // an IP fragment that is of a RoCEv2 datagram, or may be
	DropIPChecksum   // wrong IPv4 header checksum
	DropLength       // IP and UDP lengths disagree with each other or the frame
	DropMerged       // several packets that receive offload merged and nobody can cut
	DropTVer         // transport version other than 0
	DropOpcode       // an opcode without a name
	DropUnsupported  // an RD or XRC opcode
	DropHeaderLength // the IB packet is shorter than its headers and ICRC
	DropPad          // pad count, payload and length do not fit each other or the opcode
	DropICRC         // wrong invariant CRC
)

// Reasons the endpoint drops a well-formed packet.
const (
	DropUnknownQP Drop = iota + 32 // no such queue pair
	DropNotOurs                    // the destination address is none of ours
	DropPKey                       // partition key mismatch
	DropQPState                    // the queue pair does not take packets in its state
	DropQPType                     // opcode of another service than the queue pair's
	DropSource                     // source address is not the connected peer's
	DropGap                        // ahead of the expected PSN, already NAKed
	DropRNR                        // behind a message that got an RNR NAK
	DropForgotten                  // duplicate READ or atomic no longer in the replay store
	DropStale                      // response to something already finished
	DropGhost                      // response beyond what was sent
	DropSyndrome                   // reserved AETH syndrome
	DropResponse                   // response that fits no outstanding request
	DropBusy                       // no room for the response now: the peer will retry
	DropQKey                       // wrong Q_Key
	DropTooLong                    // datagram larger than the posted buffer
	DropNoReceive                  // unreliable message without a posted receive
	DropCNP                        // congestion notification, counted
	NumDrops                       // length of an array indexed by Drop
)

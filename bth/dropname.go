package bth

import (
	"fmt"
	"iter"
)

// dropTexts has the counter name and the sentence of each reason.
var dropTexts = [NumDrops]struct{ name, sentence string }{
	DropNone:         {"none", "the packet was taken"},
	DropNotRoCE:      {"not_roce", "the frame is no UDP datagram to port 4791"},
	DropShort:        {"short", "the frame ends inside its Ethernet, IP or UDP header"},
	DropVLAN:         {"vlan", "the frame has more than one VLAN tag: only one is supported"},
	DropIPOptions:    {"ip_options", "the packet has IPv4 options or IPv6 extension headers, which RoCEv2 does not allow"},
	DropFragment:     {"fragment", "the packet is an IP fragment: RoCEv2 packets must not be fragmented, lower the path MTU or raise the MTU of the links between"},
	DropIPChecksum:   {"ip_checksum", "the IPv4 header checksum is wrong"},
	DropLength:       {"length", "the IP length, the UDP length and the length of the frame do not agree"},
	DropMerged:       {"merged", "receive offload merged several packets into a frame: switch it off with ethtool -K INTERFACE gro off lro off rx-gro-list off rx-udp-gro-forwarding off"},
	DropTVer:         {"tver", "the transport header version is not 0"},
	DropOpcode:       {"opcode", "the opcode is reserved or vendor-specific"},
	DropUnsupported:  {"unsupported", "the opcode belongs to the RD or XRC service, which is not supported"},
	DropHeaderLength: {"header_length", "the packet is shorter than the headers of its opcode and the ICRC"},
	DropPad:          {"pad", "payload, pad count and length of the packet do not fit its opcode"},
	DropICRC:         {"icrc", "the invariant CRC is wrong: the packet was damaged, or its addresses, ports, lengths or IPv4 identification were rewritten on the way"},

	DropUnknownQP: {"unknown_qp", "there is no queue pair with the destination number"},
	DropNotOurs:   {"not_ours", "the destination address is none of this endpoint's"},
	DropPKey:      {"pkey", "the partition key does not match 0xFFFF"},
	DropQPState:   {"qp_state", "the queue pair does not take this packet in its state"},
	DropQPType:    {"qp_type", "the opcode is of another transport service than the queue pair"},
	DropSource:    {"source", "the source address is not that of the queue pair's peer"},
	DropGap:       {"gap", "packets before this one are missing and a sequence NAK has asked for them"},
	DropRNR:       {"rnr", "the packet came behind a message that was answered with an RNR NAK"},
	DropForgotten: {"forgotten", "the duplicate READ or atomic is older than what can be answered again"},
	DropStale:     {"stale", "the response answers a request that is complete"},
	DropGhost:     {"ghost", "the response answers a packet that was never sent"},
	DropSyndrome:  {"syndrome", "the AETH has a reserved syndrome"},
	DropResponse:  {"response", "the response does not fit the request it answers"},
	DropBusy:      {"busy", "there is no room for the answer now: the peer will ask again"},
	DropQKey:      {"qkey", "the Q_Key is not the queue pair's"},
	DropTooLong:   {"too_long", "the datagram is longer than the receive buffer posted for it"},
	DropNoReceive: {"no_receive", "an unreliable message found no receive work request"},
	DropCNP:       {"cnp", "the packet is a congestion notification and was counted"},
}

// String returns the name of the reason's counter, in snake case.
func (d Drop) String() string {
	if d.named() {
		return dropTexts[d].name
	}
	return fmt.Sprintf("drop_%d", uint8(d))
}

// Error says in a sentence why the packet was not taken. DropNone is no error: compare
// before returning a Drop as one.
func (d Drop) Error() string {
	if d.named() {
		return "bth: " + dropTexts[d].sentence
	}
	return fmt.Sprintf("bth: the packet was dropped for unknown reason %d", uint8(d))
}

func (d Drop) named() bool { return d < NumDrops && dropTexts[d].name != "" }

// Drops returns all reasons in order, without DropNone.
func Drops() iter.Seq[Drop] {
	return func(yield func(Drop) bool) {
		for d := DropNone + 1; d < NumDrops; d++ {
			if d.named() && !yield(d) {
				return
			}
		}
	}
}

package bth

import (
	"encoding/binary"
	"net/netip"
)

// Port is the UDP destination port of every RoCEv2 packet, in both directions.
const Port = 4791

const (
	etherLen = 14
	vlanLen  = 4
	ipv4Len  = 20
	ipv6Len  = 40
	udpLen   = 8

	etherVLAN = 0x8100
	etherIPv4 = 0x0800
	etherIPv6 = 0x86DD
	protoUDP  = 17
)

// minPacket is the smallest IB packet: fewer bytes behind a datagram are a
// trailer that the link added, as many may be another packet.
const minPacket = Len + ICRCLen

// Envelope is what surrounds an IB packet: where it starts and what the Ethernet, IP
// and UDP headers of its frame say. It is decoded into again and again; its
// slices alias the frame and are good only while the frame is.
type Envelope struct {
	// L3 is the offset of the IP header in the frame.
	L3 int
	// Head is the IP and UDP headers.
	Head []byte
	// IB is the UDP payload: BTH to ICRC, or several such of a super-frame.
	IB []byte
	// Src and Dst are the addresses of the IP header.
	Src, Dst       netip.Addr
	SrcMAC, DstMAC [6]byte
	// VLAN is the tag control information of the 802.1Q tag, 0 without one.
	VLAN uint16
	// SrcPort is the UDP source port: entropy for load balancing, no address.
	SrcPort uint16
	// TrafficClass is the IPv4 TOS or IPv6 traffic class: DSCP, and in the two lowest
	// bits ECN.
	TrafficClass uint8
	// HopLimit is the IPv4 TTL or IPv6 hop limit.
	HopLimit uint8
}

// Decode finds the RoCEv2 datagram in an Ethernet frame without FCS: at most one
// VLAN tag, IPv4 or IPv6, UDP to port 4791. IPv4's header checksum is
// verified, UDP's is not: senders write 0 and veth leaves it unfilled, so the
// ICRC decides. The datagram ends where the IP and UDP lengths say; a short trailer
// that the link padded on is passed over.
//
// The envelope is valid only after DropNone.
func (e *Envelope) Decode(frame []byte) Drop {
	if len(frame) < etherLen {
		return DropShort
	}
	l3, tci := etherLen, uint16(0)
	kind := binary.BigEndian.Uint16(frame[12:])
	if isVLAN(kind) {
		if len(frame) < etherLen+vlanLen {
			return DropShort
		}
		l3 += vlanLen
		tci = binary.BigEndian.Uint16(frame[14:])
		if kind = binary.BigEndian.Uint16(frame[16:]); isVLAN(kind) {
			return DropVLAN
		}
	}
	e.DstMAC, e.SrcMAC = [6]byte(frame[0:6]), [6]byte(frame[6:12])
	e.L3, e.VLAN = l3, tci
	switch kind {
	case etherIPv4:
		return e.decodeIPv4(frame[l3:])
	case etherIPv6:
		return e.decodeIPv6(frame[l3:])
	}
	return DropNotRoCE
}

// isVLAN reports the EtherTypes that put a four-byte tag in front of another one:
// 802.1Q, 802.1ad and its pre-standard form.
func isVLAN(kind uint16) bool { return kind == etherVLAN || kind == 0x88A8 || kind == 0x9100 }

func (e *Envelope) decodeIPv4(p []byte) Drop {
	if len(p) < ipv4Len {
		return DropShort
	}
	if p[0]>>4 != 4 || p[9] != protoUDP {
		return DropNotRoCE
	}
	const moreFragments, fragmentOffset = 0x2000, 0x1FFF
	headLen := int(p[0]&0x0F) * 4
	fragment := binary.BigEndian.Uint16(p[6:]) & (moreFragments | fragmentOffset)
	switch {
	case headLen < ipv4Len:
		return DropLength
	case fragment&fragmentOffset != 0:
		// Without the ports nobody can say whose it is; it may be ours.
		return DropFragment
	case len(p) < headLen+udpLen:
		return DropShort
	case binary.BigEndian.Uint16(p[headLen+2:]) != Port:
		return DropNotRoCE
	case fragment != 0:
		return DropFragment
	case headLen != ipv4Len:
		return DropIPOptions
	case ipv4Checksum(p[:ipv4Len]) != 0:
		return DropIPChecksum
	}
	e.Src, e.Dst = netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20]))
	e.TrafficClass, e.HopLimit = p[1], p[8]
	return e.cut(p, ipv4Len, int(binary.BigEndian.Uint16(p[2:])))
}

func (e *Envelope) decodeIPv6(p []byte) Drop {
	if len(p) < ipv6Len {
		return DropShort
	}
	if p[0]>>4 != 6 {
		return DropNotRoCE
	}
	if p[6] != protoUDP {
		return behindExtensions(p)
	}
	if len(p) < ipv6Len+udpLen {
		return DropShort
	}
	if binary.BigEndian.Uint16(p[ipv6Len+2:]) != Port {
		return DropNotRoCE
	}
	e.Src, e.Dst = netip.AddrFrom16([16]byte(p[8:24])), netip.AddrFrom16([16]byte(p[24:40]))
	e.TrafficClass, e.HopLimit = uint8(binary.BigEndian.Uint16(p)>>4), p[7]
	return e.cut(p, ipv6Len, ipv6Len+int(binary.BigEndian.Uint16(p[4:])))
}

// behindExtensions says what an IPv6 packet is whose first header is not UDP: a
// RoCEv2 datagram behind extension headers, a fragment that may be one, or
// somebody else's.
func behindExtensions(p []byte) Drop {
	const hopByHop, routing, fragment, destination = 0, 43, 44, 60
	next, at := p[6], ipv6Len
	for {
		switch next {
		case hopByHop, routing, fragment, destination:
			if len(p) < at+8 {
				return DropShort
			}
		case protoUDP:
			if len(p) < at+udpLen {
				return DropShort
			}
			if binary.BigEndian.Uint16(p[at+2:]) != Port {
				return DropNotRoCE
			}
			return DropIPOptions
		default:
			return DropNotRoCE
		}
		if next == fragment {
			if p[at] != protoUDP {
				return DropNotRoCE
			}
			if binary.BigEndian.Uint16(p[at+2:])>>3 == 0 && len(p) >= at+8+udpLen && binary.BigEndian.Uint16(p[at+8+2:]) != Port {
				return DropNotRoCE
			}
			return DropFragment
		}
		next, at = p[at], at+8*(1+int(p[at+1]))
	}
}

// cut sets Head and IB of the IP packet p, whose header is headLen bytes and which
// ends at end by its own account.
func (e *Envelope) cut(p []byte, headLen, end int) Drop {
	n := int(binary.BigEndian.Uint16(p[headLen+4:]))
	udpEnd := headLen + n
	switch {
	case n < udpLen || udpEnd > end || end > len(p):
		return DropLength
	case len(p)-udpEnd >= minPacket:
		return DropMerged
	case udpEnd != end:
		return DropLength
	}
	e.Head = p[: headLen+udpLen : headLen+udpLen]
	e.IB = p[headLen+udpLen : udpEnd : udpEnd]
	e.SrcPort = binary.BigEndian.Uint16(p[headLen:])
	return DropNone
}

// ipv4Checksum returns the complemented ones' complement sum of an IPv4 header of
// twenty bytes: the checksum if its field is 0, and 0 if the checksum is right (RFC 791).
func ipv4Checksum(h []byte) uint16 {
	_ = h[19]
	sum := uint64(binary.BigEndian.Uint32(h)) + uint64(binary.BigEndian.Uint32(h[4:])) + uint64(binary.BigEndian.Uint32(h[8:])) +
		uint64(binary.BigEndian.Uint32(h[12:])) + uint64(binary.BigEndian.Uint32(h[16:]))
	return ^fold(sum)
}

// fold adds the 16-bit words of a sum with their carries.
func fold(sum uint64) uint16 {
	sum = sum>>32 + sum&0xFFFFFFFF
	sum = sum>>16 + sum&0xFFFF
	sum = sum>>16 + sum&0xFFFF
	return uint16(sum>>16 + sum)
}

package bth

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// DefaultHopLimit is the hop limit Linux gives RoCE packets.
const DefaultHopLimit = 64

// Path is what Ethernet, IP and UDP headers say on the way to a peer.
type Path struct {
	SrcMAC, DstMAC [6]byte
	// VLAN is the tag control information (priority and VLAN identifier) of an 802.1Q
	// tag; 0 sends none.
	VLAN uint16
	// Src and Dst are both IPv4 or both IPv6. IPv4-mapped IPv6 addresses, the
	// form a GID has, count as IPv4.
	Src, Dst netip.Addr
	// SrcPort is the UDP source port, see [SourcePort]. It must not be 0.
	SrcPort uint16
	// TrafficClass is the IPv4 TOS or IPv6 traffic class, with the ECN bits.
	TrafficClass uint8
	// HopLimit is the IPv4 TTL or IPv6 hop limit; 0 means DefaultHopLimit.
	HopLimit uint8
	// FlowLabel is the IPv6 flow label, 20 bits; IPv4 has none.
	FlowLabel uint32
}

// Encap is the Ethernet, IP and UDP header of a path, made once and written in front
// of each of its packets. It is a value and may be copied.
type Encap struct {
	head   [etherLen + vlanLen + ipv6Len + udpLen]byte
	masked [ipv6Len + udpLen]byte // IP and UDP header as the ICRC sees them
	n, l3  int
	sum    uint64 // of the IPv4 header without total length and identification; IPv6: unused
	v6     bool
}

// NewEncap makes the headers of p. The error says which part of p cannot be.
func NewEncap(p Path) (Encap, error) {
	var e Encap
	src, dst := p.Src.Unmap(), p.Dst.Unmap()
	switch {
	case !src.IsValid() || !dst.IsValid():
		return e, fmt.Errorf("bth: a path from %v to %v lacks an address: give source and destination", p.Src, p.Dst)
	case src.Is4() != dst.Is4():
		return e, fmt.Errorf("bth: %v and %v are of different IP versions: a path is IPv4 or IPv6 from end to end", p.Src, p.Dst)
	case p.SrcPort == 0:
		return e, fmt.Errorf("bth: the path from %v to %v has UDP source port 0: take one of 0xC000 to 0xFFFF", p.Src, p.Dst)
	case p.FlowLabel >= 1<<20:
		return e, fmt.Errorf("bth: flow label 0x%x of the path from %v to %v has more than 20 bits", p.FlowLabel, p.Src, p.Dst)
	}
	if p.HopLimit == 0 {
		p.HopLimit = DefaultHopLimit
	}
	e.v6 = src.Is6()
	b := append(e.head[:0], p.DstMAC[:]...)
	b = append(b, p.SrcMAC[:]...)
	if p.VLAN != 0 {
		b = binary.BigEndian.AppendUint16(b, etherVLAN)
		b = binary.BigEndian.AppendUint16(b, p.VLAN)
	}
	if e.v6 {
		b = binary.BigEndian.AppendUint16(b, etherIPv6)
		e.l3 = len(b)
		b = binary.BigEndian.AppendUint32(b, 6<<28|uint32(p.TrafficClass)<<20|p.FlowLabel)
		b = append(b, 0, 0, protoUDP, p.HopLimit)
	} else {
		b = binary.BigEndian.AppendUint16(b, etherIPv4)
		e.l3 = len(b)
		const dontFragment = 0x40
		b = append(b, 0x45, p.TrafficClass, 0, 0, 0, 0, dontFragment, 0, p.HopLimit, protoUDP, 0, 0)
	}
	b = append(b, src.AsSlice()...)
	b = append(b, dst.AsSlice()...)
	if !e.v6 {
		e.sum = uint64(^ipv4Checksum(b[e.l3:]))
	}
	b = binary.BigEndian.AppendUint16(b, p.SrcPort)
	b = binary.BigEndian.AppendUint16(b, Port)
	b = append(b, 0, 0, 0, 0)
	e.n = len(b)
	maskHead(e.masked[:copy(e.masked[:], b[e.l3:])])
	return e, nil
}

// Len returns the bytes the headers take.
func (e *Encap) Len() int { return e.n }

// L3 returns the offset of the IP header in them.
func (e *Encap) L3() int { return e.l3 }

// Put writes the headers of an IB packet of ibLen bytes, BTH to ICRC, to the beginning
// of b, which has at least Len bytes, and returns Len. For a super-frame ibLen is
// that of all its packets together, at most 65507 bytes. id is the IPv4 identification.
// Don't Fragment is set, and the UDP checksum is 0, as RoCEv2 senders have it on
// IPv4 and IPv6 (RFC 6935).
func (e *Encap) Put(b []byte, ibLen int, id uint16) int {
	b = b[:e.n]
	copy(b, e.head[:])
	ip := b[e.l3:]
	if e.v6 {
		binary.BigEndian.PutUint16(ip[4:], uint16(udpLen+ibLen))
		binary.BigEndian.PutUint16(ip[ipv6Len+4:], uint16(udpLen+ibLen))
		return e.n
	}
	total := uint16(ipv4Len + udpLen + ibLen)
	binary.BigEndian.PutUint16(ip[2:], total)
	binary.BigEndian.PutUint16(ip[4:], id)
	binary.BigEndian.PutUint16(ip[10:], ^fold(e.sum+uint64(total)+uint64(id)))
	binary.BigEndian.PutUint16(ip[ipv4Len+4:], uint16(udpLen+ibLen))
	return e.n
}

// SourcePort returns the UDP source port, 0xC000 to 0xFFFF, of the packets between two
// queue pairs: a hash of the flow label, or of both queue pair numbers if that is 0.
// Both ends of a connection get the same one, the one that Linux's drivers choose.
func SourcePort(flowLabel uint32, lqpn, rqpn QPN) uint16 {
	label := flowLabel & 0xFFFFF
	if label == 0 {
		v := uint64(lqpn) * uint64(rqpn)
		v ^= v >> 20
		v ^= v >> 40
		label = uint32(v & 0xFFFFF)
	}
	return 0xC000 | uint16(label&0x3FFF^label>>14)
}

package link

import "encoding/binary"

// EtherTypes (IEEE 802 numbers) of the frames a link looks into.
const (
	etherTypeIPv4 = 0x0800
	etherTypeIPv6 = 0x86DD
	etherTypeVLAN = 0x8100
)

// layout is where the headers of a UDP frame are: Ethernet with at most one VLAN tag,
// IPv4 or IPv6, UDP.
type layout struct {
	ip, udp, payload int
	v6               bool
}

// udpHeaderLen is the length of a UDP header.
const udpHeaderLen = 8

// findUDP finds the headers of a UDP frame that is no fragment.
func findUDP(b []byte) (l layout, ok bool) {
	if len(b) < 14 {
		return l, false
	}
	l.ip = 14
	etherType := binary.BigEndian.Uint16(b[12:])
	if etherType == etherTypeVLAN && len(b) >= 18 {
		l.ip = 18
		etherType = binary.BigEndian.Uint16(b[16:])
	}
	ip := b[l.ip:]
	const udp = 17
	switch {
	case etherType == etherTypeIPv4 && len(ip) >= 20 && ip[0]>>4 == 4:
		if ip[9] != udp || binary.BigEndian.Uint16(ip[6:])&0x3FFF != 0 {
			return l, false
		}
		l.udp = l.ip + int(ip[0]&0xF)*4
	case etherType == etherTypeIPv6 && len(ip) >= 40 && ip[0]>>4 == 6:
		if ip[6] != udp {
			return l, false
		}
		l.udp, l.v6 = l.ip+40, true
	default:
		return l, false
	}
	l.payload = l.udp + udpHeaderLen
	return l, l.udp >= l.ip+20 && len(b) >= l.payload
}

// isRoCE reports whether the UDP frame is for the RoCEv2 port.
func (l layout) isRoCE(b []byte) bool {
	return binary.BigEndian.Uint16(b[l.udp+2:]) == rocePort
}

// end returns where the UDP payload ends: what is behind it pads the frame to its least length.
func (l layout) end(b []byte) int {
	n := l.udp + int(binary.BigEndian.Uint16(b[l.udp+4:]))
	return max(l.payload, min(n, len(b)))
}

// sumIPv4 fills in the checksum of the IPv4 header (RFC 791).
func (l layout) sumIPv4(b []byte) {
	ip := b[l.ip:l.udp]
	ip[10], ip[11] = 0, 0
	var sum uint32
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	sum = sum>>16 + sum&0xFFFF
	sum += sum >> 16
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum))
}

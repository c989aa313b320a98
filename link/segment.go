package link

import "encoding/binary"

// assemble copies a frame's parts together behind b.
func assemble(b []byte, f *Frame) []byte {
	b = append(b, f.Data...)
	for _, g := range f.Gather {
		b = append(b, g...)
	}
	return b
}

// segments returns how many packets the payloads of a super-frame become.
func (l layout) segments(frame []byte, segment int) int {
	return (len(frame) - l.payload + segment - 1) / segment
}

// appendSegment appends packet i of a super-frame to b, as a kernel or an adapter cuts it
// off: own lengths, IPv4 identification id+i. The UDP checksum is left out (0); what a
// receiver goes by is the ICRC, which the sender computed for exactly these headers.
func (l layout) appendSegment(b, frame []byte, segment, i int) []byte {
	from := l.payload + i*segment
	to := min(from+segment, len(frame))
	start := len(b)
	b = append(b, frame[:l.payload]...)
	b = append(b, frame[from:to]...)
	p := b[start:]
	udp := p[l.udp:]
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	udp[6], udp[7] = 0, 0
	ip := p[l.ip:]
	if l.v6 {
		binary.BigEndian.PutUint16(ip[4:], uint16(len(udp)))
		return b
	}
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	id := binary.BigEndian.Uint16(ip[4:])
	binary.BigEndian.PutUint16(ip[4:], id+uint16(i))
	l.sumIPv4(p)
	return b
}

// Cutter cuts super-frames into the packets they stand for.
type Cutter struct{ buf []byte }

// Packets returns how many there are in a frame; 1 when segment is 0 or the frame is not UDP.
func (c *Cutter) Packets(frame []byte, segment int) int {
	if l, ok := findUDP(frame); ok && segment > 0 {
		return max(l.segments(frame, segment), 1)
	}
	return 1
}

// Packet returns packet i of a frame, with the headers it has when it travels alone. It is good until the next call.
func (c *Cutter) Packet(frame []byte, segment, i int) []byte {
	l, ok := findUDP(frame)
	if !ok || segment == 0 {
		return frame
	}
	c.buf = l.appendSegment(c.buf[:0], frame, segment, i)
	return c.buf
}

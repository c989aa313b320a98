package bth

import (
	"encoding/binary"
	"hash/crc32"
)

// ICRC computes invariant CRCs (IBA 7.8.1 and annex A17): the CRC-32 of Ethernet over
// IP header, UDP header, BTH and everything after them but the ICRC, with ones in
// place of what may change on the way: IPv4 TOS, TTL and header checksum, or IPv6
// traffic class, flow label and hop limit; UDP checksum; and the byte of the BTH
// with FECN and BECN. It travels least significant byte first.
//
// An ICRC is the memory its calls work in, and not for two goroutines at a time. Keep
// one for long, in what owns the frames: made for each call it costs an
// allocation, since what hash/crc32 is given escapes.
type ICRC struct {
	// buf is zeros, four bytes of ones at icrcPreset, from icrcHeaders on the IP and UDP
	// headers with their variant fields set to ones, and as much of the packet as is
	// summed with them.
	buf [icrcHeaders + ipv6Len + udpLen + icrcSmall]byte
	// constantID remembers that merged frames of late came from a sender whose IPv4
	// identification does not count.
	constantID bool
}

// hash/crc32 is fast over 64 bytes or more and multiples of 16, and slow, byte by
// byte, over what is left. Zeros in front do not change a CRC whose register
// begins at zero, which is how headers of any length are brought to such a multiple.
const (
	icrcBlock = 16
	icrcFast  = 64
	// icrcPreset is where the CRC begins. Eight bytes of ones stand for the local route
	// header that RoCEv2 lacks; the register's own initial ones turn four of them into zeros.
	icrcPreset  = 28
	icrcHeaders = icrcPreset + 4
	// icrcSmall is how many bytes of IB packet are copied rather than summed on their own.
	icrcSmall = 256
	// icrcZero is a register of zero in the complemented form hash/crc32 takes.
	icrcZero = ^uint32(0)
)

// Start returns the running CRC over head, which begins at the IP header and reaches
// at least to the end of the BTH: headers and as much behind them as is
// at hand. Continue with [UpdateICRC], end with [PutICRC].
//
// The IP and UDP headers must be those the packet will travel with.
func (c *ICRC) Start(head []byte) uint32 {
	n := ipv4Len + udpLen
	if head[0]>>4 != 4 {
		n = ipv6Len + udpLen
	}
	c.mask(head[:n])
	return c.run(n, head[n:])
}

// StartPacket is Start for a packet that need not lie behind its headers: those are what
// e.Put(b, ibLen, id) writes, and ib is BTH and as much of what follows as is at
// hand. So a segment of a super-frame gets the ICRC it needs once it is cut.
func (c *ICRC) StartPacket(e *Encap, ibLen int, id uint16, ib []byte) uint32 {
	n := copy(c.buf[icrcHeaders:], e.masked[:e.n-e.l3])
	c.setLengths(n, ibLen)
	c.setID(n, id)
	return c.run(n, ib)
}

// UpdateICRC adds b to a running CRC.
func UpdateICRC(crc uint32, b []byte) uint32 { return crc32.Update(crc, crc32.IEEETable, b) }

// PutICRC writes a CRC that is complete as the four bytes of an ICRC.
func PutICRC(b []byte, crc uint32) { binary.LittleEndian.PutUint32(b, crc) }

// Verify reports whether ib, one IB packet of the envelope from BTH to ICRC, ends in
// the right ICRC.
//
// The packet at index (from 0) of a super-frame is verified with the headers it has
// when it travels alone: its own lengths, and as IPv4 identification that of the frame
// plus index, or else that of the frame, since a sender may count or not.
func (c *ICRC) Verify(e *Envelope, ib []byte, index int) bool {
	if len(ib) < minPacket {
		return false
	}
	n := len(e.Head)
	c.mask(e.Head)
	c.setLengths(n, len(ib))
	if index == 0 || n != ipv4Len+udpLen {
		return c.check(n, ib)
	}
	id := binary.BigEndian.Uint16(e.Head[4:])
	likely, other := id+uint16(index), id
	if c.constantID {
		likely, other = other, likely
	}
	if c.setID(n, likely); c.check(n, ib) {
		return true
	}
	if c.setID(n, other); !c.check(n, ib) {
		return false
	}
	c.constantID = !c.constantID
	return true
}

// Explain names the fault of a packet that Verify refused: DropMerged if it begins with
// a packet that has a right ICRC of its own, so that receive offload must have put
// others behind it, otherwise DropICRC.
func (c *ICRC) Explain(e *Envelope, ib []byte) Drop {
	// An attacker could make every place look like the beginning of a packet.
	const maxTries = 4
	tries := 0
	for n := minPacket; n+minPacket <= len(ib) && tries < maxTries; n += 4 {
		// Merged packets are of one flow: version, P_Key and destination repeat.
		next := ib[n:]
		if next[1]&0x0F != 0 || [2]byte(next[2:]) != [2]byte(ib[2:]) || [3]byte(next[5:]) != [3]byte(ib[5:]) {
			continue
		}
		tries++
		if c.Verify(e, ib[:n], 0) {
			return DropMerged
		}
	}
	return DropICRC
}

// check compares the ICRC of ib with that over the masked header of n bytes and ib.
func (c *ICRC) check(n int, ib []byte) bool {
	end := len(ib) - ICRCLen
	return c.run(n, ib[:end]) == binary.LittleEndian.Uint32(ib[end:])
}

// mask copies an IP and UDP header and sets what may change on the way to ones.
func (c *ICRC) mask(head []byte) {
	m := c.buf[icrcHeaders:]
	maskHead(m[:copy(m, head)])
}

// maskHead sets the variant fields of an IP and UDP header to ones.
func maskHead(m []byte) {
	if len(m) == ipv4Len+udpLen {
		m[1], m[8], m[10], m[11] = 0xFF, 0xFF, 0xFF, 0xFF
		m[26], m[27] = 0xFF, 0xFF
		return
	}
	binary.BigEndian.PutUint32(m, 0x6FFFFFFF)
	m[7] = 0xFF
	m[46], m[47] = 0xFF, 0xFF
}

// setLengths writes the lengths of a packet of ibLen bytes into the masked header of n bytes.
func (c *ICRC) setLengths(n, ibLen int) {
	m := c.buf[icrcHeaders:][:n]
	if n == ipv4Len+udpLen {
		binary.BigEndian.PutUint16(m[2:], uint16(n+ibLen))
		binary.BigEndian.PutUint16(m[24:], uint16(udpLen+ibLen))
		return
	}
	binary.BigEndian.PutUint16(m[4:], uint16(udpLen+ibLen))
	binary.BigEndian.PutUint16(m[44:], uint16(udpLen+ibLen))
}

// setID writes the IPv4 identification into the masked header of n bytes; IPv6 has none.
func (c *ICRC) setID(n int, id uint16) {
	if n == ipv4Len+udpLen {
		binary.BigEndian.PutUint16(c.buf[icrcHeaders+4:], id)
	}
}

// run returns the CRC over the masked header of n bytes and ib, which begins with a BTH.
func (c *ICRC) run(n int, ib []byte) uint32 {
	// What is summed apart is whole blocks, so that the odd bytes are in the buffer.
	k := len(ib)
	if k > icrcSmall {
		k -= (k - Len) &^ (icrcBlock - 1)
	}
	end := icrcHeaders + n + k
	copy(c.buf[icrcHeaders+n:end], ib)
	c.buf[icrcHeaders+n+4] = 0xFF
	binary.BigEndian.PutUint32(c.buf[icrcPreset:], 0xFFFFFFFF)
	size := max(icrcFast, (end-icrcPreset+icrcBlock-1)&^(icrcBlock-1))
	crc := UpdateICRC(icrcZero, c.buf[end-size:end])
	if k < len(ib) {
		crc = UpdateICRC(crc, ib[k:])
	}
	return crc
}

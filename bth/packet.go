package bth

import "net/netip"

// MaxPacketLen bounds the bytes of one IB packet, BTH to ICRC: the longest headers
// and the largest path MTU. What is longer is several packets.
const MaxPacketLen = MaxHeaderLen + MaxPathMTU + ICRCLen

// Packet is a decoded RoCEv2 packet. It is decoded into again and again;
// Payload and IP alias the frame and are good only while the frame is.
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
	// IP is the IP header as it came, 20 or 40 bytes: a datagram's receive buffer begins with it.
	IP []byte
}

// ECN bits of the traffic class (RFC 3168).
const (
	ECT1                  = 1
	ECT0                  = 2
	CongestionExperienced = 3
)

// Decode reads BTH and extension headers of ib, one IB packet from BTH to ICRC
// out of the envelope. It does not look at the ICRC.
//
// All lengths are checked before anything is taken from behind the BTH, an opcode
// without a name before its length. Reserved bits and pad bytes are ignored
// (IBA C9-6). Extension headers that the opcode has not keep what an earlier packet
// left in them. If ib has at least 16 bytes the BTH is decoded whatever the
// verdict, so that a dropped packet can be shown.
func (p *Packet) Decode(e *Envelope, ib []byte) Drop {
	if len(ib) < minPacket {
		return DropHeaderLength
	}
	p.Header.parse(ib)
	info := &table[p.Opcode]
	p.Flags = info.Flags
	p.Payload = nil
	p.Src, p.Dst, p.ECN = e.Src, e.Dst, e.TrafficClass&3
	p.IP = e.Head[:max(len(e.Head)-udpLen, 0)]
	switch {
	case p.TVer != 0:
		return DropTVer
	case info.HeaderLen == 0:
		return DropOpcode
	case info.Flags.Has(Unsupported):
		return DropUnsupported
	case len(ib) > MaxPacketLen:
		return DropMerged
	}
	area, pad := len(ib)-info.HeaderLen-ICRCLen, int(p.Pad)
	switch {
	case area < 0:
		return DropHeaderLength
	case area < pad, area&3 != 0, area > 0 && !info.Flags.Has(HasPayload):
		return DropPad
	}
	p.parseExtensions(ib, info.Flags)
	p.Payload = ib[info.HeaderLen : info.HeaderLen+area-pad]
	return DropNone
}

// DecodeFrame decodes a frame with one packet and verifies its ICRC. If that is wrong
// because receive offload merged packets unasked, the verdict is DropMerged.
func (p *Packet) DecodeFrame(c *ICRC, frame []byte) Drop {
	var e Envelope
	if d := e.Decode(frame); d != DropNone {
		return d
	}
	if d := p.Decode(&e, e.IB); d != DropNone {
		return d
	}
	if !c.Verify(&e, e.IB, 0) {
		return c.Explain(&e, e.IB)
	}
	return DropNone
}

package sniff

import (
	"net/netip"

	"github.com/go-roce/roce/bth"
)

// Flow counts what went from one address to one queue pair.
type Flow struct {
	Src         netip.Addr `json:"src"`
	Dst         netip.Addr `json:"dst"`
	DestQP      bth.QPN    `json:"dest_qp"`
	Packets     uint64     `json:"packets"`
	Bytes       uint64     `json:"bytes"` // payload
	Retransmits uint64     `json:"retransmits"`
	NAKs        uint64     `json:"naks"`
	RNRNAKs     uint64     `json:"rnr_naks"`
}

type flowKey struct {
	src, dst netip.Addr
	qp       bth.QPN
}

// follower follows the sequence numbers of a flow.
type follower struct {
	Flow
	requests, responses sequence
	// read is the flow's last READ request while its span is unknown: it takes as many sequence numbers as its
	// response has packets, which depends on the path MTU.
	read        bool
	readPSN     bth.PSN
	readLen     uint32
	acked       bool
	ackPSN      bth.PSN
	ackMSN      uint32
	ackSyndrome bth.Syndrome
}

// sequence is one of a flow's two rows of sequence numbers.
type sequence struct {
	started bool
	next    bth.PSN
}

// restart is how far a sequence number may be off before it belongs to a new connection with the old number.
const restart = 1 << 16

// place puts a packet that takes span numbers from psn on into the sequence.
func (s *sequence) place(psn bth.PSN, span uint32) Mark {
	off := psn.Diff(s.next)
	if !s.started || off >= restart || off <= -restart {
		s.started, s.next = true, psn.Add(span)
		return 0
	}
	if end := psn.Add(span); s.next.Before(end) {
		s.next = end
	}
	switch {
	case off < 0:
		return Retransmission
	case off > 0:
		return Gap
	}
	return 0
}

// pathMTU learns the path MTU between two addresses from packets that must be full.
type pathMTU map[[2]netip.Addr]uint32

func pair(a, b netip.Addr) [2]netip.Addr {
	if b.Less(a) {
		a, b = b, a
	}
	return [2]netip.Addr{a, b}
}

// observe finds the packet's place in its flow. mtus is shared by all flows.
func (f *follower) observe(p *bth.Packet, mtus pathMTU) Mark {
	f.Packets++
	f.Bytes += uint64(len(p.Payload))
	if p.Flags.Any(bth.First|bth.Middle) && len(p.Payload) > 0 {
		mtus[pair(p.Src, p.Dst)] = uint32(len(p.Payload))
	}
	var m Mark
	switch s := p.Opcode.Service(); {
	case s != bth.RC && s != bth.UC: // datagrams are never sent again, and nothing says that none is missing
	case p.Flags.Has(bth.Request):
		m = f.request(p, mtus[pair(p.Src, p.Dst)])
	case p.Flags.Any(bth.ReadResponse) || p.Opcode == bth.RCAtomicAcknowledge:
		// Acknowledgements come between responses, so that a gap means nothing.
		m = f.responses.place(p.PSN, 1) &^ Gap
	case p.Flags.Has(bth.Ack):
		m = f.ack(p)
	}
	if m.Has(Retransmission) {
		f.Retransmits++
	}
	return m
}

func (f *follower) request(p *bth.Packet, mtu uint32) Mark {
	unsure := false
	if f.read {
		if n, ok := span(f.readLen, mtu); ok {
			f.requests.place(f.readPSN, n)
		} else {
			unsure = true
		}
		f.read = false
	}
	n := uint32(1)
	if p.Flags.Has(bth.Read) {
		var ok bool
		if n, ok = span(p.RETH.Length, mtu); !ok {
			n, f.read, f.readPSN, f.readLen = 1, true, p.PSN, p.RETH.Length
		}
	}
	m := f.requests.place(p.PSN, n)
	if unsure {
		m &^= Gap
	}
	return m
}

// span is how many sequence numbers a READ of length bytes takes; ok is false while the path MTU is unknown (0).
func span(length, mtu uint32) (n uint32, ok bool) {
	switch {
	case length <= bth.MinPathMTU:
		return 1, true
	case mtu == 0:
		return 0, false
	}
	return (length + mtu - 1) / mtu, true
}

func (f *follower) ack(p *bth.Packet) Mark {
	var m Mark
	switch s := p.AETH.Syndrome; {
	case s.IsRNR():
		m, f.RNRNAKs = RNRNAK, f.RNRNAKs+1
	case s.IsNAK():
		m, f.NAKs = NAK, f.NAKs+1
	case f.acked && f.ackPSN == p.PSN && f.ackMSN == p.AETH.MSN && f.ackSyndrome.IsAck():
		m = DuplicateAck
	}
	f.acked, f.ackPSN, f.ackMSN, f.ackSyndrome = true, p.PSN, p.AETH.MSN, p.AETH.Syndrome
	return m
}

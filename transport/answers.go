package transport

import (
	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/memreg"
)

// answer is a response that is owed: an acknowledgement, a NAK, the rest of a
// READ response, or an atomic's result.
type answer struct {
	kind     answerKind
	repeat   bool         // to a duplicate
	syndrome bth.Syndrome // of a NAK
	psn      bth.PSN      // of the first packet
	npkts    uint32
	sent     uint32 // packets of a READ response already sent
	reth     bth.RETH
	original uint64
}

type answerKind uint8

const (
	answerAck answerKind = iota
	answerNAK
	answerRead
	answerAtomic
)

// answerQueue holds what is owed in PSN order, for that is the order in which
// responses must leave (IBA 9.7.5.1). Acknowledgements coalesce.
type answerQueue struct {
	list  []answer // sorted by PSN; its array does not grow
	head  int      // list[:head] is sent
	depth int      // READs and atomics the peer may have outstanding
}

// resize makes room for all that can be owed to a peer that may have depth READs and
// atomics outstanding, beside what is owed already: a response to each of them, an
// acknowledgement behind each, a response to a duplicate of each that was remembered
// before them, and in all an acknowledgement before and a NAK behind; and to as many
// requests for a part of one.
func (a *answerQueue) resize(depth int) {
	owed := a.pending()
	list := make([]answer, 0, 4*depth+2+len(owed))
	*a = answerQueue{list: append(list, owed...), depth: depth}
}

func (a *answerQueue) pending() []answer { return a.list[a.head:] }

func (a *answerQueue) empty() bool { return a.head == len(a.list) }

// next returns the PSN of the next packet to be sent.
func (x *answer) next() bth.PSN { return x.psn.Add(x.sent) }

// end returns the PSN behind its last.
func (x *answer) end() bth.PSN { return x.psn.Add(x.npkts) }

// overlaps reports whether two answers have a PSN in common.
func (x *answer) overlaps(y *answer) bool {
	return dist(x.psn, y.psn) < x.npkts || dist(y.psn, x.psn) < y.npkts
}

// place returns where in pending an answer with this PSN belongs: behind all
// that are not younger.
func (a *answerQueue) place(psn bth.PSN) int {
	p := a.pending()
	i := len(p)
	for i > 0 && psn.Before(p[i-1].next()) {
		i--
	}
	return i
}

// add queues an answer at its place.
func (a *answerQueue) add(x answer) {
	at := a.place(x.psn)
	if len(a.list) == cap(a.list) {
		n := copy(a.list, a.pending())
		a.list, a.head = a.list[:n], 0
	}
	at += a.head
	a.list = append(a.list, answer{})
	copy(a.list[at+1:], a.list[at:])
	a.list[at] = x
}

// ack acknowledges everything up to psn. Whatever is owed behind psn does that as
// well; and an acknowledgement between the packets of a READ response is an error to
// some peers (rdma_rxe before 6.12).
func (a *answerQueue) ack(psn bth.PSN) {
	p := a.pending()
	switch at := a.place(psn); {
	case at < len(p):
	case at > 0 && p[at-1].kind == answerAck:
		p[at-1].psn = psn
	default:
		a.add(answer{kind: answerAck, psn: psn, npkts: 1})
	}
}

// again queues the answer to a duplicate READ or atomic, in place of what is still owed for
// the same request, for the peer no longer waits for the rest of that; unless it asks only for packets
// that were sent before: then it waits for both. It reports false when there is no room.
func (a *answerQueue) again(x answer) bool {
	p := a.pending()
	for i := range p {
		if e := &p[i]; e.kind == x.kind && e.overlaps(&x) && e.next().Before(x.end()) {
			x.repeat = e.repeat
			*e = x
			return true
		}
	}
	if len(p) == cap(a.list) {
		return false
	}
	x.repeat = true
	a.add(x)
	return true
}

// full reports whether the peer has as many READs and atomics outstanding as it may.
// Duplicates do not count: it may have given up waiting for them.
func (a *answerQueue) full() bool {
	n := 0
	for _, e := range a.pending() {
		if (e.kind == answerRead || e.kind == answerAtomic) && !e.repeat {
			n++
		}
	}
	return n >= a.depth
}

// dropNAK forgets a NAK that has not been sent. There is at most one, for the PSN
// expected next, so it is the last.
func (a *answerQueue) dropNAK() {
	if n := len(a.list); n > a.head && a.list[n-1].kind == answerNAK {
		a.list = a.list[:n-1]
	}
}

// cutFrom forgets the answers that reach to psn or lie behind it.
func (a *answerQueue) cutFrom(psn bth.PSN) {
	p := a.pending()
	for i := range p {
		if psn.Before(p[i].psn.Add(p[i].npkts)) {
			a.list = a.list[:a.head+i]
			return
		}
	}
}

func (a *answerQueue) clear() { a.list, a.head = a.list[:0], 0 }

// pop forgets the first answer, which has been sent.
func (a *answerQueue) pop() { a.head++ }

// nextResponse fills out with the next response packet.
func (q *QP) nextResponse(out *Out) bool {
	r := &q.resp
	if q.nextReport(out) {
		return true
	}
	if r.answers.empty() {
		return false
	}
	x := &r.answers.pending()[0]
	q.startResponse(out, x.psn)
	switch x.kind {
	case answerAck:
		out.Opcode = bth.RCAcknowledge
		q.ctr.AcksSent++
	case answerNAK:
		out.Opcode = bth.RCAcknowledge
		out.AETH.Syndrome = x.syndrome
	case answerAtomic:
		out.Opcode = bth.RCAtomicAcknowledge
		out.AtomicAck = x.original
	case answerRead:
		if !q.buildReadResponse(x, out) {
			q.refuse(bth.NAKRemoteAccess, x.next(), EventAccessErr)
			return q.nextResponse(out)
		}
		if x.sent < x.npkts {
			return true
		}
	}
	r.answers.pop()
	return true
}

// startResponse fills in what the headers of every response have in common.
func (q *QP) startResponse(out *Out, psn bth.PSN) {
	out.Headers = bth.Headers{Header: bth.Header{
		MigReq: true,
		PKey:   bth.DefaultPKey,
		DestQP: q.attr.DestQPN,
		PSN:    psn,
	}}
	out.Payload = out.Payload[:0]
	out.Length = 0
	out.Copy = false
	out.Retransmit = false
	out.AETH = bth.AETH{Syndrome: q.ackSyndrome(), MSN: q.resp.msn}
}

// buildReadResponse makes the next packet of a READ response. It reports false
// when the memory is no longer there.
func (q *QP) buildReadResponse(x *answer, out *Out) bool {
	mtu := uint32(q.attr.PathMTU)
	off := x.sent * mtu
	n := min(mtu, x.reth.Length-off)
	b, fault := q.cfg.Table.Slice(memreg.Key(x.reth.RKey), q.cfg.PD, memreg.RemoteRead, x.reth.VA+uint64(off), uint64(n))
	if fault != memreg.FaultNone {
		return false
	}
	first, last := x.sent == 0, x.sent+1 == x.npkts
	switch {
	case first && last:
		out.Opcode = bth.RCReadResponseOnly
	case first:
		out.Opcode = bth.RCReadResponseFirst
	case last:
		out.Opcode = bth.RCReadResponseLast
	default:
		out.Opcode = bth.RCReadResponseMiddle
	}
	out.PSN = x.next()
	if n > 0 {
		out.Payload = append(out.Payload, b)
	}
	out.Length = int(n)
	out.Pad = uint8(-n & 3)
	out.Copy = true
	x.sent++
	return true
}

// ackSyndrome returns the syndrome of a positive acknowledgement.
func (q *QP) ackSyndrome() bth.Syndrome {
	if !q.cfg.Credits {
		return bth.AckNoCredits
	}
	return bth.AckCredits(q.rq.available())
}

package transport

import (
	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/memreg"
)

// answer is a response that is owed: an acknowledgement, a NAK, the rest of a
// READ response, or an atomic's result.
type answer struct {
	kind     answerKind
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
	list []answer // sorted by PSN; its array does not grow
	head int      // list[:head] is sent
}

// spareAnswers is the room beyond one answer and one acknowledgement for each
// READ or atomic: a NAK, and the acknowledgements before and behind.
const spareAnswers = 4

func (a *answerQueue) init(depth int) {
	depth = int(ringMask(depth)) + 1
	*a = answerQueue{list: make([]answer, 0, 2*depth+spareAnswers)}
}

// grow makes room for a larger depth and keeps what is owed.
func (a *answerQueue) grow(depth int) {
	old := a.pending()
	a.init(depth)
	if cap(a.list) < len(old) {
		a.list = make([]answer, 0, len(old)+spareAnswers)
	}
	a.list = append(a.list, old...)
}

func (a *answerQueue) pending() []answer { return a.list[a.head:] }

func (a *answerQueue) empty() bool { return a.head == len(a.list) }

// full reports whether there may be no room for a READ or atomic and the
// acknowledgement and NAK that could follow it.
func (a *answerQueue) full() bool { return len(a.pending())+spareAnswers > cap(a.list) }

// place returns where in pending an answer with this PSN belongs: behind all
// that are not younger.
func (a *answerQueue) place(psn bth.PSN) int {
	p := a.pending()
	i := len(p)
	for i > 0 && psn.Before(p[i-1].psn) {
		i--
	}
	return i
}

// add queues an answer at its place. The caller knows that there is room.
func (a *answerQueue) add(x answer) {
	at := a.place(x.psn)
	if len(a.list) == cap(a.list) {
		n := copy(a.list, a.list[a.head:])
		a.list, a.head = a.list[:n], 0
		if n == cap(a.list) {
			return // only a peer that repeats faster than it is answered gets here: it will ask again
		}
	}
	at += a.head
	a.list = append(a.list, answer{})
	copy(a.list[at+1:], a.list[at:])
	a.list[at] = x
}

// ack acknowledges everything up to psn, with an acknowledgement already owed if
// nothing lies between.
func (a *answerQueue) ack(psn bth.PSN) {
	at := a.place(psn)
	p := a.pending()
	if at > 0 && p[at-1].kind == answerAck {
		p[at-1].psn = psn
		return
	}
	if at < len(p) && p[at].kind == answerAck {
		return
	}
	a.add(answer{kind: answerAck, psn: psn, npkts: 1})
}

// repeat queues the answer to a duplicate READ or atomic in place of what is
// still owed for the same request: the peer no longer waits for the rest of that.
func (a *answerQueue) repeat(x answer) bth.Drop {
	p := a.pending()
	for i := range p {
		if e := &p[i]; e.kind == x.kind && dist(e.psn, x.psn) < e.npkts {
			*e = x
			return bth.DropNone
		}
	}
	if a.full() {
		return bth.DropBusy
	}
	a.add(x)
	return bth.DropNone
}

// holds reports whether part of the response to a request with these PSNs is
// still to be sent.
func (a *answerQueue) holds(psn bth.PSN, npkts uint32) bool {
	for _, e := range a.pending() {
		if (e.kind == answerRead || e.kind == answerAtomic) && dist(psn, e.psn) < npkts {
			return true
		}
	}
	return false
}

// dropSequenceNAK forgets a sequence NAK that has not been sent: its gap is filled.
func (a *answerQueue) dropSequenceNAK() {
	if n := len(a.list); n > a.head && a.list[n-1].kind == answerNAK && a.list[n-1].syndrome == bth.NAKSequence {
		a.list = a.list[:n-1]
	}
}

// cutFrom forgets what is owed for psn and behind it.
func (a *answerQueue) cutFrom(psn bth.PSN) {
	p := a.pending()
	for i := range p {
		e := &p[i]
		if before := dist(e.psn, psn); e.psn.Before(psn) {
			if before >= e.npkts {
				continue
			}
			if e.npkts = before; e.sent < e.npkts {
				continue
			}
		}
		a.list = a.list[:a.head+i]
		return
	}
}

func (a *answerQueue) clear() { a.list, a.head = a.list[:0], 0 }

// pop forgets the first answer, which has been sent.
func (a *answerQueue) pop() {
	a.head++
	if a.empty() {
		a.clear()
	}
}

// nextResponse fills out with the next response packet.
func (q *QP) nextResponse(out *Out) bool {
	r := &q.resp
	if r.answers.empty() {
		return false
	}
	x := &r.answers.pending()[0]
	out.Headers = bth.Headers{Header: bth.Header{
		MigReq: true,
		PKey:   bth.DefaultPKey,
		DestQP: q.attr.DestQPN,
		PSN:    x.psn,
	}}
	out.Payload = out.Payload[:0]
	out.Length = 0
	out.Copy = false
	out.Retransmit = false
	out.AETH = bth.AETH{Syndrome: q.ackSyndrome(), MSN: r.msn}
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
			q.refuse(bth.NAKRemoteAccess, x.psn.Add(x.sent), EventAccessErr)
			return q.nextResponse(out)
		}
		if x.sent < x.npkts {
			return true
		}
	}
	r.answers.pop()
	return true
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
	out.PSN = x.psn.Add(x.sent)
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

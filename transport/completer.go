package transport

import (
	"encoding/binary"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/memreg"
)

// The completer takes responses and completes send work requests (IBA 9.9.2).

// handleResponse takes an acknowledgement, READ response or atomic result.
func (q *QP) handleResponse(now clock.Time, p *bth.Packet) bth.Drop {
	r := &q.req
	switch q.State() {
	case StateRTS, StateSQD:
	default:
		return bth.DropQPState
	}
	if dist(r.una, p.PSN) >= dist(r.una, r.high) {
		if p.PSN.Before(r.una) {
			return bth.DropStale
		}
		return bth.DropGhost
	}
	switch {
	case p.Flags.Any(bth.ReadResponse):
		return q.handleReadResponse(now, p)
	case p.Flags.Any(bth.HasAtomicAckETH):
		return q.handleAtomicAck(now, p)
	}
	s := p.AETH.Syndrome
	switch {
	case s.IsAck():
		q.ctr.AcksReceived++
		q.takeCredits(p)
		if !q.acknowledge(now, p.PSN.Next()) {
			q.impliedNAK()
		}
		return bth.DropNone
	case s.IsRNR():
		return q.handleRNR(now, p)
	case s.IsNAK():
		return q.handleNAK(now, p)
	}
	return bth.DropSyndrome
}

// acknowledge takes everything before upTo as received by the peer and completes
// what is done with that. It stops at a READ or atomic whose own response is
// missing and then reports false.
func (q *QP) acknowledge(now clock.Time, upTo bth.PSN) bool {
	r := &q.req
	before := r.una
	whole := true
	for r.una != upTo {
		w := q.sq.at(r.compl)
		if w.answered() {
			whole = false
			break
		}
		if rest := dist(r.una, w.end()); rest > dist(r.una, upTo) {
			q.moveUna(upTo)
			break
		}
		q.complete(w)
	}
	if r.una != before {
		q.progress(now)
	}
	return whole
}

// complete takes the oldest incomplete request as done.
func (q *QP) complete(w *sendWQE) {
	if w.answered() {
		q.req.outstanding--
	}
	q.req.compl++
	q.moveUna(w.end())
}

// moveUna advances the oldest unacknowledged PSN, and with it the next one to
// send if a resend had gone back behind it.
func (q *QP) moveUna(psn bth.PSN) {
	r := &q.req
	behind := dist(r.una, r.next) < dist(r.una, psn)
	r.una = psn
	if behind {
		q.seek(psn)
	}
}

// progress is called when una moved: the peer is alive.
func (q *QP) progress(now clock.Time) {
	r := &q.req
	r.retriesLeft = q.attr.RetryCnt
	r.recovering = false
	if r.rnrPSN.Before(r.una) {
		// What the receiver was not ready for it has by now. The response of a READ
		// before that says nothing of the kind.
		r.rnrLeft = q.attr.RNRRetry
		r.rnrWait, r.rnrUntil = false, clock.Never
	}
	q.armAckTimer(now)
	q.noteDrained()
}

// noteDrained raises SQ_DRAINED once nothing is in progress.
func (q *QP) noteDrained() {
	r := &q.req
	if !r.drained || r.una != r.high || r.cur != q.sq.tail.Load() && q.sq.at(r.cur).started {
		return
	}
	r.drained = false
	q.raise(EventSQDrained)
}

// takeCredits remembers up to which message the peer has receives posted
// (IBA 9.7.7.2).
func (q *QP) takeCredits(p *bth.Packet) {
	credits, ok := p.AETH.Syndrome.Credits()
	q.req.limited = ok
	if ok {
		q.req.limit = p.AETH.MSN + uint32(credits)
	}
}

// impliedNAK acts on a READ or atomic whose response is missing though something
// behind it was answered (IBA 9.7.5.2.1).
func (q *QP) impliedNAK() {
	r := &q.req
	if r.recovering || r.rnrWait {
		return
	}
	q.ctr.ImpliedNAKs++
	q.retry()
	r.recovering = true
}

// handleReadResponse places READ data and completes the READ with its last packet.
func (q *QP) handleReadResponse(now clock.Time, p *bth.Packet) bth.Drop {
	r := &q.req
	if p.Flags.Any(bth.HasAETH) {
		if !p.AETH.Syndrome.IsAck() {
			return bth.DropSyndrome
		}
		q.takeCredits(p)
	}
	if !q.acknowledge(now, p.PSN) {
		q.impliedNAK()
		return bth.DropResponse
	}
	w := q.sq.at(r.compl)
	if w.op != WRRead {
		return bth.DropResponse
	}
	off := w.done * uint32(q.attr.PathMTU)
	want := min(w.length-off, uint32(q.attr.PathMTU))
	last := w.done+1 == w.npkts
	// A responder that answers a repeated READ may call any packet but the final
	// one First or Middle, and the final one Last or Only.
	if len(p.Payload) != int(want) || last != p.Flags.Any(bth.Ends) {
		q.fail(r.compl, StatusBadRespErr)
		return bth.DropNone
	}
	if q.scatter(q.sq.sgl(r.compl), off, p.Payload) != memreg.FaultNone {
		q.fail(r.compl, StatusLocProtErr)
		return bth.DropNone
	}
	w.done++
	if last {
		q.complete(w)
	} else {
		q.moveUna(p.PSN.Next())
	}
	q.progress(now)
	return bth.DropNone
}

// handleAtomicAck stores the original value and completes the atomic.
func (q *QP) handleAtomicAck(now clock.Time, p *bth.Packet) bth.Drop {
	r := &q.req
	if !p.AETH.Syndrome.IsAck() {
		return bth.DropSyndrome
	}
	q.takeCredits(p)
	if !q.acknowledge(now, p.PSN) {
		q.impliedNAK()
		return bth.DropResponse
	}
	w := q.sq.at(r.compl)
	if w.op != WRCompareSwap && w.op != WRFetchAdd {
		return bth.DropResponse
	}
	var original [8]byte
	binary.NativeEndian.PutUint64(original[:], p.AtomicAck)
	if q.scatter(q.sq.sgl(r.compl), 0, original[:]) != memreg.FaultNone {
		q.fail(r.compl, StatusLocProtErr)
		return bth.DropNone
	}
	q.complete(w)
	q.progress(now)
	return bth.DropNone
}

// handleRNR holds requests back: the peer has no receive for the message at p.PSN.
func (q *QP) handleRNR(now clock.Time, p *bth.Packet) bth.Drop {
	r := &q.req
	q.ctr.RNRNAKsReceived++
	whole := q.acknowledge(now, p.PSN)
	if r.rnrWait {
		return bth.DropNone // an echo of the one that is waited for
	}
	if whole {
		if !q.spendRNRRetry() {
			return bth.DropNone
		}
		r.retriesLeft = q.attr.RetryCnt // the packet arrived: what was lost on the way to here is made good
	} else if !r.recovering && !q.spendRetry() {
		// A response before it went missing, which costs a retry as ever; only the
		// resending waits for the receiver too.
		return bth.DropNone
	}
	q.goBack()
	r.recovering = false
	r.rnrWait, r.rnrPSN = true, p.PSN
	r.rnrUntil = now.Add(p.AETH.Syndrome.RNRTimer())
	return bth.DropNone
}

// rnrRetryForever as RNRRetry never gives up (IBA 9.7.5.2.8).
const rnrRetryForever = 7

// spendRNRRetry uses up one of RNR_RETRY; when none is left the oldest request fails.
func (q *QP) spendRNRRetry() bool {
	r := &q.req
	switch {
	case q.attr.RNRRetry == rnrRetryForever:
		return true
	case r.rnrLeft == 0:
		q.fail(r.compl, StatusRNRRetryExc)
		return false
	}
	r.rnrLeft--
	return true
}

// handleNAK resends after a sequence NAK and fails the request after any other.
func (q *QP) handleNAK(now clock.Time, p *bth.Packet) bth.Drop {
	r := &q.req
	var status Status
	switch p.AETH.Syndrome {
	case bth.NAKSequence:
	case bth.NAKInvalidRequest:
		status = StatusRemInvReqErr
	case bth.NAKRemoteAccess:
		status = StatusRemAccessErr
	case bth.NAKRemoteOperation:
		status = StatusRemOpErr
	default:
		return bth.DropSyndrome
	}
	q.ctr.NAKsReceived++
	whole := q.acknowledge(now, p.PSN)
	switch {
	case status != StatusSuccess:
		// The peer answers nothing any more, so a READ before the refused request
		// whose response was lost is flushed.
		i, _ := q.find(p.PSN)
		q.fail(i, status)
	case !whole:
		q.impliedNAK()
	case r.recovering || r.rnrWait:
		// Already being resent, or waiting for the receiver to be ready.
	default:
		q.retry()
		r.recovering = true
	}
	return bth.DropNone
}

// PollCompletion fills c with the next completion and reports whether there was
// one. It also frees the slots of silent successes.
func (q *QP) PollCompletion(c *Completion) bool {
	return q.pollRecv(c) || q.pollSend(c)
}

// TakeSilent returns how many sends completed silently since the last completion or
// call, and forgets them, so that no later Completion.Retired counts them: for a
// driver that frees their slots at once, after PollCompletion returned false.
func (q *QP) TakeSilent() uint32 {
	n := q.req.silent
	q.req.silent = 0
	return n
}

func (q *QP) pollSend(c *Completion) bool {
	s := &q.sq
	head, tail := s.head.Load(), s.tail.Load()
	failed := q.State() == StateErr
	for i := head; i != tail; i++ {
		w := s.at(i)
		// Slots before compl are done: head <= compl <= tail.
		done := i-head < q.req.compl-head
		if !done && !failed {
			break
		}
		if done && w.flags&Signaled == 0 {
			q.req.silent++
			s.head.Store(i + 1)
			continue
		}
		status := w.status
		if !done {
			if status == StatusSuccess {
				status = StatusWRFlushErr
			}
			q.req.compl = i + 1
		}
		*c = Completion{
			ID:        w.id,
			QPN:       q.cfg.QPN,
			Status:    status,
			Opcode:    w.op.completion(),
			ByteLen:   w.length,
			Solicited: status != StatusSuccess,
			Retired:   q.req.silent + 1,
		}
		q.req.silent = 0
		s.head.Store(i + 1)
		return true
	}
	return false
}

// completion returns the opcode a completion of the work request has.
func (o WROpcode) completion() WCOpcode {
	switch o {
	case WRWrite, WRWriteImm:
		return WCWrite
	case WRRead:
		return WCRead
	case WRCompareSwap:
		return WCCompareSwap
	case WRFetchAdd:
		return WCFetchAdd
	}
	return WCSend
}

func (q *QP) pollRecv(c *Completion) bool {
	r := &q.rq
	i := r.head.Load()
	used := i != r.cur
	if !used && (q.State() != StateErr || i == r.tail.Load()) {
		return false
	}
	w := r.at(i)
	status := w.status
	if !used {
		if status == StatusSuccess {
			status = StatusWRFlushErr
		}
		r.cur = i + 1
	}
	*c = Completion{
		ID:        w.id,
		QPN:       q.cfg.QPN,
		Status:    status,
		Opcode:    w.op,
		Flags:     w.flags,
		ByteLen:   w.byteLen,
		SrcQP:     q.attr.DestQPN,
		Recv:      true,
		Solicited: w.se || status != StatusSuccess,
		Retired:   1,
	}
	if w.flags&WCWithInv != 0 {
		c.InvKey = memreg.Key(w.imm)
	} else {
		c.Imm = w.imm
	}
	r.head.Store(i + 1)
	return true
}

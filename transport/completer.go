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
			r.probe.answeredTwice(now, p.PSN)
			q.repeatedAck(p)
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
			q.missing(now, p.PSN.Next())
		}
		return bth.DropNone
	case s.IsRNR():
		return q.handleRNR(now, p)
	case s.IsNAK():
		return q.handleNAK(now, p)
	}
	return bth.DropSyndrome
}

// acknowledge takes everything before upTo as executed by the peer and completes
// what is done with that. It reports whether that was all of it: what is behind a READ
// or atomic whose own answer is missing completes when that comes.
func (q *QP) acknowledge(now clock.Time, upTo bth.PSN) bool {
	r := &q.req
	before := r.una
	if dist(r.una, upTo) > dist(r.una, r.acked) {
		r.window.acked(dist(r.acked, upTo))
		r.acked = upTo
		q.judgePeer()
	}
	q.settle(now)
	return dist(before, r.una) >= dist(before, upTo)
}

// settle completes requests in order, as far as they are executed and answered.
func (q *QP) settle(now clock.Time) {
	r := &q.req
	before := r.una
	for r.una != r.high {
		w := q.sq.at(r.compl)
		if w.answered() {
			for r.losses != nil && w.done < w.npkts && r.losses.got.has(w.first.Add(w.done)) {
				w.done++
			}
			if w.done < w.npkts {
				q.moveUna(w.first.Add(w.done))
				break
			}
		} else if dist(r.una, w.end()) > dist(r.una, r.acked) {
			q.moveUna(r.acked)
			break
		}
		q.complete(w)
	}
	if r.una != before {
		q.progress(now)
	}
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
	n := dist(r.una, psn)
	if n == 0 {
		return
	}
	behind := dist(r.una, r.next) < n
	if dist(r.una, r.acked) < n {
		r.acked = psn
	}
	if r.losses != nil {
		r.losses.forget(r.una, n)
	}
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
	r.probe.progress(now, r.una)
	q.restartTimers(now)
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

// handleReadResponse places READ data and completes the READ with its last packet.
func (q *QP) handleReadResponse(now clock.Time, p *bth.Packet) bth.Drop {
	r := &q.req
	if p.Flags.Any(bth.HasAETH) {
		if !p.AETH.Syndrome.IsAck() {
			return bth.DropSyndrome
		}
		q.takeCredits(p)
	}
	i, pkt := q.find(p.PSN)
	w := q.sq.at(i)
	if w.op != WRRead {
		q.acknowledge(now, p.PSN)
		return bth.DropResponse
	}
	q.acknowledge(now, w.end())
	ahead := p.PSN != r.una
	if ahead && !q.mayTakeAhead(p.PSN) {
		q.missing(now, p.PSN)
		return bth.DropResponse
	}
	mtu := uint32(q.attr.PathMTU)
	off := pkt * mtu
	want := min(w.length-off, mtu)
	last := pkt+1 == w.npkts
	// A responder that answers a repeated READ may call any packet but the final
	// one First or Middle, and the final one Last or Only. Where part of it was asked
	// for again, the end of that part is called so too.
	if ends := p.Flags.Any(bth.Ends); len(p.Payload) != int(want) || last && !ends || !last && ends && !w.inParts {
		q.fail(i, StatusBadRespErr)
		return bth.DropNone
	}
	if q.scatter(q.sq.sgl(i), off, p.Payload) != memreg.FaultNone {
		q.fail(i, StatusLocProtErr)
		return bth.DropNone
	}
	if ahead {
		q.takeAhead(now, p.PSN)
		return bth.DropNone
	}
	w.done++
	q.settle(now)
	return bth.DropNone
}

// handleAtomicAck stores the original value and completes the atomic.
func (q *QP) handleAtomicAck(now clock.Time, p *bth.Packet) bth.Drop {
	r := &q.req
	if !p.AETH.Syndrome.IsAck() {
		return bth.DropSyndrome
	}
	q.takeCredits(p)
	i, _ := q.find(p.PSN)
	w := q.sq.at(i)
	if w.op != WRCompareSwap && w.op != WRFetchAdd {
		q.acknowledge(now, p.PSN)
		return bth.DropResponse
	}
	q.acknowledge(now, w.end())
	ahead := p.PSN != r.una
	if ahead && !q.mayTakeAhead(p.PSN) {
		q.missing(now, p.PSN)
		return bth.DropResponse
	}
	var original [8]byte
	binary.NativeEndian.PutUint64(original[:], p.AtomicAck)
	if q.scatter(q.sq.sgl(i), 0, original[:]) != memreg.FaultNone {
		q.fail(i, StatusLocProtErr)
		return bth.DropNone
	}
	if ahead {
		q.takeAhead(now, p.PSN)
		return bth.DropNone
	}
	w.done++
	q.settle(now)
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
	back := r.una
	switch {
	case whole:
		if !q.spendRNRRetry() {
			return bth.DropNone
		}
		r.retriesLeft = q.attr.RetryCnt // the packet arrived: what was lost on the way to here is made good
	case q.cfg.Recovery.Selective:
		// An answer before it went missing, which costs a retry as ever and is asked for
		// when the receiver is ready.
		if q.missing(now, p.PSN); q.State() == StateErr {
			return bth.DropNone
		}
		back = p.PSN
	case !r.recovering && !q.spendRetry():
		return bth.DropNone
	}
	q.goBack(back)
	r.recovering = false
	r.rnrWait, r.rnrPSN = true, p.PSN
	r.rnrUntil = now.Add(p.AETH.Syndrome.RNRTimer())
	r.ackDeadline, r.probe.at = clock.Never, clock.Never
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
	default:
		if !whole {
			q.missing(now, p.PSN)
		}
		q.gap(p.PSN, whole)
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

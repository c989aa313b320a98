package transport

import (
	"time"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/memreg"
)

// requester turns send work requests into request packets (IBA 9.9). Of the
// send queue's slots, those before compl are complete, those from compl to cur
// have been sent at least in part.
type requester struct {
	cur   uint32  // slot the next packet comes from
	pkt   uint32  // which packet of it
	compl uint32  // oldest slot not complete
	next  bth.PSN // PSN of the next packet: that of packet pkt of slot cur
	high  bth.PSN // one past the highest PSN ever sent
	una   bth.PSN // oldest PSN not acknowledged
	acked bth.PSN // before it everything was executed, though answers may be missing

	outstanding uint32 // READs and atomics sent and not answered
	silent      uint32 // slots freed without a completion since the last one
	sinceAckReq uint32 // packets sent since one that asked for an acknowledgement

	ssn         uint32 // messages started
	limit       uint32 // highest ssn the peer's credits allow
	limited     bool   // the peer gives credits
	retriesLeft uint8
	rnrLeft     uint8
	// recovering: una was resent because of a NAK, or of a response that went
	// missing. Until una moves or time runs out, further signs of the same loss are
	// echoes of packets sent before, and are not acted on.
	recovering bool
	drained    bool // EventSQDrained is to be raised when nothing is in progress

	rnrWait bool    // an RNR NAK holds all requests back until rnrUntil
	rnrPSN  bth.PSN // the packet that NAK was for

	rnrUntil    clock.Time
	ackDeadline clock.Time

	losses *losses // nil until something was lost
	probe  probe
	window window
}

func (r *requester) reset(c *Config) {
	*r = requester{rnrUntil: clock.Never, ackDeadline: clock.Never}
	r.probe.reset()
	r.window.start(c)
}

// dist returns how many PSNs lie from a to b, going forward.
func dist(a, b bth.PSN) uint32 { return uint32(b-a) & 0xFFFFFF }

// start prepares the requester for RTS.
func (q *QP) startRequester() {
	r := &q.req
	at := q.sq.head.Load()
	r.reset(&q.cfg)
	r.cur, r.compl = at, at
	r.next, r.high, r.una, r.acked = q.attr.SQPSN, q.attr.SQPSN, q.attr.SQPSN, q.attr.SQPSN
	r.retriesLeft, r.rnrLeft = q.attr.RetryCnt, q.attr.RNRRetry
}

// nextRequest fills out with the next request packet.
func (q *QP) nextRequest(now clock.Time, out *Out) bool {
	r := &q.req
	switch q.State() {
	case StateRTS, StateSQD:
	default:
		return false
	}
	if r.rnrWait {
		return false
	}
	if r.losses != nil && q.nextRepair(now, out) {
		return true
	}
	if r.cur == q.sq.tail.Load() {
		return false
	}
	w := q.sq.at(r.cur)
	if !w.started {
		if !q.mayStart(w) {
			return false
		}
		if w.answered() && q.writable(q.sq.sgl(r.cur)) != memreg.FaultNone {
			q.failLocally(r.cur)
			return false
		}
		q.startWQE(w)
	} else if dist(r.una, r.next) >= r.window.size {
		r.window.blocked = true
		return false
	}

	resend := dist(r.una, r.next) < dist(r.una, r.high)
	q.startRequest(out, r.next, resend)
	span := uint32(1)
	if w.answered() {
		// A READ that was answered in part asks for the rest (IBA 9.7.5.1.2 lets it).
		span = w.npkts - w.done
		q.buildAnswered(w, w.done, span, out)
	} else if !q.buildData(r.cur, r.pkt, out) {
		q.failLocally(r.cur)
		return false
	}
	r.next = r.next.Add(span)
	if dist(r.una, r.next) > dist(r.una, r.high) {
		r.high = r.next
	}
	r.pkt += span
	if r.pkt >= w.npkts {
		r.cur++
		r.pkt = 0
	}
	r.sinceAckReq++
	if out.AckReq || resend && out.PSN == r.una && q.cfg.Recovery.Selective || r.sinceAckReq >= q.ackEvery() || dist(r.una, r.next) >= r.window.size {
		out.AckReq = true
		r.sinceAckReq = 0
	}
	if resend {
		r.probe.timeAgain(out.PSN, now)
	} else {
		r.probe.time(out.PSN, now)
	}
	q.startTimers(now, out.PSN)
	return true
}

// startRequest fills in what the headers of every request have in common.
func (q *QP) startRequest(out *Out, psn bth.PSN, resend bool) {
	out.Headers = bth.Headers{Header: bth.Header{
		MigReq: true,
		PKey:   bth.DefaultPKey,
		DestQP: q.attr.DestQPN,
		PSN:    psn,
	}}
	out.Payload = out.Payload[:0]
	out.Length = 0
	out.Copy = false
	out.Retransmit = resend
	if resend {
		q.ctr.Retransmits++
	}
}

// ackEvery is how many packets may pass without asking for an acknowledgement:
// often enough that the window never runs dry for want of one.
func (q *QP) ackEvery() uint32 { return max(q.req.window.size/4, 1) }

// readAhead is how many windows of PSNs may be taken when a READ or atomic is sent.
const readAhead = 4

// mayStart reports whether a request not sent before may be sent now.
func (q *QP) mayStart(w *sendWQE) bool {
	r := &q.req
	if q.State() == StateSQD {
		return false
	}
	if w.flags&Fence != 0 && r.outstanding > 0 {
		return false
	}
	if w.answered() && r.outstanding >= uint32(q.attr.MaxRdAtomic) {
		return false
	}
	inFlight := dist(r.una, r.next)
	// One message beyond the credits may go, so that the peer's answer tells of new
	// ones (IBA 9.7.7.2.5); and one may always go when nothing else will be answered,
	// for a peer that counts its messages otherwise.
	if r.limited && inFlight > 0 && w.consumesReceive() && int32(r.ssn-r.limit)<<8 > 0 {
		return false
	}
	limit := r.window.size
	if w.answered() && q.cfg.Recovery.Selective {
		// What a READ brings comes at the peer's pace, and the peer should have the next one before it
		// is through with this: MAX_QP_RD_ATOMIC is the limit that was agreed.
		limit *= readAhead
	}
	if inFlight >= limit {
		r.window.blocked = true
		return false
	}
	return inFlight+q.packets(w.length) <= bth.MaxPSNDistance
}

// consumesReceive reports whether the peer needs a posted receive for the request.
func (w *sendWQE) consumesReceive() bool {
	switch w.op {
	case WRSend, WRSendImm, WRSendInv, WRWriteImm:
		return true
	}
	return false
}

// packets returns how many packets a message of length bytes takes.
func (q *QP) packets(length uint32) uint32 {
	mtu := uint64(q.attr.PathMTU)
	return max(uint32((uint64(length)+mtu-1)/mtu), 1)
}

// startWQE gives the request its PSNs.
func (q *QP) startWQE(w *sendWQE) {
	w.started = true
	w.first = q.req.next
	w.npkts = 1
	if w.op != WRCompareSwap && w.op != WRFetchAdd {
		w.npkts = q.packets(w.length)
	}
	q.req.ssn++
	w.ssn = q.req.ssn
	if w.answered() {
		q.req.outstanding++
	}
}

// buildData makes packet pkt of the SEND or WRITE in slot i. It reports false when the
// local memory is not there.
func (q *QP) buildData(i, pkt uint32, out *Out) bool {
	w := q.sq.at(i)
	mtu := uint32(q.attr.PathMTU)
	off := pkt * mtu
	n := min(mtu, w.length-off)
	last := pkt+1 == w.npkts
	if n > 0 {
		if w.flags&Inline != 0 {
			out.Payload = append(out.Payload, q.sq.inline(i)[off:off+n])
		} else {
			var fault memreg.Fault
			out.Payload, fault = q.gather(out.Payload, q.sq.sgl(i), off, n)
			if fault != memreg.FaultNone {
				return false
			}
		}
	}
	out.Length = int(n)
	out.Pad = uint8(-n & 3)
	out.Opcode = dataOpcode(w.op, pkt == 0, last)
	if last {
		out.AckReq = true
		out.SE = w.flags&Solicited != 0 && w.consumesReceive()
		out.Imm, out.Inv = w.imm, w.imm
	}
	if pkt == 0 {
		out.RETH = bth.RETH{VA: w.remoteAddr, RKey: uint32(w.rkey), Length: w.length}
	}
	return true
}

// dataOpcode returns the opcode of a SEND or WRITE packet by its place in the message.
func dataOpcode(op WROpcode, first, last bool) bth.Opcode {
	write := op == WRWrite || op == WRWriteImm
	switch {
	case first && !last && write:
		return bth.RCWriteFirst
	case first && !last:
		return bth.RCSendFirst
	case !last && write:
		return bth.RCWriteMiddle
	case !last:
		return bth.RCSendMiddle
	}
	only, end := bth.RCSendOnly, bth.RCSendLast
	switch op {
	case WRSendImm:
		only, end = bth.RCSendOnlyImm, bth.RCSendLastImm
	case WRSendInv:
		only, end = bth.RCSendOnlyInvalidate, bth.RCSendLastInvalidate
	case WRWrite:
		only, end = bth.RCWriteOnly, bth.RCWriteLast
	case WRWriteImm:
		only, end = bth.RCWriteOnlyImm, bth.RCWriteLastImm
	}
	if first {
		return only
	}
	return end
}

// buildAnswered makes a READ or atomic request; of a READ for n packets of the response
// from packet pkt on.
func (q *QP) buildAnswered(w *sendWQE, pkt, n uint32, out *Out) {
	out.AckReq = true
	switch w.op {
	case WRRead:
		out.Opcode = bth.RCReadRequest
		mtu := uint64(q.attr.PathMTU)
		from := uint64(pkt) * mtu
		length := min(uint64(n)*mtu, uint64(w.length)-from)
		out.RETH = bth.RETH{VA: w.remoteAddr + from, RKey: uint32(w.rkey), Length: uint32(length)}
		if w.length == 0 {
			out.RETH.RKey = 0 // rdma_rxe 6.2 and later never answer a duplicate of one with a key
		}
	case WRCompareSwap:
		out.Opcode = bth.RCCompareSwap
		out.AtomicETH = bth.AtomicETH{VA: w.remoteAddr, RKey: uint32(w.rkey), SwapAdd: w.swap, Compare: w.compareAdd}
	default:
		out.Opcode = bth.RCFetchAdd
		out.AtomicETH = bth.AtomicETH{VA: w.remoteAddr, RKey: uint32(w.rkey), SwapAdd: w.compareAdd}
	}
}

// seek makes the packet with PSN psn the next one to send. psn lies from una to high.
func (q *QP) seek(psn bth.PSN) {
	r := &q.req
	r.cur, r.pkt = q.find(psn)
	r.next = psn
}

// find returns the slot that the PSN belongs to and which packet of it that is; for
// high that may be the first packet of a request not started.
func (q *QP) find(psn bth.PSN) (slot, pkt uint32) {
	i := q.req.compl
	for tail := q.sq.tail.Load(); i != tail; i++ {
		w := q.sq.at(i)
		if !w.started {
			break
		}
		if off := dist(w.first, psn); off < w.npkts {
			return i, off
		}
	}
	return i, 0
}

// goBack resends everything from psn on, which lies from una to high.
func (q *QP) goBack(psn bth.PSN) {
	r := &q.req
	q.seek(psn)
	r.sinceAckReq = 0
	r.ackDeadline = clock.Never // armed again by the first packet resent
	if r.losses != nil {
		r.losses.forgetFrom(psn, dist(psn, r.high))
	}
}

// failLocally ends the queue pair over the request in slot i, whose memory or key is
// not what its gather list says. While others before it are incomplete it does
// nothing: they complete as if all were well, and then the fault is found again.
func (q *QP) failLocally(i uint32) {
	if i == q.req.compl {
		q.fail(i, StatusLocProtErr)
	}
}

// fail ends the queue pair over the request in slot i, the only one that completes
// with a status of its own; the others are flushed.
func (q *QP) fail(i uint32, s Status) {
	q.sq.at(i).status = s
	q.toError()
}

// ackTimeoutFactor stretches the ACK timeout of the attribute T to the time until
// a loss is detected, which IBA 9.7.6.1.3 puts between T and 4T. A software peer
// may be off its CPU for a while; a retransmission it did not need costs more than
// the wait.
const ackTimeoutFactor = 3

// AckTimeout returns how long a queue pair with this timeout attribute waits for
// progress before it resends; 0 means it waits for ever.
func AckTimeout(timeout uint8) time.Duration {
	if timeout == 0 {
		return 0
	}
	return ackTimeoutFactor * (4096 * time.Nanosecond << (timeout & 31))
}

// RetryTime returns the longest time between the first transmission to a peer
// that never answers and the completion with RETRY_EXC_ERR; 0 means for ever.
func RetryTime(timeout, retryCnt uint8) time.Duration {
	return AckTimeout(timeout) * time.Duration(retryCnt+1)
}

func (q *QP) ackDeadline(now clock.Time) clock.Time {
	t := AckTimeout(q.attr.Timeout)
	if t == 0 {
		return clock.Never
	}
	return now.Add(t)
}

// startTimers starts what is to happen unless the packet just sent, psn, is answered.
func (q *QP) startTimers(now clock.Time, psn bth.PSN) {
	r := &q.req
	if r.ackDeadline == clock.Never {
		r.ackDeadline = q.ackDeadline(now)
	}
	if r.probe.at == clock.Never {
		r.probe.asked = now
	}
	if r.probe.at == clock.Never || psn == r.una {
		r.probe.at = q.probeDeadline(now)
	}
}

// restartTimers starts them anew if the peer still owes an answer.
func (q *QP) restartTimers(now clock.Time) {
	r := &q.req
	r.ackDeadline, r.probe.at = clock.Never, clock.Never
	if r.una != r.high && !r.rnrWait {
		r.ackDeadline = q.ackDeadline(now)
		r.probe.at = q.probeDeadline(now)
	}
}

// NextTimeout returns when HandleTimeout is due, or clock.Never.
func (q *QP) NextTimeout() clock.Time {
	r := &q.req
	t := min(r.rnrUntil, r.ackDeadline, r.probe.at, q.resp.nakAt)
	if r.losses != nil {
		t = min(t, r.losses.missingAt)
	}
	return t
}

// HandleTimeout acts on timers that have run out by now. A call too early, or
// for no reason, does nothing.
func (q *QP) HandleTimeout(now clock.Time) {
	r := &q.req
	if r.rnrUntil <= now {
		r.rnrUntil = clock.Never
		r.rnrWait = false
	}
	if q.resp.nakAt <= now {
		q.reorderWindowOver()
	}
	if l := r.losses; l != nil && l.missingAt <= now {
		l.missingAt = clock.Never
		q.resendMissing(l.missingTo)
	}
	if r.ackDeadline <= now {
		r.ackDeadline = clock.Never
		q.ctr.Timeouts++
		r.window.lost(lostAgain)
		q.retry()
		r.recovering = false
	}
	if r.probe.at <= now {
		q.sendProbe(now)
	}
}

// retry resends everything not acknowledged at the cost of a retry, or gives up.
func (q *QP) retry() {
	if q.spendRetry() {
		q.goBack(q.req.una)
	}
}

// spendRetry uses up one of RETRY_CNT; when none is left the oldest request fails.
func (q *QP) spendRetry() bool {
	r := &q.req
	if r.retriesLeft == 0 {
		q.fail(r.compl, StatusRetryExcErr)
		return false
	}
	r.retriesLeft--
	return true
}

package transport

import (
	"fmt"
	"testing"

	"github.com/go-roce/roce/clock"
)

// checkInvariants fails unless what must hold between any two calls does.
func checkInvariants(t testing.TB, q *QP) {
	t.Helper()
	if err := brokenInvariant(q); err != "" {
		t.Fatalf("%v: %s", q, err)
	}
}

// brokenInvariant says what does not hold, or nothing.
func brokenInvariant(q *QP) string {
	r, sq := &q.req, &q.sq
	head, tail := sq.head.Load(), sq.tail.Load()
	switch state := q.State(); {
	case tail-head > sq.depth:
		return fmt.Sprintf("%d work requests in a send queue of %d", tail-head, sq.depth)
	case q.rq.tail.Load()-q.rq.head.Load() > q.rq.depth, q.rq.cur-q.rq.head.Load() > q.rq.depth, q.rq.available() < 0:
		return fmt.Sprintf("receive queue: head %d, cur %d, tail %d", q.rq.head.Load(), q.rq.cur, q.rq.tail.Load())
	case state != StateRTS && state != StateSQD:
		if q.NextTimeout() != clock.Never {
			return "a timer is armed"
		}
		return ""
	case r.compl-head > tail-head, r.cur-r.compl > tail-r.compl:
		return fmt.Sprintf("send queue: head %d, complete to %d, sent to %d, tail %d", head, r.compl, r.cur, tail)
	case r.rnrWait != (r.rnrUntil != clock.Never), r.rnrWait && r.ackDeadline != clock.Never:
		return fmt.Sprintf("RNR wait %v until %d, ACK timer %d", r.rnrWait, r.rnrUntil, r.ackDeadline)
	case r.una == r.high && r.ackDeadline != clock.Never:
		return "the ACK timer is armed with nothing outstanding"
	case (r.una == r.high || r.rnrWait) && r.probe.at != clock.Never:
		return "a probe is due with nothing outstanding"
	case dist(r.una, r.acked) > dist(r.una, r.high):
		return fmt.Sprintf("una %d, acked %d, high %d", r.una, r.acked, r.high)
	case dist(r.una, r.next) > dist(r.una, r.high):
		return fmt.Sprintf("una %d, next %d, high %d", r.una, r.next, r.high)
	case r.outstanding > uint32(q.attr.MaxRdAtomic):
		return fmt.Sprintf("%d READs and atomics are outstanding, %d may be", r.outstanding, q.attr.MaxRdAtomic)
	}
	// The started requests lie behind each other in PSN space, and only they count.
	psn, answered, i := r.una, uint32(0), r.compl
	for ; i != tail && sq.at(i).started; i++ {
		w := sq.at(i)
		if i == r.compl && dist(w.first, r.una) >= w.npkts || i != r.compl && w.first != psn {
			return fmt.Sprintf("request %d begins at PSN %d, want %d", i-head, w.first, psn)
		}
		if i == r.cur && w.first.Add(r.pkt) != r.next {
			return fmt.Sprintf("packet %d of the request at PSN %d is not the next, %d", r.pkt, w.first, r.next)
		}
		if w.done > 0 && i != r.compl || w.done >= w.npkts || i == r.compl && w.done > 0 && w.first.Add(w.done) != r.una {
			return fmt.Sprintf("READ at PSN %d has %d of %d responses, una is %d", w.first, w.done, w.npkts, r.una)
		}
		if w.answered() {
			answered++
		}
		psn = w.end()
	}
	if answered != r.outstanding {
		return fmt.Sprintf("%d READs and atomics are outstanding, %d are counted", answered, r.outstanding)
	}
	if i != tail && sq.at(i).done != 0 {
		return "a request that was not started has responses"
	}
	if l := r.losses; l != nil {
		for p := range uint32(psnSpan) {
			psn := r.una.Add(p)
			inFlight := p < dist(r.una, r.high)
			if l.want.has(psn) && !l.asked.has(psn) || !inFlight && (l.asked.has(psn) || l.got.has(psn)) || p == 0 && l.got.has(psn) {
				return fmt.Sprintf("PSN %d, %d behind una: got %v, asked %v, wanted %v", psn, p, l.got.has(psn), l.asked.has(psn), l.want.has(psn))
			}
		}
	}
	if held := q.resp.held.list; len(held) > q.cfg.Recovery.Hold {
		return fmt.Sprintf("%d packets are held, at most %d may be", len(held), q.cfg.Recovery.Hold)
	}
	for i, x := range q.resp.held.list {
		before := q.resp.epsn
		if i > 0 {
			before = q.resp.held.list[i-1].packet.PSN
		}
		if !before.Before(x.packet.PSN) {
			return fmt.Sprintf("PSN %d is held behind %d", x.packet.PSN, before)
		}
	}
	a := &q.resp.answers
	for i, x := range a.pending() {
		if i > 0 && x.psn.Before(a.pending()[i-1].next()) {
			return fmt.Sprintf("PSN %d is owed behind %d", x.psn, a.pending()[i-1].psn)
		}
		if x.sent >= x.npkts {
			return fmt.Sprintf("%d of %d packets of the answer at PSN %d are sent, yet it is owed", x.sent, x.npkts, x.psn)
		}
		if x.kind == answerNAK && (i != len(a.pending())-1 || !q.resp.quiet) {
			return "a NAK is owed that is not the last"
		}
	}
	return ""
}

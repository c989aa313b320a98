package transport

import (
	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
)

// losses is what a requester knows of packets that were lost. There is nothing to
// negotiate: answers are known to be missing because answers come in order, and a peer
// that keeps packets behind a gap gives itself away by acknowledging past it.
type losses struct {
	got   psnSet // answers that came before one that is missing
	asked psnSet // sent again, for they or their answers are missing
	want  psnSet // those of asked that are still to be sent
	// turn numbers the requests sent again; turns has for each of asked the one it was last
	// asked for by, at its PSN modulo psnSpan. What answers one request proves those before it lost.
	turn  uint16
	turns [psnSpan]uint16

	// checked: answers before it are there or asked for.
	checked bth.PSN
	// missingTo: when missingAt comes, answers before it are taken for lost.
	missingTo bth.PSN
	missingAt clock.Time

	peer peerKind
	// trial: of a gap only the first packet, which ends at tried, was sent again to see what
	// the peer does.
	trial bool
	tried bth.PSN
	// naked: it did so because of a NAK, not because of silence, so the peer cannot have had that packet.
	naked bool
	// untilTrial gaps from now the peer is tried again, pause gaps after that once more.
	untilTrial, pause uint32

	// any: something was lost, as a NAK or an answer ahead of its turn tells.
	any bool
	// hole is where the last gap began, repaired where its repair ended.
	hole, repaired bth.PSN
	repairLen      uint32
	// adjacent repairs in a row began where the one before ended.
	adjacent uint32

	// The peer has reported to hold packets from runStart on, and to runEnd if ended.
	runStart, runEnd bth.PSN
	ended            bool
	// filled is the turn of the packet sent again that filled the oldest gap.
	filled uint16
}

// peerKind is what a requester has seen its peer do with packets behind a gap.
type peerKind uint8

const (
	peerUnknown peerKind = iota
	peerHolds
	peerDrops
)

func (q *QP) lossesSoFar() *losses {
	r := &q.req
	if r.losses == nil {
		r.losses = &losses{checked: r.una, hole: r.una, repaired: r.una, runStart: r.una.Prev(), missingAt: clock.Never}
	}
	return r.losses
}

// forget takes out n PSNs from psn on, which are done.
func (l *losses) forget(psn bth.PSN, n uint32) {
	if l.asked.has(psn) {
		l.filled = l.turns[psn%psnSpan]
	}
	l.got.removeRange(psn, n)
	l.asked.removeRange(psn, n)
	l.want.removeRange(psn, n)
	if end := psn.Add(n); l.checked.Before(end) {
		l.checked = end
	}
}

// forgetFrom forgets what was to be sent again of the n packets from psn on: all of them will be.
func (l *losses) forgetFrom(psn bth.PSN, n uint32) {
	l.asked.removeRange(psn, n)
	l.want.removeRange(psn, n)
	if psn.Before(l.checked) {
		l.checked = psn
	}
	l.trial = false
	l.missingAt = clock.Never
}

// mayTakeAhead reports whether the answer with this PSN can be taken although one before it
// is missing.
func (q *QP) mayTakeAhead(psn bth.PSN) bool {
	return q.cfg.Recovery.Selective && dist(q.req.una, psn) < psnSpan && !q.lossesSoFar().got.has(psn)
}

// takeAhead notes an answer that has been placed, and what its coming says of those before it.
func (q *QP) takeAhead(now clock.Time, psn bth.PSN) {
	l := q.lossesSoFar()
	l.got.add(psn)
	l.want.remove(psn)
	if l.asked.has(psn) {
		q.resendOverdue(psn)
	}
	q.missing(now, psn)
}

// resendOverdue asks once more for answers that were asked for before the one with PSN psn, which came.
func (q *QP) resendOverdue(psn bth.PSN) {
	r, l := &q.req, q.req.losses
	turn := l.turns[psn%psnSpan]
	for p := r.una; p != psn; p = p.Next() {
		if !l.asked.has(p) || l.got.has(p) || l.want.has(p) || int16(turn-l.turns[p%psnSpan]) < 0 {
			continue
		}
		if p == r.una && !q.spendRetry() {
			return
		}
		r.window.lost(lostAgain)
		l.want.add(p)
	}
}

// missing is told that something behind upTo was answered: answers before it that have not come are
// lost (IBA 9.7.5.2.1, the implied NAK), or late, which the reorder window allows for.
func (q *QP) missing(now clock.Time, upTo bth.PSN) {
	r := &q.req
	if n := dist(r.una, upTo); n == 0 || n > dist(r.una, r.high) {
		return
	}
	if !q.cfg.Recovery.Selective {
		q.impliedNAK()
		return
	}
	l := q.lossesSoFar()
	if wait := q.cfg.Recovery.ReorderWindow; wait > 0 {
		if l.missingAt == clock.Never {
			l.missingAt, l.missingTo = now.Add(wait), upTo
		}
		return
	}
	q.resendMissing(upTo)
}

// impliedNAK goes back to the request whose answer is missing.
func (q *QP) impliedNAK() {
	r := &q.req
	if r.recovering || r.rnrWait {
		return
	}
	q.ctr.ImpliedNAKs++
	q.retry()
	r.recovering = true
}

// resendMissing marks the answers before upTo that are missing to be asked for again. That costs a
// retry when the oldest is among them: the others do not decide when to give up.
func (q *QP) resendMissing(upTo bth.PSN) {
	r, l := &q.req, q.req.losses
	end := min(dist(r.una, upTo), psnSpan)
	at := dist(r.una, l.checked)
	if end > dist(r.una, r.high) || at >= end {
		return
	}
	marked := false
	for i, pkt := q.find(l.checked); at < end; i, pkt = i+1, 0 {
		w := q.sq.at(i)
		if !w.answered() {
			at += w.npkts - pkt
			continue
		}
		for ; pkt < w.npkts && at < end; pkt, at = pkt+1, at+1 {
			p := r.una.Add(at)
			if l.got.has(p) || l.asked.has(p) {
				continue
			}
			if at == 0 && !q.spendRetry() {
				return
			}
			marked = true
			l.asked.add(p)
			l.want.add(p)
		}
	}
	upTo = r.una.Add(end)
	l.checked = upTo
	if marked {
		l.any, l.hole = true, r.una
		q.ctr.ImpliedNAKs++
		r.window.lost(lostOnce)
	}
}

// gap acts on a sequence NAK: the peer waits for the request with PSN psn. oldest says that everything
// before it is done.
func (q *QP) gap(psn bth.PSN, oldest bool) {
	r := &q.req
	if r.rnrWait || q.State() == StateErr {
		return
	}
	if !q.cfg.Recovery.Selective {
		if oldest && !r.recovering {
			q.retry()
			r.recovering = true
		}
		return
	}
	l := q.lossesSoFar()
	l.any = true
	if l.trial && psn == l.tried {
		if !oldest || q.spendRetry() {
			q.peerDropped()
		}
		return
	}
	if l.asked.has(psn) && int16(l.filled-l.turns[psn%psnSpan]) > 0 {
		// What was sent again after it has arrived.
		r.window.lost(lostAgain)
		l.want.add(psn)
		return
	}
	if r.recovering && oldest || l.asked.has(psn) || dist(r.una, r.next) <= dist(r.una, psn) {
		return // an echo, or about to be sent anyway
	}
	if oldest && !q.spendRetry() {
		return
	}
	r.probe.knownLost = true
	switch {
	case dist(r.una, psn) >= psnSpan:
		q.goBack(psn)
	case l.peer == peerHolds:
		q.repairGap(psn)
	case l.peer == peerUnknown || l.untilTrial == 0:
		q.try(psn, true)
	default:
		l.untilTrial--
		r.window.lostAt(dist(l.hole, psn))
		l.hole = psn
		q.goBack(psn)
		r.recovering = true
	}
}

// try sends only the first packet of a gap again, to see what the peer does.
func (q *QP) try(psn bth.PSN, naked bool) {
	q.repair(psn, 1)
	l := q.req.losses
	l.naked = naked
	l.trial = l.repaired != q.req.high
	l.tried = l.repaired
}

// judgePeer looks at how far the peer has got after only the first packet of a gap was sent
// again. If it had kept those behind, it gets further than that packet.
func (q *QP) judgePeer() {
	r, l := &q.req, q.req.losses
	if l == nil || !l.trial {
		return
	}
	switch past := dist(r.una, r.acked) - dist(r.una, l.tried); {
	case int32(past) > 0:
		l.trial = false
		if l.naked {
			l.peer, l.pause, l.adjacent = peerHolds, 0, 0
			r.window.widen(&q.cfg)
		}
	case past == 0:
		// Of a READ this is known from its first response, while the peer has yet to come
		// to what is behind.
		if i, _ := q.find(l.tried.Prev()); !q.sq.at(i).answered() {
			q.peerDropped()
		}
	}
}

// peerDropped is the verdict that the peer has not kept what was behind the packet sent again. The next one may just have been
// lost as well, so it is tried again, ever more rarely.
func (q *QP) peerDropped() {
	r, l := &q.req, q.req.losses
	l.trial = false
	l.peer, l.adjacent = peerDrops, 0
	l.pause = min(max(2*l.pause, 4), 1024)
	l.untilTrial = l.pause
	if !r.rnrWait {
		q.goBack(l.tried)
		r.recovering = true
	}
}

// burstLength is how many times a repair that did not reach far enough is made twice as
// long before the peer is taken for one that has ceased to keep packets.
const burstLength = 4

// repairGap sends what is missing at psn to a peer that has the packets behind it. A gap that begins where
// the last repair ended is a burst: twice as many as last time.
func (q *QP) repairGap(psn bth.PSN) {
	r, l := &q.req, q.req.losses
	n := uint32(1)
	if psn == l.repaired {
		if l.adjacent++; l.adjacent > burstLength {
			l.tried = psn
			q.peerDropped()
			return
		}
		n = 2 * l.repairLen
	} else {
		l.adjacent = 0
	}
	l.hole = psn
	q.repair(psn, n)
	r.window.lost(lostOnce)
}

// repair marks up to n packets from psn on to be sent again before anything else.
func (q *QP) repair(psn bth.PSN, n uint32) {
	l := q.lossesSoFar()
	l.repaired = q.mark(psn, n, q.req.high, true)
	l.repairLen = dist(psn, l.repaired)
}

// mark marks up to n packets from psn on and before end to be sent again, also if they were already
// or only if not. A READ the peer may not have seen is one packet. It returns where it stopped.
func (q *QP) mark(psn bth.PSN, n uint32, end bth.PSN, again bool) bth.PSN {
	r, l := &q.req, q.lossesSoFar()
	limit := min(dist(r.una, end), psnSpan)
	at := dist(r.una, psn)
	for i, pkt := q.find(psn); n > 0 && at < limit; n-- {
		w, step := q.sq.at(i), uint32(1)
		p := r.una.Add(at)
		if w.op == WRRead && !q.seen(w) {
			step = w.npkts - pkt
			p = w.first
		}
		if !l.got.has(p) && (again || !l.asked.has(p)) {
			l.asked.add(p)
			l.want.add(p)
		}
		at += step
		if pkt += step; pkt == w.npkts {
			i, pkt = i+1, 0
		}
	}
	return r.una.Add(at)
}

// seen reports whether the peer is known to have executed w.
func (q *QP) seen(w *sendWQE) bool {
	r := &q.req
	return w.done > 0 || dist(r.una, w.first) < dist(r.una, r.acked)
}

// nextRepair fills out with the oldest packet that is to be sent again.
func (q *QP) nextRepair(now clock.Time, out *Out) bool {
	r, l := &q.req, q.req.losses
	psn, ok := l.want.first(r.una, dist(r.una, r.high))
	if !ok {
		return false
	}
	i, pkt := q.find(psn)
	w := q.sq.at(i)
	l.want.remove(psn)
	n := uint32(1)
	switch {
	case w.op != WRRead:
	case q.seen(w):
		for pkt+n < w.npkts && l.want.has(psn.Add(n)) {
			n++
		}
		w.inParts = true
	default:
		// The peer may not have seen it, and part of a READ would pass for the whole.
		pkt, n = 0, w.npkts
		psn = w.first
	}
	l.want.removeRange(psn, n)
	l.turn++
	for k := range min(n, psnSpan) {
		l.turns[psn.Add(k)%psnSpan] = l.turn
	}
	q.startRequest(out, psn, true)
	if w.answered() {
		q.buildAnswered(w, pkt, n, out)
	} else if !q.buildData(i, pkt, out) {
		q.failLocally(i)
		return false
	}
	out.AckReq = true
	r.probe.timeAgain(out.PSN, now)
	q.startTimers(now, out.PSN)
	return true
}

// repeatedAck takes an acknowledgement of what was acknowledged before. From a peer that holds packets behind a
// gap it may be a report of what it holds; see handleAhead.
func (q *QP) repeatedAck(p *bth.Packet) {
	r, l := &q.req, q.req.losses
	if l == nil || !q.cfg.Recovery.Selective || l.peer == peerDrops || r.rnrWait || r.una == r.high {
		return
	}
	if !p.Flags.Any(bth.HasAETH) || p.Flags.Any(bth.ReadResponse|bth.HasAtomicAckETH) || !p.AETH.Syndrome.IsAck() {
		return
	}
	switch code := dist(p.PSN.Next(), r.una); {
	case code == 0:
		// It waits for the oldest packet, and its NAK was lost.
		if l.peer == peerHolds && !l.asked.has(r.una) && r.una != r.next && !q.sq.at(r.compl).answered() && q.spendRetry() {
			r.probe.knownLost = true
			q.repairGap(r.una)
		}
	case code/2 < min(dist(r.una, r.high), psnSpan):
		q.reported(r.una.Add(code/2), code%2 == 1)
	}
}

// reported takes the peer's word that it holds the packet with PSN psn, the first or the
// last of some in a row, and sends what is missing between two such rows.
func (q *QP) reported(psn bth.PSN, first bool) {
	r, l := &q.req, q.req.losses
	if !first {
		l.runEnd, l.ended = psn, true
		return
	}
	from := r.una
	known := dist(r.una, l.runStart) < dist(r.una, r.high)
	switch {
	case known && dist(r.una, psn) <= dist(r.una, l.runStart):
		return // told before
	case l.ended && dist(r.una, l.runEnd) < dist(r.una, psn):
		from = l.runEnd.Next()
	case known:
		from = psn.Prev() // the report of where that row ends was lost
	}
	l.runStart, l.ended = psn, false
	q.mark(from, dist(from, psn), psn, false)
}

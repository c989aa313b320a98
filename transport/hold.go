package transport

import (
	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
)

// heldPacket is a copy of a request that came before its turn.
type heldPacket struct {
	packet bth.Packet
	data   []byte // what packet.Payload lies in
}

// HoldPool lends the memory in which queue pairs keep requests behind a gap, to all that one goroutine drives.
type HoldPool struct {
	limit, lent int
	free        []*heldPacket
}

// NewHoldPool makes a pool for at most packets packets. Memory is taken when the
// first are needed, and kept.
func NewHoldPool(packets int) *HoldPool { return &HoldPool{limit: packets} }

// Held returns how many packets are held now.
func (h *HoldPool) Held() int { return h.lent }

func (h *HoldPool) get() *heldPacket {
	if h.lent == h.limit {
		return nil
	}
	h.lent++
	if n := len(h.free); n > 0 {
		x := h.free[n-1]
		h.free = h.free[:n-1]
		return x
	}
	return new(heldPacket)
}

func (h *HoldPool) put(x *heldPacket) {
	h.lent--
	h.free = append(h.free, x)
}

// holdQueue keeps the requests behind a gap, by PSN.
type holdQueue struct {
	list []*heldPacket
}

// place returns where psn belongs and whether it is there already. Most packets come in
// order, so the search is from the end.
func (h *holdQueue) place(psn bth.PSN) (at int, there bool) {
	at = len(h.list)
	for at > 0 {
		p := h.list[at-1].packet.PSN
		if p == psn {
			return at - 1, true
		}
		if p.Before(psn) {
			break
		}
		at--
	}
	return at, false
}

// add keeps a copy of p. It reports false when there is no room.
func (h *holdQueue) add(pool *HoldPool, limit int, p *bth.Packet) bool {
	at, there := h.place(p.PSN)
	if there {
		return true
	}
	if at >= limit {
		return false
	}
	var x *heldPacket
	if len(h.list) == limit {
		// Full of packets still further ahead.
		x = h.list[limit-1]
		h.list = h.list[:limit-1]
	} else if x = pool.get(); x == nil {
		return false
	}
	x.packet = *p
	x.packet.IP = nil
	x.data = append(x.data[:0], p.Payload...)
	x.packet.Payload = x.data
	h.list = append(h.list, nil)
	copy(h.list[at+1:], h.list[at:])
	h.list[at] = x
	return true
}

// take returns the packet with PSN psn if it is there, and forgets those before it. The packet is good until
// it is given back to the pool.
func (h *holdQueue) take(pool *HoldPool, psn bth.PSN) *heldPacket {
	n := 0
	for n < len(h.list) && h.list[n].packet.PSN.Before(psn) {
		pool.put(h.list[n])
		n++
	}
	var x *heldPacket
	if n < len(h.list) && h.list[n].packet.PSN == psn {
		x = h.list[n]
		n++
	}
	if n > 0 {
		rest := copy(h.list, h.list[n:])
		clear(h.list[rest:])
		h.list = h.list[:rest]
	}
	return x
}

// drop forgets everything.
func (h *holdQueue) drop(pool *HoldPool) {
	for i, x := range h.list {
		pool.put(x)
		h.list[i] = nil
	}
	h.list = h.list[:0]
}

// handleAhead takes a request from behind a gap: it is kept if there is room, and the
// peer is told of the gap once.
func (q *QP) handleAhead(now clock.Time, p *bth.Packet) bth.Drop {
	r := &q.resp
	q.ctr.OutOfSequence++
	drop := bth.DropGap
	if r.afterRNR {
		drop = bth.DropRNR
	}
	if limit := q.cfg.Recovery.Hold; limit > 0 {
		if r.held.add(q.cfg.Recovery.Pool, limit, p) {
			q.ctr.OutOfSequenceHeld++
			drop = bth.DropNone
		} else {
			q.ctr.OutOfSequenceFull++
		}
	}
	if !r.quiet {
		q.tellGap(now)
	} else if drop == bth.DropNone && p.AckReq && !r.afterRNR {
		// In case the NAK was lost.
		r.answers.ack(r.epsn.Prev())
	}
	if drop == bth.DropNone && r.quiet && !r.afterRNR {
		if last := len(r.held.list) - 1; r.held.list[last].packet.PSN == p.PSN {
			r.reportRow(last)
		}
	}
	return drop
}

// gapReports are acknowledgements of PSNs acknowledged long ago, which every requester ignores (IBA 9.7.5.1.3)
// that does not know what else they say: which packets behind the gap are held. A NAK names
// one gap at a time, and the next not before that is filled, a round trip later.
//
// One that acknowledges the packet 1+2k before the one waited for says that the k-th behind that is the last
// held in a row, 2+2k that it is the first.
type gapReports struct {
	psns [16]bth.PSN
	n    int
}

// reportRow reports the packet held at index i if it is the first in a row, and the last of the row before.
func (r *responder) reportRow(i int) {
	first := r.held.list[i].packet.PSN
	if i > 0 {
		last := r.held.list[i-1].packet.PSN
		if last.Next() == first {
			return
		}
		r.report(last, 0)
	}
	r.report(first, 1)
}

func (r *responder) report(psn bth.PSN, first uint32) {
	code := 2*dist(r.epsn, psn) + first
	if r.reports.n == len(r.reports.psns) || code >= 2*psnSpan {
		return // the NAKs to come will do
	}
	r.reports.psns[r.reports.n] = r.epsn.Add(-(1 + code))
	r.reports.n++
}

// nextReport fills out with a report, unless that would come between the packets of a READ
// response, where some requesters take any acknowledgement for an error (rdma_rxe before 6.12).
func (q *QP) nextReport(out *Out) bool {
	r := &q.resp
	if r.reports.n == 0 || !r.answers.empty() && r.answers.pending()[0].sent > 0 {
		return false
	}
	q.startResponse(out, r.reports.psns[0])
	out.Opcode = bth.RCAcknowledge
	r.reports.n--
	copy(r.reports.psns[:], r.reports.psns[1:])
	q.ctr.GapReports++
	return true
}

// tellGap sends the NAK of a gap, or lets the reorder window begin.
func (q *QP) tellGap(now clock.Time) {
	r := &q.resp
	wait := q.cfg.Recovery.ReorderWindow
	switch {
	case wait == 0:
		r.quiet = true
		q.nak(bth.NAKSequence, r.epsn)
	case r.nakAt == clock.Never:
		r.nakAt = now.Add(wait)
	}
}

// reorderWindowOver takes what is missing for lost.
func (q *QP) reorderWindowOver() {
	r := &q.resp
	r.nakAt = clock.Never
	if !r.quiet {
		r.quiet = true
		q.nak(bth.NAKSequence, r.epsn)
		for i := range r.held.list {
			r.reportRow(i)
		}
	}
}

// takeHeld executes what was held for the time after the request just executed.
func (q *QP) takeHeld(now clock.Time) {
	r := &q.resp
	pool := q.cfg.Recovery.Pool
	acknowledge := false
	for {
		x := r.held.take(pool, r.epsn)
		if x == nil {
			break
		}
		ok := q.accept(&x.packet)
		acknowledge = !x.packet.Flags.Any(bth.Read | bth.Atomic) // which have answers of their own
		pool.put(x)
		if !ok {
			return
		}
	}
	r.nakAt = clock.Never
	if len(r.held.list) > 0 {
		q.tellGap(now)
	}
	if acknowledge {
		// Asked for or not: the peer learns how far it has got.
		r.answers.ack(r.epsn.Prev())
	}
}

// dropHeld gives up what was held.
func (q *QP) dropHeld() {
	if pool := q.cfg.Recovery.Pool; pool != nil {
		q.resp.held.drop(pool)
	}
}

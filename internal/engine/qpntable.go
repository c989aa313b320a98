package engine

import (
	"fmt"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/link"
)

// qpnTable finds queue pairs by number: an array indexed by the number's low bits. Numbers are
// drawn at random until one falls on a free slot, so every slot holds at
// most one queue pair, a look-up is one load and one comparison, and all bits of a number stay
// unpredictable. The array doubles when half full: numbers that differ in
// their low bits still do with one bit more.
type qpnTable struct {
	slot []*QP
	n    int
	qpns link.QPNRange
}

const minQPNSlots = 64

func newQPNTable(r link.QPNRange) qpnTable {
	return qpnTable{slot: make([]*QP, minQPNSlots), qpns: r}
}

func (t *qpnTable) at(n bth.QPN) **QP { return &t.slot[int(n)&(len(t.slot)-1)] }

// find returns the queue pair with number n, or nil.
func (t *qpnTable) find(n bth.QPN) *QP {
	if q := *t.at(n); q != nil && q.qpn == n {
		return q
	}
	return nil
}

// draw returns a number for one more queue pair.
func (t *qpnTable) draw(random func() uint32) (bth.QPN, error) {
	if 2*(t.n+1) > len(t.slot) && len(t.slot) < 2*maxQPs {
		t.grow()
	}
	free := func(n bth.QPN) bool { return n > bth.QPNGSI && n <= bth.MaxQPN && *t.at(n) == nil }
	if t.n < maxQPs && t.qpns.Count > 0 {
		// In a range of few numbers that is nearly used up luck may take too long: then
		// the next free one must do.
		at := t.qpns.First + random()%t.qpns.Count
		for range 64 {
			if free(bth.QPN(at)) {
				return bth.QPN(at), nil
			}
			at = t.qpns.First + random()%t.qpns.Count
		}
		for i := range t.qpns.Count {
			if n := t.qpns.First + (at-t.qpns.First+i)%t.qpns.Count; free(bth.QPN(n)) {
				return bth.QPN(n), nil
			}
		}
	}
	return 0, fmt.Errorf("no queue pair number is free: there are %d queue pairs, the link gives this queue the %d numbers from 0x%x on and a queue drives at most %d",
		t.n, t.qpns.Count, t.qpns.First, maxQPs)
}

// insert adds q, whose number was drawn since the last insertion.
func (t *qpnTable) insert(q *QP) {
	*t.at(q.qpn) = q
	t.n++
}

func (t *qpnTable) remove(q *QP) {
	*t.at(q.qpn) = nil
	t.n--
}

func (t *qpnTable) grow() {
	old := t.slot
	t.slot = make([]*QP, 2*len(old))
	for _, q := range old {
		if q != nil {
			*t.at(q.qpn) = q
		}
	}
}

// all calls f for each queue pair; f may remove it.
func (t *qpnTable) all(f func(q *QP)) {
	for _, q := range t.slot {
		if q != nil {
			f(q)
		}
	}
}

package transport

import "github.com/go-roce/roce/bth"

// resource remembers an executed READ or atomic so that a duplicate of it can be
// answered: a READ by executing it again, an atomic with the value it returned
// (IBA 9.7.5.1.2).
type resource struct {
	kind     resourceKind
	psn      bth.PSN
	npkts    uint32
	reth     bth.RETH
	original uint64
}

type resourceKind uint8

const (
	resourceNone resourceKind = iota
	resourceRead
	resourceAtomic
)

// replayStore is a ring of the last READs and atomics, as many as the peer may
// have outstanding.
type replayStore struct {
	slots []resource
	next  int // the oldest, to be overwritten next
}

// resize makes room for n, a power of two or 0, and keeps the newest.
func (s *replayStore) resize(n int) {
	slots := make([]resource, n)
	kept := min(len(s.slots), n)
	for i := range kept {
		slots[kept-1-i] = s.slots[(s.next-1-i)&(len(s.slots)-1)]
	}
	*s = replayStore{slots: slots}
	if kept < n {
		s.next = kept
	}
}

// remember overwrites the oldest; the store has room for at least one.
func (s *replayStore) remember(r resource) {
	s.slots[s.next] = r
	s.next = (s.next + 1) & (len(s.slots) - 1)
}

// find returns the newest request whose PSNs include psn: PSNs come round again, and
// between two READs that share one there may be only WRITEs.
func (s *replayStore) find(psn bth.PSN) *resource {
	for i := range s.slots {
		e := &s.slots[(s.next-1-i)&(len(s.slots)-1)]
		if e.kind != resourceNone && dist(e.psn, psn) < e.npkts {
			return e
		}
	}
	return nil
}

// firstAfter returns the PSN of the first request behind psn and before end.
func (s *replayStore) firstAfter(psn, end bth.PSN) (first bth.PSN, ok bool) {
	best := dist(psn, end)
	for i := range s.slots {
		if e := &s.slots[i]; e.kind != resourceNone {
			if d := dist(psn, e.psn); d > 0 && d < best {
				best, first, ok = d, e.psn, true
			}
		}
	}
	return first, ok
}

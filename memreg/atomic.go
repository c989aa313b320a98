package memreg

import "sync/atomic"

// FetchAdd adds to the 8-byte word at virtual address va and returns what was there
// before. The word is in host byte order, add wraps, and the operation is atomic
// towards every other one through sync/atomic, whichever loop or goroutine does it.
// Faults: those of Lookup with RemoteAtomic, FaultBounds, FaultAlign.
func (t *Table) FetchAdd(k Key, pd PD, va, add uint64) (old uint64, f Fault) {
	w, f := t.word(k, pd, va)
	if f != FaultNone {
		return 0, f
	}
	return atomic.AddUint64(w, add) - add, FaultNone
}

// CompareSwap stores swap in the 8-byte word at virtual address va if compare is
// there, and returns what was there before. Byte order, atomicity and faults are
// those of FetchAdd.
func (t *Table) CompareSwap(k Key, pd PD, va, compare, swap uint64) (old uint64, f Fault) {
	w, f := t.word(k, pd, va)
	if f != FaultNone {
		return 0, f
	}
	for {
		old = atomic.LoadUint64(w)
		if old != compare || atomic.CompareAndSwapUint64(w, compare, swap) {
			return old, FaultNone
		}
	}
}

func (t *Table) word(k Key, pd PD, va uint64) (*uint64, Fault) {
	r, f := t.Lookup(k, pd, RemoteAtomic)
	if f != FaultNone {
		return nil, f
	}
	return r.word(va)
}

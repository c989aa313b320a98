package engine

import (
	"math/bits"
	"sync/atomic"
)

// maxQPs is how many queue pairs a loop has at most: as many as there are doorbells.
const maxQPs = 1 << 16

// doorbells is a set of small numbers that any goroutine adds to and the loop
// empties: a tree of bits, so that finding the few that are set among many costs
// three words for each and one load when there is none.
type doorbells struct {
	top  atomic.Uint64
	mid  [maxQPs >> 12]atomic.Uint64
	leaf [maxQPs >> 6]atomic.Uint64
}

// ring adds i. What the caller stored before is seen by the loop when it finds i.
func (d *doorbells) ring(i uint32) {
	// Bottom up: the loop clears top down, so a bit that it overlooks in a leaf is
	// announced again above it.
	set(&d.leaf[i>>6], i)
	set(&d.mid[i>>12], i>>6)
	set(&d.top, i>>12)
}

// set sets bit i modulo 64. The load spares a busy doorbell the locked instruction, but a
// bit seen set may be stale only if the loop has yet to swap it out, and then it looks
// at the queue afterwards.
func set(w *atomic.Uint64, i uint32) {
	if bit := uint64(1) << (i & 63); w.Load()&bit == 0 {
		w.Or(bit)
	}
}

// any reports whether the set is not empty.
func (d *doorbells) any() bool { return d.top.Load() != 0 }

// take empties the set and calls f for each member.
func (d *doorbells) take(f func(i uint32)) {
	if !d.any() {
		return
	}
	for t := d.top.Swap(0); t != 0; t &= t - 1 {
		i := uint32(bits.TrailingZeros64(t))
		for m := d.mid[i].Swap(0); m != 0; m &= m - 1 {
			j := i<<6 | uint32(bits.TrailingZeros64(m))
			for l := d.leaf[j].Swap(0); l != 0; l &= l - 1 {
				f(j<<6 | uint32(bits.TrailingZeros64(l)))
			}
		}
	}
}

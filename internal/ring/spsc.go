package ring

import (
	"fmt"
	"math/bits"
	"sync/atomic"
)

// MaxCapacity is the most values a ring can hold.
const MaxCapacity = 1 << 30

// cacheLine keeps what the two sides write apart. Processors fetch pairs of 64-byte
// lines, and some have lines of 128.
const cacheLine = 128

// SPSC is a ring with a single producer and a single consumer. Free, Put, Publish and
// Push are the producer's, Pop is the consumer's, Len is anybody's. A side may move
// to another goroutine if the move is ordered, by a mutex for example.
//
// A value stays in its slot, and what it points to alive, until it is overwritten.
type SPSC[T any] struct {
	slot []T // a power of two of them
	mask uint32

	_ [cacheLine]byte

	// The producer's. Indices count values since the beginning and wrap; the slot of
	// index i is i&mask, and tail-head is right across the wrap.
	tail   atomic.Uint32 // end of what is published
	next   uint32        // end of what is put
	headAt uint32        // head when the producer last looked

	_ [cacheLine]byte

	// The consumer's.
	head   atomic.Uint32 // beginning of what is not yet taken
	tailAt uint32        // tail when the consumer last looked

	_ [cacheLine]byte
}

// New returns an empty ring for capacity values, rounded up to a power of two. It
// panics if capacity is not from 1 to MaxCapacity.
func New[T any](capacity int) *SPSC[T] {
	if capacity < 1 || uint64(capacity) > MaxCapacity {
		panic(fmt.Sprintf("ring: capacity %d is not from 1 to 2^30", capacity))
	}
	n := uint64(1) << bits.Len(uint(capacity-1))
	return &SPSC[T]{slot: make([]T, n), mask: uint32(n - 1)}
}

// Cap returns how many values the ring holds at most.
func (r *SPSC[T]) Cap() int { return len(r.slot) }

// Len returns how many published values wait to be taken. To the consumer it is a
// lower bound, to the producer an upper one, to others an estimate.
func (r *SPSC[T]) Len() int {
	// Head first: the other way round head could overtake the tail that was read. This
	// way round tail may run ahead by more than the ring holds.
	head := r.head.Load()
	return min(int(r.tail.Load()-head), len(r.slot))
}

// Free returns how many values can be put now. Only Put makes it less.
func (r *SPSC[T]) Free() int {
	r.headAt = r.head.Load()
	return len(r.slot) - int(r.next-r.headAt)
}

// Put copies *v into the ring, where it stays unseen until Publish. It reports false,
// and does nothing, if the ring is full.
func (r *SPSC[T]) Put(v *T) bool {
	if r.next-r.headAt == uint32(len(r.slot)) && r.Free() == 0 {
		return false
	}
	r.slot[r.next&r.mask] = *v
	r.next++
	return true
}

// Publish lets the consumer see everything that was put.
func (r *SPSC[T]) Publish() {
	r.tail.Store(r.next)
}

// Push puts as many of vs as there is room for, publishes them together with what was
// put before, and returns how many of vs it took.
func (r *SPSC[T]) Push(vs ...T) int {
	n := 0
	for n < len(vs) && r.Put(&vs[n]) {
		n++
	}
	r.Publish()
	return n
}

// Pop moves the oldest published values to dst, as many as fit, and returns how many.
func (r *SPSC[T]) Pop(dst []T) int {
	head := r.head.Load()
	if uint64(r.tailAt-head) < uint64(len(dst)) {
		r.tailAt = r.tail.Load()
	}
	n := min(len(dst), int(r.tailAt-head))
	if n == 0 {
		return 0
	}
	i := int(head & r.mask)
	m := copy(dst[:n], r.slot[i:])
	copy(dst[m:n], r.slot)
	r.head.Store(head + uint32(n))
	return n
}

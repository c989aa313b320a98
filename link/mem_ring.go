package link

import "sync/atomic"

// memSlot hands over one buffer: which one of its owner's, and what it holds.
type memSlot struct {
	buffer, length, segment uint32
}

// memRing is a queue with one producer and one consumer. It has room for every buffer
// that can ever be in it, so a push needs no check.
type memRing struct {
	slots []memSlot // a power of two
	_     [40]byte
	tail  uint32        // producer's: pushed, maybe not yet published
	shown atomic.Uint32 // tail, as the consumer may see it
	_     [56]byte
	head  uint32 // consumer's
	seen  uint32 // consumer's copy of shown
	_     [56]byte
}

func newMemRing(depth int) *memRing {
	n := 1
	for n < depth {
		n *= 2
	}
	return &memRing{slots: make([]memSlot, n)}
}

// push adds s, unseen by the consumer until publish.
func (r *memRing) push(s memSlot) {
	r.slots[r.tail&uint32(len(r.slots)-1)] = s
	r.tail++
}

func (r *memRing) publish() {
	if r.shown.Load() != r.tail {
		r.shown.Store(r.tail)
	}
}

// waiting returns how many slots the consumer can pop.
func (r *memRing) waiting() uint32 {
	if r.seen == r.head {
		r.seen = r.shown.Load()
	}
	return r.seen - r.head
}

// pop takes the next slot; the consumer knows from waiting that there is one.
func (r *memRing) pop() memSlot {
	s := r.slots[r.head&uint32(len(r.slots)-1)]
	r.head++
	return s
}

// memWire carries frames one way and the emptied buffers back.
type memWire struct {
	frames, empties *memRing
}

func newMemWire(depth int) *memWire {
	return &memWire{frames: newMemRing(depth), empties: newMemRing(depth)}
}

package xdp

import (
	"math/bits"
	"sync/atomic"
)

// Desc is an entry of a receive or transmit ring: struct xdp_desc of linux/if_xdp.h.
type Desc struct {
	// Addr is where in the UMEM the bytes begin.
	Addr uint64
	// Len is how many they are.
	Len uint32
	// Options are OptionContinued or 0.
	Options uint32
}

// OptionContinued in Desc.Options says that the frame goes on in the next descriptor (XDP_PKT_CONTD).
const OptionContinued = 1

// ring is what the two sides of a ring share: entries, and two free-running 32-bit
// indices that wrap, of which each side writes one. The number of entries is a power of two.
//
// An entry is written before the producer's index says so, and read before the consumer's index says
// so. Package sync/atomic orders both, more strictly than needed; and its total order also keeps a read of the flag from
// overtaking the write of the index before it, or both sides could miss each other.
type ring[T uint64 | Desc] struct {
	producer, consumer *uint32
	flags              *uint32
	entries            []T
	mask               uint32
}

// ringSize returns the smallest power of two that is at least n.
func ringSize(n int) int { return 1 << bits.Len(uint(n-1)) }

// flagNeedWakeup in a ring's flags asks for a system call (XDP_RING_NEED_WAKEUP).
const flagNeedWakeup = 1

// Size returns how many entries the ring has room for.
func (r *ring[T]) Size() int { return len(r.entries) }

// NeedWakeup reports whether the kernel looks at the ring only when told by a system call. Ask
// after Submit.
func (r *ring[T]) NeedWakeup() bool { return atomic.LoadUint32(r.flags)&flagNeedWakeup != 0 }

// Producer is this program's side of a ring that the kernel consumes: the fill ring (chunks to receive
// into) or the transmit ring (frames to send). One goroutine at a time may use it.
//
// Room, then Put as often as there is room, then one Submit for all.
type Producer[T uint64 | Desc] struct {
	ring[T]
	next     uint32 // index of the next Put
	consumed uint32 // the kernel's index when last looked at
}

func newProducer[T uint64 | Desc](r ring[T]) Producer[T] {
	return Producer[T]{ring: r, next: atomic.LoadUint32(r.producer), consumed: atomic.LoadUint32(r.consumer)}
}

// Room returns how many entries may be Put. It asks the kernel's side only if it knows of
// less than want; that costs a cache line.
func (p *Producer[T]) Room(want int) int {
	free := len(p.entries) - int(p.next-p.consumed)
	if free < want {
		p.consumed = atomic.LoadUint32(p.consumer)
		free = len(p.entries) - int(p.next-p.consumed)
	}
	return free
}

// Put writes the next entry, which the kernel does not see before Submit. There must be room.
func (p *Producer[T]) Put(v T) {
	p.entries[p.next&p.mask] = v
	p.next++
}

// Submit gives everything Put since to the kernel.
func (p *Producer[T]) Submit() { atomic.StoreUint32(p.producer, p.next) }

// Pending returns how many entries were Put that the kernel has not taken yet.
func (p *Producer[T]) Pending() int {
	p.consumed = atomic.LoadUint32(p.consumer)
	return int(p.next - p.consumed)
}

// Consumer is this program's side of a ring that the kernel fills: the receive ring (frames) or the
// completion ring (chunks that were sent). One goroutine at a time may use it.
//
// Ready, then Get as many, then one Release for all.
type Consumer[T uint64 | Desc] struct {
	ring[T]
	next     uint32 // index of Get(0)
	produced uint32 // the kernel's index when last looked at
}

func newConsumer[T uint64 | Desc](r ring[T]) Consumer[T] {
	return Consumer[T]{ring: r, next: atomic.LoadUint32(r.consumer), produced: atomic.LoadUint32(r.producer)}
}

// Ready returns how many entries can be read. It asks the kernel's side only if it knows of less
// than want.
func (c *Consumer[T]) Ready(want int) int {
	n := int(c.produced - c.next)
	if n < want {
		c.produced = atomic.LoadUint32(c.producer)
		n = int(c.produced - c.next)
	}
	return n
}

// Get returns the i-th unread entry, from 0 on; i is less than what Ready returned.
func (c *Consumer[T]) Get(i int) T { return c.entries[(c.next+uint32(i))&c.mask] }

// Release gives the first n unread entries back to the kernel. The memory they are about stays this program's.
func (c *Consumer[T]) Release(n int) {
	c.next += uint32(n)
	atomic.StoreUint32(c.consumer, c.next)
}

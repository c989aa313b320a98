package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/go-roce/roce/internal/ring"
	"github.com/go-roce/roce/transport"
)

// ErrCQTooSmall says that a completion queue has not enough room left.
var ErrCQTooSmall = errors.New("the completion queue is too small")

// entry is a completion with the queue it frees a slot of.
type entry struct {
	completion transport.Completion
	queue      *workQueue
}

// CQ is a completion queue. Each loop has a ring of it, which it alone fills; those
// who poll take turns under a mutex that no loop takes. Room is reserved for every slot of
// every work queue that uses it, and a slot is free again only when its
// completion has been polled, so a ring is never full.
type CQ struct {
	rings []cqRing

	mu       sync.Mutex // of those who poll, reserve and release
	depth    int
	reserved int // slots of all work queues, and completions left by destroyed ones
	first    int // the ring Poll looks at first
	scratch  [64]entry

	waiters atomic.Int32
	token   chan struct{} // of capacity 1: something was published
}

// cqRing is what a loop sees of a CQ.
type cqRing struct {
	cq      *CQ
	entries *ring.SPSC[entry]
	dirty   bool // the loop's: put to, not yet published
}

// NewCQ makes a completion queue for depth completions of queue pairs of the given number of loops.
func NewCQ(depth, loops int) *CQ {
	c := &CQ{depth: depth, rings: make([]cqRing, loops), token: make(chan struct{}, 1)}
	for i := range c.rings {
		c.rings[i] = cqRing{cq: c, entries: ring.New[entry](depth)}
	}
	return c
}

// Depth returns how many completions the queue has room for.
func (c *CQ) Depth() int { return c.depth }

// Reserved returns how much of the room is taken by queue pairs.
func (c *CQ) Reserved() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reserved
}

// reserve sets n completions' room aside.
func (c *CQ) reserve(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > c.depth-c.reserved {
		return fmt.Errorf("%w: it holds %d completions, %d are reserved, %d more are needed: make it larger", ErrCQTooSmall, c.depth, c.reserved, n)
	}
	c.reserved += n
	return nil
}

func (c *CQ) release(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserved -= n
}

// retire gives back the room of a destroyed queue: of its free slots at once, of the others when
// their completions are polled.
func (c *CQ) retire(w *workQueue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.retired = true
	c.reserved -= int(w.free.Load())
}

// Len returns how many completions can be polled.
func (c *CQ) Len() int {
	n := 0
	for i := range c.rings {
		n += c.rings[i].entries.Len()
	}
	return n
}

// Poll moves the oldest completions to dst, frees their slots, and returns how many.
func (c *CQ) Poll(dst []transport.Completion) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for i := 0; i < len(c.rings) && n < len(dst); i++ {
		r := c.rings[(c.first+i)%len(c.rings)].entries
		for n < len(dst) {
			es := c.scratch[:min(len(c.scratch), len(dst)-n)]
			k := r.Pop(es)
			for j := range es[:k] {
				dst[n+j] = es[j].completion
				es[j].queue.polled(c)
				es[j].queue = nil
			}
			if n += k; k < len(es) {
				break
			}
		}
	}
	if len(c.rings) > 1 {
		c.first = (c.first + 1) % len(c.rings)
	}
	return n
}

// notify is called by a loop that has published.
func (c *CQ) notify() {
	if c.waiters.Load() > 0 {
		c.tickle()
	}
}

func (c *CQ) tickle() {
	select {
	case c.token <- struct{}{}:
	default:
	}
}

// Wait blocks until there is something to poll. It returns the error of ctx, or false
// when closed was closed and nothing is left.
func (c *CQ) Wait(ctx context.Context, closed <-chan struct{}) (bool, error) {
	c.waiters.Add(1)
	defer c.waiters.Add(-1)
	// From here on a loop that publishes sees the waiter; what it published before, Len sees.
	for {
		if c.Len() > 0 {
			c.passOn()
			return true, nil
		}
		select {
		case <-c.token:
		case <-closed:
			return c.Len() > 0, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// passOn wakes the next waiter: the one token may have stood for many completions.
func (c *CQ) passOn() {
	if c.waiters.Load() > 1 {
		c.tickle()
	}
}

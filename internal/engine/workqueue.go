package engine

import (
	"sync"
	"sync/atomic"
)

// workQueue counts the slots of a send or receive queue. The transport ring behind it frees a
// slot when the loop takes the completion; the slot of the user, which is also the
// completion's room in the CQ, is free only when that completion is polled.
type workQueue struct {
	cq    *CQ
	ring  *cqRing // of the loop that drives the queue pair
	depth int
	free  atomic.Int32

	mu     sync.Mutex // of those who post; never taken by a loop
	posted uint32     // since the queue pair was made
	gone   bool       // the queue pair was destroyed

	taken   uint32 // of those posted, completed or silently retired; the loop's
	retired bool   // destroyed; the CQ's, under its mutex
}

func (w *workQueue) init(cq *CQ, loop, depth int) {
	w.cq, w.depth = cq, depth
	if cq != nil {
		w.ring = &cq.rings[loop]
	}
	w.free.Store(int32(depth))
}

// room returns how many work requests can be posted. A queue that takes none says 1: the
// transport refuses that one with the reason.
func (w *workQueue) room() int {
	if w.depth == 0 {
		return 1
	}
	return int(w.free.Load())
}

// take counts n posted work requests.
func (w *workQueue) take(n int) {
	w.posted += uint32(n)
	w.free.Add(int32(-n))
}

// awaitPosters returns when those who were posting have seen to it that, in a closed loop, it completes.
func (w *workQueue) awaitPosters() {
	w.mu.Lock()
	defer w.mu.Unlock()
}

// polled is called with the mutex of c held when a completion of the queue was polled.
func (w *workQueue) polled(c *CQ) {
	if w.retired {
		c.reserved--
		return
	}
	w.free.Add(1)
}

// freeSilently frees slots that have no completion.
func (w *workQueue) freeSilently(n uint32) {
	w.taken += n
	w.free.Add(int32(n))
}

// forget frees the slots of what a move to RESET threw away. The caller holds the
// mutex and runs between turns.
func (w *workQueue) forget() { w.freeSilently(w.posted - w.taken) }

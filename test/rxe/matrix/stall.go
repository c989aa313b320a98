package main

import (
	"runtime"
	"sync"
	"time"
)

// An emulated machine on a busy host stands still now and then, whole or one processor of it, for longer than an ACK
// timeout. Timers that run out meanwhile are right to, and the retransmission says nothing about the program.
const (
	stallTick  = 5 * time.Millisecond
	stallLimit = 20 * time.Millisecond // below the ACK timeout of 67 ms, above what scheduling takes on a busy guest
)

// A stallWatch measures the longest time that a processor of this machine stood still.
type stallWatch struct {
	stop    chan struct{}
	done    sync.WaitGroup
	mu      sync.Mutex
	longest time.Duration
}

// watchStalls sleeps briefly on every processor, over and over, and takes note of how late it wakes.
func watchStalls() *stallWatch {
	w := &stallWatch{stop: make(chan struct{})}
	for cpu := range runtime.NumCPU() {
		w.done.Go(func() {
			runtime.LockOSThread() // never unlocked: the thread, bound to its processor, ends with the goroutine
			if pin(cpu) != nil {
				return
			}
			for {
				select {
				case <-w.stop:
					return
				default:
				}
				began := time.Now()
				nap(stallTick)
				w.note(time.Since(began) - stallTick)
			}
		})
	}
	return w
}

func (w *stallWatch) note(late time.Duration) {
	w.mu.Lock()
	w.longest = max(w.longest, late)
	w.mu.Unlock()
}

// end stops watching and returns the longest standstill.
func (w *stallWatch) end() time.Duration {
	close(w.stop)
	w.done.Wait()
	return w.longest
}

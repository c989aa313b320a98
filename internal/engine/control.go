package engine

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/go-roce/roce/clock"
)

// control is a function that wants to run between two turns of a loop.
type control struct {
	f     func(now clock.Time)
	claim atomic.Bool // set by who decides: the driver to run it, the caller to give up
	done  chan struct{}
}

// controls is the list of functions that wait for the loop.
type controls struct {
	mu      sync.Mutex
	list    []*control
	waiting atomic.Bool
}

func (c *controls) push(x *control) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, x)
	c.waiting.Store(true)
}

func (c *controls) take() []*control {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.list
	c.list = nil
	c.waiting.Store(false)
	return list
}

// Do runs f between two turns, when nothing else touches the loop and its queue
// pairs, and returns when it has run. f must not wait. The error is that of ctx;
// then f does not run.
//
// If no goroutine drives the loop, before Run and after it for example, f runs in the caller's.
func (l *Loop) Do(ctx context.Context, f func(now clock.Time)) error {
	c := &control{f: f, done: make(chan struct{})}
	l.controls.push(c)
	l.wake()
	select {
	case <-c.done:
		return nil
	case l.driver <- struct{}{}:
		l.runControls(l.clk.Now())
		<-l.driver
	case <-ctx.Done():
		if c.claim.CompareAndSwap(false, true) {
			return ctx.Err()
		}
	}
	<-c.done
	return nil
}

func (l *Loop) runControls(now clock.Time) {
	for _, c := range l.controls.take() {
		if c.claim.CompareAndSwap(false, true) {
			c.f(now)
			close(c.done)
		}
	}
}

package engine

import (
	"context"
	"runtime"

	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/link"
	"github.com/go-roce/roce/transport"
)

// TryDrive takes the right to drive the loop if nobody has it. The caller may
// then call Step, and must call Release.
func (l *Loop) TryDrive() bool {
	select {
	case l.driver <- struct{}{}:
		return true
	default:
		return false
	}
}

// Release gives the right to drive back.
func (l *Loop) Release() { <-l.driver }

// Progress drives one turn if nobody else drives, and returns how many packets and
// completions it moved.
func (l *Loop) Progress() int {
	if !l.TryDrive() {
		return 0
	}
	defer l.Release()
	l.Step(l.clk.Now())
	return l.moved
}

// Run drives the loop until it is closed. Nobody else drives it meanwhile.
//
// It lets the program's other goroutines run after every turn: they may be on the same
// processor, waiting to poll or to post. That is also why it has no thread to itself
// (runtime.LockOSThread): yielding would then take two switches of threads, and with more
// loops and pollers than processors a round trip ten times as long was measured.
func (l *Loop) Run() {
	l.driver <- struct{}{}
	defer l.Release()
	var spinUntil clock.Time
	for !l.closed.Load() {
		now := l.clk.Now()
		next, busy := l.Step(now)
		if busy {
			spinUntil = now.Add(l.cfg.Spin)
		} else if now >= spinUntil {
			l.sleep(next)
			continue
		}
		runtime.Gosched()
	}
}

// sleep waits for the link, a wake-up or the time next.
func (l *Loop) sleep(next clock.Time) {
	l.parked.Store(true)
	// Either this sees what was rung or asked for, or who did sees the loop parked.
	if !l.bells.any() && !l.controls.waiting.Load() && !l.closed.Load() {
		l.counters.Sleeps++
		// A link that is gone says so at the next Recv.
		_ = l.queue.Wait(next)
	}
	l.parked.Store(false)
}

// wake ends the driver's sleep, if it sleeps.
func (l *Loop) wake() {
	if l.parked.Load() && l.parked.CompareAndSwap(true, false) {
		l.queue.Wake()
	}
}

// Wait blocks until c has something to poll, driving the loop meanwhile unless
// another goroutine does. It returns the error of ctx, or false when the loop is closed and
// nothing is left.
func (l *Loop) Wait(ctx context.Context, c *CQ) (bool, error) {
	if c.Len() > 0 {
		return true, nil
	}
	c.waiters.Add(1)
	defer c.waiters.Add(-1)
	if ctx.Done() != nil {
		// It may come too early for the sleep below; then the next Wait of the queue ends at once.
		defer context.AfterFunc(ctx, l.queue.Wake)()
	}
	var spinUntil clock.Time
	for {
		if c.Len() > 0 {
			c.passOn()
			return true, nil
		}
		select {
		case l.driver <- struct{}{}:
			now := l.clk.Now()
			if spinUntil == 0 {
				spinUntil = now.Add(l.cfg.Spin)
			}
			next, busy := l.Step(now)
			if !busy && now >= spinUntil && c.Len() == 0 && ctx.Err() == nil {
				l.sleep(next)
			}
			l.Release()
		case <-c.token:
		case <-l.done:
			return c.Len() > 0, nil
		case <-ctx.Done():
		}
		if err := ctx.Err(); err != nil && c.Len() == 0 {
			return false, err
		}
	}
}

// Close moves every queue pair to ERR, delivers what that completes, and ends Run. When it
// returns no completion will be added any more. The link is left to the caller.
func (l *Loop) Close() {
	var qps []*QP
	_ = l.Do(context.Background(), func(now clock.Time) {
		l.flushAll(now)
		l.qps.all(func(q *QP) { qps = append(qps, q) })
	})
	for _, q := range qps {
		q.send.awaitPosters()
		q.recv.awaitPosters()
	}
	l.ended.Do(func() { close(l.done) })
}

// flushAll completes everything there is, and lets nothing new begin.
func (l *Loop) flushAll(now clock.Time) {
	l.closed.Store(true)
	l.qps.all(func(q *QP) { l.fail(now, q) })
	l.publish()
}

// linkFailed ends all work because the link is gone. Its owner learns it and calls Close.
func (l *Loop) linkFailed(now clock.Time, err error) {
	l.flushAll(now)
	if l.cfg.OnFailure != nil {
		l.cfg.OnFailure(err)
	}
}

// Snapshot returns the counters of the loop, of its queue pairs together and of its link queue.
func (l *Loop) Snapshot(ctx context.Context) (c Counters, qps transport.Counters, q link.Stats, err error) {
	err = l.Do(ctx, func(clock.Time) {
		c, qps, q = l.counters, l.past, l.queue.Stats()
		l.qps.all(func(q *QP) { qps.Add(q.tr.Counters()) })
	})
	return c, qps, q, err
}

package engine

import (
	"context"
	"errors"
	"net"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/transport"
)

// QP is a queue pair in the hands of a loop.
type QP struct {
	tr   *transport.QP
	qpn  bth.QPN
	loop *Loop
	bell uint32

	send, recv workQueue

	// The rest is the loop's.
	encap  bth.Encap
	routed bool // encap is made

	ready bool // on the ready list
	next  *QP  // on it

	due    clock.Time // when the timer heap brings it up; Never: not in the heap
	heapAt int
}

// QPConfig describes a queue pair to CreateQP. The queue pair's number is drawn by the loop.
type QPConfig struct {
	transport.Config
	SendCQ, RecvCQ *CQ
}

// CreateQP makes a queue pair driven by the loop, in RESET. It reserves its depths from
// the completion queues. The errors are ErrCQTooSmall, net.ErrClosed, a sentence of
// transport's about the configuration, or that of ctx.
func (l *Loop) CreateQP(ctx context.Context, c QPConfig) (*QP, error) {
	switch {
	case c.SendDepth > 0 && c.SendCQ == nil:
		return nil, errors.New("a send queue needs a completion queue: set SendCQ")
	case c.RecvDepth > 0 && c.RecvCQ == nil:
		return nil, errors.New("a receive queue needs a completion queue: set RecvCQ")
	}
	q := &QP{loop: l, due: clock.Never}
	if c.SendCQ != nil {
		if err := c.SendCQ.reserve(c.SendDepth); err != nil {
			return nil, err
		}
	}
	if c.RecvCQ != nil {
		if err := c.RecvCQ.reserve(c.RecvDepth); err != nil {
			if c.SendCQ != nil {
				c.SendCQ.release(c.SendDepth)
			}
			return nil, err
		}
	}
	q.send.init(c.SendCQ, l.cfg.Index, c.SendDepth)
	q.recv.init(c.RecvCQ, l.cfg.Index, c.RecvDepth)
	var err error
	if e := l.Do(ctx, func(clock.Time) { err = l.adopt(q, c.Config) }); e != nil {
		err = e
	}
	if err != nil {
		q.releaseCQs()
		return nil, err
	}
	return q, nil
}

// adopt gives q a number and a doorbell.
func (l *Loop) adopt(q *QP, c transport.Config) error {
	if l.closed.Load() {
		return net.ErrClosed
	}
	var err error
	if q.qpn, err = l.qps.draw(l.cfg.Random); err != nil {
		return err
	}
	c.QPN = q.qpn
	c.Recovery.Pool = l.holds
	if q.tr, err = transport.New(c); err != nil {
		return err
	}
	if n := len(l.freeBells); n > 0 {
		q.bell = l.freeBells[n-1]
		l.freeBells = l.freeBells[:n-1]
		l.byBell[q.bell] = q
	} else {
		q.bell = uint32(len(l.byBell))
		l.byBell = append(l.byBell, q)
	}
	l.qps.insert(q)
	return nil
}

// QPN returns the queue pair's number.
func (q *QP) QPN() bth.QPN { return q.qpn }

// State returns the present state.
func (q *QP) State() transport.State { return q.tr.State() }

// PostSend posts work requests in order until one is refused, and returns how many it
// took. The error is ErrQueueFull, a *transport.PostError or net.ErrClosed.
func (q *QP) PostSend(wrs []transport.SendWR) (n int, err error) {
	w := &q.send
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone || q.loop.closed.Load() {
		return 0, net.ErrClosed
	}
	for room := w.room(); n < len(wrs) && n < room; n++ {
		if err = q.tr.PostSend(&wrs[n]); err != nil {
			break
		}
	}
	if n < len(wrs) && err == nil {
		err = transport.ErrQueueFull
	}
	if n > 0 {
		w.take(n)
		q.loop.ring(q)
		q.flushIfClosed()
	}
	return n, err
}

// PostRecv posts receives, as PostSend does. The loop need not look at them, except to
// flush them.
func (q *QP) PostRecv(wrs []transport.RecvWR) (n int, err error) {
	w := &q.recv
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone || q.loop.closed.Load() {
		return 0, net.ErrClosed
	}
	for room := w.room(); n < len(wrs) && n < room; n++ {
		if err = q.tr.PostRecv(&wrs[n]); err != nil {
			break
		}
	}
	if n < len(wrs) && err == nil {
		err = transport.ErrQueueFull
	}
	if n > 0 {
		w.take(n)
		// Either this sees the error state, or the loop that entered it saw the receives.
		if q.tr.State() == transport.StateErr {
			q.loop.ring(q)
		}
		q.flushIfClosed()
	}
	return n, err
}

// flushIfClosed completes what was posted while the loop closed. Either this sees it
// closed, or the loop saw the posted work when it flushed everything.
func (q *QP) flushIfClosed() {
	if q.loop.closed.Load() {
		_ = q.loop.Do(context.Background(), func(clock.Time) {
			q.loop.deliver(q)
			q.loop.publish()
		})
	}
}

// Modify changes state and attributes. encap, unless nil, is the new way to the peer.
func (q *QP) Modify(ctx context.Context, a *transport.Attr, encap *bth.Encap) error {
	q.send.mu.Lock()
	defer q.send.mu.Unlock()
	q.recv.mu.Lock()
	defer q.recv.mu.Unlock()
	var err error
	if e := q.do(ctx, func(now clock.Time) {
		if err = q.tr.Modify(now, a); err != nil {
			return
		}
		if encap != nil {
			q.encap, q.routed = *encap, true
		}
		if q.tr.State() == transport.StateReset {
			q.send.forget()
			q.recv.forget()
			q.routed = false
		}
		q.loop.touch(q)
	}); e != nil {
		return e
	}
	return err
}

// Reroute changes the way to the peer if the queue pair still has one.
func (q *QP) Reroute(ctx context.Context, encap *bth.Encap) error {
	return q.do(ctx, func(clock.Time) {
		if q.routed {
			q.encap = *encap
		}
	})
}

// Inspect calls f with the transport queue pair between two turns, also when it or the loop is
// closed. f must not change it.
func (q *QP) Inspect(ctx context.Context, f func(t *transport.QP)) error {
	return q.loop.Do(ctx, func(clock.Time) { f(q.tr) })
}

// do runs f between two turns unless the queue pair is closed.
func (q *QP) do(ctx context.Context, f func(now clock.Time)) error {
	var err error
	if e := q.loop.Do(ctx, func(now clock.Time) {
		if q.loop.qps.find(q.qpn) != q {
			err = net.ErrClosed
			return
		}
		f(now)
	}); e != nil {
		return e
	}
	return err
}

// Destroy flushes what is posted and takes the queue pair out of the loop. The completions stay to be polled.
// The error is net.ErrClosed if it is gone already.
func (q *QP) Destroy(ctx context.Context) error {
	q.send.mu.Lock()
	defer q.send.mu.Unlock()
	q.recv.mu.Lock()
	defer q.recv.mu.Unlock()
	if err := q.do(ctx, func(now clock.Time) { q.loop.expel(now, q) }); err != nil {
		return err
	}
	q.send.gone, q.recv.gone = true, true
	q.releaseCQs()
	return nil
}

// expel flushes q, delivers its completions and forgets it.
func (l *Loop) expel(now clock.Time, q *QP) {
	l.fail(now, q)
	l.publish()
	l.timers.remove(q)
	l.ready.remove(q)
	l.qps.remove(q)
	l.byBell[q.bell] = nil
	l.freeBells = append(l.freeBells, q.bell)
	l.past.Add(q.tr.Counters())
}

// fail moves q to ERR and delivers what that completes.
func (l *Loop) fail(now clock.Time, q *QP) {
	// From every state the move to ERR is legal.
	_ = q.tr.Modify(now, &transport.Attr{Mask: transport.AttrState, State: transport.StateErr})
	l.deliver(q)
}

func (q *QP) releaseCQs() {
	for _, w := range []*workQueue{&q.send, &q.recv} {
		if w.cq != nil {
			w.cq.retire(w)
		}
	}
}

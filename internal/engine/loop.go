package engine

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/link"
	"github.com/go-roce/roce/transport"
)

// Config describes a loop to New.
type Config struct {
	// Queue is the queue to drive, Caps what its link can do, Clock the clock it was given.
	Queue link.Queue
	Caps  link.Caps
	Clock clock.Clock
	// Index is the loop's place among those of its device: the ring it fills of each CQ.
	Index int
	// QPNs are the queue pair numbers it gives out, Random the source they are drawn from.
	QPNs   link.QPNRange
	Random func() uint32
	// Addrs are the local addresses.
	Addrs []netip.Addr
	// Spin is how long Run and Wait go on stepping after the last work, before they sleep.
	Spin time.Duration
	// OnEvent, if not nil, is told of every asynchronous event of a queue pair, and OnFailure
	// once why the link ended by itself, after which Close is due. They are called by who
	// drives and must not wait.
	OnEvent   func(q *QP, e transport.Event)
	OnFailure func(err error)
}

// Loop drives queue pairs over a link queue.
type Loop struct {
	queue link.Queue
	clk   clock.Clock
	cfg   Config

	// driver is held, by a value in it, by the one goroutine that may step.
	driver   chan struct{}
	controls controls
	bells    doorbells
	parked   atomic.Bool   // the driver sleeps in queue.Wait, or is about to
	closed   atomic.Bool   // everything is flushed, nothing will be driven any more
	done     chan struct{} // closed when no completion will come any more
	ended    sync.Once     // closes done

	qps       qpnTable
	byBell    []*QP
	freeBells []uint32
	ready     readyList
	timers    timers

	rx       receiver
	tx       transmitter
	touched  []*cqRing // filled and not yet published
	scratch  transport.Completion
	moved    int // packets and completions of this turn
	counters Counters
	past     transport.Counters // of destroyed queue pairs
	holds    *transport.HoldPool
}

// holdLimit is how many packets all queue pairs of a loop together keep behind gaps: 64 MiB at the largest path MTU.
const holdLimit = 1 << 14

// Counters are what a loop counts besides its queue pairs.
type Counters struct {
	// Drops counts received packets that were not taken, by reason.
	Drops [bth.NumDrops]uint64
	// Turns counts steps, Sleeps how often the driver went to sleep, Starved how often
	// a queue pair waited for a transmit buffer.
	Turns, Sleeps, Starved uint64
}

// New makes a loop.
func New(c Config) *Loop {
	l := &Loop{
		queue:  c.Queue,
		clk:    c.Clock,
		cfg:    c,
		driver: make(chan struct{}, 1),
		done:   make(chan struct{}),
		qps:    newQPNTable(c.QPNs),
		holds:  transport.NewHoldPool(holdLimit),
	}
	l.rx.addrs = c.Addrs
	l.tx.init(&c.Caps)
	return l
}

// Step does what there is to do at now, without waiting. It returns when it must be
// called again at the latest, and whether there may be more to do at once. The
// caller drives the loop; see TryDrive.
func (l *Loop) Step(now clock.Time) (next clock.Time, busy bool) {
	l.counters.Turns++
	l.moved = 0
	if l.controls.waiting.Load() {
		l.runControls(now)
		busy = true
	}
	if l.closed.Load() {
		return clock.Never, false
	}
	if err := l.receive(now); err != nil {
		l.linkFailed(now, err)
		return clock.Never, false
	}
	l.bells.take(l.answerBell)
	l.expire(now)
	more := l.serve(now)
	return l.timers.next(), busy || more || l.moved > 0
}

// touch puts q on the ready list.
func (l *Loop) touch(q *QP) { l.ready.push(q) }

// ring tells the loop from any goroutine that something was posted to q.
func (l *Loop) ring(q *QP) {
	l.bells.ring(q.bell)
	l.wake()
}

func (l *Loop) answerBell(bell uint32) {
	// A queue pair may have gone since it rang.
	if int(bell) < len(l.byBell) {
		if q := l.byBell[bell]; q != nil {
			l.touch(q)
		}
	}
}

// expire lets time pass for the queue pairs whose timers are due.
func (l *Loop) expire(now clock.Time) {
	for l.timers.next() <= now {
		q := l.timers.pop()
		if at := q.tr.NextTimeout(); at > now {
			l.timers.arm(q, at)
			continue
		}
		q.tr.HandleTimeout(now)
		l.touch(q)
	}
}

// serve delivers and sends what the ready queue pairs have, each in its turn, and
// reports whether some have more that could be sent at once.
func (l *Loop) serve(now clock.Time) (more bool) {
	for q := l.ready.first; q != nil; q = q.next {
		l.deliver(q)
	}
	l.publish()
	for range l.ready.n {
		q := l.ready.pop()
		left := l.transmit(now, q)
		l.tellEvents(q)
		l.timers.arm(q, q.tr.NextTimeout())
		if left == noRoom {
			// It and those behind it go first when the link has room again.
			l.counters.Starved++
			l.ready.pushFront(q)
			more = false
			break
		}
		if left == hasMore {
			l.ready.push(q)
			more = true
		}
	}
	l.publish()
	l.flush()
	return more
}

// deliver moves q's completions to its completion queues, unpublished.
func (l *Loop) deliver(q *QP) {
	c := &l.scratch
	for q.tr.PollCompletion(c) {
		w := &q.send
		if c.Recv {
			w = &q.recv
		}
		// What retired silently before this one is free now, this one when it is polled.
		if c.Retired > 1 {
			w.freeSilently(c.Retired - 1)
			c.Retired = 1
		}
		w.taken++
		l.moved++
		r := w.ring
		r.entries.Put(&entry{completion: *c, queue: w})
		if !r.dirty {
			r.dirty = true
			l.touched = append(l.touched, r)
		}
	}
	if n := q.tr.TakeSilent(); n > 0 {
		q.send.freeSilently(n)
	}
}

// publish shows the users what was delivered.
func (l *Loop) publish() {
	for i, r := range l.touched {
		r.dirty = false
		r.entries.Publish()
		r.cq.notify()
		l.touched[i] = nil
	}
	l.touched = l.touched[:0]
}

func (l *Loop) tellEvents(q *QP) {
	for e := q.tr.PollEvent(); e != transport.EventNone; e = q.tr.PollEvent() {
		if l.cfg.OnEvent != nil {
			l.cfg.OnEvent(q, e)
		}
	}
}

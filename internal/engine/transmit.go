package engine

import (
	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/link"
	"github.com/go-roce/roce/transport"
)

const (
	// txBatch is how many frames are leased and submitted at a time.
	txBatch = 64
	// quantum is how many packets a queue pair sends in its turn, superQuantum over a link with
	// super-frames.
	quantum      = 16
	superQuantum = 64
)

// transmitter is the state of the way out: a batch of leased frames, of which those
// from submitted to used are filled and those from used to leased are empty.
type transmitter struct {
	quantum int
	frames  [txBatch]link.Frame
	out     transport.Out
	build   builder

	submitted, used, leased int
	// kick: something was submitted and not yet flushed.
	kick bool
}

func (t *transmitter) init(c *link.Caps) {
	t.quantum = quantum
	if c.MaxSegments > 1 {
		t.quantum = superQuantum
	}
	t.build.init(c)
}

// leftover says why a queue pair's turn ended.
type leftover uint8

const (
	allSent leftover = iota
	hasMore          // its quantum is used up
	noRoom           // the link has no buffer
)

// transmit sends what q has, within its quantum.
//
// A frame's Gather list is good until q is called again with anything that may free or
// change what it sends; no call but PollTransmit comes between here and flush.
func (l *Loop) transmit(now clock.Time, q *QP) leftover {
	t := &l.tx
	defer l.finish()
	for range t.quantum {
		// A frame for a packet that does not fit behind those before it.
		if !l.room() {
			return noRoom
		}
		if !q.tr.PollTransmit(now, &t.out) {
			if q.tr.State() == transport.StateErr {
				// It found local memory missing, and flushes.
				l.deliver(q)
			}
			return allSent
		}
		l.moved++
		if t.build.fits(&t.out) {
			t.build.add(&t.out)
			continue
		}
		l.finish()
		t.build.begin(&t.frames[t.used], t.used, &q.encap, &t.out)
		t.used++
	}
	return hasMore
}

// finish completes the frame that is being filled.
func (l *Loop) finish() { l.tx.build.finish() }

// room reports whether there is an empty leased frame, submitting the batch to get one if need be.
func (l *Loop) room() bool {
	t := &l.tx
	if t.used == t.leased {
		l.finish()
		l.submit()
		t.submitted, t.used = 0, 0
		t.leased = l.queue.Alloc(t.frames[:])
	}
	return t.used < t.leased
}

// submit gives the filled frames to the link. What they acknowledge has been delivered: publish first.
func (l *Loop) submit() {
	t := &l.tx
	if t.submitted < t.used {
		l.queue.Submit(t.frames[t.submitted:t.used])
		t.build.release(t.submitted, t.used)
		t.submitted = t.used
		t.kick = true
	}
}

// flush submits what is filled and gives the turn's one kick. Empty frames stay leased
// for the next turn.
func (l *Loop) flush() {
	t := &l.tx
	l.submit()
	if t.kick {
		t.kick = false
		// What cannot be sent the link counts.
		_ = l.queue.Flush()
	}
}

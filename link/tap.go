package link

import (
	"errors"
	"io"

	"github.com/go-roce/roce/clock"
)

// Tap is a link that captures what passes another. Sent frames are written as
// they are submitted, received ones as they are released, with their Note
// as a comment and the time when they were received. Super-frames are written as the packets they stand for.
type Tap struct {
	Link
	capture *Capture
	queues  []Queue
}

// NewTap returns l with everything that passes it written to w as pcapng. Close
// closes l and flushes, but does not close w. A nil clk means [clock.System]. Several
// links into one stream go through [NewCapture].
func NewTap(l Link, w io.Writer, clk clock.Clock) *Tap {
	return NewCapture(w, CaptureOptions{Clock: clk}).Tap(l)
}

// Tap returns l with everything that passes it captured.
func (c *Capture) Tap(l Link) *Tap {
	t := &Tap{Link: l, capture: c}
	iface := c.addInterface(l.Info().Interface)
	inner := l.Queues()
	for i, q := range inner {
		number := -1
		if len(inner) > 1 {
			number = i
		}
		t.queues = append(t.queues, &tapQueue{Queue: q, capture: c, iface: iface, number: number})
	}
	return t
}

// Queues returns the tapped queues.
func (t *Tap) Queues() []Queue { return t.queues }

// Close closes the link and hands what is buffered to the writer. The error may be of either.
func (t *Tap) Close() error {
	return errors.Join(t.Link.Close(), t.capture.flush())
}

type tapQueue struct {
	Queue
	capture *Capture
	iface   uint32
	number  int    // -1 if it is the only one
	came    uint64 // when the last frames were received
	whole   []byte // a frame whose parts are put together
	packet  []byte // a packet cut from it
}

func (q *tapQueue) Recv(dst []Frame) (int, error) {
	n, err := q.Queue.Recv(dst)
	if n > 0 {
		q.came = q.capture.now()
	}
	return n, err
}

func (q *tapQueue) Release(fs []Frame) {
	for i := range fs {
		q.write(&fs[i], q.came, ngInbound)
	}
	q.Queue.Release(fs)
}

func (q *tapQueue) Submit(fs []Frame) {
	now := q.capture.now()
	for i := range fs {
		if len(fs[i].Data) > 0 {
			q.write(&fs[i], now, ngOutbound)
		}
	}
	q.Queue.Submit(fs)
}

func (q *tapQueue) Wait(deadline clock.Time) error {
	_ = q.capture.flush() // the link works on without its capture
	return q.Queue.Wait(deadline)
}

func (q *tapQueue) Close() error {
	return errors.Join(q.Queue.Close(), q.capture.flush())
}

func (q *tapQueue) write(f *Frame, at uint64, direction uint32) {
	b := f.Data
	if len(f.Gather) > 0 {
		q.whole = assemble(q.whole[:0], f)
		b = q.whole
	}
	if f.Segment > 0 {
		if l, ok := findUDP(b); ok {
			for i := range l.segments(b, f.Segment) {
				q.packet = l.appendSegment(q.packet[:0], b, f.Segment, i)
				q.capture.packet(q.iface, q.number, at, direction, q.packet, f.Note)
			}
			return
		}
	}
	q.capture.packet(q.iface, q.number, at, direction, b, f.Note)
}

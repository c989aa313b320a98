package link

import (
	"container/heap"
	"time"

	"github.com/go-roce/roce/clock"
)

const (
	// maxHeld bounds the packets an impaired queue holds back.
	maxHeld = 4096
	// lateBy is how long a reordered packet waits to be overtaken.
	lateBy = time.Millisecond
	// emitBatch is how many held packets go out in one go.
	emitBatch = 64
)

// Notes on packets for a tap between the impairment and the wire.
const (
	noteDuplicate = "impairment: duplicate"
	noteCorrupted = "impairment: corrupted"
	noteReordered = "impairment: reordered"
)

// impairedQueue passes frames straight on while there is nothing to do to them. A packet
// that must wait, or go behind one that waits, or be changed in memory that is not the
// link's, is copied and held, and its own buffer goes back unsent.
type impairedQueue struct {
	Queue
	clk    clock.Clock
	judge  *judge
	counts *impairedCounts

	held     heldHeap
	late     []*heldFrame // reordered: each until enough have overtaken it
	spare    []*heldFrame
	sequence uint64
	wireFree clock.Time // when the limited rate has room for the next packet
	blocked  bool       // the inner queue has no buffer for a packet that is due
	short    bool       // Alloc gave none on account of what is held

	whole  []byte // a frame whose parts are put together
	packet []byte // a packet cut from it
	leases [emitBatch]Frame
	rests  [emitBatch][1][]byte // Gather lists of leases
}

// heldFrame is a copied packet.
type heldFrame struct {
	due        clock.Time
	sequence   uint64
	overtakers int // in late: how many must still pass
	data       []byte
	note       string
}

func newImpairedQueue(q Queue, number uint64, im Impairment, clk clock.Clock, counts *impairedCounts) *impairedQueue {
	return &impairedQueue{Queue: q, clk: clk, judge: newJudge(im, number), counts: counts}
}

func (q *impairedQueue) Recv(dst []Frame) (int, error) {
	q.pump()
	return q.Queue.Recv(dst)
}

// Alloc leases nothing while too much is held, or what is due finds no room: that comes first.
func (q *impairedQueue) Alloc(dst []Frame) int {
	q.pump()
	if q.short = !q.hasRoom(); q.short {
		return 0
	}
	return q.Queue.Alloc(dst)
}

func (q *impairedQueue) hasRoom() bool { return !q.blocked && len(q.held)+len(q.late) < maxHeld }

func (q *impairedQueue) Submit(fs []Frame) {
	now := q.clk.Now()
	for i := range fs {
		if f := &fs[i]; len(f.Data) > 0 && !q.impair(f, now) {
			f.Data, f.Gather, f.Segment = f.Data[:0], nil, 0 // goes back unsent
		}
	}
	q.Queue.Submit(fs)
	q.pump()
}

func (q *impairedQueue) Flush() error {
	q.pump()
	return q.Queue.Flush()
}

func (q *impairedQueue) Wait(deadline clock.Time) error {
	q.pump()
	if q.short && q.hasRoom() {
		q.short = false
		return nil
	}
	err := q.Queue.Wait(min(deadline, q.nextDue()))
	q.pump()
	// Over, whatever ended it: a wake-up may have come together with the time.
	return err
}

// impair does to a frame what is due to it and reports whether it goes on as it is.
func (q *impairedQueue) impair(f *Frame, now clock.Time) bool {
	b := f.Data
	if len(f.Gather) > 0 {
		q.whole = assemble(q.whole[:0], f)
		b = q.whole
	}
	l, ok := findUDP(b)
	if !ok || !l.isRoCE(b) {
		return true
	}
	if f.Segment == 0 {
		return q.take(f, b, l, f.Note, now)
	}
	for i := range l.segments(b, f.Segment) {
		q.packet = l.appendSegment(q.packet[:0], b, f.Segment, i)
		q.take(nil, q.packet, l, f.Note, now)
	}
	return false
}

// take deals with one packet, the bytes b, which are of the frame f or, if that is nil or
// has a Gather list, a copy. It reports whether f goes on as it is.
func (q *impairedQueue) take(f *Frame, b []byte, l layout, note string, now clock.Time) (pass bool) {
	v := q.judge.next(b)
	q.counts.packets.Add(1)
	if v.lose {
		q.counts.lost.Add(1)
		return false
	}
	if v.corrupt {
		q.counts.corrupted.Add(1)
		l.corruptBit(b, v.bit)
		note = noteCorrupted
	}
	if v.mark {
		q.counts.marked.Add(1)
		l.markCE(b)
	}
	due := now
	if rate := q.judge.im.Rate; rate > 0 {
		took := time.Duration(float64(len(b)*8) / float64(rate) * float64(time.Second))
		q.wireFree = max(now, q.wireFree).Add(took)
		due = q.wireFree
	}
	due = due.Add(v.delay)

	changedCopy := (v.corrupt || v.mark) && (f == nil || len(f.Gather) > 0)
	switch {
	case v.reorder:
		q.counts.reordered.Add(1)
		h := q.copyOf(b, noteReordered)
		h.due, h.overtakers = due.Add(lateBy), v.overtakers
		q.late = append(q.late, h)
	case f == nil, changedCopy, due > now, q.blocked, len(q.held) > 0 && q.held[0].due <= now:
		q.hold(q.copyOf(b, note), due)
	default:
		f.Note = note
		pass = true
	}
	if v.duplicate {
		q.counts.duplicated.Add(1)
		q.hold(q.copyOf(b, noteDuplicate), due)
	}
	if !v.reorder {
		q.overtake(due)
	}
	return pass
}

// overtake lets the late packets know that one due at the given time passes them.
func (q *impairedQueue) overtake(due clock.Time) {
	kept := q.late[:0]
	for _, h := range q.late {
		if h.overtakers--; h.overtakers == 0 {
			q.hold(h, due)
		} else {
			kept = append(kept, h)
		}
	}
	q.late = kept
}

func (q *impairedQueue) copyOf(b []byte, note string) *heldFrame {
	var h *heldFrame
	if n := len(q.spare); n > 0 {
		h, q.spare = q.spare[n-1], q.spare[:n-1]
	} else {
		h = new(heldFrame)
	}
	h.data, h.note = append(h.data[:0], b...), note
	return h
}

// hold queues a packet to go out at due, behind those queued for the same time.
func (q *impairedQueue) hold(h *heldFrame, due clock.Time) {
	q.sequence++
	h.due, h.sequence = due, q.sequence
	heap.Push(&q.held, h)
}

// nextDue is when pump next has something to do that waiting for room is not the remedy for.
func (q *impairedQueue) nextDue() clock.Time {
	due := clock.Never
	if len(q.held) > 0 && !q.blocked {
		due = q.held[0].due
	}
	for _, h := range q.late {
		due = min(due, h.due)
	}
	return due
}

// pump sends what is due.
func (q *impairedQueue) pump() {
	if len(q.held) == 0 && len(q.late) == 0 {
		return
	}
	now := q.clk.Now()
	kept := q.late[:0]
	for _, h := range q.late {
		if h.due <= now {
			q.hold(h, h.due)
		} else {
			kept = append(kept, h)
		}
	}
	q.late = kept
	sent := false
	for q.blocked = false; len(q.held) > 0 && q.held[0].due <= now; sent = true {
		n := q.Queue.Alloc(q.leases[:min(emitBatch, len(q.held))])
		if n == 0 {
			q.blocked = true
			break
		}
		for i := range n {
			q.fill(i, now)
		}
		q.Queue.Submit(q.leases[:n])
	}
	if sent {
		_ = q.Queue.Flush() // an error comes again from the endpoint's own Flush
	}
}

// fill puts the next packet that is due into lease i, or nothing if there is none.
func (q *impairedQueue) fill(i int, now clock.Time) {
	f := &q.leases[i]
	if len(q.held) == 0 || q.held[0].due > now {
		f.Data = f.Data[:0]
		return
	}
	h := heap.Pop(&q.held).(*heldFrame)
	n := copy(f.Data, h.data)
	f.Data, f.Note = f.Data[:n], h.note
	if n < len(h.data) { // a buffer for headers only: the link gathers
		q.rests[i][0] = h.data[n:]
		f.Gather = q.rests[i][:]
	}
	// Its memory is not used again before these leases are submitted.
	q.spare = append(q.spare, h)
}

// heldHeap is a container/heap by time, then order of arrival.
type heldHeap []*heldFrame

func (h heldHeap) Len() int      { return len(h) }
func (h heldHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h heldHeap) Less(i, j int) bool {
	return h[i].due < h[j].due || h[i].due == h[j].due && h[i].sequence < h[j].sequence
}
func (h *heldHeap) Push(x any) { *h = append(*h, x.(*heldFrame)) }
func (h *heldHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return x
}

package engine

import "github.com/go-roce/roce/clock"

// timers is a binary heap of queue pairs by the time at which the loop looks at them
// again. It is lazy: a deadline that moves away, as an ACK timer's does with every
// acknowledgement, leaves the heap alone; when the old time comes the queue pair is
// asked for its true deadline and put back. So a packet costs one comparison.
type timers struct {
	heap []*QP
}

// next returns the earliest time, or clock.Never.
func (t *timers) next() clock.Time {
	if len(t.heap) == 0 {
		return clock.Never
	}
	return t.heap[0].due
}

// arm makes q's time no later than at.
func (t *timers) arm(q *QP, at clock.Time) {
	if at >= q.due {
		return
	}
	if q.due == clock.Never {
		q.heapAt = len(t.heap)
		t.heap = append(t.heap, q)
	}
	q.due = at
	t.up(q.heapAt)
}

// pop takes out and returns the earliest queue pair.
func (t *timers) pop() *QP {
	q := t.heap[0]
	t.remove(q)
	return q
}

// remove takes q out if it is in the heap.
func (t *timers) remove(q *QP) {
	if q.due == clock.Never {
		return
	}
	q.due = clock.Never
	i, last := q.heapAt, len(t.heap)-1
	t.put(i, t.heap[last])
	t.heap[last] = nil
	t.heap = t.heap[:last]
	if i < last {
		t.down(i)
		t.up(i)
	}
}

func (t *timers) put(i int, q *QP) {
	t.heap[i] = q
	q.heapAt = i
}

func (t *timers) up(i int) {
	q := t.heap[i]
	for i > 0 {
		parent := (i - 1) / 2
		if t.heap[parent].due <= q.due {
			break
		}
		t.put(i, t.heap[parent])
		i = parent
	}
	t.put(i, q)
}

func (t *timers) down(i int) {
	q := t.heap[i]
	for {
		child := 2*i + 1
		if child >= len(t.heap) {
			break
		}
		if right := child + 1; right < len(t.heap) && t.heap[right].due < t.heap[child].due {
			child = right
		}
		if q.due <= t.heap[child].due {
			break
		}
		t.put(i, t.heap[child])
		i = child
	}
	t.put(i, q)
}

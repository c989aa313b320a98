package link

import "sync"

// eventQueue is a bounded queue of events whose slow reader loses the oldest.
type eventQueue struct {
	mu sync.Mutex // held by put: two would race for the place one of them made
	ch chan Event
}

func (q *eventQueue) init() { q.ch = make(chan Event, 64) }

func (q *eventQueue) put(e Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		select {
		case q.ch <- e:
			return
		default:
		}
		select {
		case <-q.ch:
		default:
		}
	}
}

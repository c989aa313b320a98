package link

import "testing"

func TestEventQueue_SlowReaderLosesTheOldest(t *testing.T) {
	var q eventQueue
	q.init()
	n := cap(q.ch) + 10
	for i := range n {
		q.put(Event{Kind: EventMTU, MTU: i})
	}
	for want := 10; want < n; want++ {
		if e := <-q.ch; e.MTU != want {
			t.Fatalf("event %d came where %d was due", e.MTU, want)
		}
	}
	if len(q.ch) != 0 {
		t.Error("events left over")
	}
}

package engine

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-roce/roce/transport"
)

func TestCQ_ReservesRoomForEveryCompletion(t *testing.T) {
	w := newWire(t, wireOptions{cq: 200, qp: transport.Config{SendDepth: 60, RecvDepth: 40}})
	create := func(send, recv int) (*QP, error) {
		return w.a.loop.CreateQP(context.Background(), QPConfig{
			Config: transport.Config{Type: transport.TypeRC, Table: w.a.table, SendDepth: send, RecvDepth: recv},
			SendCQ: w.a.cq, RecvCQ: w.a.cq,
		})
	}
	if _, err := create(60, 41); !errors.Is(err, ErrCQTooSmall) {
		t.Fatalf("201 places of 200 gave %v", err)
	}
	if n := w.a.cq.Reserved(); n != 100 {
		t.Fatalf("after a refusal %d places are reserved, want 100", n)
	}
	q, err := create(60, 40)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Destroy(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := w.a.cq.Reserved(); n != 100 {
		t.Fatalf("after the destruction %d places are reserved, want 100", n)
	}
}

// A destroyed queue pair's flushed work requests hold their places until they are polled.
func TestCQ_KeepsRoomForWhatADestroyedQueuePairLeft(t *testing.T) {
	w := newWire(t, wireOptions{cq: 100, qp: transport.Config{SendDepth: 60, RecvDepth: 40}})
	if _, err := w.a.qp.PostRecv(make([]transport.RecvWR, 30)); err != nil {
		t.Fatal(err)
	}
	if err := w.a.qp.Destroy(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := w.a.cq.Reserved(); n != 30 {
		t.Fatalf("%d places are reserved for the 30 flushed receives", n)
	}
	for left := 30; left > 0; left -= 10 {
		if n := w.a.cq.Poll(w.a.polls[:10]); n != 10 || w.a.polls[0].Status != transport.StatusWRFlushErr {
			t.Fatalf("polled %d: %+v", n, w.a.polls[0])
		}
		if n := w.a.cq.Reserved(); n != left-10 {
			t.Fatalf("%d places are reserved for %d completions", n, left-10)
		}
	}
	if err := w.a.qp.Destroy(context.Background()); err == nil {
		t.Fatal("a queue pair was destroyed twice")
	}
}

// fill puts a completion into c as a loop would.
func fill(c *CQ, w *workQueue, id uint64) bool {
	r := &c.rings[0]
	if !r.entries.Put(&entry{completion: transport.Completion{ID: id}, queue: w}) {
		return false
	}
	r.entries.Publish()
	c.notify()
	return true
}

// A million waits against a busy loop, none of which may sleep through its completion.
func TestCQ_LosesNoWakeUp(t *testing.T) {
	waits := 1_000_000
	if testing.Short() {
		waits = 50_000
	}
	c := NewCQ(8, 1)
	w := &workQueue{}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	go func() {
		for id := range uint64(waits) {
			// One at a time, and at changing moments: the waiter is about to sleep, asleep or awake.
			for c.Len() > 0 {
				runtime.Gosched()
			}
			for range id % 7 * 20 {
				_ = c.Len()
			}
			fill(c, w, id)
		}
	}()
	var got [1]transport.Completion
	for id := range uint64(waits) {
		if ok, err := c.Wait(ctx, nil); !ok {
			t.Fatalf("wait %d: %v", id, err)
		}
		if n := c.Poll(got[:]); n != 1 || got[0].ID != id {
			t.Fatalf("wait %d polled %d, %+v", id, n, got[0])
		}
	}
}

// Many goroutines wait on one queue: each completion is polled by one of them, and none sleeps
// while there is one.
func TestCQ_WakesEveryWaiterThatIsNeeded(t *testing.T) {
	const waiters, each = 8, 2000
	c := NewCQ(64, 1)
	w := &workQueue{}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	closed := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[uint64]bool{}
	for range waiters {
		wg.Go(func() {
			var got [3]transport.Completion
			for {
				ok, err := c.Wait(ctx, closed)
				if err != nil {
					t.Error(err)
				}
				if !ok {
					return
				}
				n := c.Poll(got[:])
				mu.Lock()
				for _, x := range got[:n] {
					if seen[x.ID] {
						t.Errorf("completion %d was polled twice", x.ID)
					}
					seen[x.ID] = true
				}
				mu.Unlock()
			}
		})
	}
	for id := range uint64(waiters * each) {
		for !fill(c, w, id) {
			runtime.Gosched()
		}
	}
	for c.Len() > 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	close(closed)
	wg.Wait()
	if len(seen) != waiters*each {
		t.Errorf("%d of %d completions were polled", len(seen), waiters*each)
	}
}

// One publication may be enough for several waiters.
func TestCQ_OneWakeUpReachesAllWhoCanUseIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCQ(8, 1)
		w := &workQueue{}
		var polled atomic.Int32
		for range 3 {
			go func() {
				if ok, err := c.Wait(t.Context(), nil); !ok {
					t.Error(err)
				}
				var got [1]transport.Completion
				polled.Add(int32(c.Poll(got[:])))
			}()
		}
		synctest.Wait() // all asleep
		for range 3 {
			c.rings[0].entries.Put(&entry{queue: w})
		}
		c.rings[0].entries.Publish()
		c.notify()
		synctest.Wait()
		if n := polled.Load(); n != 3 {
			t.Errorf("of three waiters for three completions %d woke", n)
		}
	})
}

func TestCQ_WaitEndsWithItsContext(t *testing.T) {
	c := NewCQ(1, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if ok, err := c.Wait(ctx, nil); ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("waited: %v, %v", ok, err)
	}
}

// Several loops fill a ring each; Poll favours none.
func TestCQ_PollsAllRings(t *testing.T) {
	c := NewCQ(100, 3)
	w := &workQueue{}
	for i := range c.rings {
		for id := range uint64(50) {
			c.rings[i].entries.Push(entry{completion: transport.Completion{ID: id}, queue: w})
		}
	}
	got := make([]transport.Completion, 64)
	var sizes []int
	for {
		n := c.Poll(got)
		if n == 0 {
			break
		}
		sizes = append(sizes, n)
	}
	if len(sizes) != 3 || sizes[0] != 64 || sizes[1] != 64 || sizes[2] != 22 {
		t.Fatalf("polled %v of 150", sizes)
	}
}

package memreg

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// entry is what readers are told of a region: they see it live before it can go, and
// dead only when it is gone.
type entry struct {
	region *Region
	key    Key
	state  atomic.Int32
}

const (
	live = iota
	going
	dead
)

// Pitfall 43: regions come and go under traffic, and the slot array grows and is
// cleaned meanwhile. Every look-up that began after Register and ended before
// Deregister succeeds, every one that began after Deregister fails.
func TestTable_LookupsBesideRegisterAndDeregister(t *testing.T) {
	tb := newTable()
	var board [128]atomic.Pointer[entry]
	var stop atomic.Bool
	var w sync.WaitGroup
	var hits, misses atomic.Int64
	for id := range 3 {
		w.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(id), 7))
			frame := make([]byte, 24)
			for !stop.Load() && !t.Failed() {
				e := board[rng.IntN(len(board))].Load()
				if e == nil {
					continue
				}
				before := e.state.Load()
				r, f := tb.Lookup(e.key, ours, RemoteWrite)
				after := e.state.Load()
				switch {
				case f != FaultNone && f != FaultKey:
					t.Errorf("fault %v", f.String())
				case f == FaultNone && r != e.region:
					t.Errorf("key %#x leads to another region", e.key)
				case f == FaultNone && before == dead:
					t.Errorf("key %#x still works", e.key)
				case f == FaultKey && after == live:
					t.Errorf("key %#x does not work", e.key)
				case f == FaultNone:
					hits.Add(1)
					if b, f := r.Slice(e.region.Addr(), 24); f == FaultNone {
						Copy(b, frame)
					}
					_, _ = tb.FetchAdd(e.key, ours, e.region.Addr()+8, 1)
				default:
					misses.Add(1)
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for i := 0; i < 5000 || hits.Load() < 200 || misses.Load() < 200; i++ {
		if t.Failed() {
			break
		}
		at := &board[rng.IntN(1+i%len(board))]
		if e := at.Load(); e != nil && e.state.Load() == live {
			e.state.Store(going)
			switch {
			case rng.IntN(4) != 0:
				deregister(t, tb, e.key)
				e.state.Store(dead)
			default:
				wantFault(t, "Invalidate", tb.Invalidate(e.key, ours), FaultNone)
				e.state.Store(dead)
				deregister(t, tb, e.key)
			}
		} else {
			r := register(t, tb, words(32), Options{Access: everything})
			at.Store(&entry{region: r, key: r.Key()})
		}
		if i%64 == 0 {
			runtime.Gosched()
		}
	}
	stop.Store(true)
	w.Wait()
}

// A key that several loops invalidate at the same time is invalidated by one of them.
func TestInvalidate_HappensOnce(t *testing.T) {
	tb := newTable()
	var keys [50_000]Key
	b := words(8)
	for i := range keys {
		keys[i] = register(t, tb, b, Options{Access: everything}).Key()
	}
	var done, ready atomic.Int64
	var w sync.WaitGroup
	for range 2 {
		w.Go(func() { // the one meets the other wherever it catches up
			for ready.Add(1); ready.Load() < 2; {
				runtime.Gosched()
			}
			for _, k := range keys {
				if tb.Invalidate(k, ours) == FaultNone {
					done.Add(1)
				}
			}
		})
	}
	w.Wait()
	if done.Load() != int64(len(keys)) {
		t.Errorf("%d invalidations of %d keys", done.Load(), len(keys))
	}
}

// Pitfall 43: after Deregister and one more turn of the loop, the memory is the
// program's again. The race detector is the judge.
func TestDeregister_ThenAGracePeriodFreesTheMemory(t *testing.T) {
	tb := newTable()
	b := words(256)
	for range 50 {
		r := register(t, tb, b, Options{Access: everything})
		var turns atomic.Int64
		var stop atomic.Bool
		var w sync.WaitGroup
		w.Go(func() { // a loop: what it looks up it uses in the same turn
			frame := make([]byte, len(b))
			for ; !stop.Load(); turns.Add(1) {
				held, _ := tb.Slice(r.Key(), ours, RemoteWrite, r.Addr(), r.Len())
				runtime.Gosched()
				Copy(held, frame)
			}
		})
		for turns.Load() < 2 {
			runtime.Gosched()
		}
		deregister(t, tb, r.Key())
		// The turn that is under way now is over when the count has risen once.
		for now := turns.Load(); turns.Load() == now; {
			runtime.Gosched()
		}
		for i := range b {
			b[i] = 1
		}
		stop.Store(true)
		w.Wait()
		for i, v := range b {
			if v != 1 {
				t.Fatalf("byte %d was written after the grace period", i)
			}
		}
	}
}

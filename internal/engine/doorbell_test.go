package engine

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestDoorbells_GiveBackWhatWasRung(t *testing.T) {
	var d doorbells
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		var want []uint32
		for range rnd.IntN(50) {
			i := rnd.Uint32N(maxQPs)
			d.ring(i)
			want = append(want, i)
		}
		slices.Sort(want)
		want = slices.Compact(want)
		var got []uint32
		if d.any() != (len(want) > 0) {
			t.Fatalf("any is %v with %d rung", d.any(), len(want))
		}
		d.take(func(i uint32) { got = append(got, i) })
		if !slices.Equal(got, want) {
			t.Fatalf("took %v, want %v", got, want)
		}
	}
}

// Several goroutines post to queues that share words of the tree, and each waits for the loop
// to have seen its post before the next: a ring that got lost would be waited for in vain.
func TestDoorbells_LoseNoRing(t *testing.T) {
	const bells, rounds = 4, 20_000
	var d doorbells
	var posted, seen [bells]atomic.Uint64
	var wg sync.WaitGroup
	stop := time.Now().Add(time.Minute)
	for i := range bells {
		wg.Go(func() {
			for n := uint64(1); n <= rounds; n++ {
				posted[i].Store(n)
				d.ring(uint32(i * 70)) // two share a leaf word, all a middle one
				for seen[i].Load() < n {
					if runtime.Gosched(); time.Now().After(stop) {
						t.Errorf("queue %d: ring %d got lost", i, n)
						return
					}
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return
		default:
		}
		d.take(func(i uint32) { seen[i/70].Store(posted[i/70].Load()) })
		runtime.Gosched()
	}
}

package engine

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
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

// Several goroutines post to queues of one group while the loop drains: whatever was
// posted before a ring is found by the drain that answers it or by a later one.
func TestDoorbells_LoseNoRing(t *testing.T) {
	const bells, rounds = 4, 50_000
	var d doorbells
	var posted [bells]atomic.Uint64
	var wg sync.WaitGroup
	for i := range bells {
		wg.Go(func() {
			for range rounds {
				posted[i].Add(1)
				d.ring(uint32(i * 70)) // two share a leaf word, all a middle one
			}
		})
	}
	stop := make(chan struct{})
	go func() { wg.Wait(); close(stop) }()
	var seen [bells]uint64
	drain := func() { d.take(func(i uint32) { seen[i/70] = posted[i/70].Load() }) }
	for running := true; running; {
		select {
		case <-stop:
			running = false
		default:
		}
		drain()
	}
	drain()
	for i := range seen {
		if seen[i] != rounds {
			t.Errorf("queue %d: the last drain saw %d of %d posts", i, seen[i], rounds)
		}
	}
}

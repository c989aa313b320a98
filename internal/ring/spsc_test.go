package ring

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// startAt makes an empty ring continue as if n values had gone through it.
func startAt[T any](r *SPSC[T], n uint32) {
	r.tail.Store(n)
	r.head.Store(n)
	r.next, r.headAt, r.tailAt = n, n, n
}

func TestNew_RoundsUpToAPowerOfTwo(t *testing.T) {
	for capacity, want := range map[int]int{1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 100: 128, 128: 128, 129: 256} {
		r := New[byte](capacity)
		if r.Cap() != want || r.Free() != want || r.Len() != 0 {
			t.Errorf("New(%d): Cap %d, Free %d, Len %d; want %d, %d, 0", capacity, r.Cap(), r.Free(), r.Len(), want, want)
		}
	}
	if got := New[struct{}](MaxCapacity).Cap(); got != MaxCapacity {
		t.Errorf("New(MaxCapacity).Cap() = %d", got)
	}
}

func TestNew_PanicsOnACapacityNoRingHas(t *testing.T) {
	for _, capacity := range []int{-1, 0, MaxCapacity + 1} {
		func() {
			defer func() {
				want := fmt.Sprintf("ring: capacity %d is not from 1 to 2^30", capacity)
				if got := recover(); got != want {
					t.Errorf("New(%d) panicked with %v, want %q", capacity, got, want)
				}
			}()
			New[struct{}](capacity)
		}()
	}
}

func TestPut_IsUnseenUntilPublish(t *testing.T) {
	r := New[int](4)
	dst := make([]int, 4)
	for v := range 3 {
		if !r.Put(&v) {
			t.Fatalf("Put(%d) found the ring full", v)
		}
	}
	if r.Len() != 0 || r.Pop(dst) != 0 {
		t.Fatal("values were seen before Publish")
	}
	if got := r.Free(); got != 1 {
		t.Fatalf("Free = %d after 3 of 4, want 1", got)
	}
	r.Publish()
	if got := r.Len(); got != 3 {
		t.Fatalf("Len = %d after Publish, want 3", got)
	}
	if n := r.Pop(dst); !slices.Equal(dst[:n], []int{0, 1, 2}) {
		t.Fatalf("Pop gave %v", dst[:n])
	}
}

func TestPush_TakesWhatFitsAndPublishesEarlierPuts(t *testing.T) {
	r := New[string](4)
	first := "put"
	r.Put(&first)
	if n := r.Push("a", "b", "c", "d", "e"); n != 3 {
		t.Fatalf("Push took %d, want 3", n)
	}
	if n := r.Push("f"); n != 0 {
		t.Fatalf("Push into a full ring took %d", n)
	}
	if r.Put(&first) {
		t.Fatal("Put into a full ring succeeded")
	}
	dst := make([]string, 3)
	if n := r.Pop(dst); !slices.Equal(dst[:n], []string{"put", "a", "b"}) {
		t.Fatalf("Pop gave %q", dst[:n])
	}
	if n := r.Pop(dst); !slices.Equal(dst[:n], []string{"c"}) {
		t.Fatalf("Pop gave %q", dst[:n])
	}
	if n := r.Pop(nil); n != 0 {
		t.Fatalf("Pop(nil) = %d", n)
	}
}

// An observer that reads tail long after head must not be told of more values than the ring holds.
func TestLen_NeverExceedsTheCapacity(t *testing.T) {
	r := New[int](1)
	var stop atomic.Bool
	var busy sync.WaitGroup
	busy.Go(func() {
		dst := make([]int, 1)
		for !stop.Load() {
			r.Push(1)
			r.Pop(dst)
		}
	})
	var observers sync.WaitGroup
	for range 4 {
		observers.Go(func() {
			for range 500_000 {
				if n := r.Len(); n < 0 || n > 1 {
					t.Errorf("Len = %d of a ring of 1", n)
					return
				}
			}
		})
	}
	observers.Wait()
	stop.Store(true)
	busy.Wait()
}

// The producer and the consumer each check every value, across the wrap of the index.
func TestSPSC_CarriesEveryValueOnceAndInOrder(t *testing.T) {
	for _, capacity := range []int{1, 2, 8, 256} {
		t.Run(fmt.Sprint(capacity), func(t *testing.T) {
			total := uint64(20_000)
			r := New[[3]uint64](capacity)
			startAt(r, -uint32(total/2))
			var w sync.WaitGroup
			w.Go(func() {
				for v := uint64(0); v < total; {
					batch := min(v%7+1, total-v)
					for range batch {
						value := [3]uint64{v, ^v, v * v}
						for !r.Put(&value) {
							r.Publish()
							runtime.Gosched()
						}
						v++
					}
					r.Publish()
				}
			})
			dst := make([][3]uint64, 5)
			for v := uint64(0); v < total; {
				n := r.Pop(dst)
				if n == 0 {
					runtime.Gosched()
				}
				for _, got := range dst[:n] {
					if got != [3]uint64{v, ^v, v * v} {
						t.Errorf("value %d arrived as %v", v, got)
					}
					v++
				}
				if t.Failed() {
					t.FailNow()
				}
			}
			w.Wait()
			if r.Len() != 0 || r.Free() != r.Cap() {
				t.Errorf("Len %d, Free %d of %d at the end", r.Len(), r.Free(), r.Cap())
			}
		})
	}
}

// The pattern a completion queue sleeps by: the consumer announces that it is about to
// sleep and looks once more; the producer publishes and then looks for the announcement.
func TestPublish_ThenLookForASleeperLosesNoWakeup(t *testing.T) {
	const total = 20_000
	r := New[int](8)
	var asleep atomic.Bool
	wake := make(chan struct{}, 1)
	var w sync.WaitGroup
	w.Go(func() {
		for v := 0; v < total; {
			if n := r.Push(v); n == 0 {
				runtime.Gosched()
			} else {
				v++
			}
			if asleep.CompareAndSwap(true, false) {
				wake <- struct{}{}
			}
		}
	})
	dst := make([]int, 3)
	for v := 0; v < total; {
		n := r.Pop(dst)
		for _, got := range dst[:n] {
			if got != v {
				t.Fatalf("got %d, want %d", got, v)
			}
			v++
		}
		if n != 0 {
			continue
		}
		asleep.Store(true)
		// Either the value is seen here, or the producer sees the announcement.
		if r.Len() == 0 || !asleep.CompareAndSwap(true, false) {
			<-wake
		}
	}
	w.Wait()
}

func TestSPSC_DoesNotAllocate(t *testing.T) {
	r := New[[7]uint64](64)
	var v [7]uint64
	dst := make([][7]uint64, 16)
	allocs := testing.AllocsPerRun(1000, func() {
		for range 16 {
			r.Put(&v)
		}
		r.Publish()
		r.Push(v, v)
		for r.Pop(dst) != 0 {
		}
		if r.Free()+r.Len() != 64 {
			t.Fatal("values are left in the ring")
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations a batch", allocs)
	}
}

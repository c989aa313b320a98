package xdp

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
)

// descriptors is how many of them pass each ring between two goroutines. `make soak` has the race detector see as many
// as other runs do.
var descriptors = flag.Uint("xdp.descriptors", someDescriptors, "descriptors that pass each ring")

// newRing makes a ring over plain memory whose indices stand at start.
func newRing[T uint64 | Desc](size int, start uint32) ring[T] {
	producer, consumer := start, start
	return ring[T]{producer: &producer, consumer: &consumer, flags: new(uint32), entries: make([]T, size), mask: uint32(size - 1)}
}

// kernel is the other side of a ring, as Documentation/networking/af_xdp.rst has it and without any
// cleverness: it looks at both indices each time.
type kernel[T uint64 | Desc] struct{ ring[T] }

// produce adds up to n entries of values and returns how many there was room for.
func (k kernel[T]) produce(n int, value func(i int) T) int {
	at := atomic.LoadUint32(k.producer)
	for i := range n {
		if at-atomic.LoadUint32(k.consumer) == uint32(len(k.entries)) {
			return i
		}
		k.entries[at%uint32(len(k.entries))] = value(i)
		at++
		atomic.StoreUint32(k.producer, at)
	}
	return n
}

// consume takes up to n entries and returns how many there were.
func (k kernel[T]) consume(n int, take func(T)) int {
	at := atomic.LoadUint32(k.consumer)
	for i := range n {
		if at == atomic.LoadUint32(k.producer) {
			return i
		}
		take(k.entries[at%uint32(len(k.entries))])
		at++
		atomic.StoreUint32(k.consumer, at)
	}
	return n
}

// nth is the n-th value that passes a ring.
func nthChunk(n uint64) uint64 { return n * 0x9E3779B97F4A7C15 }

func nthDesc(n uint64) Desc { return Desc{Addr: nthChunk(n), Len: uint32(n), Options: uint32(n) & 1} }

// starts are indices to begin at: a new ring's, and such that the 32 bits wrap soon.
var starts = []uint32{0, math.MaxUint32 - 1000, math.MaxUint32}

// Any mixture of calls, in one goroutine, gives what a plain queue gives: the same entries, and the same room at
// every step.
func TestRings_BehaveAsAPlainQueue(t *testing.T) {
	for _, start := range starts {
		for _, size := range []int{1, 2, 64, 2048} {
			t.Run(fmt.Sprintf("start=%d/size=%d", start, size), func(t *testing.T) {
				producerAgainstQueue(t, size, start, nthChunk)
				producerAgainstQueue(t, size, start, nthDesc)
				consumerAgainstQueue(t, size, start, nthChunk)
				consumerAgainstQueue(t, size, start, nthDesc)
			})
		}
	}
}

// producerAgainstQueue is for the fill and transmit rings.
func producerAgainstQueue[T uint64 | Desc](t *testing.T, size int, start uint32, nth func(uint64) T) {
	rnd := rand.New(rand.NewPCG(uint64(size), uint64(start)))
	r := newRing[T](size, start)
	p, k := newProducer(r), kernel[T]{r}
	var queue []T // submitted and not yet taken
	var put []T   // put and not yet submitted
	n := uint64(0)
	for range 4_000 {
		switch rnd.IntN(3) {
		case 0:
			want := 1 + rnd.IntN(size)
			room := p.Room(want)
			if most := size - len(queue) - len(put); room > most || room < min(want, most) {
				t.Fatalf("there is room for %d, and Room(%d) says %d", most, want, room)
			}
			for range min(room, want) {
				p.Put(nth(n))
				put = append(put, nth(n))
				n++
			}
		case 1:
			p.Submit()
			queue, put = append(queue, put...), put[:0]
		case 2:
			want := rnd.IntN(size + 1)
			i := 0
			got := k.consume(want, func(v T) {
				if v != queue[i] {
					t.Fatalf("%v came where %v was due", v, queue[i])
				}
				i++
			})
			if got != min(want, len(queue)) {
				t.Fatalf("%d came of %d that were asked for and %d there are", got, want, len(queue))
			}
			queue = queue[got:]
		}
		if got := p.Pending(); got != len(queue)+len(put) {
			t.Fatalf("%d are pending, not %d", got, len(queue)+len(put))
		}
	}
}

// consumerAgainstQueue is for the completion and receive rings.
func consumerAgainstQueue[T uint64 | Desc](t *testing.T, size int, start uint32, nth func(uint64) T) {
	rnd := rand.New(rand.NewPCG(uint64(size), uint64(start)))
	r := newRing[T](size, start)
	c, k := newConsumer(r), kernel[T]{r}
	var queue []T
	n := uint64(0)
	for range 4_000 {
		if rnd.IntN(2) == 0 {
			got := k.produce(rnd.IntN(size+1), func(i int) T { return nth(n + uint64(i)) })
			for range got {
				queue = append(queue, nth(n))
				n++
			}
			continue
		}
		want := 1 + rnd.IntN(size)
		ready := c.Ready(want)
		if ready > len(queue) || ready < min(want, len(queue)) {
			t.Fatalf("there are %d, and Ready(%d) says %d", len(queue), want, ready)
		}
		for i := range ready {
			if got := c.Get(i); got != queue[i] {
				t.Fatalf("%v came where %v was due", got, queue[i])
			}
		}
		back := rnd.IntN(ready + 1)
		c.Release(back)
		queue = queue[back:]
	}
}

// Between two goroutines, one of them in the kernel's place, every entry arrives whole, once and in order, through the
// wrap of the 32-bit index. The race detector sees every entry handed over by an atomic.
func TestRings_HandOverBetweenGoroutines(t *testing.T) {
	total := uint64(*descriptors)
	if testing.Short() {
		total = 200_000
	}
	const size = 512
	start := uint32(math.MaxUint32 - total/2)
	t.Run("fill", func(t *testing.T) { producerToKernel(t, total, size, start, nthChunk) })
	t.Run("transmit", func(t *testing.T) { producerToKernel(t, total, size, start, nthDesc) })
	t.Run("completion", func(t *testing.T) { kernelToConsumer(t, total, size, start, nthChunk) })
	t.Run("receive", func(t *testing.T) { kernelToConsumer(t, total, size, start, nthDesc) })
}

func producerToKernel[T uint64 | Desc](t *testing.T, total uint64, size int, start uint32, nth func(uint64) T) {
	r := newRing[T](size, start)
	wrong := make(chan error, 1)
	go func() {
		k, rnd := kernel[T]{r}, rand.New(rand.NewPCG(1, 2))
		n := uint64(0)
		for n < total {
			got := k.consume(1+rnd.IntN(100), func(v T) {
				if v != nth(n) && len(wrong) == 0 {
					wrong <- fmt.Errorf("%v came where %v was due, number %d", v, nth(n), n)
				}
				n++
			})
			if got == 0 {
				runtime.Gosched()
			}
		}
		close(wrong)
	}()
	p, rnd := newProducer(r), rand.New(rand.NewPCG(3, 4))
	for n := uint64(0); n < total; {
		want := 1 + rnd.IntN(100)
		room := min(p.Room(want), want, int(total-n))
		for range room {
			p.Put(nth(n))
			n++
		}
		p.Submit()
		if room == 0 {
			runtime.Gosched()
		}
	}
	if err := <-wrong; err != nil {
		t.Fatal(err)
	}
	if p.Pending() != 0 || *r.producer != start+uint32(total) {
		t.Errorf("%d are pending; the index stands at %d", p.Pending(), *r.producer)
	}
}

func kernelToConsumer[T uint64 | Desc](t *testing.T, total uint64, size int, start uint32, nth func(uint64) T) {
	r := newRing[T](size, start)
	go func() {
		k, rnd := kernel[T]{r}, rand.New(rand.NewPCG(1, 2))
		for n := uint64(0); n < total; {
			got := k.produce(min(1+rnd.IntN(100), int(total-n)), func(i int) T { return nth(n + uint64(i)) })
			n += uint64(got)
			if got == 0 {
				runtime.Gosched()
			}
		}
	}()
	c, rnd := newConsumer(r), rand.New(rand.NewPCG(3, 4))
	for n := uint64(0); n < total; {
		want := 1 + rnd.IntN(100)
		ready := min(c.Ready(want), want)
		for i := range ready {
			if got := c.Get(i); got != nth(n) {
				t.Fatalf("%v came where %v was due, number %d", got, nth(n), n)
			}
			n++
		}
		c.Release(ready)
		if ready == 0 {
			runtime.Gosched()
		}
	}
	if got := *r.consumer; got != start+uint32(total) {
		t.Errorf("the index stands at %d", got)
	}
}

func TestRings_DoNotAllocate(t *testing.T) {
	r := newRing[Desc](64, 0)
	p, c := newProducer(r), newConsumer(r)
	if n := testing.AllocsPerRun(100, func() {
		if p.Room(1) < 1 || p.NeedWakeup() {
			t.Fatal("no room")
		}
		p.Put(Desc{Len: 1})
		p.Submit()
		if c.Ready(1) != 1 || c.Get(0).Len != 1 {
			t.Fatal("nothing came")
		}
		c.Release(1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

package xdp

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/go-roce/roce/link"
)

const (
	testChunk  = 2048
	testChunks = 64
	testSize   = 5000
)

// wire is a receiver with the other side of its rings: what the kernel would do.
type wire struct {
	t      *testing.T
	r      *receiver
	umem   *UMEM
	rx     kernel[Desc]
	fill   kernel[uint64]
	count  counters
	chunks []uint64 // the kernel's
	woken  int
}

func newWire(t *testing.T) *wire {
	t.Helper()
	u, err := NewUMEM(testChunks, testChunk)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = u.Close() })
	rx, fill := newRing[Desc](testChunks, ^uint32(0)-100), newRing[uint64](2*testChunks, ^uint32(0)-50)
	w := &wire{t: t, umem: u, rx: kernel[Desc]{rx}, fill: kernel[uint64]{fill}}
	c, p := newConsumer(rx), newProducer(fill)
	w.r = newReceiver(&Socket{RX: &c, Fill: &p, multi: true}, u, testChunks, testSize, &w.count)
	w.r.wake = func() { w.woken++ }
	return w
}

// arrive puts a frame into chunks of the kernel's, as many as it needs or the lengths given say.
func (w *wire) arrive(frame []byte, lengths ...int) {
	w.t.Helper()
	w.fill.consume(2*testChunks, func(at uint64) { w.chunks = append(w.chunks, at) })
	if lengths == nil {
		for left := len(frame); left > 0; left -= testChunk - headroom {
			lengths = append(lengths, min(left, testChunk-headroom))
		}
	}
	for i, n := range lengths {
		d := Desc{Addr: w.chunks[0] + headroom, Len: uint32(n)}
		w.chunks = w.chunks[1:]
		copy(w.umem.Bytes(d.Addr, n), frame)
		frame = frame[n:]
		if i < len(lengths)-1 {
			d.Options = OptionContinued
		}
		if w.rx.produce(1, func(int) Desc { return d }) != 1 {
			w.t.Fatal("the receive ring is full")
		}
	}
}

// all checks that every chunk and every buffer is where it can be used again.
func (w *wire) all() {
	w.t.Helper()
	w.fill.consume(2*testChunks, func(at uint64) { w.chunks = append(w.chunks, at) })
	slices.Sort(w.chunks)
	if n := len(slices.Compact(w.chunks)); n != testChunks {
		w.t.Errorf("the kernel has %d of %d chunks", n, testChunks)
	}
	if len(w.r.free) != wholeBuffers {
		w.t.Errorf("%d of %d buffers are free", len(w.r.free), wholeBuffers)
	}
}

func someFrame(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// Frames of one chunk and of several come whole and in order, whatever is leased at a time and in whatever order
// it is given back, and no chunk is lost.
func TestReceiver_FramesComeWholeAndInOrder(t *testing.T) {
	w := newWire(t)
	rnd := rand.New(rand.NewPCG(5, 6))
	var due [][]byte
	var leased, back []link.Frame
	dst := make([]link.Frame, 16)
	for range 3000 {
		w.fill.consume(2*testChunks, func(at uint64) { w.chunks = append(w.chunks, at) })
		for len(w.chunks) >= 3 && rnd.IntN(3) > 0 {
			frame := someFrame(rnd, 60+rnd.IntN(testSize-59))
			w.arrive(frame)
			due = append(due, frame)
		}
		n := w.r.take(dst[:1+rnd.IntN(len(dst))])
		for i, f := range dst[:n] {
			if !bytes.Equal(f.Data, due[i]) {
				t.Fatalf("a frame of %d bytes came where one of %d was due, or it changed", len(f.Data), len(due[i]))
			}
		}
		due, leased = due[n:], append(leased, dst[:n]...)
		rnd.Shuffle(len(leased), func(i, j int) { leased[i], leased[j] = leased[j], leased[i] })
		k := rnd.IntN(len(leased) + 1)
		back, leased = append(back[:0], leased[:k]...), leased[k:]
		w.r.giveBack(back)
	}
	for w.r.ready() {
		n := w.r.take(dst)
		w.r.giveBack(dst[:n])
	}
	w.r.giveBack(leased)
	w.all()
	if w.count.rxFrames.Load() == 0 || w.count.rxTruncated.Load() != 0 || w.count.rxBad.Load() != 0 {
		t.Errorf("counted %+v", w.count.stats(&Statistics{}))
	}
}

func TestReceiver_LongFramesAreCountedAndTheirChunksReturn(t *testing.T) {
	w := newWire(t)
	rnd := rand.New(rand.NewPCG(5, 6))
	w.arrive(someFrame(rnd, testSize+1))
	good := someFrame(rnd, testSize)
	w.arrive(good)
	dst := make([]link.Frame, 4)
	if n := w.r.take(dst); n != 1 || !bytes.Equal(dst[0].Data, good) {
		t.Fatalf("%d frames came", n)
	}
	w.r.giveBack(dst[:1])
	if s := w.count.stats(&Statistics{}); s.RxTruncated != 1 || s.RxFrames != 1 {
		t.Errorf("counted %+v", s)
	}
	w.all()
}

// A driver may publish the descriptors of a frame one by one.
func TestReceiver_WaitsForTheRestOfAFrame(t *testing.T) {
	w := newWire(t)
	frame := someFrame(rand.New(rand.NewPCG(5, 6)), 4000)
	w.arrive(frame)
	end := *w.rx.producer
	dst := make([]link.Frame, 4)
	for hidden := uint32(2); hidden > 0; hidden-- {
		*w.rx.producer = end - hidden
		w.r.rx.produced = *w.rx.producer
		if n := w.r.take(dst); n != 0 {
			t.Fatalf("a frame of which %d descriptors are missing came", hidden)
		}
	}
	*w.rx.producer = end
	if n := w.r.take(dst); n != 1 || !bytes.Equal(dst[0].Data, frame) {
		t.Fatalf("%d frames came", n)
	}
	w.r.giveBack(dst[:1])
	w.all()
}

// When all buffers for frames of several chunks are leased the rest waits in the ring, and nothing is lost.
func TestReceiver_RunsOutOfBuffersWithoutLoss(t *testing.T) {
	w := newWire(t)
	rnd := rand.New(rand.NewPCG(5, 6))
	dst, leased := make([]link.Frame, 8), []link.Frame(nil)
	for range wholeBuffers {
		w.arrive(someFrame(rnd, 3000))
		n := w.r.take(dst)
		leased = append(leased, dst[:n]...)
	}
	one, two, three := someFrame(rnd, 100), someFrame(rnd, 3000), someFrame(rnd, 100)
	for _, f := range [][]byte{one, two, three} {
		w.arrive(f)
	}
	if n := w.r.take(dst); n != 1 || !bytes.Equal(dst[0].Data, one) {
		t.Fatalf("%d frames came", n)
	}
	w.r.giveBack(append(leased, dst[0]))
	if n := w.r.take(dst); n != 2 || !bytes.Equal(dst[0].Data, two) || !bytes.Equal(dst[1].Data, three) {
		t.Fatalf("%d frames came", n)
	}
	w.r.giveBack(dst[:2])
	w.all()
}

// Pitfall 62: a descriptor that points nowhere is counted, and is no reason to crash.
func TestReceiver_CountsDescriptorsOutsideOfTheMemory(t *testing.T) {
	w := newWire(t)
	size := uint64(len(w.umem.mem))
	bad := []Desc{{Addr: size, Len: 1}, {Addr: size - 10, Len: 11}, {Addr: ^uint64(0), Len: 100}, {Addr: 0, Len: ^uint32(0)}}
	w.rx.produce(len(bad), func(i int) Desc { return bad[i] })
	good := someFrame(rand.New(rand.NewPCG(5, 6)), 100)
	w.arrive(good)
	dst := make([]link.Frame, 8)
	if n := w.r.take(dst); n != 1 || !bytes.Equal(dst[0].Data, good) {
		t.Fatalf("%d frames came", n)
	}
	if s := w.count.stats(&Statistics{}); s.RxDropped != uint64(len(bad)) {
		t.Errorf("counted %+v", s)
	}
}

// Pitfall 58: whenever chunks go back the driver is told, if it wants to be.
func TestReceiver_WakesTheDriver(t *testing.T) {
	w := newWire(t)
	rnd := rand.New(rand.NewPCG(5, 6))
	dst := make([]link.Frame, 8)
	w.arrive(someFrame(rnd, 3000)) // its chunks go back when it was copied together
	n := w.r.take(dst)
	if w.woken != 1 {
		t.Errorf("woken %d times for the chunks of a copied frame", w.woken)
	}
	w.r.giveBack(dst[:n])
	w.arrive(someFrame(rnd, 100))
	n = w.r.take(dst)
	w.r.giveBack(dst[:n])
	if w.woken != 2 {
		t.Errorf("woken %d times", w.woken)
	}
}

func TestReceiver_DoesNotAllocate(t *testing.T) {
	w := newWire(t)
	rnd := rand.New(rand.NewPCG(5, 6))
	small, large := someFrame(rnd, 100), someFrame(rnd, 3000)
	w.chunks = make([]uint64, 0, 1<<16)
	dst := make([]link.Frame, 8)
	if n := testing.AllocsPerRun(100, func() {
		w.arrive(small, 100)
		w.arrive(large, 1700, 1300)
		n := w.r.take(dst)
		w.r.giveBack(dst[:n])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

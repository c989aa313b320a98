package xdp

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/go-roce/roce/link"
)

const testDepth = 16

// outlet is a sender with the other side of its rings.
type outlet struct {
	s          *sender
	umem       *UMEM
	tx         kernel[Desc]
	completion kernel[uint64]
	count      counters
}

func newOutlet(t *testing.T) *outlet {
	t.Helper()
	u, err := NewUMEM(testChunks+3*testDepth, testChunk)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = u.Close() })
	tx, completion := newRing[Desc](ringSize(6*testDepth), ^uint32(0)-70), newRing[uint64](ringSize(3*testDepth), ^uint32(0)-90)
	o := &outlet{umem: u, tx: kernel[Desc]{tx}, completion: kernel[uint64]{completion}}
	p, c := newProducer(tx), newConsumer(completion)
	o.s = newSender(&Socket{TX: &p, Completion: &c}, u, testChunks*testChunk, testDepth, testSize, &o.count)
	return o
}

// Frames of every length leave whole and in order, in chunks that nobody else uses, and a buffer comes back
// only when all of its chunks were sent, in whatever order they are.
func TestSender_FramesLeaveWholeAndInOrder(t *testing.T) {
	o := newOutlet(t)
	rnd := rand.New(rand.NewPCG(7, 8))
	var due [][]byte  // submitted and not yet taken
	var sent []uint64 // taken and not yet completed
	busy := map[uint64]bool{}
	var present []byte // of the frame being taken
	leased := 0
	for range 5000 {
		fs := make([]link.Frame, 1+rnd.IntN(testDepth))
		n := o.s.lease(fs)
		leased += n
		for i := range fs[:n] {
			if len(fs[i].Data) != testSize {
				t.Fatalf("a buffer has %d bytes", len(fs[i].Data))
			}
			if rnd.IntN(8) == 0 {
				fs[i].Data = fs[i].Data[:0] // changed our mind
				continue
			}
			frame := someFrame(rnd, 60+rnd.IntN(testSize-59))
			fs[i].Data = fs[i].Data[:copy(fs[i].Data, frame)]
			due = append(due, frame)
		}
		o.s.submit(fs[:n])
		o.tx.consume(rnd.IntN(20), func(d Desc) {
			chunk := d.Addr &^ (testChunk - 1)
			if d.Addr < testChunks*testChunk || d.Addr+uint64(d.Len) > chunk+testChunk {
				t.Fatalf("descriptor %+v is not in one chunk of the sender's", d)
			}
			if busy[d.Addr] {
				t.Fatalf("chunk %#x is sent twice at a time", d.Addr)
			}
			busy[d.Addr] = true
			sent = append(sent, d.Addr)
			present = append(present, o.umem.Bytes(d.Addr, int(d.Len))...)
			if d.Options&OptionContinued == 0 {
				if !bytes.Equal(present, due[0]) {
					t.Fatalf("%d bytes left where %d were due, or they changed", len(present), len(due[0]))
				}
				due, present = due[1:], present[:0]
			}
		})
		rnd.Shuffle(len(sent), func(i, j int) { sent[i], sent[j] = sent[j], sent[i] })
		k := rnd.IntN(len(sent) + 1)
		got := o.completion.produce(k, func(i int) uint64 { return sent[i] })
		for _, at := range sent[:got] {
			delete(busy, at)
		}
		sent = sent[got:]
	}
	o.tx.consume(1000, func(d Desc) { sent = append(sent, d.Addr) })
	for len(sent) > 0 {
		sent = sent[o.completion.produce(len(sent), func(i int) uint64 { return sent[i] }):]
		o.s.reap()
	}
	if len(o.s.free) != testDepth {
		t.Errorf("%d of %d buffers are back", len(o.s.free), testDepth)
	}
	if leased < 5000 {
		t.Errorf("only %d buffers were leased", leased)
	}
}

// Pitfall 62: what cannot be sent is counted, and its buffer comes back.
func TestSender_RefusesWhatCannotBeSent(t *testing.T) {
	o := newOutlet(t)
	fs := make([]link.Frame, 3)
	o.s.lease(fs)
	fs[0].Data = make([]byte, testSize+1)
	fs[1].Data, fs[1].Gather = fs[1].Data[:60], [][]byte{make([]byte, 10)}
	fs[2].Data = fs[2].Data[:60]
	o.s.submit(fs)
	if s := o.count.stats(&Statistics{TxInvalid: 5}); s.TxErrors != 2+5 || s.TxFrames != 1 || s.TxBytes != 60 {
		t.Errorf("counted %+v", s)
	}
	if o.tx.consume(10, func(Desc) {}) != 1 || len(o.s.free) != testDepth-1 {
		t.Errorf("%d buffers are free", len(o.s.free))
	}
}

// A queue whose frames nobody takes gives out all its buffers and then none; those left after a kick are counted once.
func TestSender_IsFullWithoutLoss(t *testing.T) {
	o := newOutlet(t)
	fs := make([]link.Frame, 2*testDepth)
	n := o.s.lease(fs)
	if n != testDepth {
		t.Fatalf("%d buffers of %d", n, testDepth)
	}
	o.s.submit(fs[:n])
	if again := o.s.lease(fs); again != 0 {
		t.Fatalf("%d more buffers", again)
	}
	o.s.kicked()
	o.s.kicked()
	if s := o.count.stats(&Statistics{}); s.TxKept != testDepth || s.TxFrames != testDepth {
		t.Errorf("counted %+v", s)
	}
	if got := o.tx.consume(1000, func(d Desc) { o.completion.produce(1, func(int) uint64 { return d.Addr }) }); got != 3*testDepth {
		t.Errorf("%d chunks left", got)
	}
	if n := o.s.lease(fs); n != testDepth {
		t.Errorf("%d of %d buffers came back", n, testDepth)
	}
}

func TestSender_DoesNotAllocate(t *testing.T) {
	o := newOutlet(t)
	fs := make([]link.Frame, 4)
	if n := testing.AllocsPerRun(100, func() {
		n := o.s.lease(fs)
		o.s.submit(fs[:n])
		o.s.kicked()
		o.tx.consume(1000, func(d Desc) { o.completion.produce(1, func(int) uint64 { return d.Addr }) })
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

package transport

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/go-roce/roce/memreg"
)

// One goroutine posts sends and one receives while another drives both ends: the
// queues are rings with one producer and one consumer. Run with -race.
func TestConcurrency_BesideTheDriver(t *testing.T) {
	const (
		n     = 6000
		taken = n / 3 * 2 // every third is a READ
	)
	p := newPair(t, func(o *options) { o.depth, o.inline = 16, 64 })
	var posters sync.WaitGroup
	post := func(count int, queue func() error) {
		posters.Go(func() {
			for posted := 0; posted < count; {
				switch err := queue(); {
				case err == nil:
					posted++
				case errors.Is(err, ErrQueueFull):
					runtime.Gosched()
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	sends, receives := uint64(0), uint64(0)
	inline := make([]byte, 32)
	addr, key := p.b.va(0x8000), p.b.region.Key()
	lists := [2][]SGE{p.a.sge(0, 2000), p.a.sge(0x8000, 100)}
	post(n, func() error {
		wr := SendWR{ID: sends, Flags: Signaled}
		switch sends % 3 {
		case 0:
			wr.Opcode, wr.SGL = WRSend, lists[0]
		case 1:
			wr.Opcode, wr.Flags, wr.Inline = WRSend, Signaled|Inline, inline
		case 2:
			wr.Opcode, wr.SGL, wr.RemoteAddr, wr.RKey = WRRead, lists[1], addr, key
		}
		err := p.a.qp.PostSend(&wr)
		if err == nil {
			sends++
		}
		return err
	})
	where := p.b.sge(0x10000, 2000)
	post(taken, func() error {
		err := p.b.qp.PostRecv(&RecvWR{ID: receives, SGL: where})
		if err == nil {
			receives++
		}
		return err
	})
	for len(p.a.done) < n && !t.Failed() {
		p.advance(640e3)
		if len(p.a.sent) > 1000 {
			p.a.sent, p.b.sent = nil, nil
		}
		runtime.Gosched()
	}
	posters.Wait()
	for i, c := range p.a.done {
		if c.ID != uint64(i) || c.Status != StatusSuccess {
			t.Fatalf("completion %d is of %d, %v", i, c.ID, c.Status)
		}
	}
	for i, c := range p.b.done {
		if c.ID != uint64(i) || c.Status != StatusSuccess {
			t.Fatalf("receive %d is of %d, %v", i, c.ID, c.Status)
		}
	}
}

// Work requests posted while the queue pair fails are flushed, each once.
func TestConcurrency_BesideAFailure(t *testing.T) {
	for range 50 {
		p := newPair(t, func(o *options) { o.depth = 1024 })
		var poster sync.WaitGroup
		began := make(chan struct{})
		poster.Go(func() {
			close(began)
			for i := range uint64(500) {
				wr := SendWR{ID: i, Opcode: WRWrite, Flags: Signaled}
				if i == 20 {
					wr.SGL, wr.RemoteAddr = p.a.sge(0, 8), 1 // refused by the peer
				}
				if err := p.a.qp.PostSend(&wr); err != nil {
					t.Error(err)
				}
				if err := p.a.qp.PostRecv(&RecvWR{ID: i}); err != nil {
					t.Error(err)
				}
			}
		})
		<-began
		for p.a.qp.State() != StateErr {
			p.run()
		}
		poster.Wait()
		p.run()
		var next [2]uint64
		for _, c := range p.a.done {
			q := 0
			if c.Recv {
				q = 1
			}
			want := StatusWRFlushErr
			if !c.Recv && c.ID < 20 {
				want = StatusSuccess
			} else if !c.Recv && c.ID == 20 {
				want = StatusRemAccessErr
			}
			if c.ID != next[q] || c.Status != want {
				t.Fatalf("completion of %d (receive %v) is %v, want %d, %v", c.ID, c.Recv, c.Status, next[q], want)
			}
			next[q]++
		}
		if next != [2]uint64{500, 500} {
			t.Fatalf("%v completions, want 500 of each", next)
		}
	}
}

// Two queue pairs, each driven by a goroutine of its own, work on the same memory of a
// third party: overlapping WRITEs, READs of memory being written, atomics. Bytes may
// mix, nothing else may go wrong, and no atomic is lost. Run with -race.
func TestPitfall24_OverlappingRequestsOfTwoQueuePairs(t *testing.T) {
	var mu sync.Mutex // Register only
	shared := make([]byte, 8192)
	table := memreg.NewTable(func() uint32 { return 0xC0FFEE })
	region, err := table.Register(1, shared, memreg.Options{Access: allAccess})
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 200
	var both sync.WaitGroup
	for worker := range 2 {
		both.Go(func() {
			mu.Lock()
			p := newPair(t, func(o *options) { o.memory = 1 << 16 })
			// b answers from the shared table; nothing is posted on it.
			p.b.qp.cfg.Table = table
			mu.Unlock()
			fill(p.a.mem, byte(worker))
			for i := range uint64(rounds) {
				off := 8 * ((i + uint64(worker)) % 50)
				wr := SendWR{ID: i, Flags: Signaled, RemoteAddr: region.Addr() + off + 64, RKey: region.Key()}
				switch i % 4 {
				case 0, 1:
					wr.Opcode, wr.SGL = WRWrite, p.a.sge(0, 5000)
				case 2:
					wr.Opcode, wr.SGL = WRRead, p.a.sge(8192, 6000)
				case 3:
					wr.Opcode, wr.SGL, wr.RemoteAddr, wr.CompareAdd = WRFetchAdd, p.a.sge(0x8000, 8), region.Addr(), 1
				}
				p.a.send(wr)
				p.settle()
			}
			for _, c := range p.a.done {
				if c.Status != StatusSuccess {
					t.Errorf("worker %d: %d ends with %v", worker, c.ID, c.Status)
				}
			}
		})
	}
	both.Wait()
	if got := region.LoadUint64(0); got != 2*rounds/4 {
		t.Errorf("%d of %d atomics count", got, 2*rounds/4)
	}
}

// What is sent of a READ response is copied before its ICRC is computed.
func TestPitfall24_ReadResponsesAreMarkedForCopying(t *testing.T) {
	p := newPair(t, nil)
	p.a.send(p.a.read(1, 0, 3000, p.b, 0))
	p.a.send(p.a.write(2, 3000, p.b, 0))
	p.settle() // pollPacket checks Out.Copy of every packet
	if len(p.b.sent) != 4 {
		t.Fatalf("%d responses, want 4", len(p.b.sent))
	}
}

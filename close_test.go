package roce_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/link"
)

// pump keeps a's send queue full of WRITEs to b and counts what was posted and what
// completed, until the device closes.
type pump struct {
	*end
	posted, completed atomic.Int64
	wg                sync.WaitGroup
}

func startPump(t *testing.T, a, b *end, qp *roce.QP) *pump {
	p := &pump{end: a}
	p.wg.Go(func() {
		wr := roce.SendWR{Opcode: roce.WRWrite, Flags: roce.Signaled, SGL: []roce.SGE{a.mr.SGE(0, 10000)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.Key()}
		for {
			n, err := qp.PostSend(wr, wr, wr)
			p.posted.Add(int64(n))
			if err != nil && !errors.Is(err, roce.ErrQueueFull) {
				if !errors.Is(err, roce.ErrClosed) {
					t.Error(err)
				}
				return
			}
		}
	})
	p.wg.Go(func() {
		var got [8]roce.Completion
		for {
			if err := a.cq.Wait(context.Background()); err != nil {
				if !errors.Is(err, roce.ErrClosed) {
					t.Error(err)
				}
				return
			}
			p.completed.Add(int64(a.cq.Poll(got[:])))
		}
	})
	return p
}

// Position: every posted work request completes exactly once, also when the device closes under
// full traffic, and nothing hangs.
func TestClose_DeviceUnderTraffic(t *testing.T) {
	for _, manual := range []bool{false, true} {
		for range 5 {
			a, b := newPair(t, rig{dev: roce.Config{Manual: manual}})
			p := startPump(t, a, b, a.qp)
			stop := make(chan struct{})
			var driving sync.WaitGroup
			if manual {
				driving.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							b.dev.Progress()
						}
					}
				})
			}
			time.Sleep(20 * time.Millisecond)
			if err := a.dev.Close(); err != nil {
				t.Fatal(err)
			}
			p.wg.Wait()
			close(stop)
			driving.Wait()
			if x, y := p.posted.Load(), p.completed.Load(); x != y || x == 0 {
				t.Errorf("manual=%v: %d posted, %d completed", manual, x, y)
			}
			if err := a.cq.Wait(t.Context()); !errors.Is(err, roce.ErrClosed) {
				t.Errorf("waiting on a closed device: %v", err)
			}
			if _, err := a.pd.CreateQP(roce.QPConfig{}); !errors.Is(err, roce.ErrClosed) {
				t.Errorf("creating a queue pair on a closed device: %v", err)
			}
			if _, err := a.pd.RegisterMemory(make([]byte, 1), 0); !errors.Is(err, roce.ErrClosed) {
				t.Errorf("registering memory on a closed device: %v", err)
			}
		}
	}
}

// Pitfall 43: queue pairs come and go on both sides under the traffic of others, and take their
// completions along.
func TestClose_QueuePairsUnderTraffic(t *testing.T) {
	a, b := newPair(t, rig{})
	p := startPump(t, a, b, a.qp)
	for range 100 {
		for _, e := range []*end{a, b} {
			qp := e.newQP(t, roce.QPConfig{})
			if err := qp.Init(t.Context()); err != nil {
				t.Fatal(err)
			}
			if e == b {
				if err := qp.Close(); err != nil {
					t.Fatal(err)
				}
				continue
			}
			n, err := qp.PostRecv(make([]roce.RecvWR, 20)...)
			if err != nil {
				t.Fatal(err)
			}
			p.posted.Add(int64(n))
			if err := qp.Close(); err != nil {
				t.Fatal(err)
			}
			if err := qp.Close(); !errors.Is(err, roce.ErrClosed) {
				t.Fatalf("closed twice: %v", err)
			}
			if _, err := qp.PostRecv(roce.RecvWR{}); !errors.Is(err, roce.ErrClosed) {
				t.Fatalf("posting to a closed queue pair: %v", err)
			}
		}
	}
	// The peer vanishes: what is in flight is flushed when the device closes.
	if err := b.qp.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.dev.Close(); err != nil {
		t.Fatal(err)
	}
	p.wg.Wait()
	if x, y := p.posted.Load(), p.completed.Load(); x != y {
		t.Errorf("%d posted, %d completed", x, y)
	}
}

// Pitfall 43 for regions: after Deregister nothing touches the memory, which the race detector sees to.
func TestDeregister_UnderTraffic(t *testing.T) {
	for range 20 {
		a, b := newPair(t, rig{tweak: func(r *roce.Remote) { r.PathMTU = 1024 }})
		memory := make([]byte, 32<<10)
		mr, err := b.pd.RegisterMemory(memory, allAccess)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			a.send(t, roce.SendWR{Opcode: roce.WRWrite, SGL: []roce.SGE{a.mr.SGE(0, len(memory))}, RemoteAddr: mr.Addr(), RKey: mr.Key()})
			a.send(t, roce.SendWR{Opcode: roce.WRRead, SGL: []roce.SGE{a.mr.SGE(0, len(memory))}, RemoteAddr: mr.Addr(), RKey: mr.Key()})
		}
		time.Sleep(200 * time.Microsecond)
		if err := mr.Deregister(); err != nil {
			t.Fatal(err)
		}
		for i := range memory {
			memory[i] = 0xA5 // unsynchronised with the loop but for the grace period
		}
		ok := true
		for range 40 {
			c := a.next(t)
			switch {
			case c.Status == roce.StatusSuccess && ok:
			case c.Status == roce.StatusRemAccessErr && ok:
				ok = false
			case c.Status == roce.StatusWRFlushErr && !ok:
			default:
				t.Fatalf("a work request ended with %v", c.Status)
			}
		}
		for i, x := range memory {
			if x != 0xA5 {
				t.Fatalf("byte %d was written after Deregister", i)
			}
		}
		if err := mr.Deregister(); err == nil {
			t.Fatal("a region was deregistered twice")
		}
	}
}

func TestCQ_CloseNeedsItUnused(t *testing.T) {
	a, _ := newPair(t, rig{})
	if err := a.cq.Close(); err == nil {
		t.Fatal("a completion queue in use was closed")
	}
	a.recv(t, 0, 8)
	if err := a.qp.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.cq.Close(); err == nil {
		t.Fatal("a completion queue was closed that holds a completion")
	}
	if c := a.next(t); c.Status != roce.StatusWRFlushErr {
		t.Fatalf("the receive of a closed queue pair ended with %v", c.Status)
	}
	if err := a.cq.Close(); err != nil {
		t.Fatal(err)
	}
}

// A link that goes away by itself ends the device: all completes, and the event and errors say why.
func TestDevice_SurvivesTheEndOfItsLink(t *testing.T) {
	la, lb := link.NewMemPair(link.MemOptions{})
	a, b := newEnd(t, la, rig{}), newEnd(t, lb, rig{})
	join(t, a, b, rig{})
	a.recv(t, 0, 8)
	if err := la.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = a.qp.PostSend(roce.SendWR{Opcode: roce.WRSend}) // wakes the device, which may notice before
	if c := a.next(t); c.Status != roce.StatusWRFlushErr {
		t.Fatalf("the receive ended with %v", c.Status)
	}
	for e := range a.dev.Events() {
		if e.Type == roce.EventFatal {
			break
		}
	}
	if _, err := a.pd.CreateQP(roce.QPConfig{}); !errors.Is(err, roce.ErrClosed) {
		t.Fatalf("creating a queue pair: %v", err)
	}
}

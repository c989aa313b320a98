package roce_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/link"
	"github.com/go-roce/roce/test/exercise"
)

// pump keeps a's send queue full of WRITEs to b and counts what was posted and what
// completed, until the device closes.
type pump struct {
	*exercise.End
	posted, completed atomic.Int64
	wg                sync.WaitGroup
}

func startPump(t *testing.T, a, b *exercise.End, qp *roce.QP) *pump {
	p := &pump{End: a}
	p.wg.Go(func() {
		wr := roce.SendWR{Opcode: roce.WRWrite, Flags: roce.Signaled, SGL: []roce.SGE{a.MR.SGE(0, 10000)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.Key()}
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
			if err := a.CQ.Wait(context.Background()); err != nil {
				if !errors.Is(err, roce.ErrClosed) {
					t.Error(err)
				}
				return
			}
			p.completed.Add(int64(a.CQ.Poll(got[:])))
		}
	})
	return p
}

// flow waits until some of the traffic has arrived.
func (p *pump) flow(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(exercise.Patience); p.completed.Load() < 50; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d posted, %d completed", p.posted.Load(), p.completed.Load())
		}
	}
}

// Position: every posted work request completes exactly once, also when the device closes under
// full traffic, and nothing hangs.
func TestClose_DeviceUnderTraffic(t *testing.T) {
	for _, manual := range []bool{false, true} {
		for range 5 {
			a, b := newPair(t, options{Device: roce.Config{Manual: manual}})
			p := startPump(t, a, b, a.QP)
			stop := make(chan struct{})
			var driving sync.WaitGroup
			if manual {
				driving.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							b.Dev.Progress()
						}
					}
				})
			}
			p.flow(t)
			if err := a.Dev.Close(); err != nil {
				t.Fatal(err)
			}
			p.wg.Wait()
			close(stop)
			driving.Wait()
			if x, y := p.posted.Load(), p.completed.Load(); x != y {
				t.Errorf("manual=%v: %d posted, %d completed", manual, x, y)
			}
			if err := a.CQ.Wait(t.Context()); !errors.Is(err, roce.ErrClosed) {
				t.Errorf("waiting on a closed device: %v", err)
			}
			if _, err := a.PD.CreateQP(roce.QPConfig{}); !errors.Is(err, roce.ErrClosed) {
				t.Errorf("creating a queue pair on a closed device: %v", err)
			}
			if _, err := a.PD.RegisterMemory(make([]byte, 1), 0); !errors.Is(err, roce.ErrClosed) {
				t.Errorf("registering memory on a closed device: %v", err)
			}
		}
	}
}

// Pitfall 43: queue pairs come and go on both sides under the traffic of others, and take their
// completions along.
func TestClose_QueuePairsUnderTraffic(t *testing.T) {
	a, b := newPair(t, options{CQ: 8192}) // room for what is flushed before the pump has polled it
	p := startPump(t, a, b, a.QP)
	p.flow(t)
	for range 100 {
		for _, e := range []*exercise.End{a, b} {
			qp := e.NewQP(t, roce.QPConfig{})
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
	if err := b.QP.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Dev.Close(); err != nil {
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
		a, b := newPair(t, options{Tweak: func(r *roce.Remote) { r.PathMTU = 1024 }})
		memory := make([]byte, 32<<10)
		mr, err := b.PD.RegisterMemory(memory, exercise.AllAccess)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			a.Send(t, roce.SendWR{Opcode: roce.WRWrite, SGL: []roce.SGE{a.MR.SGE(0, len(memory))}, RemoteAddr: mr.Addr(), RKey: mr.Key()})
			a.Send(t, roce.SendWR{Opcode: roce.WRRead, SGL: []roce.SGE{a.MR.SGE(0, len(memory))}, RemoteAddr: mr.Addr(), RKey: mr.Key()})
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
			c := a.Next(t)
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
	a, _ := newPair(t, options{})
	if err := a.CQ.Close(); err == nil {
		t.Fatal("a completion queue in use was closed")
	}
	a.Recv(t, 0, 8)
	if err := a.QP.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.CQ.Close(); err == nil {
		t.Fatal("a completion queue was closed that holds a completion")
	}
	if c := a.Next(t); c.Status != roce.StatusWRFlushErr {
		t.Fatalf("the receive of a closed queue pair ended with %v", c.Status)
	}
	if err := a.CQ.Close(); err != nil {
		t.Fatal(err)
	}
}

// A link that goes away by itself ends the device: all completes, and the event and errors say why.
func TestDevice_SurvivesTheEndOfItsLink(t *testing.T) {
	la, lb := link.NewMemPair(link.MemOptions{})
	o := options{Device: roce.Config{Logger: slog.New(slog.DiscardHandler)}}
	a, b := exercise.New(t, la, o), exercise.New(t, lb, o)
	exercise.Join(t, a, b, o)
	a.Recv(t, 0, 8)
	if err := la.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = a.QP.PostSend(roce.SendWR{Opcode: roce.WRSend}) // wakes the device, which may notice before
	if c := a.Next(t); c.Status != roce.StatusWRFlushErr {
		t.Fatalf("the receive ended with %v", c.Status)
	}
	for e := range a.Dev.Events() {
		if e.Type == roce.EventFatal {
			break
		}
	}
	if _, err := a.PD.CreateQP(roce.QPConfig{}); !errors.Is(err, roce.ErrClosed) {
		t.Fatalf("creating a queue pair: %v", err)
	}
}

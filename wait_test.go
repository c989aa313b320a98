package roce_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/test/exercise"
)

// Pitfall 41: goroutines that wait, poll and post again from there, at both ends: no wake-up is lost in
// as many rounds. (internal/engine does a million waits against a busy loop.)
func TestWait_PollsAndPostsAgain(t *testing.T) {
	rounds := 20_000
	if testing.Short() {
		rounds = 2_000
	}
	for _, cfg := range []roce.Config{{}, {Spin: -1}, {Manual: true}, {Manual: true, Spin: -1}} {
		t.Run(fmt.Sprintf("manual=%v/spin=%v", cfg.Manual, cfg.Spin), func(t *testing.T) {
			a, b := newPair(t, options{Device: cfg})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			var wg sync.WaitGroup
			player := func(e *exercise.End) {
				var got [4]roce.Completion
				for received := 0; received < rounds; {
					if err := e.CQ.Wait(ctx); err != nil {
						t.Errorf("after %d rounds: %v", received, err)
						return
					}
					for _, c := range got[:e.CQ.Poll(got[:])] {
						if err := e.QP.Explain(c); err != nil {
							t.Error(err)
							return
						}
						if !c.Recv {
							continue
						}
						received++
						if _, err := e.QP.PostRecv(roce.RecvWR{SGL: []roce.SGE{e.MR.SGE(0, 8)}}); err != nil {
							t.Error(err)
							return
						}
						if _, err := e.QP.PostSend(roce.SendWR{Opcode: roce.WRSend, SGL: []roce.SGE{e.MR.SGE(8, 8)}}); err != nil {
							t.Error(err)
							return
						}
					}
				}
				e.Dev.Progress() // the last answer
			}
			for _, e := range []*exercise.End{a, b} {
				e.Recv(t, 0, 8)
				e.Recv(t, 0, 8)
			}
			if _, err := a.QP.PostSend(roce.SendWR{Opcode: roce.WRSend, SGL: []roce.SGE{a.MR.SGE(8, 8)}}); err != nil {
				t.Fatal(err)
			}
			wg.Go(func() { player(a) })
			wg.Go(func() { player(b) })
			wg.Wait()
			exercise.Clean(t, a, b)
		})
	}
}

// A Wait ends with its context, also one that drives the device itself, and the next one works.
func TestWait_EndsWithItsContext(t *testing.T) {
	for _, manual := range []bool{false, true} {
		a, b := newPair(t, options{Device: roce.Config{Manual: manual}})
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			if err := a.CQ.Wait(ctx); err == nil || ctx.Err() == nil {
				t.Fatalf("manual=%v: nothing can have completed: %v", manual, err)
			}
			cancel()
		}
		a.Send(t, roce.SendWR{Opcode: roce.WRWrite})
		if manual {
			a.Succeed(t, a, b)
		} else {
			a.Succeed(t)
		}
	}
}

// Two goroutines wait on two queues of one manual device: whoever drives serves both.
func TestWait_ManualWaitersDriveForEachOther(t *testing.T) {
	a, b := newPair(t, options{Device: roce.Config{Manual: true}})
	other := *a
	var err error
	if other.CQ, err = a.Dev.CreateCQ(256); err != nil {
		t.Fatal(err)
	}
	other.QP = other.NewQP(t, roce.QPConfig{})
	peer := *b
	peer.QP = b.NewQP(t, roce.QPConfig{})
	exercise.Join(t, &other, &peer, options{})
	for i := range 200 {
		first, second := a, &other
		if i%2 == 1 {
			first, second = second, first
		}
		var wg sync.WaitGroup
		for _, e := range []*exercise.End{first, second} {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), exercise.Patience)
				defer cancel()
				if err := e.CQ.Wait(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		first.Send(t, roce.SendWR{Opcode: roce.WRWrite})
		second.Send(t, roce.SendWR{Opcode: roce.WRWrite})
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		for waiting := true; waiting; {
			select {
			case <-done:
				waiting = false
			default:
				b.Dev.Progress()
			}
		}
		first.Succeed(t, a, b)
		second.Succeed(t, a, b)
		if t.Failed() {
			return
		}
	}
}

package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/link"
	"github.com/go-roce/roce/memreg"
	"github.com/go-roce/roce/transport"
)

// running returns a loop that Run drives over a memory link, and closes it in the end.
func running(t *testing.T) *Loop {
	t.Helper()
	a, _ := link.NewMemPair(link.MemOptions{})
	l := New(Config{Queue: a.Queues()[0], Caps: a.Caps(), Clock: clock.System(), QPNs: a.QPNs(), Random: func() uint32 { return 77 }})
	var wg sync.WaitGroup
	wg.Go(l.Run)
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
		_ = a.Close()
	})
	return l
}

func TestDo_RunsOneFunctionAtATime(t *testing.T) {
	l := running(t)
	n := 0 // the race detector watches it
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if err := l.Do(t.Context(), func(clock.Time) { n++ }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := l.Do(t.Context(), func(clock.Time) {
		if n != 1600 {
			t.Errorf("%d of 1600 functions ran", n)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

func TestDo_GivesUpWithItsContext(t *testing.T) {
	l := New(Config{})
	if !l.TryDrive() {
		t.Fatal("nobody drives, and yet the loop is taken")
	}
	if l.TryDrive() {
		t.Fatal("two drive at once")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	ran := false
	if err := l.Do(ctx, func(clock.Time) { ran = true }); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("with a driver who does not step: %v", err)
	}
	l.runControls(0)
	l.Release()
	if ran {
		t.Fatal("a function ran after its caller had given up")
	}
}

func TestDo_RunsInTheCallerWhenNobodyDrives(t *testing.T) {
	l := New(Config{Clock: &clock.Manual{}})
	ran := false
	if err := l.Do(t.Context(), func(clock.Time) { ran = true }); err != nil || !ran {
		t.Fatalf("ran: %v, %v", ran, err)
	}
}

// Whoever posts while the loop closes gets net.ErrClosed or a completion, never neither or both.
func TestClose_CompletesEverythingPostedMeanwhile(t *testing.T) {
	table := memreg.NewTable(func() uint32 { return 1 })
	for range 300 {
		a, _ := link.NewMemPair(link.MemOptions{})
		l := New(Config{Queue: a.Queues()[0], Caps: a.Caps(), Clock: clock.System(), QPNs: a.QPNs(), Random: func() uint32 { return 77 }})
		var loop, posters sync.WaitGroup
		loop.Go(l.Run)
		cq := NewCQ(4096, 1)
		q, err := l.CreateQP(t.Context(), QPConfig{Config: transport.Config{Type: transport.TypeRC, Table: table, RecvDepth: 4096}, RecvCQ: cq})
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Modify(t.Context(), &transport.Attr{Mask: transport.AttrState | transport.AttrPKeyIndex | transport.AttrPort | transport.AttrAccess, State: transport.StateInit, Port: 1}, nil); err != nil {
			t.Fatal(err)
		}
		var taken [2]int
		for i := range taken {
			posters.Go(func() {
				for taken[i] < 2000 {
					n, err := q.PostRecv(make([]transport.RecvWR, 3))
					taken[i] += n
					if err != nil {
						return
					}
				}
			})
		}
		l.Close()
		posters.Wait()
		loop.Wait()
		got, buf := 0, make([]transport.Completion, 512)
		for n := cq.Poll(buf); n > 0; n = cq.Poll(buf) {
			got += n
		}
		if got != taken[0]+taken[1] {
			t.Fatalf("%d receives were taken, %d completed", taken[0]+taken[1], got)
		}
		_ = a.Close()
	}
}

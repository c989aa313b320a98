package roce_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/link"
	"github.com/go-roce/roce/test/exercise"
)

// moodyLink is a memory link that changes under its device.
type moodyLink struct {
	*link.Mem
	events chan link.Event
	mtu    atomic.Int64
	mu     sync.Mutex
	moved  map[netip.Addr][6]byte
}

func newMoodyLink(m *link.Mem) *moodyLink {
	l := &moodyLink{Mem: m, events: make(chan link.Event), moved: map[netip.Addr][6]byte{}}
	l.mtu.Store(int64(m.Caps().MTU))
	return l
}

func (l *moodyLink) Events() <-chan link.Event { return l.events }

func (l *moodyLink) Caps() link.Caps {
	c := l.Mem.Caps()
	c.MTU = int(l.mtu.Load())
	return c
}

func (l *moodyLink) Resolve(ctx context.Context, src, dst netip.Addr) (link.Route, error) {
	r, err := l.Mem.Resolve(ctx, src, dst)
	l.mu.Lock()
	defer l.mu.Unlock()
	if mac, ok := l.moved[dst]; ok {
		r.DstMAC = mac
	}
	return r, err
}

// Pitfall 65: a peer that moves to other hardware is followed.
func TestWatch_FollowsNeighbours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := still()
		sw := link.NewMemSwitch(link.MemOptions{Clock: r.Device.Clock})
		var ports [3]*link.Mem
		for i := range ports {
			var err error
			if ports[i], err = sw.Open(); err != nil {
				t.Fatal(err)
			}
		}
		la := newMoodyLink(ports[0])
		peer := ports[1].Addrs()[0]
		la.moved[peer] = ports[2].MAC() // stale: nobody there speaks RoCE
		r.Device.Logger = slog.New(slog.DiscardHandler)
		a, b := exercise.New(t, la, r), exercise.New(t, ports[1], r)
		exercise.Join(t, a, b, r)
		a.Send(t, roce.SendWR{Opcode: roce.WRWrite})
		synctest.Wait()
		if n := b.Dev.Counters().QPs.RxPackets; n != 0 {
			t.Fatalf("%d packets reached the peer at its old place", n)
		}
		la.mu.Lock()
		clear(la.moved)
		la.mu.Unlock()
		la.events <- link.Event{Kind: link.EventNeighbor, Addr: peer, MAC: ports[1].MAC()}
		a.Succeed(t)
	})
}

// Pitfall 65: an MTU lowered under a queue pair is an error with a reason, not silence.
func TestWatch_FailsQueuePairsWhosePacketsNoLongerFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := still()
		lm, lb := link.NewMemPair(link.MemOptions{Clock: r.Device.Clock})
		la := newMoodyLink(lm)
		var log bytes.Buffer
		r.Device.Logger = slog.New(slog.NewTextHandler(&log, nil))
		a, b := exercise.New(t, la, r), exercise.New(t, lb, r)
		exercise.Join(t, a, b, r)
		small := *a
		small.QP = a.NewQP(t, roce.QPConfig{})
		other := *b
		other.QP = b.NewQP(t, roce.QPConfig{})
		exercise.Join(t, &small, &other, options{Tweak: func(r *roce.Remote) { r.PathMTU = 1024 }})
		a.Recv(t, 0, 8)

		la.mtu.Store(1500)
		la.events <- link.Event{Kind: link.EventMTU, MTU: 1500}
		synctest.Wait()
		if a.QP.State() != roce.StateErr || small.QP.State() != roce.StateRTS {
			t.Fatalf("path MTU 4096 is in %v, 1024 in %v", a.QP.State(), small.QP.State())
		}
		c := a.Next(t)
		if err := a.QP.Explain(c); !strings.Contains(err.Error(), "was lowered to 1500") {
			t.Errorf("the flushed receive says %v", err)
		}
		e := <-a.Dev.Events()
		if e.Type != roce.EventPathMTU || e.QPN != a.QP.QPN() || !strings.Contains(e.Text, "4096") {
			t.Errorf("the event is %+v", e)
		}
		if !strings.Contains(log.String(), "level=ERROR") {
			t.Errorf("the log says %s", &log)
		}
		if err := a.QP.Modify(t.Context(), &roce.Attr{Mask: roce.AttrState, State: roce.StateReset}); err != nil {
			t.Fatal(err)
		}
		err := a.QP.Connect(t.Context(), roce.Remote{Addr: lb.Addrs()[0], QPN: b.QP.QPN(), PathMTU: 2048})
		if err == nil || !strings.Contains(err.Error(), "2048") || a.QP.State() != roce.StateReset {
			t.Errorf("connecting with a path MTU that does not fit: %v, and it is in %v", err, a.QP.State())
		}
	})
}

func TestWatch_TellsOfTheInterface(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := still()
		lm, _ := link.NewMemPair(link.MemOptions{Clock: r.Device.Clock})
		la := newMoodyLink(lm)
		r.Device.Logger = slog.New(slog.DiscardHandler)
		a := exercise.New(t, la, r)
		for _, tc := range []struct {
			kind link.EventKind
			want roce.EventType
		}{{link.EventDown, roce.EventPortErr}, {link.EventUp, roce.EventPortActive}, {link.EventAddrs, roce.EventGIDChange}} {
			la.events <- link.Event{Kind: tc.kind}
			if e := <-a.Dev.Events(); e.Type != tc.want || e.Text == "" {
				t.Errorf("link event %d became %+v", tc.kind, e)
			}
		}
		// A program that does not read loses the oldest.
		for range 100 {
			la.events <- link.Event{Kind: link.EventDown}
		}
		la.events <- link.Event{Kind: link.EventUp}
		synctest.Wait()
		var last roce.Event
		n := len(a.Dev.Events())
		for range n {
			last = <-a.Dev.Events()
		}
		if last.Type != roce.EventPortActive || n > 64 {
			t.Errorf("of 101 unread events %d are kept, the last is %+v", n, last)
		}
	})
}

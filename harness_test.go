package roce_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/link"
)

// patience bounds everything a test waits for.
const patience = 20 * time.Second

// allAccess lets a peer do everything to a region.
const allAccess = roce.LocalWrite | roce.RemoteWrite | roce.RemoteRead | roce.RemoteAtomic | roce.RemoteInvalidate

// end is one side of a connection under test.
type end struct {
	dev *roce.Device
	pd  *roce.PD
	cq  *roce.CQ
	qp  *roce.QP
	mr  *roce.MR
}

// rig describes the two ends that newPair makes.
type rig struct {
	dev   roce.Config
	link  link.MemOptions
	qp    roce.QPConfig // completion queues are filled in
	cq    int           // depth; 0 means 1024
	mem   int           // bytes of each end's region; 0 means 64 KiB
	ipv6  bool
	tweak func(*roce.Remote)
}

func newPair(t testing.TB, r rig) (a, b *end) {
	t.Helper()
	la, lb := link.NewMemPair(r.link)
	a, b = newEnd(t, la, r), newEnd(t, lb, r)
	for _, e := range []*end{a, b} {
		if err := e.qp.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	join(t, a, b, r)
	return a, b
}

// join connects two ends.
func join(t testing.TB, a, b *end, r rig) {
	t.Helper()
	at := 0
	if r.ipv6 {
		at = 1
	}
	for _, x := range [][2]*end{{a, b}, {b, a}} {
		remote := roce.Remote{Addr: x[1].dev.Addrs()[at], QPN: x[1].qp.QPN(), PSN: x[1].qp.PSN()}
		if r.tweak != nil {
			r.tweak(&remote)
		}
		if err := x[0].qp.Connect(t.Context(), remote); err != nil {
			t.Fatal(err)
		}
	}
}

func newEnd(t testing.TB, l link.Link, r rig) *end {
	t.Helper()
	dev, err := roce.OpenLink(t.Context(), l, &r.dev)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	e := &end{dev: dev, pd: dev.AllocPD()}
	if r.cq == 0 {
		r.cq = 1024
	}
	if e.cq, err = dev.CreateCQ(r.cq); err != nil {
		t.Fatal(err)
	}
	if r.mem == 0 {
		r.mem = 64 << 10
	}
	if e.mr, err = e.pd.RegisterMemory(make([]byte, r.mem), allAccess); err != nil {
		t.Fatal(err)
	}
	e.qp = e.newQP(t, r.qp)
	return e
}

// newQP makes one more queue pair on the end's completion queue.
func (e *end) newQP(t testing.TB, c roce.QPConfig) *roce.QP {
	t.Helper()
	if c.SendDepth == 0 {
		c.SendDepth = 64
	}
	if c.RecvDepth == 0 {
		c.RecvDepth = 64
	}
	if c.Access == 0 {
		c.Access = roce.RemoteWrite | roce.RemoteRead | roce.RemoteAtomic
	}
	c.SendCQ, c.RecvCQ = e.cq, e.cq
	qp, err := e.pd.CreateQP(c)
	if err != nil {
		t.Fatal(err)
	}
	return qp
}

// send posts a signaled send work request.
func (e *end) send(t testing.TB, wr roce.SendWR) {
	t.Helper()
	wr.Flags |= roce.Signaled
	if _, err := e.qp.PostSend(wr); err != nil {
		t.Fatal(err)
	}
}

// recv posts a receive into n bytes at offset off.
func (e *end) recv(t testing.TB, off, n int) {
	t.Helper()
	if _, err := e.qp.PostRecv(roce.RecvWR{ID: uint64(off), SGL: []roce.SGE{e.mr.SGE(off, n)}}); err != nil {
		t.Fatal(err)
	}
}

// next waits for one completion. Ends that need driving meanwhile are driven.
func (e *end) next(t testing.TB, drive ...*end) roce.Completion {
	t.Helper()
	var c [1]roce.Completion
	for deadline := time.Now().Add(patience); e.cq.Poll(c[:]) == 0; {
		if time.Now().After(deadline) {
			t.Fatalf("no completion in %v\nhere  %v %+v", patience, e.qp.State(), e.dev.Counters())
		}
		if len(drive) == 0 {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			_ = e.cq.Wait(ctx)
			cancel()
		}
		for _, d := range drive {
			d.dev.Progress()
		}
	}
	return c[0]
}

// succeed waits for one completion, which must be a success.
func (e *end) succeed(t testing.TB, drive ...*end) roce.Completion {
	t.Helper()
	c := e.next(t, drive...)
	if err := e.qp.Explain(c); err != nil {
		t.Fatal(err)
	}
	return c
}

// clean fails the test if something was sent twice or dropped between two ends that lose nothing.
func clean(t testing.TB, ends ...*end) {
	t.Helper()
	for _, e := range ends {
		c := e.dev.Counters()
		if len(c.Drops) != 0 || c.QPs.Retransmits != 0 || c.QPs.Timeouts != 0 || c.QPs.NAKsReceived != 0 || c.Link.RxDropped != 0 || c.Link.TxErrors != 0 {
			t.Errorf("a clean link had faults: %+v", c)
		}
	}
}

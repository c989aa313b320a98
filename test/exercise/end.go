// Package exercise carries out every operation between two devices and checks every
// byte and completion. Tests of devices over different links share it.
package exercise

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/link"
)

// Patience bounds everything a test waits for.
const Patience = 20 * time.Second

// AllAccess lets a peer do everything to a region.
const AllAccess = roce.LocalWrite | roce.RemoteWrite | roce.RemoteRead | roce.RemoteAtomic | roce.RemoteInvalidate

// End is one side of a connection under test.
type End struct {
	Dev *roce.Device
	PD  *roce.PD
	CQ  *roce.CQ
	QP  *roce.QP
	MR  *roce.MR
}

// Options describe an End. The zero values are what each field says.
type Options struct {
	Device roce.Config
	// QP is its queue pair; queues of depth 0 get 64 places, Access 0 becomes everything.
	QP roce.QPConfig
	// CQ is the depth of the one completion queue; 0 means 1024.
	CQ int
	// Memory is the bytes of its region; 0 means 64 KiB.
	Memory int
	// Family chooses among the addresses of the ends: the first address for which it is
	// true is used. nil means the first of all.
	Family func(netip.Addr) bool
	// Tweak, if not nil, changes how the ends connect.
	Tweak func(*roce.Remote)
}

// New opens a device on l and makes what the End has. All is closed when the test ends.
func New(t testing.TB, l link.Link, o Options) *End {
	t.Helper()
	Patient(&o.Device)
	dev, err := roce.OpenLink(t.Context(), l, &o.Device)
	if err != nil {
		t.Fatal(err)
	}
	return On(t, dev, o)
}

// Patient keeps a device on a link that loses nothing, unless it says otherwise, from taking a machine that stood still for
// a packet that got lost.
func Patient(c *roce.Config) {
	if c.Recovery == nil && !c.Impair.Active() {
		r := roce.DefaultRecovery()
		r.Probe = 0
		c.Recovery = &r
	}
}

// On is New for an open device.
func On(t testing.TB, dev *roce.Device, o Options) *End {
	t.Helper()
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	e := &End{Dev: dev, PD: dev.AllocPD()}
	if o.CQ == 0 {
		o.CQ = 1024
	}
	var err error
	if e.CQ, err = dev.CreateCQ(o.CQ); err != nil {
		t.Fatal(err)
	}
	if o.Memory == 0 {
		o.Memory = 64 << 10
	}
	if e.MR, err = e.PD.RegisterMemory(make([]byte, o.Memory), AllAccess); err != nil {
		t.Fatal(err)
	}
	e.QP = e.NewQP(t, o.QP)
	return e
}

// NewQP makes one more queue pair on the End's completion queue.
func (e *End) NewQP(t testing.TB, c roce.QPConfig) *roce.QP {
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
	c.SendCQ, c.RecvCQ = e.CQ, e.CQ
	qp, err := e.PD.CreateQP(c)
	if err != nil {
		t.Fatal(err)
	}
	return qp
}

// lossTimeout is the ACK timeout code of connections whose link loses nothing, 13 s: so late that a machine which
// stood still for a while is not taken for a packet that got lost.
const lossTimeout = 20

// Join connects two Ends.
func Join(t testing.TB, a, b *End, o Options) {
	t.Helper()
	for _, x := range [][2]*End{{a, b}, {b, a}} {
		remote := roce.Remote{QPN: x[1].QP.QPN(), PSN: x[1].QP.PSN(), Timeout: new(uint8(lossTimeout))}
		for _, addr := range x[1].Dev.Addrs() {
			if o.Family == nil || o.Family(addr) {
				remote.Addr = addr
				break
			}
		}
		if o.Tweak != nil {
			o.Tweak(&remote)
		}
		if err := x[0].QP.Connect(t.Context(), remote); err != nil {
			t.Fatal(err)
		}
	}
}

// Send posts a signaled send work request.
func (e *End) Send(t testing.TB, wr roce.SendWR) {
	t.Helper()
	wr.Flags |= roce.Signaled
	if _, err := e.QP.PostSend(wr); err != nil {
		t.Fatal(err)
	}
}

// Recv posts a receive into n bytes at offset off, which is also its ID.
func (e *End) Recv(t testing.TB, off, n int) {
	t.Helper()
	if _, err := e.QP.PostRecv(roce.RecvWR{ID: uint64(off), SGL: []roce.SGE{e.MR.SGE(off, n)}}); err != nil {
		t.Fatal(err)
	}
}

// Next waits for one completion. Ends that drive themselves manually are given to
// be driven meanwhile.
func (e *End) Next(t testing.TB, drive ...*End) roce.Completion {
	t.Helper()
	var c [1]roce.Completion
	for deadline := time.Now().Add(Patience); e.CQ.Poll(c[:]) == 0; {
		if time.Now().After(deadline) {
			t.Fatalf("no completion in %v; the queue pair is in %v, counters %+v", Patience, e.QP.State(), e.Dev.Counters())
		}
		if len(drive) == 0 {
			ctx, cancel := context.WithTimeout(t.Context(), Patience)
			_ = e.CQ.Wait(ctx)
			cancel()
		}
		for _, d := range drive {
			d.Dev.Progress()
		}
	}
	return c[0]
}

// Succeed waits for one completion, which must be a success.
func (e *End) Succeed(t testing.TB, drive ...*End) roce.Completion {
	t.Helper()
	c := e.Next(t, drive...)
	if err := e.QP.Explain(c); err != nil {
		t.Fatal(err)
	}
	return c
}

// Clean fails the test if something was sent twice, refused or dropped, as between ends
// that lose nothing it must not be.
func Clean(t testing.TB, ends ...*End) {
	t.Helper()
	for _, e := range ends {
		c := e.Dev.Counters()
		if len(c.Drops) != 0 || c.QPs.Retransmits != 0 || c.QPs.Timeouts != 0 || c.QPs.NAKsReceived != 0 || c.Link.RxDropped != 0 || c.Link.TxErrors != 0 {
			t.Errorf("a clean link had faults: %+v", c)
		}
	}
}

package engine

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/link"
	"github.com/go-roce/roce/memreg"
	"github.com/go-roce/roce/transport"
)

// wireQueue is a link queue whose frames go straight into the peer's inbox. All that
// it does happens inside the calls, so a test sees one thing after the other.
type wireQueue struct {
	peer *wireQueue
	// bufLen is the length of transmit buffers, room how many there are at a time.
	bufLen, room int
	bufs         [][]byte
	leased       int
	inbox        []link.Frame
	spare        [][]byte

	sent     []link.Frame // copies of Data with Gather, kept when keep is set
	keep     bool
	lose     func(frame []byte) bool
	onSubmit func()
	onWait   func()
	waits    int
	wakes    int
	released []string // notes of dropped frames
	failure  error
}

const wireFrame = 5000

func (q *wireQueue) Recv(dst []link.Frame) (int, error) {
	n := copy(dst, q.inbox)
	q.inbox = q.inbox[:copy(q.inbox, q.inbox[n:])]
	return n, q.failure
}

func (q *wireQueue) Release(fs []link.Frame) {
	for i := range fs {
		if fs[i].Note != "" {
			q.released = append(q.released, fs[i].Note)
		}
		q.spare = append(q.spare, fs[i].Data[:cap(fs[i].Data)])
	}
}

func (q *wireQueue) Alloc(dst []link.Frame) int {
	n := min(len(dst), q.room-q.leased)
	for i := range dst[:n] {
		if len(q.bufs) == 0 {
			q.bufs = append(q.bufs, make([]byte, q.bufLen))
		}
		last := len(q.bufs) - 1
		dst[i] = link.Frame{Data: q.bufs[last]}
		q.bufs = q.bufs[:last]
	}
	q.leased += n
	return n
}

func (q *wireQueue) Submit(fs []link.Frame) {
	if q.onSubmit != nil {
		q.onSubmit()
	}
	for i := range fs {
		f := &fs[i]
		q.leased--
		q.bufs = append(q.bufs, f.Data[:cap(f.Data)])
		if len(f.Data) == 0 {
			continue
		}
		b := q.take()
		b = append(b, f.Data...)
		for _, g := range f.Gather {
			b = append(b, g...)
		}
		if q.keep {
			q.sent = append(q.sent, link.Frame{Data: append([]byte(nil), b...), Note: f.Note, Segment: f.Segment})
		}
		if q.lose != nil && q.lose(b) {
			continue
		}
		q.peer.inbox = append(q.peer.inbox, link.Frame{Data: b, Segment: f.Segment})
	}
}

func (q *wireQueue) take() []byte {
	if n := len(q.peer.spare); n > 0 {
		b := q.peer.spare[n-1]
		q.peer.spare = q.peer.spare[:n-1]
		return b[:0]
	}
	return make([]byte, 0, wireFrame)
}

func (q *wireQueue) Wait(clock.Time) error {
	q.waits++
	if q.onWait != nil {
		q.onWait()
	}
	return nil
}

func (q *wireQueue) Flush() error           { return nil }
func (q *wireQueue) Wake()                  { q.wakes++ }
func (q *wireQueue) Stats() link.Stats      { return link.Stats{} }
func (q *wireQueue) Close() error           { return nil }
func (q *wireQueue) inject(f ...link.Frame) { q.inbox = append(q.inbox, f...) }

// side is a loop on one end of a wire with a queue pair and 64 KiB of memory.
type side struct {
	queue *wireQueue
	loop  *Loop
	table *memreg.Table
	mr    *memreg.Region
	cq    *CQ
	qp    *QP
	addr  netip.Addr
	event []transport.Event
	polls [16]transport.Completion
}

// wire is two sides and a clock that stands still unless moved.
type wire struct {
	a, b *side
	clk  *clock.Manual
}

// wireOptions are what newWire makes. The zero value is a plain link over IPv4.
type wireOptions struct {
	gather bool
	bufLen int
	room   int
	ipv6   bool
	mtu    int
	// segments is how many packets a super-frame may hold; 0 means 1.
	segments int
	qp       transport.Config
	cq       int
}

const pd = memreg.PD(1)

func newWire(t testing.TB, o wireOptions) *wire {
	t.Helper()
	w := &wire{clk: &clock.Manual{}}
	w.clk.Advance(1)
	rnd := rand.New(rand.NewPCG(1, 2))
	addrs := [2]netip.Addr{netip.MustParseAddr("10.77.0.1"), netip.MustParseAddr("10.77.0.2")}
	if o.ipv6 {
		addrs = [2]netip.Addr{netip.MustParseAddr("fd77::1"), netip.MustParseAddr("fd77::2")}
	}
	if o.bufLen == 0 {
		o.bufLen = wireFrame
	}
	if o.room == 0 {
		o.room = 256
	}
	if o.cq == 0 {
		o.cq = 4096
	}
	w.a, w.b = w.newSide(t, o, addrs[0], rnd), w.newSide(t, o, addrs[1], rnd)
	w.a.queue.peer, w.b.queue.peer = w.b.queue, w.a.queue
	w.a.qp, w.b.qp = w.a.newQP(t, o.qp), w.b.newQP(t, o.qp)
	w.connect(t, w.a.qp, w.b.qp, o.mtu)
	return w
}

func (w *wire) newSide(t testing.TB, o wireOptions, addr netip.Addr, rnd *rand.Rand) *side {
	s := &side{queue: &wireQueue{bufLen: o.bufLen, room: o.room}, addr: addr}
	s.loop = New(Config{
		Queue:   s.queue,
		Caps:    link.Caps{MTU: 4500, MaxSegments: max(o.segments, 1), Gather: o.gather},
		Clock:   w.clk,
		QPNs:    link.QPNRange{First: 2, Count: 1 << 20},
		Random:  rnd.Uint32,
		Addrs:   []netip.Addr{addr},
		OnEvent: func(_ *QP, e transport.Event) { s.event = append(s.event, e) },
	})
	s.table = memreg.NewTable(rnd.Uint32)
	mem := make([]byte, 64<<10)
	for i := range mem {
		mem[i] = byte(rnd.Uint32())
	}
	var err error
	s.mr, err = s.table.Register(pd, mem, memreg.Options{
		Addr:   1 << 20, // the same in every run, so that runs compare
		Access: memreg.LocalWrite | memreg.RemoteWrite | memreg.RemoteRead | memreg.RemoteAtomic,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.cq = NewCQ(o.cq, 1)
	return s
}

func (s *side) newQP(t testing.TB, c transport.Config) *QP {
	t.Helper()
	c.Type, c.PD, c.Table = transport.TypeRC, pd, s.table
	if c.SendDepth == 0 {
		c.SendDepth, c.RecvDepth = 64, 64
	}
	if c.SendSGE == 0 {
		c.SendSGE, c.RecvSGE = 4, 4
	}
	q, err := s.loop.CreateQP(context.Background(), QPConfig{Config: c, SendCQ: s.cq, RecvCQ: s.cq})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// connect brings two queue pairs to RTS.
func (w *wire) connect(t testing.TB, a, b *QP, mtu int) {
	t.Helper()
	if mtu == 0 {
		mtu = 1024
	}
	for _, x := range []struct {
		s, peer *side
		q, to   *QP
	}{{w.a, w.b, a, b}, {w.b, w.a, b, a}} {
		encap, err := bth.NewEncap(bth.Path{Src: x.s.addr, Dst: x.peer.addr, SrcPort: bth.SourcePort(0, a.qpn, b.qpn)})
		if err != nil {
			t.Fatal(err)
		}
		for _, attr := range []*transport.Attr{
			{Mask: transport.AttrState | transport.AttrPKeyIndex | transport.AttrPort | transport.AttrAccess, State: transport.StateInit, Port: 1,
				Access: memreg.RemoteWrite | memreg.RemoteRead | memreg.RemoteAtomic},
			{Mask: transport.AttrState | transport.AttrAV | transport.AttrPathMTU | transport.AttrDestQPN | transport.AttrRQPSN | transport.AttrMaxDestRdAtomic | transport.AttrMinRNRTimer,
				State: transport.StateRTR, AV: transport.AV{Src: x.s.addr, Dst: x.peer.addr}, PathMTU: mtu, DestQPN: x.to.qpn, MaxDestRdAtomic: 16, MinRNRTimer: 1},
			{Mask: transport.AttrState | transport.AttrSQPSN | transport.AttrTimeout | transport.AttrRetryCnt | transport.AttrRNRRetry | transport.AttrMaxRdAtomic,
				State: transport.StateRTS, Timeout: 10, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 16},
		} {
			if err := x.q.Modify(context.Background(), attr, &encap); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// settle steps both loops until neither has anything left to do at this instant. It
// returns when the next timer is due.
func (w *wire) settle(t testing.TB) clock.Time {
	for range 100000 {
		nextA, busyA := w.a.loop.Step(w.clk.Now())
		nextB, busyB := w.b.loop.Step(w.clk.Now())
		if !busyA && !busyB && len(w.a.queue.inbox)+len(w.b.queue.inbox) == 0 {
			return min(nextA, nextB)
		}
	}
	t.Fatal("the loops never rest")
	return 0
}

func (s *side) sge(off, n int) transport.SGE {
	return transport.SGE{Addr: s.mr.Addr() + uint64(off), Length: uint32(n), LKey: s.mr.Key()}
}

func (s *side) send(t testing.TB, q *QP, wrs ...transport.SendWR) {
	t.Helper()
	if n, err := q.PostSend(wrs); err != nil {
		t.Fatalf("posted %d of %d: %v", n, len(wrs), err)
	}
}

// write returns a signaled WRITE of n bytes, from one offset here to another at the peer.
func (s *side) write(peer *side, from, to, n int) transport.SendWR {
	return transport.SendWR{Opcode: transport.WRWrite, Flags: transport.Signaled, SGL: []transport.SGE{s.sge(from, n)}, RemoteAddr: peer.mr.Addr() + uint64(to), RKey: peer.mr.Key()}
}

// succeed polls n completions, all of them successes.
func (s *side) succeed(t testing.TB, n int) {
	t.Helper()
	for n > 0 {
		k := s.cq.Poll(s.polls[:min(n, len(s.polls))])
		if k == 0 {
			t.Fatalf("%d completions are missing", n)
		}
		for _, c := range s.polls[:k] {
			if c.Status != transport.StatusSuccess {
				t.Fatalf("work request %d ended with %v", c.ID, c.Status)
			}
		}
		n -= k
	}
}

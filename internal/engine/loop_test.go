package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/link"
	"github.com/go-roce/roce/transport"
)

// A link may take whole frames, or gather lists with long or with short buffers: the
// peer must find the same bytes and right ICRCs.
func TestLoop_BuildsFramesForEveryKindOfLink(t *testing.T) {
	for _, o := range []wireOptions{
		{},
		{ipv6: true},
		{gather: true, bufLen: link.MaxHeader},
		{gather: true, bufLen: link.MaxHeader, ipv6: true},
		{gather: true},
		{mtu: 4096, gather: true, bufLen: 300},
		{mtu: 256, ipv6: true},
	} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			w := newWire(t, o)
			for _, n := range []int{0, 1, 2, 3, 4, 100, 257, 1023, 1024, 1025, 5000, 20001} {
				w.everyOperation(t, n)
			}
			for _, s := range []*side{w.a, w.b} {
				if c, qps, _, _ := s.loop.Snapshot(context.Background()); c.Drops != [bth.NumDrops]uint64{} || qps.Retransmits != 0 {
					t.Errorf("a clean wire had drops %v, %d retransmissions", c.Drops, qps.Retransmits)
				}
			}
		})
	}
}

// everyOperation moves n bytes in three pieces by each operation, and checks them.
func (w *wire) everyOperation(t *testing.T, n int) {
	t.Helper()
	a, b := w.a, w.b
	pieces := func(s *side, off int) []transport.SGE {
		return []transport.SGE{s.sge(off, n/3), s.sge(off+n/3, n/3), s.sge(off+n/3*2, n-n/3*2)}
	}
	check := func(what string, got, want []byte) {
		t.Helper()
		if !bytes.Equal(got, want) {
			t.Fatalf("%s of %d bytes moved the wrong ones", what, n)
		}
	}
	const from, to = 1001, 30000
	clear(b.mr.Bytes()[to : to+n])
	if _, err := b.qp.PostRecv([]transport.RecvWR{{SGL: pieces(b, to)}}); err != nil {
		t.Fatal(err)
	}
	a.send(t, a.qp, transport.SendWR{Opcode: transport.WRSend, Flags: transport.Signaled, SGL: pieces(a, from)})
	w.settle(t)
	a.succeed(t, 1)
	b.succeed(t, 1)
	check("a SEND", b.mr.Bytes()[to:to+n], a.mr.Bytes()[from:from+n])

	clear(b.mr.Bytes()[to : to+n])
	wr := a.write(b, 0, to, n)
	wr.SGL = pieces(a, from)
	a.send(t, a.qp, wr)
	w.settle(t)
	a.succeed(t, 1)
	check("a WRITE", b.mr.Bytes()[to:to+n], a.mr.Bytes()[from:from+n])

	clear(a.mr.Bytes()[to : to+n])
	a.send(t, a.qp, transport.SendWR{Opcode: transport.WRRead, Flags: transport.Signaled, SGL: pieces(a, to), RemoteAddr: b.mr.Addr() + from, RKey: b.mr.Key()})
	w.settle(t)
	a.succeed(t, 1)
	check("a READ", a.mr.Bytes()[to:to+n], b.mr.Bytes()[from:from+n])

	b.mr.StoreUint64(0, 7)
	a.send(t, a.qp, transport.SendWR{Opcode: transport.WRFetchAdd, Flags: transport.Signaled, SGL: []transport.SGE{a.sge(8, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.Key(), CompareAdd: 3})
	w.settle(t)
	a.succeed(t, 1)
	if x, y := a.mr.LoadUint64(8), b.mr.LoadUint64(0); x != 7 || y != 10 {
		t.Fatalf("fetch and add returned %d and left %d, want 7 and 10", x, y)
	}
}

// Whatever is acknowledged must be visible to the user before the acknowledgement can be to the peer.
func TestLoop_DeliversBeforeItAcknowledges(t *testing.T) {
	w := newWire(t, wireOptions{room: 3})
	delivered := 0
	w.b.queue.onSubmit = func() { delivered = max(delivered, w.b.cq.Len()) }
	w.a.queue.onSubmit = func() {}
	var recvs []transport.RecvWR
	var sends []transport.SendWR
	for i := range 40 {
		recvs = append(recvs, transport.RecvWR{SGL: []transport.SGE{w.b.sge(8*i, 8)}})
		sends = append(sends, transport.SendWR{Opcode: transport.WRSend, SGL: []transport.SGE{w.a.sge(0, 8)}, Flags: transport.Signaled})
	}
	if _, err := w.b.qp.PostRecv(recvs); err != nil {
		t.Fatal(err)
	}
	w.a.send(t, w.a.qp, sends...)
	acked := 0
	for range 1000 {
		w.a.loop.Step(w.clk.Now())
		w.b.loop.Step(w.clk.Now())
		acked += w.a.cq.Poll(w.a.polls[:])
		if acked > delivered {
			t.Fatalf("%d messages are acknowledged, but only %d were delivered when the acknowledgement left", acked, delivered)
		}
	}
	if acked != 40 {
		t.Fatalf("%d of 40 messages completed", acked)
	}
}

// With hardly any buffers the same packets leave in the same order.
func TestLoop_SurvivesAFullLinkAtEveryPacket(t *testing.T) {
	run := func(room int) (frames [][]byte) {
		w := newWire(t, wireOptions{room: room})
		w.a.queue.keep = true
		w.a.send(t, w.a.qp, w.a.write(w.b, 0, 1000, 9000), w.a.write(w.b, 500, 11000, 3), w.a.write(w.b, 7, 20000, 7001))
		for range 100 {
			// a comes to its turn more often than the link has room.
			w.a.loop.Step(w.clk.Now())
			w.a.loop.Step(w.clk.Now())
			w.b.loop.Step(w.clk.Now())
		}
		w.a.succeed(t, 3)
		for _, f := range w.a.queue.sent {
			frames = append(frames, f.Data)
		}
		return frames
	}
	want := run(256)
	for _, room := range []int{1, 2, 3, 5} {
		if got := run(room); !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("with %d buffers %d frames left, not the %d that leave with many", room, len(got), len(want))
		}
	}
}

// Two queue pairs with much to send take turns of at most a quantum, and neither
// loses its place when the link is full.
func TestLoop_ServesQueuePairsInTurn(t *testing.T) {
	for _, room := range []int{256, 7, 1} {
		w := newWire(t, wireOptions{room: room})
		a2, b2 := w.a.newQP(t, transport.Config{}), w.b.newQP(t, transport.Config{})
		w.connect(t, a2, b2, 1024)
		w.a.queue.keep = true
		w.a.send(t, w.a.qp, w.a.write(w.b, 0, 0, 60<<10))
		w.a.send(t, a2, w.a.write(w.b, 0, 0, 60<<10))
		w.settle(t)
		run, last, longest := 0, bth.QPN(0), 0
		for _, f := range w.a.queue.sent[:100] {
			var p bth.Packet
			if d := p.DecodeFrame(new(bth.ICRC), f.Data); d != bth.DropNone {
				t.Fatal(d)
			}
			if p.DestQP != last {
				run, last = 0, p.DestQP
			}
			run++
			longest = max(longest, run)
		}
		if longest > quantum {
			t.Errorf("with %d buffers a queue pair sent %d packets in a row while another waited, more than %d", room, longest, quantum)
		}
	}
}

func TestLoop_RetransmitsWhenTheTimerIsDue(t *testing.T) {
	w := newWire(t, wireOptions{})
	w.a.queue.keep = true
	lost := 0
	w.a.queue.lose = func([]byte) bool { lost++; return lost == 1 }
	w.a.send(t, w.a.qp, w.a.write(w.b, 0, 0, 10))
	due := w.settle(t)
	if w.a.cq.Len() != 0 || due == clock.Never {
		t.Fatalf("after the loss %d completions, next timer at %v", w.a.cq.Len(), due)
	}
	w.clk.AdvanceTo(due - 1)
	if w.settle(t); len(w.a.queue.sent) != 1 {
		t.Fatal("it was sent again too early")
	}
	w.clk.AdvanceTo(due)
	w.settle(t)
	w.a.succeed(t, 1)
	if n := len(w.a.queue.sent); n != 2 || w.a.queue.sent[0].Note != "" || w.a.queue.sent[1].Note != noteRetransmission {
		t.Fatalf("%d frames left, noted %+v", n, w.a.queue.sent)
	}
}

// Once all is done and acknowledged no timer is left, but for a lazy one that comes to nothing.
func TestLoop_RestsWhenNothingIsLeft(t *testing.T) {
	w := newWire(t, wireOptions{})
	for range 10 {
		w.a.send(t, w.a.qp, w.a.write(w.b, 0, 0, 3000))
		w.settle(t)
	}
	w.a.succeed(t, 10)
	if stale := w.settle(t); stale != clock.Never {
		w.clk.AdvanceTo(stale)
	}
	if due := w.settle(t); due != clock.Never {
		t.Fatalf("an idle loop wants to be called at %v", due)
	}
	if c, qps, _, _ := w.a.loop.Snapshot(context.Background()); qps.Timeouts != 0 || c.Starved != 0 {
		t.Fatalf("counters %+v %+v", c, qps)
	}
}

// A super-frame is cut, each packet verified with the header it had by itself.
func TestLoop_CutsSuperFrames(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		w := newWire(t, wireOptions{ipv6: ipv6})
		w.a.queue.keep = true
		w.a.queue.lose = func([]byte) bool { return true }
		w.a.send(t, w.a.qp, w.a.write(w.b, 3, 100, 5*1024))
		w.settle(t)
		frames := w.a.queue.sent
		if len(frames) != 5 {
			t.Fatalf("%d frames, want 5", len(frames))
		}
		// FIRST travels alone, three MIDDLE and the shorter-headed LAST together.
		head := w.a.qp.encap.Len()
		super := append([]byte(nil), frames[1].Data[:head]...)
		segment := len(frames[1].Data) - head
		for _, f := range frames[1:] {
			super = append(super, f.Data[head:]...)
		}
		w.a.qp.encap.Put(super, len(super)-head, 0)
		w.b.queue.inject(frames[0], link.Frame{Data: super, Segment: segment})
		w.a.queue.lose = nil
		w.settle(t)
		w.a.succeed(t, 1)
		if !bytes.Equal(w.b.mr.Bytes()[100:100+5*1024], w.a.mr.Bytes()[3:3+5*1024]) {
			t.Fatal("the WRITE left the wrong bytes")
		}
	}
}

// What is not for us, or broken, changes nothing and is counted and noted by its name.
func TestLoop_CountsWhatItDrops(t *testing.T) {
	w := newWire(t, wireOptions{})
	w.a.queue.keep = true
	w.a.queue.lose = func([]byte) bool { return true }
	w.a.send(t, w.a.qp, w.a.write(w.b, 0, 0, 100))
	w.settle(t)
	good := w.a.queue.sent[0].Data
	encap := w.a.qp.encap
	// rebuilt returns the packet changed by f, with the ICRC it then needs.
	rebuilt := func(f func(ib []byte)) []byte {
		b := append([]byte(nil), good...)
		f(b[encap.Len():])
		end := len(b) - bth.ICRCLen
		bth.PutICRC(b[end:], new(bth.ICRC).Start(b[encap.L3():end]))
		return b
	}
	elsewhere := append([]byte(nil), good...)
	other, err := bth.NewEncap(bth.Path{Src: w.a.addr, Dst: w.a.addr.Next().Next(), SrcPort: 0xC000})
	if err != nil {
		t.Fatal(err)
	}
	other.Put(elsewhere, len(good)-encap.Len(), 0)
	unknownQP := func(b []byte) {
		ib := b[encap.Len():]
		ib[5], ib[6], ib[7] = 0xAB, 0xCD, 0xEF
		end := len(b) - bth.ICRCLen
		bth.PutICRC(b[end:], new(bth.ICRC).Start(b[encap.L3():end]))
	}
	nobody := append([]byte(nil), elsewhere...)
	unknownQP(nobody)
	flipped := append([]byte(nil), good...)
	flipped[len(flipped)-10] ^= 1
	for _, tc := range []struct {
		frame []byte
		want  bth.Drop
	}{
		{flipped, bth.DropICRC},
		{rebuilt(func(ib []byte) { ib[2], ib[3] = 0x12, 0x34 }), bth.DropPKey},
		{rebuilt(func(ib []byte) { unknown := ib; unknown[5] ^= 0x80 }), bth.DropUnknownQP},
		{nobody, bth.DropNotOurs},
		{good[:20], bth.DropShort},
		{rebuilt(func(ib []byte) { ib[0] = 0x3F }), bth.DropOpcode},
	} {
		before := w.b.loop.counters.Drops[tc.want]
		w.b.queue.released = nil
		w.b.queue.inject(link.Frame{Data: append([]byte(nil), tc.frame...)})
		w.b.loop.Step(w.clk.Now())
		if got := w.b.loop.counters.Drops[tc.want]; got != before+1 {
			t.Errorf("%v was counted %d times", tc.want, got-before)
		}
		if !slices.Equal(w.b.queue.released, []string{tc.want.String()}) {
			t.Errorf("%v was noted as %q", tc.want, w.b.queue.released)
		}
	}
	if c := w.b.qp.tr.Counters(); c.RxPackets != 0 {
		t.Errorf("the queue pair saw %d packets", c.RxPackets)
	}
	// A limited member's P_Key matches a full member's.
	w.b.queue.inject(link.Frame{Data: rebuilt(func(ib []byte) { ib[2] = 0x7F })})
	w.b.loop.Step(w.clk.Now())
	if c := w.b.qp.tr.Counters(); c.RxPackets != 1 {
		t.Error("a packet of a limited member was not taken")
	}
}

func TestLoop_EndsWhenTheLinkFails(t *testing.T) {
	w := newWire(t, wireOptions{})
	var failure error
	w.a.loop.cfg.OnFailure = func(err error) { failure = err }
	w.a.queue.lose = func([]byte) bool { return true }
	w.a.send(t, w.a.qp, w.a.write(w.b, 0, 0, 10), w.a.write(w.b, 0, 0, 10))
	w.a.loop.Step(w.clk.Now())
	w.a.queue.failure = errors.New("gone")
	w.a.loop.Step(w.clk.Now())
	if failure == nil || !errors.Is(failure, w.a.queue.failure) {
		t.Fatalf("the failure told is %v", failure)
	}
	if n := w.a.cq.Poll(w.a.polls[:]); n != 2 || w.a.polls[0].Status != transport.StatusWRFlushErr {
		t.Fatalf("%d completions: %+v", n, w.a.polls[:n])
	}
	if _, err := w.a.qp.PostSend([]transport.SendWR{{}}); err == nil {
		t.Fatal("it takes work requests after the end")
	}
}

func TestLoop_RaisesEvents(t *testing.T) {
	w := newWire(t, wireOptions{})
	wr := w.a.write(w.b, 0, 0, 10)
	wr.RKey++
	w.a.send(t, w.a.qp, wr)
	w.settle(t)
	if !slices.Contains(w.b.event, transport.EventAccessErr) {
		t.Fatalf("a key violation raised %v", w.b.event)
	}
}

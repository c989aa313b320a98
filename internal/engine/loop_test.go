package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

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
		{segments: 64, bufLen: 60_000},
		{segments: 64, bufLen: 60_000, gather: true},
		{segments: 7, bufLen: 60_000, gather: true, ipv6: true},
		{mtu: 4096, segments: 64, bufLen: 60_000, gather: true},
		{mtu: 4096, segments: 64, bufLen: 10_000},
		{mtu: 256, segments: 64, bufLen: 60_000, gather: true}, // some payloads are copied, some are not
	} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			w := newWire(t, o)
			w.a.queue.keep, w.b.queue.keep = true, true
			for _, n := range []int{0, 1, 2, 3, 4, 100, 257, 1023, 1024, 1025, 5000, 20001} {
				w.everyOperation(t, n)
			}
			for _, s := range []*side{w.a, w.b} {
				super := 0
				for _, f := range s.queue.sent {
					var cutter link.Cutter
					n := cutter.Packets(f.Data, f.Segment)
					super = max(super, n)
					if n > max(o.segments, 1) {
						t.Fatalf("a frame left with %d packets", n)
					}
					for i := range n {
						b := cutter.Packet(f.Data, f.Segment, i)
						var p bth.Packet
						if d := p.DecodeFrame(new(bth.ICRC), b); d != bth.DropNone {
							t.Fatalf("packet %d of a frame with %d is %q", i, n, d)
						}
						end := len(b) - bth.ICRCLen
						if pad := b[end-int(p.Pad) : end]; !bytes.Equal(pad, make([]byte, p.Pad)) {
							t.Fatalf("%v is padded with %x", p.Opcode, pad)
						}
					}
				}
				if o.segments > 1 && super < 2 {
					t.Error("there was no super-frame")
				}
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

// Whatever is acknowledged must be visible to the user before the acknowledgement can be to the
// peer, also when the first of several acknowledgements leaves in the middle of a turn.
func TestLoop_DeliversBeforeItAcknowledges(t *testing.T) {
	w := newWire(t, wireOptions{room: 1})
	a2, b2 := w.a.newQP(t, transport.Config{}), w.b.newQP(t, transport.Config{})
	w.connect(t, a2, b2, 1024)
	delivered, acked := 0, 0
	w.b.queue.onSubmit = func() { delivered = w.b.cq.Len() }
	for range 40 {
		for _, x := range []struct{ a, b *QP }{{w.a.qp, w.b.qp}, {a2, b2}} {
			if _, err := x.b.PostRecv([]transport.RecvWR{{SGL: []transport.SGE{w.b.sge(0, 8)}}}); err != nil {
				t.Fatal(err)
			}
			w.a.send(t, x.a, transport.SendWR{Opcode: transport.WRSend, SGL: []transport.SGE{w.a.sge(0, 8)}, Flags: transport.Signaled})
		}
	}
	for range 1000 {
		w.a.loop.Step(w.clk.Now())
		w.a.loop.Step(w.clk.Now()) // so that b finds requests of both
		w.b.loop.Step(w.clk.Now())
		if acked += w.a.cq.Poll(w.a.polls[:]); acked > delivered {
			t.Fatalf("%d messages are acknowledged, but only %d were delivered when the acknowledgement left", acked, delivered)
		}
	}
	if acked != 80 {
		t.Fatalf("%d of 80 messages completed", acked)
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

// Who found the link full is first when it has room again.
func TestLoop_KeepsTheirPlaceWhenTheLinkIsFull(t *testing.T) {
	w := newWire(t, wireOptions{room: 1})
	w.a.queue.keep = true
	var want []bth.QPN
	for i := range 4 {
		a, b := w.a.qp, w.b.qp
		if i > 0 {
			a, b = w.a.newQP(t, transport.Config{}), w.b.newQP(t, transport.Config{})
			w.connect(t, a, b, 1024)
		}
		want = append(want, b.qpn)
		w.a.send(t, a, w.a.write(w.b, 0, 0, 8))
	}
	var got []bth.QPN
	for range 8 {
		w.a.queue.leased = 1 // no room
		w.a.loop.Step(w.clk.Now())
		w.a.queue.leased = 0
		w.a.loop.Step(w.clk.Now())
	}
	for _, f := range w.a.queue.sent {
		var p bth.Packet
		if d := p.DecodeFrame(new(bth.ICRC), f.Data); d != bth.DropNone {
			t.Fatal(d)
		}
		got = append(got, p.DestQP)
	}
	if !slices.Equal(got, want) {
		t.Errorf("queue pairs sent in the order %x, their turns were %x", got, want)
	}
}

func TestLoop_RetransmitsWhenTheTimerIsDue(t *testing.T) {
	w := newWire(t, wireOptions{})
	w.a.send(t, w.a.qp, w.a.write(w.b, 0, 0, 10))
	stale := w.settle(t) // of what is acknowledged: the timer heap is lazy
	w.a.succeed(t, 1)
	w.clk.Advance(time.Millisecond)

	w.a.queue.keep = true
	lost := 0
	w.a.queue.lose = func([]byte) bool { lost++; return lost == 1 }
	w.a.send(t, w.a.qp, w.a.write(w.b, 0, 0, 10))
	w.settle(t)
	w.clk.AdvanceTo(stale)
	due := w.settle(t)
	if want := stale.Add(time.Millisecond); w.a.cq.Len() != 0 || due != want {
		t.Fatalf("after the loss %d completions, next timer at %v, want %v", w.a.cq.Len(), due, want)
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

// Before it sleeps the loop looks once more for what came in since its turn, and whoever
// comes later finds it asleep and wakes it, once.
func TestLoop_SleepsThroughNothing(t *testing.T) {
	w := newWire(t, wireOptions{})
	l, q := w.a.loop, w.a.queue
	for what, come := range map[string]func(){
		"a post":             func() { w.a.send(t, w.a.qp, w.a.write(w.b, 0, 0, 8)) },
		"a control function": func() { l.controls.push(&control{f: func(clock.Time) {}, done: make(chan struct{})}); l.wake() },
		"the end":            func() { l.closed.Store(true) },
	} {
		w.settle(t)
		q.waits, q.wakes = 0, 0
		come()
		if l.sleep(clock.Never); q.waits != 0 {
			t.Errorf("it slept although %s had come", what)
		}
		l.closed.Store(false)
	}
	w.settle(t)
	q.waits, q.wakes = 0, 0
	q.onWait = func() {
		w.a.send(t, w.a.qp, w.a.write(w.b, 0, 0, 8))
		w.a.send(t, w.a.qp, w.a.write(w.b, 0, 0, 8))
	}
	if l.sleep(clock.Never); q.waits != 1 || q.wakes != 1 {
		t.Errorf("%d sleeps, %d wake-ups for two posts to a sleeper", q.waits, q.wakes)
	}
	q.onWait = nil
	w.settle(t)
	if w.a.send(t, w.a.qp, w.a.write(w.b, 0, 0, 8)); q.wakes != 1 {
		t.Error("it was woken while awake")
	}
}

// A super-frame is cut, each packet verified with the header it had by itself: over IPv4 the sender
// may have counted the identification up, or not.
func TestLoop_CutsSuperFrames(t *testing.T) {
	for _, tc := range []struct{ ipv6, counted bool }{{false, false}, {false, true}, {true, false}} {
		w := newWire(t, wireOptions{ipv6: tc.ipv6})
		w.a.queue.keep = true
		w.a.queue.lose = func([]byte) bool { return true }
		w.a.send(t, w.a.qp, w.a.write(w.b, 3, 100, 5*1024))
		w.settle(t)
		frames := w.a.queue.sent
		if len(frames) != 5 {
			t.Fatalf("%d frames, want 5", len(frames))
		}
		// FIRST has a longer header and travels alone, three MIDDLE and LAST together.
		head, l3 := w.a.qp.encap.Len(), w.a.qp.encap.L3()
		super := append([]byte(nil), frames[1].Data[:head]...)
		segment := len(frames[1].Data) - head
		for i, f := range frames[1:] {
			if tc.counted {
				w.a.qp.encap.Put(f.Data, len(f.Data)-head, 500+uint16(i))
				end := len(f.Data) - bth.ICRCLen
				bth.PutICRC(f.Data[end:], new(bth.ICRC).Start(f.Data[l3:end]))
			}
			super = append(super, f.Data[head:]...)
		}
		id := uint16(0)
		if tc.counted {
			id = 500
		}
		w.a.qp.encap.Put(super, len(super)-head, id)
		w.b.queue.inject(frames[0], link.Frame{Data: super, Segment: segment})
		w.a.queue.lose = nil
		w.settle(t)
		w.a.succeed(t, 1)
		if !bytes.Equal(w.b.mr.Bytes()[100:100+5*1024], w.a.mr.Bytes()[3:3+5*1024]) {
			t.Fatal("the WRITE left the wrong bytes")
		}
		if w.b.loop.counters.Drops != [bth.NumDrops]uint64{} {
			t.Fatalf("%+v: packets were dropped: %v", tc, w.b.loop.counters.Drops)
		}
	}
}

// Small messages of one size travel together as well, and a retransmission among them is noted.
func TestLoop_PutsSmallMessagesIntoOneFrame(t *testing.T) {
	w := newWire(t, wireOptions{segments: 64, bufLen: 60_000, gather: true})
	w.a.queue.keep = true
	var wrs []transport.SendWR
	for i := range 64 {
		wrs = append(wrs, w.a.write(w.b, i*64, i*64, 64))
	}
	w.a.send(t, w.a.qp, wrs...)
	w.settle(t)
	w.a.succeed(t, 64)
	if !bytes.Equal(w.b.mr.Bytes()[:64*64], w.a.mr.Bytes()[:64*64]) {
		t.Error("the WRITEs left the wrong bytes")
	}
	if n := len(w.a.queue.sent); n != 1 || w.a.queue.sent[0].Note != "" {
		t.Errorf("64 WRITEs of 64 bytes left in %d frames, the first noted %q", n, w.a.queue.sent[0].Note)
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

// Slots of silent sends are free when the loop has retired them, that of a signaled one when it is polled.
func TestLoop_FreesTheSlotsOfSilentSends(t *testing.T) {
	w := newWire(t, wireOptions{qp: transport.Config{SendDepth: 4, RecvDepth: 4}})
	silent := w.a.write(w.b, 0, 0, 8)
	silent.Flags = 0
	loud := w.a.write(w.b, 0, 0, 8)
	for range 3 {
		w.a.send(t, w.a.qp, silent, silent, loud, silent)
		if n, err := w.a.qp.PostSend([]transport.SendWR{silent}); n != 0 || !errors.Is(err, transport.ErrQueueFull) {
			t.Fatalf("a fifth send into four slots: %d, %v", n, err)
		}
		w.settle(t)
		if n, err := w.a.qp.PostSend([]transport.SendWR{silent, silent, silent, silent}); n != 3 || !errors.Is(err, transport.ErrQueueFull) {
			t.Fatalf("into the slots of three silent sends: %d, %v", n, err)
		}
		w.settle(t)
		w.a.succeed(t, 1)
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

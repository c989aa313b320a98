package transport

import (
	"testing"

	"github.com/go-roce/roce/bth"
)

func TestPitfall36_ErrorStateFlushesEachWorkRequestOnceInOrder(t *testing.T) {
	s := newScript(t, nil)
	for i := range uint64(3) {
		s.recv(i, 0, 4096)
	}
	s.arrives(s.packet(bth.RCSendOnly, 0, nil), s.packet(bth.RCSendFirst, 1, data(1024, 0)))
	quiet := s.sendWR(10, 10)
	quiet.Flags = 0
	s.send(quiet)
	s.send(s.sendWR(11, 3000))
	s.send(quiet)
	s.pollPacket(s.now())
	s.pollPacket(s.now())
	s.arrives(s.ack(0))
	s.modify(s.now(), &Attr{Mask: AttrState, State: StateErr})
	// What succeeded before says so; the SEND that was half there is flushed.
	s.wantDone("0 SUCCESS", "1 WR_FLUSH_ERR", "2 WR_FLUSH_ERR", "11 WR_FLUSH_ERR", "10 WR_FLUSH_ERR")
	s.sent = nil
	s.wantIdle()
	s.modify(s.now(), &Attr{Mask: AttrState, State: StateErr}) // again: nothing
	s.wantIdle()
}

func TestPitfall36_FlushedSilentSlotsAreRetired(t *testing.T) {
	s := newScript(t, nil)
	quiet := s.sendWR(1, 10)
	quiet.Flags = 0
	for range 3 {
		s.send(quiet)
	}
	s.transmit()
	s.arrives(s.ack(1))
	s.modify(s.now(), &Attr{Mask: AttrState, State: StateErr})
	s.pollDone()
	if len(s.done) != 1 || s.done[0].Retired != 3 {
		t.Fatalf("completions %+v, want one that retires three slots", s.done)
	}
}

func TestPitfall36_PostingInErrorIsAllowedAndFlushes(t *testing.T) {
	e := inState(t, StateErr)
	for i := range uint64(200) { // more than the queues hold
		e.recv(i, 0, 10)
		e.send(SendWR{ID: i})
		e.pollDone()
	}
	for i, c := range e.done {
		if c.ID != uint64(i/2) || c.Status != StatusWRFlushErr || c.Recv != (i%2 == 0) || c.Retired != 1 {
			t.Fatalf("completion %d is %+v", i, c)
		}
	}
	if len(e.done) != 400 {
		t.Fatalf("%d completions, want 400", len(e.done))
	}
}

func TestFlush_ResetDropsEverythingSilently(t *testing.T) {
	s := newScript(t, nil)
	for i := range uint64(3) {
		s.recv(i, 0, 10)
		s.send(s.read(10+i, 0, 10, s.far, 0))
	}
	s.arrives(s.packet(bth.RCSendOnly, 0, nil), s.rdma(bth.RCReadRequest, 1, 0, 10, nil))
	s.pollPacket(s.now())
	s.sent = nil
	s.modify(s.now(), &Attr{Mask: AttrState, State: StateReset})
	s.wantEvents()
	s.wantIdle()
	var got Attr
	if s.qp.Query(&got); got != (Attr{}) {
		t.Errorf("attributes after RESET: %+v", got)
	}
	s.arrives(s.packet(bth.RCSendOnly, 1, nil))
	s.wantDrops(map[bth.Drop]int{bth.DropQPState: 1})
	if s.qp.PostRecv(&RecvWR{}) == nil || s.qp.PostSend(&SendWR{}) == nil {
		t.Error("RESET takes work requests")
	}

	// It can be connected again, and begins with clean queues and PSNs.
	s.opt.psn = 0x777777
	s.connect(s.now())
	for i := range uint64(64) {
		s.recv(i, 0, 10)
		s.send(s.sendWR(100+i, 10))
	}
	s.arrives(s.packet(bth.RCSendOnly, 0, nil))
	s.wantDone("0 SUCCESS")
	s.transmit()
	if first := s.sent[0]; describe(&first, s.opt.psn) != "ACK 0" || len(s.sent) != 65 {
		t.Errorf("%d packets, the first is %s", len(s.sent), describe(&first, s.opt.psn))
	}
	s.arrives(s.ack(63))
	if s.pollDone(); len(s.done) != 64 {
		t.Errorf("%d completions, want 64", len(s.done))
	}
}

func TestFlush_WhichStatesTakeWorkRequests(t *testing.T) {
	for state := StateReset; state <= StateErr; state++ {
		if state == StateSQE {
			continue
		}
		e := inState(t, state)
		errSend, errRecv := e.qp.PostSend(&SendWR{Opcode: WRSend}), e.qp.PostRecv(&RecvWR{})
		if got, want := errSend == nil, state >= StateRTS; got != want {
			t.Errorf("%v: PostSend gives %v", state, errSend)
		}
		if got, want := errRecv == nil, state >= StateInit; got != want {
			t.Errorf("%v: PostRecv gives %v", state, errRecv)
		}
		if want := "QP 0x000011 refused a send work request: it is in state " + state.String() + ", sending needs RTS: connect it first"; errSend != nil && errSend.Error() != want {
			t.Errorf("%v: %v\nwant %s", state, errSend, want)
		}
	}
	e := inState(t, StateReset)
	if err := e.qp.PostRecv(&RecvWR{}); err.Error() != "QP 0x000011 refused a receive work request: it is in state RESET, receiving needs INIT: connect it first" {
		t.Error(err)
	}
}

// Receives posted before the connection is there are used once it is.
func TestFlush_ReceivesPostedInInitAreUsedInRTR(t *testing.T) {
	e := inState(t, StateInit)
	e.recv(1, 0, 10)
	e.modify(0, e.toRTR())
	p := bth.Packet{Flags: bth.RCSendOnly.Flags(), Src: addrs["b"], Dst: addrs["a"], Payload: data(10, 0)}
	p.Opcode, p.PSN = bth.RCSendOnly, e.opt.psn
	e.handle(0, &p)
	e.wantDone("1 SUCCESS")
}

// A queue pair that goes under traffic, its own way or its peer's, leaves neither a
// work request without completion nor a timer.
func TestPitfall43_EndUnderTraffic(t *testing.T) {
	for _, state := range []State{StateErr, StateReset} {
		for cut := range 60 {
			p := newPair(t, nil)
			sent := 0
			p.tamper = func(from *end, _ *bth.Packet) fate {
				if sent++; sent == cut {
					from.modify(p.clk.Now(), &Attr{Mask: AttrState, State: state})
				}
				return arrives
			}
			posted := map[*end]int{}
			for i := range uint64(6) {
				for _, e := range []*end{p.a, p.b} {
					e.recv(100+i, 0x8000, 3000)
					e.send(e.sendWR(i, 3000))
					e.send(e.read(i+10, 0x1000, 3000, p.peer(e), 0x4000))
					e.send(e.fetchAdd(i+20, 0x20000, p.peer(e), 0x20000, 1))
					posted[e] += 4
				}
			}
			p.settle()
			for _, e := range []*end{p.a, p.b} {
				seen := map[uint64]bool{}
				for _, c := range e.done {
					if seen[c.ID] {
						t.Fatalf("%v at packet %d: %s completes %d twice", state, cut, e.name, c.ID)
					}
					seen[c.ID] = true
				}
				// RESET forgets; a receive nothing came for stays posted.
				if len(seen) != posted[e] && e.qp.State() == StateErr {
					t.Fatalf("%v at packet %d: %s completes %d of %d", state, cut, e.name, len(seen), posted[e])
				}
				e.wantTimer(p.clk.Now(), -1)
			}
		}
	}
}

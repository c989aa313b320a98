package transport

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/memreg"
)

func TestRequester_CutsMessagesByPathMTU(t *testing.T) {
	const mtu = 1024
	for _, tc := range []struct {
		op   WROpcode
		size int
		want []string
	}{
		{WRSend, 0, []string{"SEND_ONLY 0!"}},
		{WRSend, mtu, []string{"SEND_ONLY 0!"}},
		{WRSend, mtu + 1, []string{"SEND_FIRST 0", "SEND_LAST 1!"}},
		{WRSend, 3 * mtu, []string{"SEND_FIRST 0", "SEND_MIDDLE 1", "SEND_LAST 2!"}},
		{WRSendImm, 5, []string{"SEND_ONLY_WITH_IMMEDIATE 0!"}},
		{WRSendImm, 2*mtu + 1, []string{"SEND_FIRST 0", "SEND_MIDDLE 1", "SEND_LAST_WITH_IMMEDIATE 2!"}},
		{WRSendInv, 5, []string{"SEND_ONLY_WITH_INVALIDATE 0!"}},
		{WRSendInv, 2 * mtu, []string{"SEND_FIRST 0", "SEND_LAST_WITH_INVALIDATE 1!"}},
		{WRWrite, 0, []string{"WRITE_ONLY 0!"}},
		{WRWrite, mtu - 1, []string{"WRITE_ONLY 0!"}},
		{WRWrite, 2*mtu + 1, []string{"WRITE_FIRST 0", "WRITE_MIDDLE 1", "WRITE_LAST 2!"}},
		{WRWriteImm, mtu, []string{"WRITE_ONLY_WITH_IMMEDIATE 0!"}},
		{WRWriteImm, mtu + 1, []string{"WRITE_FIRST 0", "WRITE_LAST_WITH_IMMEDIATE 1!"}},
		{WRRead, 0, []string{"READ_REQUEST 0!"}},
		{WRRead, 5 * mtu, []string{"READ_REQUEST 0!"}},
		{WRCompareSwap, 8, []string{"COMPARE_SWAP 0!"}},
		{WRFetchAdd, 8, []string{"FETCH_ADD 0!"}},
	} {
		t.Run(fmt.Sprintf("%v_%d", tc.want[0], tc.size), func(t *testing.T) {
			s := newScript(t, nil)
			fill(s.mem[:tc.size], 1)
			wr := SendWR{
				Opcode: tc.op, Flags: Signaled | Solicited, SGL: s.sge(0, tc.size), RemoteAddr: 0x123456789AB, RKey: 0x77,
				Imm: 0xCAFE0001, InvKey: 0xDEAD, CompareAdd: 5, Swap: 6,
			}
			s.send(wr)
			s.transmit()
			var carried []byte
			for i := range s.sent {
				p := &s.sent[i]
				carried = append(carried, p.Payload...)
				last := i == len(s.sent)-1
				wakes := tc.op != WRWrite && tc.op != WRRead && tc.op != WRCompareSwap && tc.op != WRFetchAdd
				if p.SE != (last && wakes) {
					t.Errorf("packet %d has solicited event %v", i, p.SE)
				}
				if p.Flags.Any(bth.HasRETH) && (p.RETH.VA != 0x123456789AB || p.RETH.Length != uint32(tc.size)) {
					t.Errorf("RETH is %+v", p.RETH)
				}
				if p.Flags.Any(bth.HasImmDt) && p.Imm != 0xCAFE0001 || p.Flags.Any(bth.HasIETH) && p.Inv != 0xDEAD {
					t.Errorf("immediate 0x%x, invalidates 0x%x", p.Imm, p.Inv)
				}
			}
			if hasData := tc.op <= WRSendImm || tc.op == WRSendInv; hasData && !bytes.Equal(carried, s.mem[:tc.size]) {
				t.Errorf("the packets carry %d bytes that are not the message", len(carried))
			}
			switch e := s.sent[0].AtomicETH; tc.op {
			case WRCompareSwap:
				if e != (bth.AtomicETH{VA: 0x123456789AB, RKey: 0x77, SwapAdd: 6, Compare: 5}) {
					t.Errorf("AtomicETH is %+v", e)
				}
			case WRFetchAdd:
				if e != (bth.AtomicETH{VA: 0x123456789AB, RKey: 0x77, SwapAdd: 5}) {
					t.Errorf("AtomicETH is %+v", e)
				}
			}
			if got := s.sent[0].RETH.RKey; s.sent[0].Flags.Any(bth.HasRETH) {
				// A READ of nothing names no key: rdma_rxe would not answer its duplicate.
				if want := uint32(0x77); got != want && (tc.op != WRRead || tc.size != 0 || got != 0) {
					t.Errorf("R_Key is 0x%x", got)
				}
			}
			s.wantSentBefore(tc.want...)
		})
	}
}

// wantSentBefore checks what was taken by transmit.
func (s *script) wantSentBefore(want ...string) {
	s.t.Helper()
	got := describeAll(s.sent, s.opt.psn)
	s.sent = nil
	wantList(s.t, "the queue pair sent", got, want)
}

func TestRequester_NextRequestBeginsBehindAllPSNsOfARead(t *testing.T) {
	s := newScript(t, nil)
	s.send(s.read(1, 0, 3000, s.far, 0)) // three responses
	s.send(s.read(2, 0, 0, s.far, 0))    // still one
	s.send(s.fetchAdd(3, 0, s.far, 0, 1))
	s.send(s.sendWR(4, 0))
	s.send(s.sendWR(5, 1))
	s.wantSent("READ_REQUEST 0!", "READ_REQUEST 3!", "FETCH_ADD 4!", "SEND_ONLY 5!", "SEND_ONLY 6!")
}

func TestRequester_StopsAtTheWindowAndAsksForAcknowledgementsInTime(t *testing.T) {
	s := newScript(t, func(o *options) { o.mtu, o.window = 256, 8 })
	s.send(s.write(1, 20*256, s.far, 0))
	// A quarter of the window asks; so does whatever fills it.
	s.wantSent("WRITE_FIRST 0", "WRITE_MIDDLE 1!", "WRITE_MIDDLE 2", "WRITE_MIDDLE 3!", "WRITE_MIDDLE 4", "WRITE_MIDDLE 5!",
		"WRITE_MIDDLE 6", "WRITE_MIDDLE 7!")
	s.arrives(s.ack(1))
	s.wantSent("WRITE_MIDDLE 8", "WRITE_MIDDLE 9!")
	s.arrives(s.ack(2))
	s.wantSent("WRITE_MIDDLE 10!") // fills the window
	s.arrives(s.ack(10))
	s.transmit()
	s.arrives(s.ack(18))
	s.transmit()
	s.arrives(s.ack(19))
	s.wantDone("1 SUCCESS")
	s.sent = nil
	s.wantIdle()
}

func TestRequester_WindowOfOneStillMoves(t *testing.T) {
	s := newScript(t, func(o *options) { o.window = 1 })
	s.send(s.write(1, 3000, s.far, 0))
	s.send(s.read(2, 0, 3000, s.far, 0))
	s.wantSent("WRITE_FIRST 0!")
	s.arrives(s.ack(0))
	s.wantSent("WRITE_MIDDLE 1!")
	s.arrives(s.ack(1))
	s.wantSent("WRITE_LAST 2!")
	s.arrives(s.ack(2))
	s.wantSent("READ_REQUEST 3!")
}

// A READ may take more PSNs than the window: it goes when there is room for one, and
// what is behind it waits for its responses.
func TestRequester_ReadLargerThanTheWindow(t *testing.T) {
	s := newScript(t, func(o *options) { o.mtu, o.window = 256, 4 })
	s.send(s.read(1, 0, 7*256, s.far, 0))
	s.send(s.sendWR(2, 10))
	s.wantSent("READ_REQUEST 0!")
	s.arrives(s.packet(bth.RCReadResponseFirst, 0, data(256, 0)))
	s.arrives(s.packet(bth.RCReadResponseMiddle, 1, data(256, 0)), s.packet(bth.RCReadResponseMiddle, 2, data(256, 0)))
	s.wantSent() // four of seven are due still
	s.arrives(s.packet(bth.RCReadResponseMiddle, 3, data(256, 0)))
	s.wantSent("SEND_ONLY 7!")
	s.arrives(s.packet(bth.RCReadResponseMiddle, 4, data(256, 0)), s.packet(bth.RCReadResponseMiddle, 5, data(256, 0)),
		s.packet(bth.RCReadResponseLast, 6, data(256, 0)), s.ack(7))
	s.wantDone("1 SUCCESS", "2 SUCCESS")
	s.wantIdle()
}

// Of two packets half the PSN space apart nobody can tell which is the older one.
func TestRequester_OutstandingPSNsStayWithinHalfTheirSpace(t *testing.T) {
	s := newScript(t, func(o *options) {
		o.mtu, o.sge, o.depth, o.rdAtomic, o.window, o.psn = 256, 32, 128, 128, bth.MaxPSNDistance-1, 0xABCDEF
	})
	huge := s.read(2, 0, 1<<20, s.far, 0)
	huge.SGL = slices.Repeat(huge.SGL, 32) // 32 MiB are 2^17 packets
	s.send(s.read(1, 0, 1, s.far, 0))
	for range 64 {
		s.send(huge)
	}
	s.transmit()
	if n, span := len(s.sent), dist(s.qp.req.una, s.qp.req.high); n != 64 || span != 63<<17+1 {
		t.Fatalf("%d READs over %d PSNs are outstanding, want 64 over %d", n, span, 63<<17+1)
	}
	s.arrives(s.packet(bth.RCReadResponseOnly, 0, data(1, 0)))
	s.transmit()
	if n, span := len(s.sent), dist(s.qp.req.una, s.qp.req.high); n != 65 || span != bth.MaxPSNDistance {
		t.Fatalf("%d READs went, %d PSNs are outstanding; want 65 and exactly half the space", n, span)
	}
	// Everything outstanding can be told from everything that is not.
	s.sent = nil
	s.arrives(s.ack(0), s.ack(1+1<<23))
	s.wantDrops(map[bth.Drop]int{bth.DropStale: 2})
	s.arrives(s.ack(1 << 23)) // the last one: an implied NAK
	s.transmit()
	if n := len(s.sent); n != 64 {
		t.Fatalf("%d READs were sent again, want 64", n)
	}
}

func TestPitfall32_NoMoreThanMaxRdAtomicAreOutstandingAndWhatIsBehindWaits(t *testing.T) {
	s := newScript(t, func(o *options) { o.rdAtomic = 2 })
	s.send(s.read(1, 0, 10, s.far, 0))
	s.send(s.fetchAdd(2, 16, s.far, 0, 1))
	s.send(s.read(3, 32, 10, s.far, 0))
	s.send(s.sendWR(4, 10))
	s.wantSent("READ_REQUEST 0!", "FETCH_ADD 1!")
	s.arrives(s.packet(bth.RCReadResponseOnly, 0, data(10, 0)))
	s.wantSent("READ_REQUEST 2!", "SEND_ONLY 3!")
}

func TestPitfall32_FenceWaitsForReadsAndAtomicsOnly(t *testing.T) {
	s := newScript(t, nil)
	fenced := s.sendWR(3, 10)
	fenced.Flags |= Fence
	s.send(s.write(1, 10, s.far, 0))
	s.send(fenced)
	s.wantSent("WRITE_ONLY 0!", "SEND_ONLY 1!") // an unacknowledged WRITE does not hold it back
	s.send(s.read(4, 0, 3000, s.far, 0))
	s.send(s.fetchAdd(5, 16, s.far, 0, 1))
	s.send(fenced)
	s.send(s.sendWR(6, 1))
	s.wantSent("READ_REQUEST 2!", "FETCH_ADD 5!")
	s.arrives(s.packet(bth.RCReadResponseFirst, 2, data(1024, 0)), s.packet(bth.RCReadResponseMiddle, 3, data(1024, 0)),
		s.packet(bth.RCReadResponseLast, 4, data(952, 0)))
	s.wantSent() // the atomic is still out
	s.arrives(s.atomicAck(5, 0))
	s.wantSent("SEND_ONLY 6!", "SEND_ONLY 7!")
}

func TestPitfall34_AFullSendRingAtAnyPointChangesNoByte(t *testing.T) {
	program := func(s *script) {
		fill(s.mem[:8192], 9)
		s.send(s.sendWR(1, 2500))
		s.send(s.read(2, 0x8000, 5000, s.far, 64))
		s.send(s.write(3, 4000, s.far, 0))
		s.send(s.fetchAdd(4, 0x10000, s.far, 8, 1))
		s.send(s.sendWR(5, 1))
	}
	whole := newScript(t, nil)
	program(whole)
	whole.transmit()
	for stop := range whole.sent {
		s := newScript(t, nil)
		program(s)
		for range stop {
			s.pollPacket(s.now())
		}
		// The driver has no buffer for a while; time and packets go on.
		s.clk.Advance(1000)
		s.arrives(s.ack(0))
		s.qp.HandleTimeout(s.now())
		s.transmit()
		for i := range s.sent {
			a, b := &s.sent[i], &whole.sent[i]
			if a.Opcode != b.Opcode || a.PSN != b.PSN || !bytes.Equal(a.Payload, b.Payload) || a.RETH.Length != b.RETH.Length {
				t.Fatalf("stopped before packet %d: packet %d is %v %d, was %v %d", stop, i, a.Opcode, a.PSN, b.Opcode, b.PSN)
			}
		}
		if len(s.sent) != len(whole.sent) {
			t.Fatalf("stopped before packet %d: %d packets, want %d", stop, len(s.sent), len(whole.sent))
		}
	}
}

// A request whose own memory is not there fails alone, in its turn: what is before it
// completes, what is behind it is flushed.
func TestRequester_BadLocalMemoryFailsInItsTurn(t *testing.T) {
	for name, spoil := range map[string]func(*script, *SendWR){
		"SEND with a wrong key":  func(s *script, wr *SendWR) { wr.SGL[0].LKey++ },
		"SEND out of bounds":     func(s *script, wr *SendWR) { wr.SGL[0].Addr = s.va(s.opt.memory - 1) },
		"SEND, second packet":    func(s *script, wr *SendWR) { wr.SGL = append(s.sge(0, 1024), SGE{Length: 10, LKey: 1}) },
		"READ with a wrong key":  func(s *script, wr *SendWR) { *wr = s.read(3, 0, 10, s.far, 0); wr.SGL[0].LKey++ },
		"atomic out of bounds":   func(s *script, wr *SendWR) { *wr = s.fetchAdd(3, s.opt.memory-4, s.far, 0, 1) },
		"READ, region read-only": func(s *script, wr *SendWR) { *wr = s.read(3, 0, 10, s.far, 0); wr.SGL = s.readOnly(10) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, nil)
			s.send(s.read(1, 0, 10, s.far, 0))
			s.send(s.sendWR(2, 10))
			bad := s.sendWR(3, 10)
			spoil(s, &bad)
			bad.ID = 3
			s.send(bad)
			s.send(s.sendWR(4, 10))
			s.recv(5, 0, 10)
			s.transmit()
			s.wantDone()
			s.arrives(s.packet(bth.RCReadResponseOnly, 0, data(10, 0)))
			s.transmit()
			s.wantDone("1 SUCCESS")
			s.wantState(StateRTS)
			s.arrives(s.ack(1))
			s.transmit()
			s.wantDone("5 WR_FLUSH_ERR", "2 SUCCESS", "3 LOC_PROT_ERR", "4 WR_FLUSH_ERR")
			s.wantState(StateErr)
			s.sent = nil
			s.wantIdle()
		})
	}
}

// readOnly names n bytes of a second region of the end, without LOCAL_WRITE.
func (e *end) readOnly(n int) []SGE {
	e.t.Helper()
	r, err := e.table.Register(1, make([]byte, n), memreg.Options{})
	if err != nil {
		e.t.Fatal(err)
	}
	return []SGE{{Addr: r.Addr(), Length: uint32(n), LKey: r.Key()}}
}

// A request whose memory is deregistered when it has to be sent again has failed only
// if the peer does not have it already.
func TestRequester_MemoryGoneBeforeAResend(t *testing.T) {
	for _, late := range []bool{false, true} {
		s := newScript(t, nil)
		r, err := s.table.Register(1, make([]byte, 64), memreg.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s.send(s.read(1, 0, 10, s.far, 0))
		s.send(SendWR{ID: 2, Opcode: WRSend, Flags: Signaled, SGL: []SGE{{Addr: r.Addr(), Length: 64, LKey: r.Key()}}})
		s.send(s.sendWR(3, 1))
		s.wantSent("READ_REQUEST 0!", "SEND_ONLY 1!", "SEND_ONLY 2!")
		if err := s.table.Deregister(r.Key()); err != nil {
			t.Fatal(err)
		}
		s.arrives(s.nak(bth.NAKSequence, 0))
		s.wantSent("READ_REQUEST 0!") // and nothing behind it that is missing
		s.arrives(s.packet(bth.RCReadResponseOnly, 0, data(10, 0)))
		if late {
			s.arrives(s.ack(2)) // the peer had all the first time
			s.wantDone("1 SUCCESS", "2 SUCCESS", "3 SUCCESS")
			s.wantState(StateRTS)
			s.wantIdle()
			continue
		}
		s.transmit()
		s.wantDone("1 SUCCESS", "2 LOC_PROT_ERR", "3 WR_FLUSH_ERR")
		s.wantState(StateErr)
	}
}

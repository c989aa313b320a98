package transport

import (
	"bytes"
	"testing"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/memreg"
)

func TestAnswers_LeaveInPSNOrder(t *testing.T) {
	s := newScript(t, nil)
	for i := range 3 {
		s.recv(uint64(i), 0, 10)
	}
	s.arrives(s.packet(bth.RCSendOnly, 0, nil), s.rdma(bth.RCReadRequest, 1, 0, 3000, nil), s.packet(bth.RCSendOnly, 4, nil),
		s.atomic(bth.RCFetchAdd, 5, 0, 1, 0), s.packet(bth.RCSendOnly, 6, nil), s.packet(bth.RCSendOnly, 9, nil))
	s.wantSent("ACK 0", "READ_RESPONSE_FIRST 1", "READ_RESPONSE_MIDDLE 2", "READ_RESPONSE_LAST 3", "ACK 4",
		"ATOMIC_ACKNOWLEDGE 5", "ACK 6", "NAK_60 7")
}

func TestAnswers_AcknowledgementsCoalesce(t *testing.T) {
	s := newScript(t, nil)
	for i := range 20 {
		s.recv(uint64(i), 0, 10)
		s.arrives(s.packet(bth.RCSendOnly, i, nil))
	}
	s.wantSent("ACK 19")
	if n := s.qp.Counters().AcksSent; n != 1 {
		t.Errorf("%d acknowledgements counted, want 1", n)
	}
}

func TestPitfall21_ReadResponsesThatMeetAFullSendRingWaitAndGoOn(t *testing.T) {
	whole := newScript(t, nil)
	requests := func(s *script) []bth.Packet {
		fill(s.mem, 5)
		s.recv(1, 0x1000, 10)
		return []bth.Packet{s.rdma(bth.RCReadRequest, 0, 0x4000, 5000, nil), s.packet(bth.RCSendOnly, 5, nil), s.rdma(bth.RCReadRequest, 6, 0x8000, 2000, nil)}
	}
	whole.arrives(requests(whole)...)
	whole.transmit()
	for stop := range whole.sent {
		s := newScript(t, nil)
		rs := requests(s)
		s.arrives(rs[0])
		for range stop {
			s.pollPacket(s.now())
		}
		s.clk.Advance(1e9) // no room for a long while, and more requests
		s.qp.HandleTimeout(s.now())
		s.arrives(rs[1], rs[2])
		s.transmit()
		if len(s.sent) != len(whole.sent) {
			t.Fatalf("stopped at %d: %d responses, want %d", stop, len(s.sent), len(whole.sent))
		}
		for i := range s.sent {
			if a, b := &s.sent[i], &whole.sent[i]; a.Opcode != b.Opcode || a.PSN != b.PSN || !bytes.Equal(a.Payload, b.Payload) {
				t.Fatalf("stopped at %d: response %d is %v %d, want %v %d", stop, i, a.Opcode, a.PSN, b.Opcode, b.PSN)
			}
		}
		s.wantState(StateRTS)
	}
}

func TestPitfall22_NewRequestForPartOfAResponseInProgressEndsIt(t *testing.T) {
	for name, tc := range map[string]struct {
		sent, psn, off, length int
		want                   []string
	}{
		"the tail": {2, 3, 3 * 1024, 5000 - 3*1024, []string{"READ_RESPONSE_FIRST 3", "READ_RESPONSE_LAST 4"}},
		"all of it": {3, 0, 0, 5000, []string{"READ_RESPONSE_FIRST 0", "READ_RESPONSE_MIDDLE 1", "READ_RESPONSE_MIDDLE 2",
			"READ_RESPONSE_MIDDLE 3", "READ_RESPONSE_LAST 4"}},
		"what went last": {4, 3, 3 * 1024, 5000 - 3*1024, []string{"READ_RESPONSE_FIRST 3", "READ_RESPONSE_LAST 4"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, nil)
			s.recv(1, 0x1000, 10)
			s.arrives(s.rdma(bth.RCReadRequest, 0, 0x4000, 5000, nil), s.packet(bth.RCSendOnly, 5, nil))
			for range tc.sent {
				s.pollPacket(s.now())
			}
			s.sent = nil
			s.arrives(s.rdma(bth.RCReadRequest, tc.psn, 0x4000+tc.off, tc.length, nil))
			s.wantSent(append(tc.want, "ACK 5")...)
		})
	}
	t.Run("the whole while a part is owed", func(t *testing.T) {
		s := newScript(t, nil)
		s.arrives(s.rdma(bth.RCReadRequest, 0, 0, 3000, nil))
		s.transmit()
		s.sent = nil
		s.arrives(s.rdma(bth.RCReadRequest, 2, 2048, 952, nil), s.rdma(bth.RCReadRequest, 0, 0, 3000, nil))
		s.wantSent("READ_RESPONSE_FIRST 0", "READ_RESPONSE_MIDDLE 1", "READ_RESPONSE_LAST 2")
	})
}

// An acknowledgement of something older must not come between the packets of a READ
// response: rdma_rxe before 6.12 ends the queue pair over one.
func TestAnswers_NoAcknowledgementInsideAReadResponse(t *testing.T) {
	s := newScript(t, nil)
	s.recv(1, 0x1000, 10)
	send := s.packet(bth.RCSendOnly, 0, nil)
	s.arrives(send, s.rdma(bth.RCReadRequest, 1, 0, 4000, nil))
	s.pollPacket(s.now())
	s.pollPacket(s.now())
	s.wantSentBefore("ACK 0", "READ_RESPONSE_FIRST 1")
	s.arrives(send)
	s.wantSent("READ_RESPONSE_MIDDLE 2", "READ_RESPONSE_MIDDLE 3", "READ_RESPONSE_LAST 4")
}

func TestAnswers_DuplicatesOfEarlierRequestsAreAnsweredFirst(t *testing.T) {
	s := newScript(t, nil)
	s.recv(1, 0x1000, 10)
	early := s.rdma(bth.RCReadRequest, 0, 0, 2000, nil)
	s.arrives(early, s.atomic(bth.RCFetchAdd, 2, 0x8000, 1, 0))
	s.transmit()
	s.sent = nil
	s.arrives(s.rdma(bth.RCReadRequest, 3, 0, 4000, nil), s.packet(bth.RCSendOnly, 7, nil))
	s.pollPacket(s.now())
	s.wantSentBefore("READ_RESPONSE_FIRST 3")
	s.arrives(s.atomic(bth.RCFetchAdd, 2, 0x8000, 1, 0), early)
	s.wantSent("READ_RESPONSE_FIRST 0", "READ_RESPONSE_LAST 1", "ATOMIC_ACKNOWLEDGE 2",
		"READ_RESPONSE_MIDDLE 4", "READ_RESPONSE_MIDDLE 5", "READ_RESPONSE_LAST 6", "ACK 7")
}

func TestAnswers_WhatIsOwedBeforeARefusedRequestStillLeaves(t *testing.T) {
	s := newScript(t, nil)
	s.recv(1, 0x1000, 10)
	s.arrives(s.packet(bth.RCSendOnly, 0, nil), s.rdma(bth.RCReadRequest, 1, 0, 3000, nil), s.atomic(bth.RCFetchAdd, 4, 0x8000, 1, 0))
	s.pollPacket(s.now())
	s.pollPacket(s.now())
	s.sent = nil
	s.arrives(s.rdma(bth.RCWriteOnly, 5, s.opt.memory, 8, data(8, 0)))
	s.wantState(StateErr)
	s.arrives(s.rdma(bth.RCReadRequest, 1, 0, 3000, nil))
	s.wantDrops(map[bth.Drop]int{bth.DropQPState: 1})
	s.wantSent("READ_RESPONSE_MIDDLE 2", "READ_RESPONSE_LAST 3", "ATOMIC_ACKNOWLEDGE 4", "NAK_62 5")
	s.wantSent()
	s.wantTimer(s.now(), -1)
}

// The memory of a READ in progress is deregistered: what is left of the response, and
// all behind it, gives way to a NAK.
func TestPitfall43_RegionGoneInAReadResponse(t *testing.T) {
	for sent := range 4 {
		s := newScript(t, nil)
		r, err := s.table.Register(1, make([]byte, 3000), memreg.Options{Access: allAccess})
		if err != nil {
			t.Fatal(err)
		}
		s.recv(1, 0x1000, 10)
		read := s.rdma(bth.RCReadRequest, 1, 0, 3000, nil)
		read.RETH = bth.RETH{VA: r.Addr(), RKey: uint32(r.Key()), Length: 3000}
		s.arrives(s.packet(bth.RCSendOnly, 0, nil), read, s.packet(bth.RCSendOnly, 4, nil))
		for range sent {
			s.pollPacket(s.now())
		}
		if err := s.table.Deregister(r.Key()); err != nil {
			t.Fatal(err)
		}
		all := []string{"ACK 0", "READ_RESPONSE_FIRST 1", "READ_RESPONSE_MIDDLE 2"}
		nak := []string{"NAK_62 1", "NAK_62 1", "NAK_62 2", "NAK_62 3"}[sent]
		s.transmit()
		s.wantSentBefore(append(all[:max(sent, 1):max(sent, 1)], nak)...)
		s.wantState(StateErr)
		s.wantEvents(EventAccessErr)
		s.wantDone("1 SUCCESS")
	}
}

// In ERR, with a refused request behind it, the same may happen.
func TestPitfall43_RegionGoneInAReadResponseAlreadyInError(t *testing.T) {
	s := newScript(t, nil)
	s.arrives(s.rdma(bth.RCReadRequest, 0, 0, 3000, nil), s.packet(bth.RCSendLast, 3, data(1, 0)))
	s.wantState(StateErr)
	if err := s.table.Deregister(s.region.Key()); err != nil {
		t.Fatal(err)
	}
	s.wantSent("NAK_62 0")
	s.wantState(StateErr)
}

func TestAnswers_ModifyToErrorForgetsWhatIsOwed(t *testing.T) {
	s := newScript(t, nil)
	s.arrives(s.rdma(bth.RCReadRequest, 0, 0, 3000, nil))
	s.pollPacket(s.now())
	s.sent = nil
	s.modify(s.now(), &Attr{Mask: AttrState, State: StateErr})
	s.wantIdle()
}

// A program that reacts to the event of a refused request by moving to ERR, where the
// queue pair is already, must not keep the peer from learning why.
func TestAnswers_ModifyToErrorAgainKeepsTheNAK(t *testing.T) {
	s := newScript(t, nil)
	s.arrives(s.rdma(bth.RCReadRequest, 0, s.opt.memory, 8, nil))
	s.wantEvents(EventAccessErr)
	s.modify(s.now(), &Attr{Mask: AttrState, State: StateErr})
	s.wantSent("NAK_62 0")
}

// Responses and requests of a busy queue pair take turns.
func TestAnswers_NeitherResponsesNorRequestsStarveTheOther(t *testing.T) {
	s := newScript(t, func(o *options) { o.mtu = 256 })
	s.send(s.write(1, 100*256, s.far, 0))
	s.arrives(s.rdma(bth.RCReadRequest, 0, 0, 100*256, nil))
	s.transmit()
	run, longest, last := 0, 0, false
	for i := range 150 { // both have some up to there
		if response := s.sent[i].Flags.Any(bth.Response); response != last {
			run, last = 0, response
		}
		run++
		longest = max(longest, run)
	}
	if longest != burstLimit {
		t.Errorf("one role sent %d packets in a row while the other waited, want %d", longest, burstLimit)
	}
	if len(s.sent) != 200 {
		t.Errorf("%d packets in all, want 200", len(s.sent))
	}
}

// However a peer mixes new requests and duplicates without reading the answers, what
// is owed stays within the room made for it, and order holds.
func TestAnswers_QueueIsBounded(t *testing.T) {
	for _, depth := range []uint8{0, 1, 2, 3, 16, 128} {
		s := newScript(t, func(o *options) { o.rdAtomic, o.depth = depth, 4096 })
		room := cap(s.qp.resp.answers.list)
		random := uint32(depth) + 1
		for i := range 3000 {
			s.recv(uint64(i), 0, 10)
		}
		for range 3000 {
			random = random*1664525 + 1013904223
			next := s.qp.resp.epsn.Diff(s.opt.psn)
			at := next
			if random>>16%3 != 0 {
				at = next - int(random>>18%300)
			}
			p := s.packet(bth.RCSendOnly, at, nil)
			full := s.qp.resp.answers.full()
			switch kind := random >> 28; {
			case kind < 5 && !(full && at == next):
				p = s.rdma(bth.RCReadRequest, at, 0, int(random>>8%3000), nil)
			case kind < 8 && !(full && at == next):
				p = s.atomic(bth.RCFetchAdd, at, 0x8000, 1, 0)
			case kind == 8:
				p = s.packet(bth.RCSendOnly, next+5, nil)
			}
			s.arrives(p)
			if random>>10%7 == 0 {
				s.pollPacket(s.now())
			}
			pending := s.qp.resp.answers.pending()
			for i := 1; i < len(pending); i++ {
				if pending[i].psn.Before(pending[i-1].next()) {
					t.Fatalf("depth %d: PSN %d is owed behind %d", depth, pending[i].psn, pending[i-1].psn)
				}
			}
			if got := cap(s.qp.resp.answers.list); got != room {
				t.Fatalf("depth %d: the queue grew from %d to %d", depth, room, got)
			}
			s.wantState(StateRTS)
		}
	}
}

// Duplicates of READs that the peer no longer waits for, held up in the network, do
// not make its next READs an invalid request.
func TestAnswers_StrayDuplicatesDoNotCountAgainstTheDepth(t *testing.T) {
	s := newScript(t, func(o *options) { o.rdAtomic = 2 })
	read := func(psn int) bth.Packet { return s.rdma(bth.RCReadRequest, psn, 0, 8, nil) }
	s.arrives(read(0), read(1))
	s.transmit()
	s.sent = nil
	// The same twice over: they replace each other, and stay duplicates.
	s.arrives(read(0), read(1), read(0), read(1), read(2), read(3), read(3), read(2), read(0)) // 0 is forgotten, but owed
	s.wantSent("READ_RESPONSE_ONLY 0", "READ_RESPONSE_ONLY 1", "READ_RESPONSE_ONLY 2", "READ_RESPONSE_ONLY 3")
	s.wantDrops(map[bth.Drop]int{bth.DropForgotten: 1})
	s.arrives(read(4), read(5), read(6)) // that is one too many
	s.wantSent("READ_RESPONSE_ONLY 4", "READ_RESPONSE_ONLY 5", "NAK_61 6")
	s.wantState(StateErr)
}

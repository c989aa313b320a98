package transport

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/go-roce/roce/bth"
)

func TestPitfall29_OneAcknowledgementCompletesAllBeforeIt(t *testing.T) {
	s := newScript(t, nil)
	s.send(s.sendWR(1, 3000)) // 0 1 2
	s.send(s.sendWR(2, 0))    // 3
	s.send(s.sendWR(3, 2000)) // 4 5
	s.transmit()
	s.arrives(s.ack(1)) // in the middle of the first
	s.wantDone()
	s.arrives(s.ack(4))
	s.wantDone("1 SUCCESS", "2 SUCCESS")
	s.arrives(s.ack(5))
	s.wantDone("3 SUCCESS")
	s.sent = nil
	s.wantIdle()
}

func TestPitfall29_ReadResponseAndAtomicResultAcknowledgeWhatCameBefore(t *testing.T) {
	s := newScript(t, nil)
	s.send(s.sendWR(1, 10))
	s.send(s.read(2, 0, 10, s.far, 0))
	s.send(s.sendWR(3, 2000))
	s.send(s.fetchAdd(4, 16, s.far, 0, 1))
	s.transmit()
	s.arrives(s.packet(bth.RCReadResponseOnly, 1, data(10, 0)))
	s.wantDone("1 SUCCESS", "2 SUCCESS")
	s.arrives(s.atomicAck(4, 99))
	s.wantDone("3 SUCCESS", "4 SUCCESS")
	if got := binary.NativeEndian.Uint64(s.mem[16:]); got != 99 {
		t.Errorf("the original value arrived as %d", got)
	}
	s.sent = nil
	s.wantIdle()
}

func TestPitfall29_GhostAndOldAcknowledgementsAreIgnored(t *testing.T) {
	s := newScript(t, nil)
	s.arrives(s.ack(-1), s.ack(0), s.ack(5)) // before anything was sent
	s.wantDrops(map[bth.Drop]int{bth.DropStale: 1, bth.DropGhost: 2})
	s.send(s.sendWR(1, 10))
	s.send(s.sendWR(2, 10))
	s.transmit()
	s.arrives(s.ack(2), s.ack(1<<22), s.nak(bth.NAKRemoteAccess, 2), s.rnr(1, 2), s.atomicAck(2, 0)) // never sent
	s.wantDone()
	s.arrives(s.ack(0))
	s.wantDone("1 SUCCESS")
	s.arrives(s.ack(0), s.ack(-1), s.nak(bth.NAKSequence, 0), s.rnr(1, 0)) // over and done with
	s.wantDrops(map[bth.Drop]int{bth.DropGhost: 5, bth.DropStale: 4})
	s.wantDone()
	s.wantState(StateRTS)
	s.arrives(s.ack(1))
	s.wantDone("2 SUCCESS")
	s.sent = nil
	s.wantIdle()
	if c := s.qp.Counters(); c.Retransmits != 0 || c.NAKsReceived != 0 || c.RNRNAKsReceived != 0 {
		t.Errorf("counters %+v", c)
	}
}

func TestPitfall31_ReadWhoseResponseWentMissingIsRetriedAtOnce(t *testing.T) {
	for name, sign := range map[string]func(*script) bth.Packet{
		"acknowledgement of a later SEND": func(s *script) bth.Packet { return s.ack(4) },
		"response to a later READ":        func(s *script) bth.Packet { return s.packet(bth.RCReadResponseOnly, 5, data(10, 0)) },
		"result of a later atomic":        func(s *script) bth.Packet { return s.atomicAck(6, 0) },
		"a packet of its own missing":     func(s *script) bth.Packet { return s.packet(bth.RCReadResponseLast, 3, data(952, 0)) },
		"sequence NAK":                    func(s *script) bth.Packet { return s.nak(bth.NAKSequence, 5) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, nil)
			s.send(s.sendWR(1, 10))
			s.send(s.read(2, 0, 3000, s.far, 0))
			s.send(s.sendWR(3, 10))
			s.send(s.read(4, 0x4000, 10, s.far, 0))
			s.send(s.fetchAdd(5, 0x8000, s.far, 0, 1))
			s.transmit()
			s.sent = nil
			s.arrives(sign(s))
			s.wantDone("1 SUCCESS") // it came before all that
			s.wantSent("READ_REQUEST 1!", "SEND_ONLY 4!", "READ_REQUEST 5!", "FETCH_ADD 6!")
			if c := s.qp.Counters(); c.ImpliedNAKs != 1 || s.qp.req.retriesLeft != 6 {
				t.Errorf("%d implied NAKs, %d retries left; want 1 and 6", c.ImpliedNAKs, s.qp.req.retriesLeft)
			}
			// Echoes of what was sent before are no new loss.
			s.arrives(s.ack(4), s.packet(bth.RCReadResponseOnly, 5, data(10, 0)), s.atomicAck(6, 0))
			s.wantSent()
			if left := s.qp.req.retriesLeft; left != 6 {
				t.Errorf("echoes cost retries: %d left", left)
			}
			s.arrives(s.packet(bth.RCReadResponseFirst, 1, data(1024, 1)), s.packet(bth.RCReadResponseMiddle, 2, data(1024, 2)),
				s.packet(bth.RCReadResponseLast, 3, data(952, 3)), s.ack(4), s.packet(bth.RCReadResponseOnly, 5, data(10, 4)),
				s.atomicAck(6, 0))
			s.wantDone("2 SUCCESS", "3 SUCCESS", "4 SUCCESS", "5 SUCCESS")
			s.wantIdle()
		})
	}
}

func TestPitfall31_AtomicWhoseResultWentMissingIsRetriedWithTheSamePacket(t *testing.T) {
	s := newScript(t, nil)
	s.send(s.fetchAdd(1, 0, s.far, 8, 5))
	s.send(s.sendWR(2, 1))
	s.transmit()
	first := s.sent[0]
	s.sent = nil
	s.arrives(s.ack(1))
	s.transmit()
	if got := s.sent[0]; got.AtomicETH != first.AtomicETH || got.PSN != first.PSN || got.Opcode != first.Opcode {
		t.Fatalf("sent again as %+v, was %+v", got.Headers, first.Headers)
	}
	s.wantSentBefore("FETCH_ADD 0!", "SEND_ONLY 1!")
}

func TestPitfall30_ReadIsResumedAtTheFirstMissingByte(t *testing.T) {
	s := newScript(t, nil)
	s.send(s.read(1, 0, 4000, s.far, 100))
	s.wantSent("READ_REQUEST 0!")
	whole := data(4000, 7)
	s.arrives(s.packet(bth.RCReadResponseFirst, 0, whole[:1024]), s.packet(bth.RCReadResponseMiddle, 1, whole[1024:2048]))
	s.wait(AckTimeout(14))
	s.transmit()
	if r := s.sent[0].RETH; r.VA != s.far.va(100+2048) || r.Length != 4000-2048 || r.RKey != uint32(s.far.region.Key()) {
		t.Fatalf("the rest was asked for as %+v", r)
	}
	s.wantSentBefore("READ_REQUEST 2!")
	s.arrives(s.packet(bth.RCReadResponseFirst, 2, whole[2048:3072]), s.packet(bth.RCReadResponseLast, 3, whole[3072:]))
	s.wantDone("1 SUCCESS")
	if !bytes.Equal(s.mem[:4000], whole) {
		t.Error("the READ put its bytes in the wrong places")
	}
	s.wantIdle()
}

func TestPitfall30_ReadOf8MiBWithOnePercentLossEnds(t *testing.T) {
	const size = 8 << 20
	p := newPair(t, func(o *options) { o.memory, o.psn = size, 0xFFF000 })
	random := uint32(1)
	p.tamper = func(*end, *bth.Packet) fate {
		if random = random*1664525 + 1013904223; random>>16%100 == 0 {
			return lost
		}
		return arrives
	}
	fill(p.b.mem, 3)
	p.a.send(p.a.read(1, 0, size, p.b, 0))
	p.settle()
	p.a.wantDone("1 SUCCESS")
	if !bytes.Equal(p.a.mem, p.b.mem) {
		t.Fatal("the bytes are not the peer's")
	}
	if sent := len(p.b.sent); sent > size/1024*3 {
		t.Errorf("the peer sent %d packets for %d of data: it was asked again for what had arrived", sent, size/1024)
	}
}

func TestCompleter_SequenceNAKResendsFromThereOn(t *testing.T) {
	s := newScript(t, nil)
	s.send(s.sendWR(1, 3000))
	s.send(s.sendWR(2, 3000))
	s.send(s.sendWR(3, 1))
	s.transmit()
	s.sent = nil
	s.arrives(s.nak(bth.NAKSequence, 4))
	s.wantDone("1 SUCCESS") // all before is acknowledged
	s.wantSent("SEND_MIDDLE 4", "SEND_LAST 5!", "SEND_ONLY 6!")
	// The same again without progress is an echo; the timer is there if it was not.
	s.arrives(s.nak(bth.NAKSequence, 4))
	s.wantSent()
	s.wait(AckTimeout(14))
	s.wantSent("SEND_MIDDLE 4", "SEND_LAST 5!", "SEND_ONLY 6!")
	s.arrives(s.nak(bth.NAKSequence, 5)) // progress, and a new gap
	s.wantSent("SEND_LAST 5!", "SEND_ONLY 6!")
	s.arrives(s.ack(6))
	s.wantDone("2 SUCCESS", "3 SUCCESS")
	s.wantIdle()
	if c := s.qp.Counters(); c.Retransmits != 8 || c.NAKsReceived != 3 || c.Timeouts != 1 {
		t.Errorf("counters %+v", c)
	}
}

// An acknowledgement that was under way when the resend began moves it forward, and
// never takes the requester back.
func TestCompleter_LateAcknowledgementOvertakesAResend(t *testing.T) {
	for acked := range 6 {
		s := newScript(t, nil)
		s.send(s.sendWR(1, 3000))
		s.send(s.sendWR(2, 3000))
		s.transmit()
		s.sent = nil
		s.wait(AckTimeout(14))
		for range 2 { // two packets of the resend have left
			s.pollPacket(s.now())
		}
		s.sent = nil
		s.arrives(s.ack(acked))
		var want []string
		for i, d := range []string{"", "", "SEND_LAST 2!", "SEND_FIRST 3", "SEND_MIDDLE 4", "SEND_LAST 5!"} {
			if i >= 2 && i > acked {
				want = append(want, d)
			}
		}
		s.wantSent(want...)
		s.arrives(s.ack(5))
		s.wantDone("1 SUCCESS", "2 SUCCESS")
		s.wantIdle()
	}
}

func TestCompleter_LateReadResponsesOvertakeAResend(t *testing.T) {
	s := newScript(t, nil)
	s.send(s.read(1, 0, 4096, s.far, 0))
	s.send(s.sendWR(2, 1))
	s.transmit()
	s.sent = nil
	whole := data(4096, 5)
	s.wait(AckTimeout(14))
	// Nothing of the resend has left when the first two responses turn up after all.
	s.arrives(s.packet(bth.RCReadResponseFirst, 0, whole[:1024]), s.packet(bth.RCReadResponseMiddle, 1, whole[1024:2048]))
	s.transmit()
	if r := s.sent[0].RETH; r.VA != s.far.va(2048) || r.Length != 2048 {
		t.Fatalf("asked for %+v", r)
	}
	s.wantSentBefore("READ_REQUEST 2!", "SEND_ONLY 4!")
	// Then the rest of the old response, and last the answers to the resend.
	s.arrives(s.packet(bth.RCReadResponseMiddle, 2, whole[2048:3072]), s.packet(bth.RCReadResponseLast, 3, whole[3072:]), s.ack(4))
	s.wantDone("1 SUCCESS", "2 SUCCESS")
	s.arrives(s.packet(bth.RCReadResponseFirst, 2, data(1024, 99)), s.packet(bth.RCReadResponseLast, 3, data(1024, 99)), s.ack(4))
	if !bytes.Equal(s.mem[:4096], whole) {
		t.Error("a late duplicate of a response overwrote the memory of a completed READ")
	}
	s.wantIdle()
}

func TestPitfall36_ErrorNAKEndsOneRequestWithItsStatusAndFlushesTheRest(t *testing.T) {
	for code, status := range map[bth.Syndrome]string{
		bth.NAKInvalidRequest:  "REM_INV_REQ_ERR",
		bth.NAKRemoteAccess:    "REM_ACCESS_ERR",
		bth.NAKRemoteOperation: "REM_OP_ERR",
	} {
		s := newScript(t, nil)
		s.recv(100, 0, 10)
		s.recv(101, 0, 10)
		unsignaled := s.sendWR(2, 3000)
		unsignaled.Flags = 0
		s.send(s.sendWR(1, 10)) // 0
		s.send(unsignaled)      // 1 2 3
		s.send(s.sendWR(3, 10)) // 4
		s.send(unsignaled)
		s.transmit()
		s.arrives(s.nak(code, 2))
		s.wantState(StateErr)
		s.send(s.sendWR(5, 10)) // posting is allowed, and flushed
		s.recv(102, 0, 10)
		s.wantDone("100 WR_FLUSH_ERR", "101 WR_FLUSH_ERR", "102 WR_FLUSH_ERR",
			"1 SUCCESS", "2 "+status, "3 WR_FLUSH_ERR", "2 WR_FLUSH_ERR", "5 WR_FLUSH_ERR")
		s.sent = nil
		s.arrives(s.ack(4), s.nak(code, 2))
		s.wantDrops(map[bth.Drop]int{bth.DropQPState: 2})
		s.send(s.sendWR(6, 10))
		s.wantDone("6 WR_FLUSH_ERR")
		s.wantIdle()
	}
}

// The peer is in ERR and answers nothing any more: a READ before the refused request
// whose response went missing cannot be had.
func TestCompleter_ErrorNAKBehindAnIncompleteRead(t *testing.T) {
	s := newScript(t, nil)
	s.send(s.sendWR(1, 10))
	s.send(s.read(2, 0, 3000, s.far, 0))
	s.send(s.sendWR(3, 10))
	s.send(s.sendWR(4, 3000))
	s.send(s.sendWR(5, 10))
	s.transmit()
	s.arrives(s.packet(bth.RCReadResponseFirst, 1, data(1024, 0)), s.nak(bth.NAKRemoteAccess, 6))
	s.wantDone("1 SUCCESS", "2 WR_FLUSH_ERR", "3 WR_FLUSH_ERR", "4 REM_ACCESS_ERR", "5 WR_FLUSH_ERR")
	s.wantState(StateErr)
}

func TestCompleter_ErrorNAKForAReadOrAtomic(t *testing.T) {
	for psn, want := range map[int][]string{
		0: {"1 REM_ACCESS_ERR", "2 WR_FLUSH_ERR"},
		1: {"1 REM_ACCESS_ERR", "2 WR_FLUSH_ERR"}, // its memory went away after the first response
		3: {"1 WR_FLUSH_ERR", "2 REM_ACCESS_ERR"},
	} {
		s := newScript(t, nil)
		s.send(s.read(1, 0, 3000, s.far, 0))
		s.send(s.fetchAdd(2, 0, s.far, 0, 1))
		s.transmit()
		if psn == 1 {
			s.arrives(s.packet(bth.RCReadResponseFirst, 0, data(1024, 0)))
		}
		s.arrives(s.nak(bth.NAKRemoteAccess, psn))
		s.wantDone(want...)
	}
}

func TestCompleter_ReservedSyndromesAreDropped(t *testing.T) {
	for code := range 256 {
		c := bth.Syndrome(code)
		if c.IsAck() || c.IsRNR() || c >= bth.NAKSequence && c <= bth.NAKRemoteOperation {
			continue
		}
		s := newScript(t, nil)
		s.send(s.read(1, 0, 10, s.far, 0))
		s.send(s.fetchAdd(2, 0, s.far, 0, 1))
		s.send(s.sendWR(3, 10))
		s.transmit()
		s.sent = nil
		before := s.qp.NextTimeout()
		read, atomic := s.packet(bth.RCReadResponseOnly, 0, data(10, 0)), s.atomicAck(1, 0)
		read.AETH.Syndrome, atomic.AETH.Syndrome = c, c
		s.arrives(s.nak(c, 0), s.nak(c, 2), read, atomic)
		s.wantDrops(map[bth.Drop]int{bth.DropSyndrome: 4})
		s.wantSent()
		s.wantDone()
		if s.qp.NextTimeout() != before {
			t.Fatalf("syndrome 0x%02x moved the timer", code)
		}
	}
}

func TestCompleter_BadReadResponseIsFatal(t *testing.T) {
	for _, tc := range []struct {
		name string
		psn  int
		op   bth.Opcode
		n    int
	}{
		{"First too short", 0, bth.RCReadResponseFirst, 1023},
		{"First empty", 0, bth.RCReadResponseFirst, 0},
		{"First too long", 0, bth.RCReadResponseFirst, 1025},
		{"Only where more remains", 0, bth.RCReadResponseOnly, 1024},
		{"Last where more remains", 0, bth.RCReadResponseLast, 1024},
		{"Middle too short", 1, bth.RCReadResponseMiddle, 100},
		{"Last too early", 1, bth.RCReadResponseLast, 1024},
		{"Middle where it ends", 2, bth.RCReadResponseMiddle, 952},
		{"First where it ends", 2, bth.RCReadResponseFirst, 952},
		{"Last too short", 2, bth.RCReadResponseLast, 951},
		{"Last too long", 2, bth.RCReadResponseLast, 953},
		{"Last empty", 2, bth.RCReadResponseLast, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScript(t, nil)
			s.send(s.read(1, 0, 3000, s.far, 0))
			s.send(s.sendWR(2, 1))
			s.transmit()
			for i := range tc.psn {
				s.arrives(s.packet(bth.RCReadResponseMiddle, i, data(1024, 0)))
			}
			s.arrives(s.packet(tc.op, tc.psn, data(tc.n, 0)))
			s.wantDone("1 BAD_RESP_ERR", "2 WR_FLUSH_ERR")
			s.wantState(StateErr)
		})
	}
}

func TestCompleter_ResponseOfTheWrongKindIsDropped(t *testing.T) {
	s := newScript(t, nil)
	s.send(s.sendWR(1, 3000))
	s.send(s.fetchAdd(2, 0, s.far, 0, 1))
	s.send(s.read(3, 64, 10, s.far, 0))
	s.transmit()
	s.arrives(s.packet(bth.RCReadResponseOnly, 0, data(10, 0)), s.atomicAck(1, 0))
	s.wantDone()
	s.arrives(s.packet(bth.RCReadResponseOnly, 3, data(8, 0))) // at the atomic: acknowledges what is before
	s.wantDone("1 SUCCESS")
	s.arrives(s.atomicAck(3, 5), s.atomicAck(4, 5)) // the second at the READ
	s.wantDone("2 SUCCESS")
	s.wantDrops(map[bth.Drop]int{bth.DropResponse: 4})
	s.wantState(StateRTS)
}

// A local region that is gone when the response comes is the requester's own fault.
func TestCompleter_ResponseIntoMissingMemory(t *testing.T) {
	for name, answer := range map[string]func(*script) bth.Packet{
		"READ":   func(s *script) bth.Packet { return s.packet(bth.RCReadResponseOnly, 0, data(8, 0)) },
		"atomic": func(s *script) bth.Packet { return s.atomicAck(0, 1) },
	} {
		s := newScript(t, nil)
		wr := s.read(1, 0, 8, s.far, 0)
		if name == "atomic" {
			wr = s.fetchAdd(1, 0, s.far, 0, 1)
		}
		s.send(wr)
		s.transmit()
		if err := s.table.Deregister(s.region.Key()); err != nil {
			t.Fatal(err)
		}
		s.arrives(answer(s))
		s.wantDone("1 LOC_PROT_ERR")
		s.wantState(StateErr)
	}
}

func TestCompleter_CompletionFields(t *testing.T) {
	s := newScript(t, nil)
	for i, tc := range []struct {
		op   WROpcode
		want WCOpcode
	}{
		{WRSend, WCSend},
		{WRSendImm, WCSend},
		{WRSendInv, WCSend},
		{WRWrite, WCWrite},
		{WRWriteImm, WCWrite},
		{WRRead, WCRead},
		{WRCompareSwap, WCCompareSwap},
		{WRFetchAdd, WCFetchAdd},
	} {
		s.send(SendWR{ID: uint64(i), Opcode: tc.op, Flags: Signaled, SGL: s.sge(0, 8)})
		s.transmit()
		switch tc.op {
		case WRRead:
			s.arrives(s.packet(bth.RCReadResponseOnly, i, data(8, 0)))
		case WRCompareSwap, WRFetchAdd:
			s.arrives(s.atomicAck(i, 0))
		default:
			s.arrives(s.ack(i))
		}
		s.pollDone()
		want := Completion{ID: uint64(i), QPN: 0x11, Opcode: tc.want, ByteLen: 8, Retired: 1}
		if len(s.done) != 1 || s.done[0] != want {
			t.Errorf("%v completes as %+v, want %+v", tc.op, s.done, want)
		}
		s.wantDone(fmt.Sprintf("%d SUCCESS", i))
	}
}

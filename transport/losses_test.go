package transport

import (
	"testing"

	"github.com/go-roce/roce/bth"
)

// selective makes a script whose requester sends only what is missing where it can.
func selective(t testing.TB, change func(*options)) *script {
	t.Helper()
	return newScript(t, func(o *options) {
		o.recovery = func(string) Recovery { return Recovery{Selective: true} }
		if change != nil {
			change(o)
		}
	})
}

// sends posts n SENDs of a packet each and takes the packets.
func (s *script) sends(n int) {
	s.t.Helper()
	for i := range n {
		s.send(s.sendWR(uint64(i), 8))
	}
	s.transmit()
	s.sent = nil
}

// judged makes a script with n SENDs under way to a peer that was seen to hold packets: PSN 0 was lost and is made good.
func judged(t testing.TB, n int) *script {
	t.Helper()
	s := selective(t, nil)
	s.sends(n + 3)
	s.arrives(s.nak(bth.NAKSequence, 0))
	s.wantSent("SEND_ONLY 0!")
	s.arrives(s.ack(2))
	if s.qp.req.losses.peer != peerHolds {
		t.Fatal("a peer that got past a hole is not known for it")
	}
	s.pollDone()
	s.done = nil
	return s
}

func TestLosses_APeerThatGetsPastAHoleHoldsWhatIsBehind(t *testing.T) {
	s := judged(t, 10)
	s.arrives(s.nak(bth.NAKSequence, 5))
	s.wantSent("SEND_ONLY 5!")
	s.arrives(s.nak(bth.NAKSequence, 5)) // an echo
	s.wantSent()
	s.arrives(s.ack(12))
	s.pollDone()
	s.done = nil
	s.wantIdle()
	if c := s.qp.Counters(); c.Retransmits != 2 {
		t.Errorf("counted %+v", c)
	}
}

func TestLosses_APeerThatStopsBehindAHoleGetsAllOfItAgain(t *testing.T) {
	s := selective(t, nil)
	s.sends(4)
	s.arrives(s.nak(bth.NAKSequence, 1))
	s.wantSent("SEND_ONLY 1!")
	s.arrives(s.ack(1))
	s.wantSent("SEND_ONLY 2!", "SEND_ONLY 3!")
	s.arrives(s.ack(3))
	s.sent, s.done = nil, nil
	// It is known now, for the next few gaps.
	s.sends(3)
	s.arrives(s.nak(bth.NAKSequence, 4))
	s.wantSent("SEND_ONLY 4!", "SEND_ONLY 5!", "SEND_ONLY 6!")
	if n := s.qp.Counters().NAKsReceived; n != 2 {
		t.Errorf("%d NAKs", n)
	}
}

// The same by a NAK of the next packet, and with READs, each of which is one request.
func TestLosses_APeerThatNAKsTheNextRequestDroppedIt(t *testing.T) {
	s := selective(t, nil)
	for i := range 3 {
		s.send(s.read(uint64(i), i*2048, 2000, s.far, 0))
	}
	s.wantSent("READ_REQUEST 0!", "READ_REQUEST 2!", "READ_REQUEST 4!")
	s.arrives(s.nak(bth.NAKSequence, 0))
	s.wantSent("READ_REQUEST 0!")
	s.arrives(s.packet(bth.RCReadResponseFirst, 0, data(1024, 0)))
	if p := s.qp.req.losses.peer; p != peerUnknown {
		t.Fatalf("judged %d by the answer to the READ itself", p)
	}
	s.arrives(s.packet(bth.RCReadResponseLast, 1, data(976, 0)), s.nak(bth.NAKSequence, 2))
	s.wantSent("READ_REQUEST 2!", "READ_REQUEST 4!")
}

func TestLosses_ReportsSayWhatElseIsMissing(t *testing.T) {
	s := judged(t, 20)
	s.arrives(s.nak(bth.NAKSequence, 4))
	s.wantSent("SEND_ONLY 4!")
	// Held from 6 to 8 and from 10 on: 5 and 9 are missing.
	s.arrives(s.report(4, 6, true))
	s.wantSent("SEND_ONLY 5!")
	s.arrives(s.report(4, 8, false), s.report(4, 10, true))
	s.wantSent("SEND_ONLY 9!")
	s.arrives(s.report(4, 10, true)) // again
	s.wantSent()
	s.arrives(s.ack(22))
	s.pollDone()
	s.done = nil
	s.wantIdle()
}

// report is what a holding peer that waits for epsn says of the packet psn.
func (s *script) report(epsn, psn int, first bool) bth.Packet {
	code := 2 * (psn - epsn)
	if first {
		code++
	}
	return s.ack(epsn - 1 - code)
}

func TestLosses_ARepeatedAcknowledgementIsANAKFromAPeerThatHolds(t *testing.T) {
	s := judged(t, 10)
	s.arrives(s.ack(4), s.ack(4))
	s.wantSent("SEND_ONLY 5!")
	s.arrives(s.ack(4))
	s.wantSent()

	other := selective(t, nil) // whose peer was never seen to hold anything
	other.sends(3)
	other.arrives(other.ack(0), other.ack(0))
	other.wantSent()
}

// Two packets sent again arrive in turn: if the second did and the first did not, that is lost for the second time.
func TestLosses_WhatIsLostAgainIsSeenByWhatWasSentAfterIt(t *testing.T) {
	s := selective(t, nil)
	s.send(s.read(1, 0, 8*1024, s.far, 0))
	s.transmit()
	response := func(psn int, op bth.Opcode) bth.Packet { return s.packet(op, psn, data(1024, byte(psn))) }
	s.sent = nil
	s.arrives(response(0, bth.RCReadResponseFirst), response(3, bth.RCReadResponseMiddle), response(5, bth.RCReadResponseMiddle))
	s.wantSent("READ_REQUEST 1!", "READ_REQUEST 4!")
	s.arrives(response(2, bth.RCReadResponseOnly), response(4, bth.RCReadResponseOnly))
	s.wantSent("READ_REQUEST 1!") // its answer was lost, that of 2 and 4 was not
	s.arrives(response(1, bth.RCReadResponseOnly), response(6, bth.RCReadResponseMiddle), response(7, bth.RCReadResponseLast))
	s.wantDone("1 SUCCESS")
	if got := s.mem[:8*1024]; string(got[1024:2048]) != string(data(1024, 1)) || string(got[4096:5120]) != string(data(1024, 4)) {
		t.Error("the READ brought the wrong bytes")
	}
	s.wantIdle()
}

// Pitfall 31: what was executed is not sent again because an answer before it is missing.
func TestPitfall31_OnlyTheMissingAnswersAreAskedFor(t *testing.T) {
	s := selective(t, nil)
	s.send(s.fetchAdd(1, 0, s.far, 0, 1))
	s.send(s.sendWR(2, 8))
	s.send(s.fetchAdd(3, 8, s.far, 0, 1))
	s.send(s.sendWR(4, 8))
	s.transmit()
	s.sent = nil
	s.arrives(s.atomicAck(2, 7), s.ack(3)) // that of 0 is lost
	s.wantSent("FETCH_ADD 0!")
	s.wantDone()
	s.arrives(s.atomicAck(0, 6))
	s.wantDone("1 SUCCESS", "2 SUCCESS", "3 SUCCESS", "4 SUCCESS")
	if c := s.qp.Counters(); c.ImpliedNAKs != 1 || c.Retransmits != 1 {
		t.Errorf("counted %+v", c)
	}
	s.wantIdle()
}

// Only the oldest request decides when to give up, whatever happens to those behind it.
func TestLosses_OnlyTheOldestCostsRetries(t *testing.T) {
	s := selective(t, func(o *options) { o.retry = 1 })
	s.send(s.read(1, 0, 64*1024, s.far, 0))
	s.transmit()
	s.sent = nil
	for psn := 2; psn < 60; psn += 3 {
		s.arrives(s.packet(bth.RCReadResponseMiddle, psn, data(1024, 0)))
	}
	s.transmit()
	s.wantState(StateRTS)
	if left := s.qp.req.retriesLeft; left != 0 {
		t.Errorf("%d retries are left, want none: PSN 0 was asked for again once", left)
	}
}

// A burst that no report told of: each repair is twice as long, and then the peer is not trusted any more.
func TestLosses_AGapBehindARepairIsABurst(t *testing.T) {
	s := judged(t, 60)
	next, longest := 3, 0
	for range burstLength + 1 {
		s.arrives(s.nak(bth.NAKSequence, next))
		s.sent = nil
		s.transmit()
		if len(s.sent) < longest {
			t.Fatalf("a repair of %d packets, the last had %d", len(s.sent), longest)
		}
		longest = len(s.sent)
		next += longest
	}
	if longest != 1<<burstLength {
		t.Errorf("the longest repair has %d packets, want %d", longest, 1<<burstLength)
	}
	s.arrives(s.nak(bth.NAKSequence, next))
	s.sent = nil
	s.transmit()
	if s.qp.req.losses.peer != peerDrops || len(s.sent) != 63-next {
		t.Errorf("%d packets are sent again, want all %d", len(s.sent), 63-next)
	}
}

// What a peer of another kind might say does no harm.
func TestLosses_OldAcknowledgementsAreHarmless(t *testing.T) {
	s := selective(t, nil)
	s.sends(40)
	s.arrives(s.ack(9))
	for back := 1; back < 300; back++ {
		s.arrives(s.ack(9 - back))
	}
	s.wantSent()
	s.arrives(s.nak(bth.NAKSequence, 10))
	s.wantSent("SEND_ONLY 10!")
	for back := 1; back < 300; back++ {
		s.arrives(s.ack(9 - back))
	}
	s.transmit()
	s.arrives(s.ack(39))
	s.pollDone()
	if len(s.done) != 40 || s.qp.State() != StateRTS {
		t.Errorf("%d of 40 complete, state %v", len(s.done), s.qp.State())
	}
}

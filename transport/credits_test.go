package transport

import (
	"testing"

	"github.com/go-roce/roce/bth"
)

// credited is an acknowledgement that says how many receives the peer has beyond
// the messages it completed.
func (s *script) credited(psn int, msn uint32, credits int) bth.Packet {
	p := s.ack(psn)
	p.AETH = bth.AETH{Syndrome: bth.AckCredits(credits), MSN: msn}
	return p
}

func TestCredits_OneMessageMayGoBeyondThem(t *testing.T) {
	s := newScript(t, nil)
	for i := range uint64(8) {
		s.send(s.sendWR(i, 1500))
	}
	s.pollPacket(s.now())
	s.pollPacket(s.now())
	s.sent = nil
	s.arrives(s.credited(1, 1, 2))
	// Messages 2 and 3 have a receive; 4 asks for news.
	s.wantSent("SEND_FIRST 2", "SEND_LAST 3!", "SEND_FIRST 4", "SEND_LAST 5!", "SEND_FIRST 6", "SEND_LAST 7!")
	s.arrives(s.credited(3, 2, 1)) // no new ones
	s.wantSent()
	s.arrives(s.credited(7, 4, 0))
	s.wantSent("SEND_FIRST 8", "SEND_LAST 9!")
	s.arrives(s.credited(9, 5, 8))
	s.wantSent("SEND_FIRST 10", "SEND_LAST 11!", "SEND_FIRST 12", "SEND_LAST 13!", "SEND_FIRST 14", "SEND_LAST 15!")
}

func TestCredits_OnlyWhatNeedsAReceiveWaitsForThem(t *testing.T) {
	s := newScript(t, nil)
	s.send(s.sendWR(1, 1))
	s.transmit()
	s.arrives(s.credited(0, 1, 0))
	s.sent = nil
	writeImm := s.write(4, 1, s.far, 0)
	writeImm.Opcode = WRWriteImm
	s.send(s.write(2, 1, s.far, 0))
	s.send(s.read(3, 0, 1, s.far, 0))
	s.send(s.fetchAdd(4, 0, s.far, 0, 1))
	s.send(writeImm)
	s.wantSent("WRITE_ONLY 1!", "READ_REQUEST 2!", "FETCH_ADD 3!")
	// They count as messages, and their answers tell of credits as well.
	s.arrives(s.credited(1, 2, 0))
	s.wantSent()
	read := s.packet(bth.RCReadResponseOnly, 2, data(1, 0))
	read.AETH = bth.AETH{Syndrome: bth.AckCredits(1), MSN: 3}
	s.arrives(read)
	s.wantSent("WRITE_ONLY_WITH_IMMEDIATE 4!")
	result := s.atomicAck(3, 0)
	result.AETH = bth.AETH{Syndrome: bth.AckCredits(3), MSN: 4}
	s.arrives(result)
	s.send(s.sendWR(5, 1))
	s.send(s.sendWR(6, 1))
	s.send(s.sendWR(7, 1))
	s.send(s.sendWR(8, 1))
	s.wantSent("SEND_ONLY 5!", "SEND_ONLY 6!", "SEND_ONLY 7!")
}

func TestCredits_APeerThatStopsGivingThemDoesNotLimit(t *testing.T) {
	s := newScript(t, nil)
	for i := range uint64(6) {
		s.send(s.sendWR(i, 1))
	}
	s.pollPacket(s.now())
	s.pollPacket(s.now())
	s.sent = nil
	s.arrives(s.credited(0, 1, 0))
	s.wantSent()
	s.arrives(s.ack(1)) // "no credits here", rdma_rxe's
	s.wantSent("SEND_ONLY 2!", "SEND_ONLY 3!", "SEND_ONLY 4!", "SEND_ONLY 5!")
}

// A peer that counts its messages otherwise slows us down, but never stops us.
func TestCredits_WrongMSNIsNoDeadlock(t *testing.T) {
	s := newScript(t, nil)
	for i := range 10 {
		s.send(s.write(uint64(i), 1, s.far, 0))
	}
	s.send(s.sendWR(10, 1))
	s.send(s.sendWR(11, 1))
	s.transmit()
	s.sent = nil
	s.arrives(s.credited(11, 0, 1))
	s.send(s.sendWR(12, 1))
	s.send(s.sendWR(13, 1))
	s.wantSent("SEND_ONLY 12!")
	s.arrives(s.credited(12, 1, 1))
	s.wantSent("SEND_ONLY 13!")
}

func TestCredits_MSNWrapsAround(t *testing.T) {
	s := newScript(t, nil)
	s.qp.req.ssn = 0xFFFFFE
	for i := range uint64(4) {
		s.send(s.sendWR(i, 1))
	}
	s.pollPacket(s.now())
	s.pollPacket(s.now())
	s.sent = nil
	s.arrives(s.credited(0, 0xFFFFFF, 1)) // up to message 0, the one on its way
	s.wantSent("SEND_ONLY 2!")
	s.arrives(s.credited(1, 0, 2))
	s.wantSent("SEND_ONLY 3!")
}

// A message that is sent again was started before and needs no new credit.
func TestCredits_DoNotHoldBackAResend(t *testing.T) {
	s := newScript(t, nil)
	for i := range uint64(4) {
		s.send(s.sendWR(i, 1))
	}
	s.transmit()
	s.sent = nil
	s.arrives(s.credited(0, 1, 0))
	s.wait(AckTimeout(14))
	s.wantSent("SEND_ONLY 1!", "SEND_ONLY 2!", "SEND_ONLY 3!")
}

func TestCredits_ResponderAdvertisesTheReceivesBeyondItsMSN(t *testing.T) {
	s := newScript(t, func(o *options) { o.credits = true })
	check := func(n int) {
		t.Helper()
		s.transmit()
		got, ok := s.sent[len(s.sent)-1].AETH.Syndrome.Credits()
		if !ok || got != n {
			t.Fatalf("%s advertises %d, want %d", describe(&s.sent[len(s.sent)-1], s.opt.psn), got, n)
		}
		s.sent = nil
	}
	for i := range uint64(9) {
		s.recv(i, 0, 4096)
	}
	s.arrives(s.packet(bth.RCSendOnly, 0, nil))
	check(8)
	first := s.packet(bth.RCSendFirst, 1, data(1024, 0))
	first.AckReq = true
	s.arrives(first)
	check(8) // it is not complete yet
	s.arrives(s.packet(bth.RCSendLast, 2, data(1, 0)))
	check(6) // seven, for which there is no code
	s.arrives(s.rdma(bth.RCReadRequest, 3, 0, 10, nil))
	check(6)
	s.arrives(s.atomic(bth.RCFetchAdd, 4, 0, 1, 0))
	check(6)
	for i := range 7 {
		s.arrives(s.packet(bth.RCSendOnly, 5+i, nil))
	}
	check(0)
	s.arrives(s.packet(bth.RCSendOnly, 12, nil))
	s.wantSent("RNR_12 12")
}

// Both ends with credits: whatever the receiver posts and when, all arrives, and
// nothing waits for what never comes.
func TestCredits_NoDeadlockBetweenTwoEnds(t *testing.T) {
	for posted := range 12 {
		for batch := 1; batch <= 4; batch++ {
			p := newPair(t, func(o *options) { o.credits = true })
			for i := range uint64(12) {
				p.a.send(p.a.sendWR(i, 1500))
				p.a.send(p.a.write(100+i, 10, p.b, 0x8000))
			}
			for i := range posted {
				p.b.recv(uint64(i), 0, 2000)
			}
			for next := posted; next < 12; {
				p.advance(1e6)
				for range min(batch, 12-next) {
					p.b.recv(uint64(next), 0, 2000)
					next++
				}
			}
			p.settle()
			if len(p.a.done) != 24 || len(p.b.done) != 12 {
				t.Fatalf("%d posted, then %d at a time: %d and %d completions", posted, batch, len(p.a.done), len(p.b.done))
			}
		}
	}
}

// Once the sender knows of credits, no more than one message at a time goes without a receive.
func TestCredits_KeepASlowReceiverFromBeingOverrun(t *testing.T) {
	for _, credits := range []bool{false, true} {
		p := newPair(t, func(o *options) { o.credits = credits })
		p.latency = 10e3
		p.b.recv(0, 0, 2000)
		p.a.send(p.a.sendWR(0, 1500))
		p.settle()
		for i := range uint64(40) {
			p.a.send(p.a.sendWR(1+i, 1500))
		}
		for i := range uint64(20) {
			p.b.recv(1+2*i, 0, 2000)
			p.b.recv(2+2*i, 0, 2000)
			p.advance(200e3)
		}
		p.settle()
		if len(p.a.done) != 41 || len(p.b.done) != 41 {
			t.Fatalf("credits %v: %d and %d completions", credits, len(p.a.done), len(p.b.done))
		}
		c := p.b.qp.Counters()
		overrun := c.OutOfSequence > c.RNRNAKsSent // more than the rest of the one message
		if overrun == credits || c.RNRNAKsSent == 0 {
			t.Errorf("credits %v: %d packets came behind %d RNR NAKs", credits, c.OutOfSequence, c.RNRNAKsSent)
		}
	}
}

package transport

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-roce/roce/bth"
)

// rnrTimes is IBA table 46 in microseconds, written down a second time.
var rnrTimes = [32]int{
	655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920,
	2560, 3840, 5120, 7680, 10240, 15360, 20480, 30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
}

func TestPitfall26_NothingIsSentBeforeTheRNRTimerEnds(t *testing.T) {
	for code, us := range rnrTimes {
		for _, timeout := range []uint8{0, 1, 14} { // far shorter and far longer than the wait
			s := newScript(t, func(o *options) { o.timeout = timeout })
			s.send(s.sendWR(1, 3000))
			s.send(s.read(2, 0, 10, s.far, 0))
			s.transmit()
			s.sent = nil
			s.arrives(s.rnr(uint8(code), 0))
			s.wantSent()
			s.send(s.sendWR(3, 1)) // nor is something new
			s.wantSent()
			for step := range 10 { // calls for no reason do no harm
				s.qp.HandleTimeout(s.now() + 1)
				s.wantTimer(s.now(), time.Duration(us)*time.Microsecond)
				if step == 5 {
					s.arrives(s.nak(bth.NAKSequence, 0)) // as rdma_rxe adds for what was behind
				}
				s.wantSent()
			}
			s.wait(time.Duration(us) * time.Microsecond)
			s.wantSent("SEND_FIRST 0", "SEND_MIDDLE 1", "SEND_LAST 2!", "READ_REQUEST 3!", "SEND_ONLY 4!")
			if left := s.qp.req.retriesLeft; left != 7 {
				t.Fatalf("code %d: waiting cost %d of RETRY_CNT", code, 7-left)
			}
			s.arrives(s.ack(2), s.packet(bth.RCReadResponseOnly, 3, data(10, 0)), s.ack(4))
			s.wantDone("1 SUCCESS", "2 SUCCESS", "3 SUCCESS")
			s.wantIdle()
		}
	}
}

func TestPitfall26_RNRRetryCountsTheRetries(t *testing.T) {
	for _, retry := range []uint8{0, 1, 2, 6} {
		s := newScript(t, func(o *options) { o.rnr = retry })
		s.send(s.sendWR(1, 10))
		s.send(s.sendWR(2, 10))
		s.recv(3, 0, 10)
		for range retry {
			s.wantSent("SEND_ONLY 0!", "SEND_ONLY 1!")
			s.arrives(s.rnr(1, 0))
			s.wantDone()
			s.wait(10 * time.Microsecond)
		}
		s.wantSent("SEND_ONLY 0!", "SEND_ONLY 1!")
		s.arrives(s.rnr(1, 0))
		s.wantDone("3 WR_FLUSH_ERR", "1 RNR_RETRY_EXC_ERR", "2 WR_FLUSH_ERR")
		s.wantState(StateErr)
		s.wantIdle()
	}
}

func TestPitfall26_RNRRetrySevenNeverGivesUpButCanBeFlushed(t *testing.T) {
	s := newScript(t, nil)
	s.send(s.sendWR(1, 10))
	for range 1000 {
		s.wantSent("SEND_ONLY 0!")
		s.arrives(s.rnr(31, 0))
		s.wait(491520 * time.Microsecond)
	}
	s.wantSent("SEND_ONLY 0!")
	s.arrives(s.rnr(0, 0))
	s.modify(s.now(), &Attr{Mask: AttrState, State: StateErr})
	s.wantDone("1 WR_FLUSH_ERR")
	s.wantIdle()
}

// Each message that meets no receive has the whole of RNR_RETRY.
func TestPitfall26_RNRRetryStartsAnewWithEachMessage(t *testing.T) {
	s := newScript(t, func(o *options) { o.rnr = 1 })
	for i := range 5 {
		s.send(s.sendWR(uint64(i), 10))
		s.wantSent(fmt.Sprintf("SEND_ONLY %d!", i))
		s.arrives(s.rnr(1, i))
		s.wait(10 * time.Microsecond)
		s.wantSent(fmt.Sprintf("SEND_ONLY %d!", i))
		s.arrives(s.ack(i))
		s.wantDone(fmt.Sprintf("%d SUCCESS", i))
	}
	// Also when the NAK of the next is what acknowledges the one before.
	s.send(s.sendWR(10, 10))
	s.send(s.sendWR(11, 10))
	s.wantSent("SEND_ONLY 5!", "SEND_ONLY 6!")
	s.arrives(s.rnr(1, 5))
	s.wait(10 * time.Microsecond)
	s.wantSent("SEND_ONLY 5!", "SEND_ONLY 6!")
	s.arrives(s.rnr(1, 6))
	s.wait(10 * time.Microsecond)
	s.wantSent("SEND_ONLY 6!")
	s.wantDone("10 SUCCESS")
	s.arrives(s.rnr(1, 6))
	s.wantDone("11 RNR_RETRY_EXC_ERR")
}

// The responses of a READ before the message may come after the RNR NAK, from another
// path through the network. They complete the READ and say nothing about receives.
func TestPitfall26_ReadResponsesDuringTheWaitDoNotEndIt(t *testing.T) {
	s := newScript(t, nil)
	s.send(s.read(1, 0, 2000, s.far, 0))
	s.send(s.sendWR(2, 10))
	s.transmit()
	s.sent = nil
	s.arrives(s.rnr(20, 2))
	s.wantSent()
	s.clk.Advance(time.Millisecond)
	s.arrives(s.packet(bth.RCReadResponseFirst, 0, data(1024, 0)))
	s.wantSent()
	s.arrives(s.packet(bth.RCReadResponseLast, 1, data(976, 0)))
	s.wantDone("1 SUCCESS")
	s.wantSent()
	s.wait(10240*time.Microsecond - time.Millisecond)
	s.wantSent("SEND_ONLY 2!")
	s.wantTimer(s.now(), AckTimeout(14))
	s.arrives(s.ack(2))
	s.wantDone("2 SUCCESS")
	s.wantIdle()
}

// If they are lost instead, the READ is asked for again when the wait is over, at the
// cost of a retry, and the wait does not end early for it either.
func TestPitfall26_ReadResponseLostBeforeAnRNRNAK(t *testing.T) {
	s := newScript(t, func(o *options) { o.retry, o.rnr = 2, 0 })
	s.send(s.read(1, 0, 2000, s.far, 0))
	s.send(s.sendWR(2, 10))
	s.wantSent("READ_REQUEST 0!", "SEND_ONLY 2!")
	for range 2 {
		s.arrives(s.rnr(20, 2))
		s.wait(10240 * time.Microsecond)
		s.wantSent("READ_REQUEST 0!", "SEND_ONLY 2!")
	}
	s.arrives(s.rnr(20, 2))
	s.wantDone("1 RETRY_EXC_ERR", "2 WR_FLUSH_ERR")

	// An implied NAK was there first: the READ is being asked for already.
	s = newScript(t, func(o *options) { o.retry = 1 })
	s.send(s.read(1, 0, 2000, s.far, 0))
	s.send(s.sendWR(2, 10))
	s.send(s.sendWR(3, 10))
	s.transmit()
	s.sent = nil
	s.arrives(s.ack(2))
	s.wantSent("READ_REQUEST 0!", "SEND_ONLY 2!", "SEND_ONLY 3!")
	s.arrives(s.rnr(20, 3))
	s.wantState(StateRTS)
	s.arrives(s.packet(bth.RCReadResponseFirst, 0, data(1024, 0)), s.packet(bth.RCReadResponseLast, 1, data(976, 0)), s.ack(2))
	s.wantDone("1 SUCCESS", "2 SUCCESS")
	s.wantSent()
	s.wait(10240 * time.Microsecond)
	s.wantSent("SEND_ONLY 3!")
}

// The receive may be there in the meantime, and a copy of the packet find it.
func TestPitfall26_AcknowledgementOfTheMessageEndsTheWait(t *testing.T) {
	s := newScript(t, nil)
	s.send(s.sendWR(1, 10))
	s.send(s.sendWR(2, 10))
	s.transmit()
	s.sent = nil
	s.arrives(s.rnr(20, 0), s.ack(0))
	s.wantDone("1 SUCCESS")
	s.wantSent("SEND_ONLY 1!")
	s.arrives(s.ack(1))
	s.wantDone("2 SUCCESS")
	s.wantIdle()
}

func TestPitfall26_EchoesOfTheRNRNAKDuringTheWait(t *testing.T) {
	s := newScript(t, func(o *options) { o.rnr = 1 })
	s.send(s.sendWR(1, 10))
	s.transmit()
	s.sent = nil
	s.arrives(s.rnr(20, 0))
	s.clk.Advance(time.Millisecond)
	s.arrives(s.rnr(20, 0), s.rnr(20, 0)) // neither count nor prolong
	s.wantDone()
	s.wait(10240*time.Microsecond - time.Millisecond)
	s.wantSent("SEND_ONLY 0!")
}

// RNR NAKs also answer READs, when the peer lacks what it needs for the response.
func TestPitfall26_RNRNAKOfARead(t *testing.T) {
	s := newScript(t, nil)
	s.send(s.sendWR(1, 10))
	s.send(s.read(2, 0, 10, s.far, 0))
	s.transmit()
	s.sent = nil
	s.arrives(s.rnr(1, 1))
	s.wantDone("1 SUCCESS")
	s.wait(10 * time.Microsecond)
	s.wantSent("READ_REQUEST 1!")
	if n := s.qp.Counters().RNRNAKsReceived; n != 1 {
		t.Errorf("%d RNR NAKs counted", n)
	}
}

func TestPitfall26_ErrorNAKDuringTheWait(t *testing.T) {
	s := newScript(t, nil)
	s.send(s.write(1, 10, s.far, 0))
	s.send(s.sendWR(2, 10))
	s.transmit()
	s.arrives(s.rnr(20, 1), s.nak(bth.NAKRemoteOperation, 1))
	s.wantDone("1 SUCCESS", "2 REM_OP_ERR")
	s.sent = nil
	s.wantIdle()
}

func TestRNR_ReceivePostedLateIsFoundByTheNextTry(t *testing.T) {
	for _, after := range []time.Duration{0, 1, 639 * time.Microsecond, 640 * time.Microsecond, 3 * time.Millisecond} {
		p := newPair(t, nil)
		fill(p.a.mem[:3000], 1)
		p.a.send(p.a.sendWR(1, 3000))
		p.a.send(p.a.write(2, 10, p.b, 0x8000))
		p.advance(after)
		p.b.recv(10, 0x1000, 3000)
		p.settle()
		p.a.wantDone("1 SUCCESS", "2 SUCCESS")
		p.b.wantDone("10 SUCCESS")
		// A try every 0.64 ms, none sooner.
		tries := int(after/(640*time.Microsecond)) + 1
		if got := int(p.b.qp.Counters().RNRNAKsSent); got != tries && got != tries+1 {
			t.Errorf("receive posted after %v: %d RNR NAKs", after, got)
		}
		if c := p.a.qp.Counters(); c.Timeouts != 0 {
			t.Errorf("receive posted after %v: the ACK timer ran out", after)
		}
	}
}

// An RNR NAK says that the packet arrived: what was lost on the way is made good.
func TestPitfall26_RNRNAKGivesBackTheRetries(t *testing.T) {
	s := newScript(t, func(o *options) { o.retry = 1 })
	s.send(s.sendWR(1, 10))
	s.wantSent("SEND_ONLY 0!")
	for range 10 {
		s.wait(AckTimeout(14))
		s.wantSent("SEND_ONLY 0!")
		s.arrives(s.rnr(20, 0))
		s.wait(10240 * time.Microsecond)
		s.wantSent("SEND_ONLY 0!")
	}
	s.arrives(s.ack(0))
	s.wantDone("1 SUCCESS")
}

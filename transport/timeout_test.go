package transport

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
)

func TestPitfall25_TheAckTimerStopsWhenAllIsAcknowledgedAndRestartsOnProgress(t *testing.T) {
	const full = 3 * 4096 * time.Nanosecond << 14
	s := newScript(t, nil)
	s.wantTimer(s.now(), -1)
	s.send(s.sendWR(1, 3000))
	s.send(s.read(2, 0, 2000, s.far, 0))
	s.wantTimer(s.now(), -1) // nothing has left yet
	s.transmit()
	s.wantTimer(s.now(), full)
	step := func(p bth.Packet, want time.Duration) {
		t.Helper()
		s.clk.Advance(10 * time.Millisecond)
		s.arrives(p)
		s.wantTimer(s.now(), want)
	}
	step(s.ack(0), full)
	step(s.ack(0), full-10*time.Millisecond) // an old one is no progress
	step(s.ack(9), full-20*time.Millisecond) // nor is a ghost
	step(s.ack(2), full)
	step(s.packet(bth.RCReadResponseFirst, 3, data(1024, 0)), full)
	step(s.packet(bth.RCReadResponseLast, 4, data(976, 0)), -1)
	s.wantDone("1 SUCCESS", "2 SUCCESS")
	s.send(s.sendWR(3, 10))
	s.transmit()
	s.clk.Advance(10 * time.Millisecond)
	s.send(s.sendWR(4, 10))
	s.transmit()
	s.wantTimer(s.now(), full-10*time.Millisecond) // from the oldest that waits
	if n := s.qp.Counters().Retransmits; n != 0 {
		t.Errorf("%d retransmits without a loss", n)
	}
}

// On a clean wire, however slow, nothing is ever sent twice.
func TestPitfall25_NoRetransmissionWithoutALoss(t *testing.T) {
	for _, latency := range []time.Duration{0, time.Microsecond, time.Millisecond, 100 * time.Millisecond} {
		p := newPair(t, func(o *options) { o.window = 16 })
		p.latency = latency
		for i := range uint64(8) {
			p.b.recv(i, 0x8000, 4000)
			p.a.send(p.a.sendWR(10*i, 4000))
			p.a.send(p.a.read(10*i+1, 0x10000, 5000, p.b, 0))
			p.a.send(p.a.write(10*i+2, 3000, p.b, 0x4000))
			p.a.send(p.a.fetchAdd(10*i+3, 0x20000, p.b, 0x20000, 1))
		}
		p.settle()
		for name, e := range map[string]*end{"a": p.a, "b": p.b} {
			c := e.qp.Counters()
			if c.Retransmits+c.Timeouts+c.NAKsReceived+c.ImpliedNAKs+c.DuplicateRequests+c.OutOfSequence != 0 {
				t.Errorf("latency %v: %s counts %+v", latency, name, c)
			}
		}
		if len(p.a.done) != 32 {
			t.Errorf("latency %v: %d completions", latency, len(p.a.done))
		}
	}
}

func TestPitfall27_RetryCntIsTheNumberOfRetries(t *testing.T) {
	for _, retry := range []uint8{0, 1, 3, 7} {
		for _, timeout := range []uint8{1, 14, 20, 31} {
			s := newScript(t, func(o *options) { o.retry, o.timeout = retry, timeout })
			s.send(s.sendWR(1, 1500))
			s.send(s.read(2, 0, 1, s.far, 0))
			begin := s.now()
			for range int(retry) + 1 {
				s.wantDone()
				s.wantSent("SEND_FIRST 0", "SEND_LAST 1!", "READ_REQUEST 2!")
				s.wait(AckTimeout(timeout))
			}
			s.wantDone("1 RETRY_EXC_ERR", "2 WR_FLUSH_ERR")
			s.wantState(StateErr)
			s.wantIdle()
			if got := s.now().Sub(begin); got != RetryTime(timeout, retry) {
				t.Errorf("timeout %d, retry_cnt %d: gave up after %v, RetryTime says %v", timeout, retry, got, RetryTime(timeout, retry))
			}
			if c := s.qp.Counters(); c.Timeouts != uint64(retry)+1 || c.Retransmits != 3*uint64(retry) {
				t.Errorf("retry_cnt %d: %d timeouts, %d retransmits", retry, c.Timeouts, c.Retransmits)
			}
		}
	}
}

func TestPitfall27_SequenceAndImpliedNAKsCountAsRetries(t *testing.T) {
	for name, answer := range map[string]func(s *script) bth.Packet{
		"sequence NAK": func(s *script) bth.Packet { return s.nak(bth.NAKSequence, 0) },
		"implied NAK":  func(s *script) bth.Packet { return s.ack(1) },
	} {
		s := newScript(t, func(o *options) { o.retry = 1 })
		s.send(s.read(1, 0, 1, s.far, 0))
		s.send(s.sendWR(2, 1))
		s.wantSent("READ_REQUEST 0!", "SEND_ONLY 1!")
		s.arrives(answer(s))
		s.wantSent("READ_REQUEST 0!", "SEND_ONLY 1!")
		s.wait(AckTimeout(14))
		s.wantDone("1 RETRY_EXC_ERR", "2 WR_FLUSH_ERR")

		s = newScript(t, func(o *options) { o.retry = 0 })
		s.send(s.read(1, 0, 1, s.far, 0))
		s.send(s.sendWR(2, 1))
		s.transmit()
		s.arrives(answer(s))
		if s.wantDone("1 RETRY_EXC_ERR", "2 WR_FLUSH_ERR"); t.Failed() {
			t.Errorf("at a %s with RETRY_CNT 0", name)
		}
	}
}

func TestPitfall27_ProgressGivesBackAllRetries(t *testing.T) {
	s := newScript(t, func(o *options) { o.retry = 2 })
	s.send(s.read(1, 0, 20*1024, s.far, 0))
	s.wantSent("READ_REQUEST 0!")
	for i := range 20 {
		for range 2 {
			s.wait(AckTimeout(14))
			s.wantSent(fmt.Sprintf("READ_REQUEST %d!", i))
		}
		op := bth.RCReadResponseMiddle
		if i == 19 {
			op = bth.RCReadResponseLast
		}
		s.arrives(s.packet(op, i, data(1024, 0)))
	}
	s.wantDone("1 SUCCESS")
}

// A peer may retransmit much sooner than its timeout attribute says: duplicates cost
// an answer each and nothing else.
func TestPitfall27_EarlyRetransmissionsOfThePeerDoNoHarm(t *testing.T) {
	s := newScript(t, nil)
	s.recv(1, 0, 10)
	s.arrives(s.packet(bth.RCSendOnly, 0, nil))
	for _, after := range []time.Duration{2e6, 4e6, 8e6, 16e6} {
		s.clk.Advance(after)
		s.arrives(s.packet(bth.RCSendOnly, 0, nil))
		s.wantSent("ACK 0")
	}
	s.wantDone("1 SUCCESS")
	s.wantState(StateRTS)
}

func TestTimeout_ZeroWaitsForEver(t *testing.T) {
	s := newScript(t, func(o *options) { o.timeout = 0 })
	s.send(s.sendWR(1, 10))
	s.transmit()
	s.wantTimer(s.now(), -1)
	s.clk.Advance(1000 * time.Hour)
	s.qp.HandleTimeout(s.now())
	s.sent = nil
	s.wantIdle()
	s.arrives(s.nak(bth.NAKSequence, 0)) // a NAK still resends
	s.wantSent("SEND_ONLY 0!")
	if AckTimeout(0) != 0 || RetryTime(0, 7) != 0 {
		t.Error("a timeout of 0 is not for ever")
	}
}

// What is lost while TIMEOUT is 0 can still be had: SQD lets it be set.
func TestTimeout_SetInSQDActsOnWhatIsOutstanding(t *testing.T) {
	s := newScript(t, func(o *options) { o.timeout = 0 })
	s.send(s.sendWR(1, 10))
	s.transmit()
	s.sent = nil
	s.modify(s.now(), &Attr{Mask: AttrState, State: StateSQD})
	s.modify(s.now(), &Attr{Mask: AttrTimeout, Timeout: 10})
	s.wait(AckTimeout(10))
	s.wantSent("SEND_ONLY 0!")
	s.modify(s.now(), &Attr{Mask: AttrTimeout, Timeout: 0})
	s.wantTimer(s.now(), -1)
	s.arrives(s.rnr(20, 0))
	s.modify(s.now(), &Attr{Mask: AttrTimeout, Timeout: 1}) // an RNR wait has its own
	s.wait(10240 * time.Microsecond)
	s.wantSent("SEND_ONLY 0!")
	s.arrives(s.ack(0))
	s.modify(s.now(), &Attr{Mask: AttrTimeout, Timeout: 1})
	s.wantDone("1 SUCCESS")
	s.wantIdle()
}

func TestTimeout_SpuriousCallsDoNothing(t *testing.T) {
	for state := StateReset; state <= StateErr; state++ {
		e := inState(t, state)
		for _, at := range []clock.Time{0, 1 << 40, clock.Never - 1} {
			e.qp.HandleTimeout(at)
		}
		e.wantState(state)
		e.wantTimer(0, -1)
		e.wantDone()
	}
}

func TestTimeout_Values(t *testing.T) {
	for code, want := range map[uint8]time.Duration{
		1: 3 * 8192 * time.Nanosecond, 8: 3 * 1048576 * time.Nanosecond, 14: 3 * 67108864 * time.Nanosecond,
		31: 3 * 4096 * time.Nanosecond << 31,
	} {
		if got := AckTimeout(code); got != want {
			t.Errorf("timeout %d is %v, want %v", code, got, want)
		}
	}
	if got := RetryTime(31, 7); got != 8*3*4096*time.Nanosecond<<31 || got < 0 {
		t.Errorf("the longest time is %v", got)
	}
}

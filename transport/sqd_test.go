package transport

import (
	"testing"

	"github.com/go-roce/roce/bth"
)

func toSQD(notify bool) *Attr {
	return &Attr{Mask: AttrState | AttrEnSQDNotify, State: StateSQD, EnSQDNotify: notify}
}

func TestSQD_DrainedAtOnceWhenNothingIsInProgress(t *testing.T) {
	for _, queued := range []bool{false, true} {
		s := newScript(t, nil)
		if queued {
			s.send(s.sendWR(1, 10)) // not begun, so it does not count
		}
		s.modify(s.now(), toSQD(true))
		s.wantEvents(EventSQDrained)
		s.wantSent()
		s.wantEvents()
	}
}

func TestSQD_FinishesTheMessageInProgressAndHoldsTheRest(t *testing.T) {
	s := newScript(t, func(o *options) { o.window = 2 })
	s.send(s.sendWR(1, 4000))
	s.send(s.sendWR(2, 10))
	s.wantSent("SEND_FIRST 0!", "SEND_MIDDLE 1!")
	s.modify(s.now(), toSQD(true))
	s.send(s.sendWR(3, 10)) // posting is allowed
	s.wantEvents()
	s.arrives(s.ack(1)) // all that was sent is acknowledged, the message is not
	s.wantEvents()
	s.wantSent("SEND_MIDDLE 2!", "SEND_LAST 3!")
	s.arrives(s.nak(bth.NAKSequence, 2)) // it is also sent again
	s.wantSent("SEND_MIDDLE 2!", "SEND_LAST 3!")
	s.wantEvents()
	s.arrives(s.ack(3))
	s.wantDone("1 SUCCESS")
	s.wantEvents(EventSQDrained)
	s.modify(s.now(), &Attr{Mask: AttrPort, Port: 1})
	s.wantEvents() // it is drained still, which is no news
	s.wantTimer(s.now(), -1)
	s.wantSent()
	s.modify(s.now(), &Attr{Mask: AttrState, State: StateRTS})
	s.wantSent("SEND_ONLY 4!", "SEND_ONLY 5!")
}

func TestSQD_EventOnlyWhenAskedForAndOnlyOnce(t *testing.T) {
	for _, notify := range []bool{false, true} {
		s := newScript(t, nil)
		s.send(s.read(1, 0, 2000, s.far, 0))
		s.transmit()
		s.modify(s.now(), toSQD(notify))
		s.arrives(s.packet(bth.RCReadResponseFirst, 0, data(1024, 0)))
		s.wantEvents()
		s.arrives(s.packet(bth.RCReadResponseLast, 1, data(976, 0)))
		if notify {
			s.wantEvents(EventSQDrained)
		}
		s.wantEvents()
		s.wantDone("1 SUCCESS")
	}
	// Going back to RTS before it is drained calls it off.
	s := newScript(t, nil)
	s.send(s.sendWR(1, 10))
	s.transmit()
	s.modify(s.now(), toSQD(true))
	s.modify(s.now(), &Attr{Mask: AttrState, State: StateRTS})
	s.arrives(s.ack(0))
	s.wantEvents()
	s.wantDone("1 SUCCESS")
	// Nor does it come once the queue pair failed.
	s.send(s.sendWR(2, 10))
	s.transmit()
	s.modify(s.now(), toSQD(true))
	s.arrives(s.nak(bth.NAKRemoteAccess, 1))
	s.wantEvents()
	s.wantDone("2 REM_ACCESS_ERR")
}

func TestSQD_AttributesChangedThereApply(t *testing.T) {
	s := newScript(t, func(o *options) { o.retry, o.rnr = 7, 6 })
	s.send(s.sendWR(1, 10))
	s.transmit()
	s.sent = nil
	s.modify(s.now(), toSQD(false))
	s.modify(s.now(), &Attr{Mask: AttrRetryCnt | AttrRNRRetry | AttrTimeout, RetryCnt: 1, RNRRetry: 0, Timeout: 5})
	s.wait(AckTimeout(5))
	s.wantSent("SEND_ONLY 0!")
	s.arrives(s.rnr(1, 0))
	s.wantDone("1 RNR_RETRY_EXC_ERR")
}

// The peer's requests go on being executed.
func TestSQD_StillAnswers(t *testing.T) {
	s := newScript(t, nil)
	s.modify(s.now(), toSQD(false))
	s.recv(1, 0, 10)
	s.arrives(s.packet(bth.RCSendOnly, 0, nil), s.rdma(bth.RCReadRequest, 1, 0, 10, nil))
	s.wantSent("ACK 0", "READ_RESPONSE_ONLY 1")
	s.wantDone("1 SUCCESS")
}

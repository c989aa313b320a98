package transport

import (
	"testing"

	"github.com/go-roce/roce/bth"
)

func newFullQueue(window uint32) *fullQueue {
	f := new(fullQueue)
	f.start(window)
	return f
}

func TestWindow_IsolatedLossesDoNotReduceIt(t *testing.T) {
	f := newFullQueue(128)
	for i := range uint32(1000) {
		f.Lost(lostOnce)
		f.Lost(Loss{Depth: 16 + i*37%97})
	}
	if n := f.Limit(128); n != 128 {
		t.Errorf("%d packets may be in flight", n)
	}
}

func TestWindow_LossesAtOneDepthAreAQueueThatRunsFull(t *testing.T) {
	f := newFullQueue(128)
	for range sameDepth {
		f.Lost(Loss{Depth: 64})
	}
	if n := f.Limit(128); n != 48 {
		t.Errorf("%d packets may be in flight, want three quarters of 64", n)
	}
	for range sameDepth {
		f.Lost(Loss{Depth: minDepth - 1}) // that is chance
	}
	if n := f.Limit(128); n != 48 {
		t.Errorf("%d packets may be in flight", n)
	}
	f.Acked(4 * 79)
	if n := f.Limit(128); n != 127 {
		t.Errorf("%d packets may be in flight after 316 arrived, want 127", n)
	}
	f.Acked(1000)
	if n := f.Limit(128); n != 128 {
		t.Errorf("%d packets may be in flight in the end", n)
	}
}

func TestWindow_WhatIsLostAgainReducesItToALimit(t *testing.T) {
	f := newFullQueue(128)
	f.Lost(lostAgain)
	if n := f.Limit(128); n != 96 {
		t.Errorf("%d packets may be in flight", n)
	}
	for range 100 {
		f.Lost(lostAgain)
	}
	if n := f.Limit(128); n != minWindow {
		t.Errorf("%d packets may be in flight, want %d", n, minWindow)
	}
}

// recorder is congestion control of a program's own.
type recorder struct {
	acked, notified uint32
	lost            []Loss
}

func (r *recorder) Limit(uint32) uint32 { return 2 }
func (r *recorder) Acked(n uint32)      { r.acked += n }
func (r *recorder) Lost(l Loss)         { r.lost = append(r.lost, l) }
func (r *recorder) Notified()           { r.notified++ }

func TestWindow_CongestionControlIsToldAndObeyed(t *testing.T) {
	control := new(recorder)
	s := newScript(t, func(o *options) { o.congestion = control })
	for i := range 4 {
		s.send(s.sendWR(uint64(i), 8))
	}
	s.wantSent("SEND_ONLY 0!", "SEND_ONLY 1!") // no more than two
	cnp := s.packet(bth.RCAcknowledge, 0, nil)
	cnp.Opcode = bth.CongestionNotification
	cnp.Flags = bth.CongestionNotification.Flags()
	s.arrives(cnp, s.ack(1))
	s.wantSent("SEND_ONLY 2!", "SEND_ONLY 3!")
	s.wait(AckTimeout(14))
	if control.acked != 2 || control.notified != 1 || len(control.lost) != 1 || !control.lost[0].Again {
		t.Errorf("it was told %+v", control)
	}
	if n := s.qp.Counters().CNPsReceived; n != 1 {
		t.Errorf("%d CNPs", n)
	}
}

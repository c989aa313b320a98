package transport

import (
	"errors"
	"fmt"
	"testing"
)

func TestPitfall35_MoreWorkRequestsThanTheQueueHolds(t *testing.T) {
	for _, depth := range []int{1, 3, 4, 64} { // not only powers of two
		p := newPair(t, func(o *options) { o.depth = depth })
		next := uint64(0)
		for round := range 5 {
			posted := 0
			for {
				wr := p.a.write(next, 100, p.b, 0)
				err := p.a.qp.PostSend(&wr)
				if errors.Is(err, ErrQueueFull) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				next++
				posted++
			}
			if posted != depth {
				t.Fatalf("depth %d, round %d: the queue took %d", depth, round, posted)
			}
			p.settle()
		}
		for i, c := range p.a.done {
			if c.ID != uint64(i) || c.Status != StatusSuccess {
				t.Fatalf("depth %d: completion %d is %d %v", depth, i, c.ID, c.Status)
			}
		}
		if uint64(len(p.a.done)) != next {
			t.Fatalf("depth %d: %d completions for %d work requests", depth, len(p.a.done), next)
		}
		for i := range depth {
			p.a.recv(uint64(i), 0, 1)
		}
		if err := p.a.qp.PostRecv(&RecvWR{}); !errors.Is(err, ErrQueueFull) {
			t.Fatalf("depth %d: one receive too many gives %v", depth, err)
		}
	}
}

func TestPitfall37_WhatCannotBeSentIsRefusedWhenPostedWithAReason(t *testing.T) {
	s := newScript(t, func(o *options) { o.sge, o.inline = 2, 16 })
	readable := s.read(0, 0, 8, s.far, 0)
	for _, tc := range []struct {
		name   string
		change func(*SendWR)
		want   string
	}{
		{"opcode", func(wr *SendWR) { wr.Opcode = 7 }, "QP 0x000011 refused a send work request: an RC queue pair does not know this opcode"},
		{"inline READ", func(wr *SendWR) { wr.Flags |= Inline }, "QP 0x000011 refused a send work request: a READ or atomic has no data to send inline"},
		{"inline and list", func(wr *SendWR) { wr.Opcode = WRSend; wr.Flags |= Inline }, "QP 0x000011 refused a send work request: inline data and a gather list exclude each other"},
		{"inline too long", func(wr *SendWR) { *wr = SendWR{Opcode: WRSend, Flags: Inline, Inline: make([]byte, 17)} }, "QP 0x000011 refused a send work request: its inline data is longer than the queue pair's MaxInline"},
		{"list too long", func(wr *SendWR) { wr.SGL = make([]SGE, 3) }, "QP 0x000011 refused a send work request: its gather list has more elements than the queue pair's SendSGE"},
		{"message too long", func(wr *SendWR) { wr.SGL = []SGE{{Length: 1 << 31}, {Length: 1}} }, "QP 0x000011 refused a send work request: a message is at most 2 GiB long"},
		{"atomic of 4 bytes", func(wr *SendWR) { wr.Opcode = WRFetchAdd; wr.SGL = s.sge(0, 4) }, "QP 0x000011 refused a send work request: an atomic needs exactly 8 bytes for the original value"},
	} {
		wr := readable
		tc.change(&wr)
		err := s.qp.PostSend(&wr)
		var pe *PostError
		if !errors.As(err, &pe) || err.Error() != tc.want {
			t.Errorf("%s: %v\nwant %s", tc.name, err, tc.want)
		}
	}
	s.wantIdle()

	s = newScript(t, func(o *options) { o.rdAtomic = 0 })
	wr := s.read(0, 0, 8, s.far, 0)
	if err := s.qp.PostSend(&wr); err == nil || err.Error() != "QP 0x000011 refused a send work request: its MAX_QP_RD_ATOMIC is 0, so a READ or atomic could never be sent" {
		t.Errorf("a READ without MAX_QP_RD_ATOMIC: %v", err)
	}
	s = newScript(t, func(o *options) { o.depth = 0 })
	if err := s.qp.PostSend(&SendWR{Opcode: WRSend}); err == nil || err.Error() != "QP 0x000011 refused a send work request: it was made without a send queue" {
		t.Errorf("no send queue: %v", err)
	}
	if err := s.qp.PostRecv(&RecvWR{}); err == nil || err.Error() != "QP 0x000011 refused a receive work request: it was made without a receive queue" {
		t.Errorf("no receive queue: %v", err)
	}
	s = newScript(t, nil)
	if err := s.qp.PostRecv(&RecvWR{SGL: make([]SGE, 5)}); err == nil || err.Error() != "QP 0x000011 refused a receive work request: its scatter list has more elements than the queue pair's RecvSGE" {
		t.Errorf("scatter list: %v", err)
	}
}

func TestPost_SignalAllSignalsEverything(t *testing.T) {
	s := newScript(t, func(o *options) { o.signalAll = true })
	wr := s.sendWR(1, 1)
	wr.Flags = 0
	s.send(wr)
	s.transmit()
	s.arrives(s.ack(0))
	s.wantDone("1 SUCCESS")
}

func TestPost_UnsignaledSendsFreeTheirSlotsSilently(t *testing.T) {
	s := newScript(t, func(o *options) { o.depth = 4 })
	quiet := s.sendWR(0, 1)
	quiet.Flags = 0
	for psn := 0; psn < 12; psn += 3 {
		s.send(quiet)
		s.send(quiet)
		s.send(s.sendWR(uint64(psn), 1))
		s.transmit()
		s.arrives(s.ack(psn + 2))
		s.pollDone()
		if len(s.done) != 1 || s.done[0].Retired != 3 {
			t.Fatalf("completions %+v, want one that retires three slots", s.done)
		}
		s.wantDone(fmt.Sprintf("%d SUCCESS", psn))
	}
	for range 4 {
		s.send(quiet)
	}
	s.transmit()
	s.arrives(s.ack(15))
	s.wantDone()
	if n := s.qp.TakeSilent(); n != 4 {
		t.Fatalf("%d silent slots, want 4", n)
	}
	if n := s.qp.TakeSilent(); n != 0 {
		t.Fatalf("%d silent slots the second time, want none", n)
	}
	for range 4 {
		s.send(quiet) // they are free
	}
}

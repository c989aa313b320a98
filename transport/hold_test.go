package transport

import (
	"bytes"
	"testing"
	"time"

	"github.com/go-roce/roce/bth"
)

// holding makes a script whose queue pair keeps up to hold packets behind a gap.
func holding(t testing.TB, hold int, pool *HoldPool, change func(*Recovery)) *script {
	t.Helper()
	return newScript(t, func(o *options) {
		o.recovery = func(string) Recovery {
			r := Recovery{Selective: true, Hold: hold, Pool: pool}
			if change != nil {
				change(&r)
			}
			return r
		}
	})
}

// quietOnly makes a SEND ONLY that asks for no acknowledgement.
func (s *script) quietOnly(psn int, payload []byte) bth.Packet {
	p := s.packet(bth.RCSendOnly, psn, payload)
	p.AckReq = false
	return p
}

func TestHold_WhatIsBehindAGapIsTakenInOrderWhenItIsFilled(t *testing.T) {
	pool := NewHoldPool(16)
	s := holding(t, 16, pool, nil)
	for i := range 4 {
		s.recv(uint64(i), i*100, 100)
	}
	s.arrives(s.quietOnly(3, data(30, 3)), s.quietOnly(1, data(10, 1)), s.quietOnly(2, data(20, 2)))
	s.wantSent("ACK -8", "NAK_60 0") // one NAK, and a report of the row that began with 3
	s.wantDone()
	if pool.Held() != 3 {
		t.Fatalf("%d packets are held, want 3", pool.Held())
	}
	s.arrives(s.packet(bth.RCSendOnly, 0, data(5, 0)))
	s.wantSent("ACK 3")
	s.wantDone("0 SUCCESS", "1 SUCCESS", "2 SUCCESS", "3 SUCCESS")
	for i, n := range []int{5, 10, 20, 30} {
		if !bytes.Equal(s.mem[i*100:i*100+n], data(n, byte(i))) {
			t.Errorf("receive %d has the wrong bytes", i)
		}
	}
	if c := s.qp.Counters(); pool.Held() != 0 || c.OutOfSequence != 3 || c.OutOfSequenceHeld != 3 || c.OutOfSequenceFull != 0 {
		t.Errorf("%d packets are still held, counted %+v", pool.Held(), c)
	}
}

func TestHold_EachGapIsNAKedOnce(t *testing.T) {
	s := holding(t, 16, NewHoldPool(16), nil)
	for i := range 6 {
		s.recv(uint64(i), 0, 100)
	}
	s.arrives(s.quietOnly(1, nil), s.quietOnly(3, nil), s.quietOnly(5, nil))
	s.sent = nil
	s.transmit()
	naks := 0
	for _, p := range s.sent {
		if p.AETH.Syndrome.IsNAK() {
			naks++
		}
	}
	if naks != 1 {
		t.Errorf("%d NAKs of the first gap", naks)
	}
	s.sent = nil
	s.arrives(s.quietOnly(0, nil))
	s.wantSent("NAK_60 2")
	s.arrives(s.quietOnly(2, nil))
	s.wantSent("NAK_60 4")
	s.arrives(s.packet(bth.RCSendOnly, 4, nil))
	s.wantSent("ACK 5")
	s.wantDone("0 SUCCESS", "1 SUCCESS", "2 SUCCESS", "3 SUCCESS", "4 SUCCESS", "5 SUCCESS")
}

// Reports name the ends of rows of held packets: PSN 1+2k before the one waited for is the last, 2+2k the first.
func TestHold_ReportsWhichPacketsItHas(t *testing.T) {
	s := holding(t, 16, NewHoldPool(16), nil)
	s.arrives(s.quietOnly(2, nil))
	s.wantSent("ACK -6", "NAK_60 0") // 2+2*2 before 0
	s.arrives(s.quietOnly(3, nil))
	s.wantSent()
	s.arrives(s.quietOnly(7, nil))
	s.wantSent("ACK -7", "ACK -16") // the row ended with 3, another begins with 7
	if c := s.qp.Counters(); c.GapReports != 3 || c.NAKsSent != 1 {
		t.Errorf("counted %+v", c)
	}
}

// Some requesters take any acknowledgement between the packets of a READ response for an error.
func TestHold_NoReportBetweenPacketsOfAReadResponse(t *testing.T) {
	s := holding(t, 16, NewHoldPool(16), nil)
	s.arrives(s.rdma(bth.RCReadRequest, 0, 0, 3000, nil))
	s.pollPacket(s.now())
	s.arrives(s.quietOnly(4, nil))
	s.wantSent("READ_RESPONSE_FIRST 0", "READ_RESPONSE_MIDDLE 1", "READ_RESPONSE_LAST 2", "ACK -1", "NAK_60 3")
}

func TestHold_RepeatedAcknowledgementStandsInForALostNAK(t *testing.T) {
	s := holding(t, 16, NewHoldPool(16), nil)
	s.recv(0, 0, 10)
	s.arrives(s.packet(bth.RCSendOnly, 0, nil), s.quietOnly(2, nil))
	s.wantSent("ACK -3", "ACK 0", "NAK_60 1")
	s.arrives(s.quietOnly(3, nil))
	s.wantSent()
	s.arrives(s.packet(bth.RCSendOnly, 4, nil)) // asks for an acknowledgement
	s.wantSent("ACK 0")
}

func TestHold_IsBoundedByQueuePairAndPool(t *testing.T) {
	pool := NewHoldPool(3)
	s, other := holding(t, 2, pool, nil), holding(t, 8, pool, nil)
	s.arrives(s.quietOnly(1, nil), s.quietOnly(2, nil), s.quietOnly(3, nil))
	if c := s.qp.Counters(); pool.Held() != 2 || c.OutOfSequenceHeld != 2 || c.OutOfSequenceFull != 1 {
		t.Fatalf("%d held, counted %+v", pool.Held(), c)
	}
	other.arrives(other.quietOnly(1, nil), other.quietOnly(2, nil))
	if c := other.qp.Counters(); pool.Held() != 3 || c.OutOfSequenceHeld != 1 || c.OutOfSequenceFull != 1 {
		t.Fatalf("%d held, counted %+v", pool.Held(), c)
	}
	// What is nearer is worth more than what is further.
	near := holding(t, 2, NewHoldPool(2), nil)
	near.arrives(near.quietOnly(5, nil), near.quietOnly(6, nil), near.quietOnly(2, nil))
	if l := near.qp.resp.held.list; len(l) != 2 || l[0].packet.PSN != near.opt.psn.Add(2) || l[1].packet.PSN != near.opt.psn.Add(5) {
		t.Error("the nearest two are not those held")
	}
	for _, x := range []*script{s, other} {
		x.modify(x.now(), &Attr{Mask: AttrState, State: StateErr})
	}
	if pool.Held() != 0 {
		t.Errorf("%d packets are held for queue pairs in ERR", pool.Held())
	}
}

func TestHold_RNRAndErrorsAmongWhatWasHeld(t *testing.T) {
	pool := NewHoldPool(8)
	s := holding(t, 8, pool, nil)
	s.recv(0, 0, 10)
	s.arrives(s.quietOnly(1, nil), s.quietOnly(2, nil))
	s.transmit()
	s.sent = nil
	s.arrives(s.packet(bth.RCSendOnly, 0, nil)) // takes the only receive
	s.wantSent("ACK 0", "RNR_12 1")
	s.wantDone("0 SUCCESS")
	s.recv(1, 0, 10)
	s.recv(2, 0, 10)
	s.arrives(s.packet(bth.RCSendOnly, 1, nil)) // 2 was kept
	s.wantSent("ACK 2")
	s.wantDone("1 SUCCESS", "2 SUCCESS")

	s.arrives(s.rdma(bth.RCWriteOnly, 4, s.opt.memory-1, 2, data(2, 1)), s.quietOnly(5, nil)) // out of bounds
	s.transmit()
	s.sent = nil
	s.recv(3, 0, 10)
	s.arrives(s.packet(bth.RCSendOnly, 3, nil))
	s.wantSent("ACK 3", "NAK_62 4")
	s.wantState(StateErr)
	if pool.Held() != 0 {
		t.Errorf("%d packets are held in ERR", pool.Held())
	}
}

func TestHold_ReadsAndAtomicsAcrossTheWrap(t *testing.T) {
	s := newScript(t, func(o *options) {
		o.psn = 0xFFFFFE
		o.recovery = func(string) Recovery { return Recovery{Hold: 8, Pool: NewHoldPool(8)} }
	})
	s.arrives(s.atomic(bth.RCFetchAdd, 4, 8, 5, 0), s.rdma(bth.RCReadRequest, 1, 0, 2500, nil))
	s.transmit()
	s.sent = nil
	s.arrives(s.rdma(bth.RCWriteOnly, 0, 100, 4, data(4, 9)))
	s.wantSent("ACK 0", "READ_RESPONSE_FIRST 1", "READ_RESPONSE_MIDDLE 2", "READ_RESPONSE_LAST 3", "ATOMIC_ACKNOWLEDGE 4")
	if !bytes.Equal(s.mem[100:104], data(4, 9)) {
		t.Error("the WRITE is missing")
	}
}

func TestHold_ReorderWindowWaitsBeforeItTellsOfAGap(t *testing.T) {
	const window = 50 * time.Microsecond
	s := holding(t, 16, NewHoldPool(16), func(r *Recovery) { r.ReorderWindow = window })
	for i := range 6 {
		s.recv(uint64(i), 0, 10)
	}
	s.arrives(s.quietOnly(1, nil))
	s.wantSent()
	s.arrives(s.packet(bth.RCSendOnly, 0, nil)) // merely late
	s.wantSent("ACK 1")
	s.wantTimer(s.now(), -1)
	s.arrives(s.quietOnly(3, nil))
	s.arrives(s.quietOnly(5, nil))
	s.wait(window)
	s.wantSent("ACK -2", "ACK -1", "ACK -6", "NAK_60 2") // and then says all
	s.arrives(s.quietOnly(2, nil))
	s.wantSent("ACK 3")
	s.wait(window)                  // for 4, anew
	s.wantSent("ACK 0", "NAK_60 4") // with the report of 5
}

// The zero Recovery behaves as the specification has it.
func TestHold_NothingIsHeldUnlessAsked(t *testing.T) {
	s := newScript(t, nil)
	s.recv(0, 0, 10)
	s.recv(1, 0, 10)
	s.arrives(s.packet(bth.RCSendOnly, 1, nil))
	s.wantSent("NAK_60 0")
	s.arrives(s.packet(bth.RCSendOnly, 0, nil))
	s.wantSent("ACK 0")
	s.wantDone("0 SUCCESS")
	s.wantDrops(map[bth.Drop]int{bth.DropGap: 1})
}

package transport

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/memreg"
)

func TestPitfall11_DuplicateSendAndWriteAreAcknowledgedNotExecuted(t *testing.T) {
	s := newScript(t, nil)
	s.recv(1, 0x1000, 100)
	s.recv(2, 0x2000, 100)
	send, write := s.packet(bth.RCSendOnly, 0, data(100, 1)), s.rdma(bth.RCWriteOnly, 1, 0x4000, 100, data(100, 2))
	s.arrives(send, write)
	s.wantSent("ACK 1")
	s.wantDone("1 SUCCESS")
	clear(s.mem)
	send.AckReq, write.AckReq = false, false // acknowledged all the same
	s.arrives(send)
	s.wantSent("ACK 1")
	s.arrives(write)
	s.wantSent("ACK 1")
	s.arrives(send, write, send) // one will do
	s.wantSent("ACK 1")
	s.wantDone()
	if !bytes.Equal(s.mem, make([]byte, len(s.mem))) {
		t.Error("a duplicate wrote to memory")
	}
	if n := s.qp.Counters().DuplicateRequests; n != 5 {
		t.Errorf("%d duplicates counted, want 5", n)
	}
}

func TestPitfall11_DuplicateReadIsExecutedForWhatItAsks(t *testing.T) {
	const mtu = 1024
	for _, tc := range []struct {
		name             string
		psn, off, length int
		want             []string
	}{
		{"all of it", 0, 0, 3000, []string{"READ_RESPONSE_FIRST 0", "READ_RESPONSE_MIDDLE 1", "READ_RESPONSE_LAST 2"}},
		{"the tail", 1, mtu, 3000 - mtu, []string{"READ_RESPONSE_FIRST 1", "READ_RESPONSE_LAST 2"}},
		{"the last packet", 2, 2 * mtu, 3000 - 2*mtu, []string{"READ_RESPONSE_ONLY 2"}},
		{"the head", 0, 0, 1500, []string{"READ_RESPONSE_FIRST 0", "READ_RESPONSE_LAST 1"}},
		{"some bytes in the middle", 1, 1100, 16, []string{"READ_RESPONSE_ONLY 1"}},
		{"nothing", 1, 1 << 30, 0, []string{"READ_RESPONSE_ONLY 1"}},
		{"more", 0, 0, 3001, nil},
		{"from further on, too much", 1, mtu, 3000, nil},
		{"memory before it", 0, -8, 100, nil},
		{"memory behind it", 2, 2 * mtu, mtu, nil},
		{"from an address that wraps around", 0, -1, 1, nil},
		{"more packets than are left", 2, 0, 2000, nil},
		{"a PSN before it", -1, 0, 100, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScript(t, nil)
			fill(s.mem, 1)
			s.arrives(s.rdma(bth.RCReadRequest, 0, 0x4000, 3000, nil))
			s.transmit()
			s.sent = nil
			fill(s.mem, 2) // it reads memory anew
			s.arrives(s.rdma(bth.RCReadRequest, tc.psn, 0x4000+tc.off, tc.length, nil))
			s.transmit()
			var got []byte
			for i := range s.sent {
				got = append(got, s.sent[i].Payload...)
			}
			s.wantSentBefore(tc.want...)
			if tc.want == nil {
				s.wantDrops(map[bth.Drop]int{bth.DropForgotten: 1})
			} else if tc.length > 0 && !bytes.Equal(got, s.mem[0x4000+tc.off:0x4000+tc.off+tc.length]) {
				t.Error("it answers with other bytes")
			}
			s.wantState(StateRTS)
			if s.qp.resp.msn != 1 {
				t.Errorf("a duplicate counted as a message: MSN is %d", s.qp.resp.msn)
			}
		})
	}
	t.Run("another key", func(t *testing.T) {
		s := newScript(t, nil)
		s.arrives(s.rdma(bth.RCReadRequest, 0, 0, 8, nil))
		s.transmit()
		p := s.rdma(bth.RCReadRequest, 0, 0, 8, nil)
		p.RETH.RKey++
		s.arrives(p)
		s.wantDrops(map[bth.Drop]int{bth.DropForgotten: 1})
	})
	t.Run("key no longer valid", func(t *testing.T) {
		s := newScript(t, nil)
		s.arrives(s.rdma(bth.RCReadRequest, 0, 0, 8, nil))
		s.transmit()
		s.sent = nil
		if err := s.table.Deregister(s.region.Key()); err != nil {
			t.Fatal(err)
		}
		s.arrives(s.rdma(bth.RCReadRequest, 0, 0, 8, nil))
		s.wantSent("NAK_62 0")
		s.wantState(StateErr)
	})
}

func TestPitfall11_DuplicateAtomicReplaysTheSavedValue(t *testing.T) {
	s := newScript(t, nil)
	add := s.atomic(bth.RCFetchAdd, 0, 64, 5, 0)
	swap := s.atomic(bth.RCCompareSwap, 1, 64, 100, 5)
	s.arrives(add, swap, s.atomic(bth.RCFetchAdd, 2, 64, 1, 0), s.atomic(bth.RCFetchAdd, 3, 64, 1, 0))
	s.transmit()
	s.sent = nil
	s.arrives(swap, add)
	s.transmit()
	if a, b := s.sent[0].AtomicAck, s.sent[1].AtomicAck; a != 0 || b != 5 {
		t.Errorf("duplicates are answered with %d and %d, want 0 and 5", a, b)
	}
	s.wantSentBefore("ATOMIC_ACKNOWLEDGE 0", "ATOMIC_ACKNOWLEDGE 1")
	if got := binary.NativeEndian.Uint64(s.mem[64:]); got != 102 {
		t.Errorf("the word holds %d, want 102: a duplicate was executed", got)
	}
	// Four later the first is forgotten.
	s.arrives(s.atomic(bth.RCFetchAdd, 4, 64, 1, 0))
	s.wantSent("ATOMIC_ACKNOWLEDGE 4")
	s.arrives(add, s.rdma(bth.RCReadRequest, 2, 0, 8, nil)) // nor was there a READ
	s.wantSent()
	s.wantDrops(map[bth.Drop]int{bth.DropForgotten: 2})
	s.wantState(StateRTS)
}

// Nor is the key that a SEND invalidates invalidated twice, which would be a fault.
func TestPitfall11_DuplicateSendWithInvalidateIsAcknowledged(t *testing.T) {
	s := newScript(t, func(o *options) { o.regionAccess |= memreg.RemoteInvalidate })
	if err := s.qp.PostRecv(&RecvWR{ID: 1}); err != nil {
		t.Fatal(err)
	}
	p := s.packet(bth.RCSendOnlyInvalidate, 0, nil)
	p.Inv = uint32(s.region.Key())
	s.arrives(p)
	s.wantSent("ACK 0")
	s.arrives(p)
	s.wantSent("ACK 0")
	s.wantDone("1 SUCCESS")
	s.wantState(StateRTS)
}

func TestPitfall11_DuplicateOfWhatIsNotSpokenIsDropped(t *testing.T) {
	s := newScript(t, nil)
	s.arrives(s.packet(bth.RCFlush, -1, nil), s.packet(bth.RCAtomicWrite, -1, data(8, 0)))
	s.wantDrops(map[bth.Drop]int{bth.DropForgotten: 2})
	s.wantIdle()
}

// A duplicate of a SEND before a READ must not be acknowledged with a PSN behind the
// READ: a requester that waits for its responses would take them for lost.
func TestPitfall11_AcknowledgementOfADuplicateStopsBeforeTheNextRead(t *testing.T) {
	s := newScript(t, nil)
	for i := range 4 {
		s.recv(uint64(i), 0, 10)
	}
	s.arrives(s.packet(bth.RCSendOnly, 0, nil), s.packet(bth.RCSendOnly, 1, nil), s.rdma(bth.RCReadRequest, 2, 0, 3000, nil),
		s.packet(bth.RCSendOnly, 5, nil), s.atomic(bth.RCFetchAdd, 6, 0, 1, 0), s.packet(bth.RCSendOnly, 7, nil))
	s.transmit()
	s.sent = nil
	s.arrives(s.packet(bth.RCSendOnly, 0, nil))
	s.wantSent("ACK 1")
	s.arrives(s.packet(bth.RCSendOnly, 5, nil))
	s.wantSent("ACK 5")
	s.arrives(s.packet(bth.RCSendOnly, 7, nil))
	s.wantSent("ACK 7")
}

func TestPitfall14_LengthZeroIgnoresKeyAndAddressAndTakesOnePSN(t *testing.T) {
	s := newScript(t, nil)
	read, write := s.rdma(bth.RCReadRequest, 0, 0, 0, nil), s.rdma(bth.RCWriteOnly, 1, 0, 0, nil)
	read.RETH = bth.RETH{VA: 0xFFFFFFFFFFFFFFFF, RKey: 0x12345}
	write.RETH = bth.RETH{VA: 1, RKey: 0}
	s.arrives(read, write)
	s.wantSent("READ_RESPONSE_ONLY 0", "ACK 1")
	read.RETH = bth.RETH{VA: 7, RKey: 8} // also as a duplicate, whatever it names then
	s.arrives(read)
	s.wantSent("READ_RESPONSE_ONLY 0")
	s.arrives(write)
	s.wantSent("ACK 1")
	s.recv(1, 0, 1)
	s.arrives(s.packet(bth.RCSendOnly, 2, data(1, 0))) // the PSN behind both
	s.wantSent("ACK 2")
	s.wantDone("1 SUCCESS")
	s.wantState(StateRTS)
}

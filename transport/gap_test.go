package transport

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/go-roce/roce/bth"
)

func TestPitfall18_OneSequenceNAKPerGap(t *testing.T) {
	s := newScript(t, nil)
	for i := range 9 {
		s.recv(uint64(i), 0, 10)
	}
	only := func(psn int) bth.Packet { return s.packet(bth.RCSendOnly, psn, nil) }
	s.arrives(only(0), only(5))
	s.wantSent("ACK 0", "NAK_60 1")
	s.arrives(only(6), only(2), only(5))
	s.wantSent()
	s.arrives(only(0)) // a duplicate does not end the silence
	s.wantSent("ACK 0")
	s.arrives(only(7))
	s.wantSent()
	s.arrives(only(1))
	s.wantSent("ACK 1")
	s.arrives(only(3)) // another gap
	s.wantSent("NAK_60 2")
	s.arrives(only(4))
	s.wantSent()
	s.wantDrops(map[bth.Drop]int{bth.DropGap: 7})
	s.wantDone("0 SUCCESS", "1 SUCCESS")
	if c := s.qp.Counters(); c.NAKsSent != 2 || c.OutOfSequence != 7 {
		t.Errorf("counters %+v", c)
	}
}

// A gap that is filled before its NAK has left needs none.
func TestPitfall18_NAKThatHasNotLeftIsForgottenWhenTheGapIsFilled(t *testing.T) {
	for name, filler := range map[string]func(*script) bth.Packet{
		"SEND":   func(s *script) bth.Packet { return s.packet(bth.RCSendOnly, 0, nil) },
		"READ":   func(s *script) bth.Packet { return s.rdma(bth.RCReadRequest, 0, 0, 8, nil) },
		"atomic": func(s *script) bth.Packet { return s.atomic(bth.RCFetchAdd, 0, 0, 1, 0) },
	} {
		s := newScript(t, nil)
		s.recv(1, 0, 10)
		s.arrives(s.packet(bth.RCSendOnly, 1, nil), filler(s))
		s.transmit()
		if len(s.sent) != 1 || !s.sent[0].AETH.Syndrome.IsAck() {
			t.Errorf("%s: sent %v", name, describeAll(s.sent, s.opt.psn))
		}
	}
}

func TestPitfall19_AfterAnRNRNAKTheSamePSNIsExpected(t *testing.T) {
	for name, message := range map[string][]func(*script) bth.Packet{
		"SEND Only": {func(s *script) bth.Packet { return s.packet(bth.RCSendOnly, 1, data(8, 1)) }},
		"SEND First": {
			func(s *script) bth.Packet { return s.packet(bth.RCSendFirst, 1, data(1024, 1)) },
			func(s *script) bth.Packet { return s.packet(bth.RCSendLast, 2, data(8, 1)) },
		},
		"WRITE Only with immediate": {func(s *script) bth.Packet { return s.rdma(bth.RCWriteOnlyImm, 1, 0, 8, data(8, 1)) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, func(o *options) { o.minRNR = 14 })
			s.arrives(s.rdma(bth.RCWriteOnly, 0, 0x8000, 8, data(8, 9)))
			s.wantSent("ACK 0")
			s.arrives(message[0](s))
			s.wantSent("RNR_14 1")
			s.arrives(s.packet(bth.RCSendOnly, 5, nil), s.rdma(bth.RCReadRequest, 3, 0, 8, nil)) // behind it: silence
			s.wantSent()
			s.arrives(message[0](s)) // too early: again
			s.wantSent("RNR_14 1")
			s.wantDrops(map[bth.Drop]int{bth.DropRNR: 4})
			s.recv(7, 0x1000, 2000)
			for i := range message {
				s.arrives(message[i](s))
			}
			s.wantSent(fmt.Sprintf("ACK %d", len(message)))
			s.wantDone("7 SUCCESS")
			s.arrives(s.packet(bth.RCSendOnly, 9, nil)) // a gap is a gap again
			s.wantSent(fmt.Sprintf("NAK_60 %d", len(message)+1))
		})
	}
}

// A WRITE with immediate needs its receive at the packet that has the immediate; what
// came before that is written.
func TestPitfall19_LongWriteWithImmediateWaitsAtItsLastPacket(t *testing.T) {
	s := newScript(t, nil)
	first, last := s.rdma(bth.RCWriteFirst, 0, 0x4000, 1030, data(1024, 1)), s.rdma(bth.RCWriteLastImm, 1, 0, 0, data(6, 2))
	last.Imm = 5
	s.arrives(first, last)
	s.wantSent("RNR_12 1")
	if !bytes.Equal(s.mem[0x4000:0x4000+1024], data(1024, 1)) || s.mem[0x4000+1024] != 0 {
		t.Error("memory holds something else than the First packet")
	}
	s.arrives(first) // rdma_rxe resends from the oldest unacknowledged
	s.wantSent("ACK 0")
	s.recv(1, 0x8000, 0)
	s.arrives(last)
	s.wantSent("ACK 1")
	s.pollDone()
	if c := s.done[0]; c.ByteLen != 1030 || c.Imm != 5 || c.Opcode != WCRecvImm {
		t.Errorf("received as %+v", c)
	}
	if !bytes.Equal(s.mem[0x4000+1024:0x4000+1030], data(6, 2)) {
		t.Error("the Last packet is not in memory")
	}
}

// An RNR NAK that has not left when the packet comes again, with a receive there, is
// forgotten; and there is never more than one.
func TestPitfall19_RNRNAKThatHasNotLeft(t *testing.T) {
	s := newScript(t, nil)
	send := s.packet(bth.RCSendOnly, 0, nil)
	s.arrives(send, send, send)
	s.recv(1, 0, 8)
	s.arrives(send)
	s.wantSent("ACK 0")
	s.arrives(s.packet(bth.RCSendOnly, 1, nil), s.packet(bth.RCSendOnly, 1, nil))
	s.wantSent("RNR_12 1")
}

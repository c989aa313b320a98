package transport

import (
	"bytes"
	"syscall"
	"testing"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/memreg"
)

// mapped makes n bytes of memory that take up only the pages that are touched.
func mapped(t *testing.T, n int) []byte {
	t.Helper()
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		t.Skipf("cannot map %d bytes: %v", n, err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(b); err != nil {
			t.Error(err)
		}
	})
	return b
}

// hugeScript is a script with a region of 2 GiB; at path MTU 256 the longest message is
// half the PSN space.
func hugeScript(t *testing.T) *script {
	t.Helper()
	s := newScript(t, func(o *options) { o.mtu, o.psn, o.sge = 256, 0xC00000, 4 })
	s.mem = mapped(t, MaxMessage)
	var err error
	if s.region, err = s.table.Register(1, s.mem, memreg.Options{Access: allAccess}); err != nil {
		t.Fatal(err)
	}
	return s
}

// hugePackets is how many that is, and hugeEnd where its last two packets begin.
const (
	hugePackets = MaxMessage / 256
	hugeEnd     = MaxMessage - 512
)

// jump takes the requester to packet n of its first request, all before acknowledged.
func (s *script) jump(n uint32) {
	r := &s.qp.req
	r.pkt, r.next = n, s.opt.psn.Add(n)
	r.una, r.high = r.next, r.next
}

// wantOpcodes takes what the queue pair sends and checks it by opcode and distance from the first PSN.
func (s *script) wantOpcodes(first uint32, want ...bth.Opcode) {
	s.t.Helper()
	s.transmit()
	s.wantTaken(first, want...)
}

// wantTaken checks what was taken already.
func (s *script) wantTaken(first uint32, want ...bth.Opcode) {
	s.t.Helper()
	if len(s.sent) != len(want) {
		s.t.Fatalf("sent %v, want %v", describeAll(s.sent, s.opt.psn), want)
	}
	for i := range want {
		if p := &s.sent[i]; p.Opcode != want[i] || dist(s.opt.psn, p.PSN) != first+uint32(i) {
			s.t.Fatalf("packet %d is %v with PSN %d, want %v with PSN %d", i, p.Opcode, dist(s.opt.psn, p.PSN), want[i], first+uint32(i))
		}
	}
}

// bytesSent returns the payload of what was sent, and forgets it.
func (s *script) bytesSent() (all []byte) {
	for i := range s.sent {
		all = append(all, s.sent[i].Payload...)
	}
	s.sent = nil
	return all
}

func TestHuge_RequesterSends2GiB(t *testing.T) {
	for _, op := range []WROpcode{WRWrite, WRSend} {
		s := hugeScript(t)
		copy(s.mem[hugeEnd:], data(512, 1))
		wr := s.write(1, 0, s.far, 0)
		wr.Opcode = op
		wr.SGL = []SGE{{s.va(0), 1 << 30, s.region.Key()}, {}, {s.va(1 << 30), 1 << 30, s.region.Key()}}
		s.send(wr)
		s.pollPacket(s.now())
		if p := s.sent[0]; op == WRWrite && p.RETH.Length != MaxMessage {
			t.Fatalf("begins with %+v", p.Headers)
		}
		s.sent = nil
		s.jump(hugePackets - 2)
		if op == WRWrite {
			s.wantOpcodes(hugePackets-2, bth.RCWriteMiddle, bth.RCWriteLast)
		} else {
			s.wantOpcodes(hugePackets-2, bth.RCSendMiddle, bth.RCSendLast)
		}
		if !bytes.Equal(s.bytesSent(), s.mem[hugeEnd:]) {
			t.Error("the last two packets carry other bytes")
		}
		s.arrives(s.ack(hugePackets - 1))
		s.wantDone("1 SUCCESS")
		s.send(s.sendWR(2, 1))
		s.wantOpcodes(hugePackets, bth.RCSendOnly)
		s.arrives(s.ack(hugePackets))
		s.wantDone("2 SUCCESS")
		s.sent = nil
		s.wantIdle()
	}
}

func TestHuge_RequesterReads2GiB(t *testing.T) {
	s := hugeScript(t)
	wr := s.read(1, 0, 0, s.far, 0)
	wr.SGL = []SGE{{s.va(0), 1<<31 - 256, s.region.Key()}, {s.va(1<<31 - 256), 256, s.region.Key()}}
	s.send(wr)
	s.send(s.sendWR(2, 1))
	s.wantOpcodes(0, bth.RCReadRequest)
	if r := s.sent[0].RETH; r.Length != MaxMessage || s.qp.req.high != s.opt.psn.Add(hugePackets) {
		t.Fatalf("asks for %+v up to PSN %d", r, s.qp.req.high)
	}
	s.sent = nil
	// Half the PSN space is outstanding: its first and its last are in it, nothing else.
	s.arrives(s.ack(hugePackets), s.ack(-1))
	s.wantDrops(map[bth.Drop]int{bth.DropStale: 2})
	s.qp.sq.at(0).done = hugePackets - 2
	s.qp.req.una = s.opt.psn.Add(hugePackets - 2)
	s.qp.req.acked = s.opt.psn.Add(hugePackets)
	s.qp.req.ackDeadline = s.now()
	s.qp.HandleTimeout(s.now())
	s.pollPacket(s.now())
	s.wantTaken(hugePackets-2, bth.RCReadRequest)
	if r := s.sent[0].RETH; r.VA != s.far.va(hugeEnd) || r.Length != 512 {
		t.Fatalf("asks for the rest as %+v", r)
	}
	s.sent = nil
	s.wantOpcodes(hugePackets, bth.RCSendOnly) // it had to wait for the window
	s.arrives(s.packet(bth.RCReadResponseFirst, hugePackets-2, data(256, 3)), s.packet(bth.RCReadResponseLast, hugePackets-1, data(256, 4)))
	s.wantDone("1 SUCCESS")
	if !bytes.Equal(s.mem[hugeEnd:], append(data(256, 3), data(256, 4)...)) {
		t.Error("the last bytes arrived elsewhere")
	}
}

func TestHuge_ResponderTakes2GiB(t *testing.T) {
	for _, name := range []string{"WRITE", "SEND"} {
		for _, extra := range []int{0, 1} {
			s := hugeScript(t)
			middle, last := bth.RCWriteMiddle, bth.RCWriteLast
			first := s.rdma(bth.RCWriteFirst, 0, 0, MaxMessage, data(256, 0))
			if name == "SEND" {
				middle, last = bth.RCSendMiddle, bth.RCSendLast
				first = s.packet(bth.RCSendFirst, 0, data(256, 0))
				if err := s.qp.PostRecv(&RecvWR{ID: 7, SGL: []SGE{
					{s.va(0), 1 << 30, s.region.Key()}, {s.va(1 << 30), 1 << 30, s.region.Key()}, {s.va(0), 1 << 31, s.region.Key()},
				}}); err != nil {
					t.Fatal(err)
				}
			}
			s.arrives(first)
			s.qp.resp.offset, s.qp.resp.epsn = hugeEnd, s.opt.psn.Add(hugePackets-2)
			s.arrives(s.packet(middle, hugePackets-2, data(256, 3)), s.packet(last, hugePackets-1, data(256+extra, 4)))
			s.transmit()
			want := "ACK 8388607"
			if extra != 0 {
				want = "NAK_61 8388607"
			}
			if got := describe(&s.sent[0], s.opt.psn); got != want {
				t.Fatalf("%s with %d bytes more than 2 GiB: %s", name, extra, got)
			}
			if !bytes.Equal(s.mem[hugeEnd:hugeEnd+256], data(256, 3)) || extra == 0 && !bytes.Equal(s.mem[hugeEnd+256:], data(256, 4)) {
				t.Errorf("%s: the last bytes are elsewhere", name)
			}
			if s.pollDone(); name == "SEND" && extra == 0 && (len(s.done) != 1 || s.done[0].ByteLen != MaxMessage) {
				t.Errorf("received as %+v", s.done)
			}
		}
	}
}

func TestHuge_ResponderAnswersARead2GiBLong(t *testing.T) {
	s := hugeScript(t)
	copy(s.mem[hugeEnd:], data(512, 9))
	s.arrives(s.rdma(bth.RCReadRequest, 0, 0, MaxMessage, nil))
	s.pollPacket(s.now())
	s.sent = nil
	if s.qp.resp.epsn != s.opt.psn.Add(hugePackets) {
		t.Fatalf("expects PSN %d next", s.qp.resp.epsn)
	}
	s.qp.resp.answers.pending()[0].sent = hugePackets - 2
	s.recv(1, 0, 0)
	s.arrives(s.packet(bth.RCSendOnly, hugePackets, nil)) // answered behind it
	s.wantOpcodes(hugePackets-2, bth.RCReadResponseMiddle, bth.RCReadResponseLast, bth.RCAcknowledge)
	if !bytes.Equal(s.bytesSent(), s.mem[hugeEnd:]) {
		t.Error("the last two packets carry other bytes")
	}
	// The tail again, from as far back as PSNs can be told apart.
	s.arrives(s.rdma(bth.RCReadRequest, hugePackets-1, MaxMessage-256, 256, nil))
	s.wantOpcodes(hugePackets-1, bth.RCReadResponseOnly)
	if !bytes.Equal(s.bytesSent(), s.mem[MaxMessage-256:]) {
		t.Error("the tail was answered with other bytes")
	}
}

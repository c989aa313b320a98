package transport

import (
	"testing"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/memreg"
)

func TestPitfall38_SendLongerThanTheReceive(t *testing.T) {
	for _, size := range []int{101, 1024, 3000} {
		p := newPair(t, nil)
		p.b.recv(1, 0x1000, 100)
		p.b.recv(2, 0x2000, 100)
		p.a.send(p.a.sendWR(10, 100))
		p.a.send(p.a.sendWR(11, size))
		p.a.send(p.a.sendWR(12, 1))
		p.settle()
		p.a.wantDone("10 SUCCESS", "11 REM_INV_REQ_ERR", "12 WR_FLUSH_ERR")
		p.b.wantDone("1 SUCCESS", "2 LOC_LEN_ERR")
		p.a.wantState(StateErr)
		p.b.wantState(StateErr)
	}
	// It may be found out in the midst of the message.
	p := newPair(t, nil)
	p.b.recv(1, 0x1000, 1500)
	p.a.send(p.a.sendWR(10, 3000))
	p.settle()
	p.a.wantDone("10 REM_INV_REQ_ERR")
	p.b.wantDone("1 LOC_LEN_ERR")
	if last := p.b.sent[len(p.b.sent)-1]; describe(&last, 0x1000) != "NAK_61 1" {
		t.Errorf("refused by %s, want the packet that did not fit", describe(&last, 0x1000))
	}
}

func TestReceive_ReceiveIntoMissingMemory(t *testing.T) {
	p := newPair(t, nil)
	if err := p.b.qp.PostRecv(&RecvWR{ID: 1, SGL: p.b.readOnly(2000)}); err != nil {
		t.Fatal(err)
	}
	p.b.recv(2, 0, 10)
	p.a.send(p.a.sendWR(10, 1500))
	p.settle()
	p.a.wantDone("10 REM_OP_ERR")
	p.b.wantDone("1 LOC_PROT_ERR", "2 WR_FLUSH_ERR")
	p.b.wantEvents(EventQPFatal)
}

func TestReceive_SendWithInvalidateEndsTheKey(t *testing.T) {
	for _, size := range []int{10, 2000} {
		p := newPair(t, nil)
		r, err := p.b.table.Register(1, make([]byte, 64), memreg.Options{Access: allAccess | memreg.RemoteInvalidate})
		if err != nil {
			t.Fatal(err)
		}
		p.b.recv(1, 0, 4096)
		wr := p.a.sendWR(10, size)
		wr.Opcode, wr.InvKey = WRSendInv, r.Key()
		p.a.send(wr)
		p.settle()
		p.a.wantDone("10 SUCCESS")
		p.b.pollDone()
		if c := p.b.done[0]; c.InvKey != r.Key() || c.Flags != WCWithInv || c.Imm != 0 || c.ByteLen != uint32(size) {
			t.Errorf("received as %+v", c)
		}
		if r.Valid() {
			t.Error("the key is valid still")
		}
		p.a.send(SendWR{ID: 11, Opcode: WRWrite, SGL: p.a.sge(0, 8), RemoteAddr: r.Addr(), RKey: r.Key()})
		p.settle()
		p.a.wantDone("11 REM_ACCESS_ERR")
	}
}

func TestReceive_SendWithInvalidateOfAKeyThatIsNotToBeInvalidated(t *testing.T) {
	p := newPair(t, nil) // its region lacks the right
	p.b.recv(1, 0, 10)
	wr := p.a.sendWR(10, 10)
	wr.Opcode, wr.InvKey = WRSendInv, p.b.region.Key()
	p.a.send(wr)
	p.settle()
	p.a.wantDone("10 REM_ACCESS_ERR")
	p.b.wantDone("1 REM_INV_REQ_ERR")
	p.b.wantEvents(EventAccessErr)
	if !p.b.region.Valid() {
		t.Error("the key was invalidated")
	}
}

func TestReceive_AcknowledgesOnlyWhenAsked(t *testing.T) {
	s := newScript(t, nil)
	for i := range 3 {
		s.recv(uint64(i), 0, 4096)
		p := s.packet(bth.RCSendOnly, i, nil)
		p.AckReq = i == 2
		s.arrives(p)
		if i < 2 {
			s.wantSent()
		}
	}
	s.wantSent("ACK 2")
	s.wantDone("0 SUCCESS", "1 SUCCESS", "2 SUCCESS")
}

func TestReceive_ReceiveCompletionFields(t *testing.T) {
	s := newScript(t, nil)
	for i := range 4 {
		s.recv(uint64(i), 0, 4096)
	}
	imm, wake := s.packet(bth.RCSendOnlyImm, 0, data(5, 0)), s.packet(bth.RCSendOnly, 1, nil)
	imm.Imm, wake.SE = 0xA0B0C0D0, true
	write := s.rdma(bth.RCWriteOnlyImm, 2, 0, 9, data(9, 0))
	write.Imm, write.SE = 3, true
	s.arrives(imm, wake, write)
	s.pollDone()
	for i, want := range []Completion{
		{ID: 0, QPN: 0x11, Opcode: WCRecv, Flags: WCWithImm, ByteLen: 5, Imm: 0xA0B0C0D0, SrcQP: 0x22, Recv: true, Retired: 1},
		{ID: 1, QPN: 0x11, Opcode: WCRecv, SrcQP: 0x22, Recv: true, Solicited: true, Retired: 1},
		{ID: 2, QPN: 0x11, Opcode: WCRecvImm, Flags: WCWithImm, ByteLen: 9, Imm: 3, SrcQP: 0x22, Recv: true, Solicited: true, Retired: 1},
	} {
		if s.done[i] != want {
			t.Errorf("completion %d is\n%+v, want\n%+v", i, s.done[i], want)
		}
	}
}

package transport

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/go-roce/roce/bth"
)

// pieces cuts n bytes at off of the end's memory into count elements, some of them empty.
func (e *end) pieces(r *rand.Rand, off, n, count int) []SGE {
	list := make([]SGE, count)
	for i := range list {
		part := n
		if i < count-1 {
			part = r.IntN(n + 1)
			if r.IntN(5) == 0 {
				part = 0
			}
		}
		list[i] = e.sge(off, part)[0]
		off += part
		n -= part
	}
	return list
}

func TestSGE_ListsOfUpTo32ElementsInBothDirections(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		p := newPair(t, func(o *options) { o.sge, o.mtu, o.memory = 32, 256, 1<<16 })
		size := r.IntN(3000)
		fill(p.a.mem[:size], byte(round))
		send := p.a.sendWR(1, 0)
		send.SGL = p.a.pieces(r, 0, size, 1+r.IntN(32))
		if err := p.b.qp.PostRecv(&RecvWR{ID: 10, SGL: p.b.pieces(r, 0x1000, size+r.IntN(100), 1+r.IntN(32))}); err != nil {
			t.Fatal(err)
		}
		p.a.send(send)
		write := p.a.write(2, 0, p.b, 0x4000)
		write.SGL = p.a.pieces(r, 0, size, 1+r.IntN(32))
		p.a.send(write)
		read := p.a.read(3, 0, 0, p.b, 0x4000)
		read.SGL = p.a.pieces(r, 0x8000, size, 1+r.IntN(32))
		p.a.send(read)
		p.settle()
		p.a.wantDone("1 SUCCESS", "2 SUCCESS", "3 SUCCESS")
		p.b.wantDone("10 SUCCESS")
		for name, got := range map[string][]byte{"SEND": p.b.mem[0x1000:], "WRITE": p.b.mem[0x4000:], "READ": p.a.mem[0x8000:]} {
			if !bytes.Equal(got[:size], p.a.mem[:size]) {
				t.Fatalf("round %d: %s of %d bytes went wrong", round, name, size)
			}
		}
	}
}

func TestSGE_OriginalValueOfAnAtomicMayBeScattered(t *testing.T) {
	s := newScript(t, nil)
	wr := s.fetchAdd(1, 0, s.far, 0, 1)
	wr.SGL = append(append(s.sge(100, 3), s.sge(0, 0)...), s.sge(10, 5)...)
	s.send(wr)
	s.transmit()
	s.arrives(s.atomicAck(0, 0x0807060504030201))
	s.wantDone("1 SUCCESS")
	want := binary.NativeEndian.AppendUint64(nil, 0x0807060504030201)
	if got := append(bytes.Clone(s.mem[100:103]), s.mem[10:15]...); !bytes.Equal(got, want) {
		t.Errorf("scattered as % x, want % x", got, want)
	}
}

// A resend begins anywhere in the gather list.
func TestPitfall28_ResendTakesTheRightBytesOfAList(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 100 {
		s := newScript(t, func(o *options) { o.sge, o.mtu = 32, 256 })
		size := 1 + r.IntN(4000)
		fill(s.mem[:size], byte(round))
		wr := s.write(1, 0, s.far, 0)
		if round%2 == 0 {
			wr = s.sendWR(1, 0)
		}
		wr.SGL = s.pieces(r, 0, size, 32)
		s.send(wr)
		s.transmit()
		first := s.sent
		for psn := len(first) - 1; psn >= 0; psn-- {
			s.sent = nil
			s.qp.req.una = s.opt.psn.Add(uint32(psn))
			s.qp.goBack(s.qp.req.una)
			s.transmit()
			if len(s.sent) != len(first)-psn {
				t.Fatalf("round %d: %d packets from %d on, want %d", round, len(s.sent), psn, len(first)-psn)
			}
			for i := range s.sent {
				a, b := &s.sent[i], &first[psn+i]
				if a.PSN != b.PSN || a.Opcode != b.Opcode || !bytes.Equal(a.Payload, b.Payload) {
					t.Fatalf("round %d: packet %d is sent again as another", round, psn+i)
				}
			}
		}
	}
}

func TestPitfall28_InlineDataIsKeptForAResend(t *testing.T) {
	s := newScript(t, func(o *options) { o.mtu, o.inline = 256, 1000 })
	mine := data(1000, 4)
	s.send(SendWR{ID: 1, Opcode: WRSend, Flags: Signaled | Inline, Inline: mine})
	want := bytes.Clone(mine)
	clear(mine) // it is the caller's again
	for range 2 {
		s.transmit()
		var got []byte
		for i := range s.sent {
			got = append(got, s.sent[i].Payload...)
		}
		if !bytes.Equal(got, want) {
			t.Fatal("the packets carry something else than what was posted")
		}
		s.sent = nil
		s.wait(AckTimeout(14))
	}
	s.transmit()
	s.arrives(s.ack(3))
	s.wantDone("1 SUCCESS")
}

// A long message keeps its RETH and immediate, at its ends, when sent again.
func TestPitfall28_ResendFromTheMiddleOfAWrite(t *testing.T) {
	s := newScript(t, nil)
	wr := s.write(1, 4000, s.far, 77)
	wr.Opcode, wr.Imm = WRWriteImm, 9
	s.send(wr)
	s.transmit()
	s.sent = nil
	s.arrives(s.nak(bth.NAKSequence, 2))
	s.transmit()
	if last := s.sent[1]; last.Imm != 9 || !last.AckReq {
		t.Errorf("the Last is sent again as %+v", last.Headers)
	}
	s.wantSentBefore("WRITE_MIDDLE 2", "WRITE_LAST_WITH_IMMEDIATE 3!")
	s.wait(AckTimeout(14))
	s.transmit()
	s.wantSentBefore("WRITE_MIDDLE 2", "WRITE_LAST_WITH_IMMEDIATE 3!")
}

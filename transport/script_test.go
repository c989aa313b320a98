package transport

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
)

// script is one queue pair, a, with the test as its peer. PSNs count from the first
// of their direction; nothing happens that the test does not say.
type script struct {
	*end
	clk clock.Manual
	// far stands for the memory of the peer: only its addresses and key are used.
	far *end
}

func newScript(t testing.TB, change func(*options)) *script {
	t.Helper()
	o := makeOptions(change)
	s := &script{end: newEnd(t, "a", o), far: newEnd(t, "b", makeOptions(nil))}
	s.connect(0)
	return s
}

func (s *script) now() clock.Time { return s.clk.Now() }

// arrives hands packets of the peer to the queue pair, and polls nothing.
func (s *script) arrives(ps ...bth.Packet) {
	s.t.Helper()
	for i := range ps {
		s.handle(s.now(), &ps[i])
	}
}

// transmit takes all packets the queue pair wants sent now.
func (s *script) transmit() {
	s.t.Helper()
	for range 1_000_000 {
		if _, ok := s.pollPacket(s.now()); !ok {
			return
		}
	}
	s.t.Fatal("the queue pair never stops sending")
}

// wantSent takes what the queue pair wants sent, completions first, and checks it
// against descriptions. What it sent before in the test is forgotten.
func (s *script) wantSent(want ...string) {
	s.t.Helper()
	s.pollDone()
	s.transmit()
	got := describeAll(s.sent, s.opt.psn)
	s.sent = nil
	wantList(s.t, fmt.Sprintf("at %v the queue pair sends", time.Duration(s.now())), got, want)
}

// wantIdle checks that there is nothing to send, nothing completed and no timer armed.
func (s *script) wantIdle() {
	s.t.Helper()
	s.wantSent()
	s.wantDone()
	s.wantTimer(s.now(), -1)
}

// wait lets time pass to the next timer, which must be due in exactly d, and lets it run out.
func (s *script) wait(d time.Duration) {
	s.t.Helper()
	s.end.wantTimer(s.now(), d)
	s.clk.Advance(d - 1)
	s.qp.HandleTimeout(s.now())
	s.wantSent()
	s.clk.Advance(1)
	s.qp.HandleTimeout(s.now())
}

// packet makes a packet of the peer.
func (s *script) packet(op bth.Opcode, psn int, payload []byte) bth.Packet {
	p := bth.Packet{Flags: op.Flags(), Src: addrs["b"], Dst: addrs["a"], Payload: payload}
	p.Opcode, p.PKey, p.DestQP = op, bth.DefaultPKey, s.qp.QPN()
	p.PSN = s.opt.psn.Add(uint32(psn))
	p.Pad = uint8(-len(payload) & 3)
	if p.Flags.Any(bth.Request) {
		p.AckReq = p.Flags.Any(bth.Ends)
	}
	if p.Flags.Any(bth.HasAETH) {
		p.AETH.Syndrome = bth.AckNoCredits
	}
	return p
}

// ack, nak and rnr make responses of the peer to the request packet with that PSN.
func (s *script) ack(psn int) bth.Packet { return s.packet(bth.RCAcknowledge, psn, nil) }

func (s *script) nak(code bth.Syndrome, psn int) bth.Packet {
	p := s.ack(psn)
	p.AETH.Syndrome = code
	return p
}

func (s *script) rnr(code uint8, psn int) bth.Packet { return s.nak(bth.RNRNAK(code), psn) }

func (s *script) atomicAck(psn int, original uint64) bth.Packet {
	p := s.packet(bth.RCAtomicAcknowledge, psn, nil)
	p.AtomicAck = original
	return p
}

// rdma makes a WRITE packet with RETH, or a READ request, on the memory of a.
func (s *script) rdma(op bth.Opcode, psn, off, length int, payload []byte) bth.Packet {
	p := s.packet(op, psn, payload)
	p.RETH = bth.RETH{VA: s.va(off), RKey: uint32(s.region.Key()), Length: uint32(length)}
	return p
}

// atomic makes an atomic request on the word at off.
func (s *script) atomic(op bth.Opcode, psn, off int, swapAdd, compare uint64) bth.Packet {
	p := s.packet(op, psn, nil)
	p.AtomicETH = bth.AtomicETH{VA: s.va(off), RKey: uint32(s.region.Key()), SwapAdd: swapAdd, Compare: compare}
	return p
}

// data gives n bytes that depend on the seed.
func data(n int, seed byte) []byte {
	b := make([]byte, n)
	fill(b, seed)
	return b
}

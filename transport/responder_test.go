package transport

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/memreg"
)

// The whole table of IBA 9.7.4.1.2 (and wire.md's summary of it): which request may come
// where. What may not is an invalid request.
func TestResponder_OpcodeSequence(t *testing.T) {
	const mtu = 1024
	states := []message{between, inSend, inWrite}
	allowed := map[bth.Opcode][]message{
		bth.RCSendFirst: {between}, bth.RCSendOnly: {between}, bth.RCSendOnlyImm: {between}, bth.RCSendOnlyInvalidate: {between},
		bth.RCSendMiddle: {inSend}, bth.RCSendLast: {inSend}, bth.RCSendLastImm: {inSend}, bth.RCSendLastInvalidate: {inSend},
		bth.RCWriteFirst: {between}, bth.RCWriteOnly: {between}, bth.RCWriteOnlyImm: {between},
		bth.RCWriteMiddle: {inWrite}, bth.RCWriteLast: {inWrite}, bth.RCWriteLastImm: {inWrite},
		bth.RCReadRequest: {between}, bth.RCCompareSwap: {between}, bth.RCFetchAdd: {between},
		// Known to bth, not spoken here.
		bth.RCFlush: {}, bth.RCAtomicWrite: {},
	}
	seen := 0
	for code := range 0x20 {
		op := bth.Opcode(code)
		if !op.Flags().Any(bth.Request) {
			continue
		}
		seen++
		for _, state := range states {
			t.Run(fmt.Sprintf("%v/%d", op, state), func(t *testing.T) {
				s := newScript(t, func(o *options) { o.regionAccess |= memreg.RemoteInvalidate })
				s.recv(1, 0x1000, 4096)
				s.recv(2, 0x2000, 4096)
				n, length, rest := 8, 8, 8
				switch {
				case op.Flags().Any(bth.First):
					n, length = mtu, mtu+8
				case op.Flags().Any(bth.Middle):
					n, rest = mtu, mtu+8
				}
				at := 0
				switch state {
				case inSend:
					s.arrives(s.packet(bth.RCSendFirst, 0, data(mtu, 1)))
					at = 1
				case inWrite:
					s.arrives(s.rdma(bth.RCWriteFirst, 0, 0x4000, mtu+rest, data(mtu, 1)))
					at = 1
				}
				var payload []byte
				if op.Flags().Any(bth.HasPayload) {
					payload = data(n, 2)
				}
				p := s.rdma(op, at, 0x4000, length, payload)
				p.AtomicETH = s.atomic(op, at, 0x4000, 1, 1).AtomicETH
				p.Inv = uint32(s.region.Key())
				p.AckReq = true
				s.arrives(p)
				legal := false
				for _, m := range allowed[op] {
					legal = legal || m == state
				}
				s.pollDone()
				s.transmit()
				got := describe(&s.sent[len(s.sent)-1], s.opt.psn)
				if legal {
					s.wantState(StateRTS)
					want := fmt.Sprintf("ACK %d", at)
					switch {
					case op.Flags().Any(bth.Read):
						want = "READ_RESPONSE_ONLY 0"
					case op.Flags().Any(bth.Atomic):
						want = "ATOMIC_ACKNOWLEDGE 0"
					}
					if got != want {
						t.Fatalf("answered by %s, want %s", got, want)
					}
					return
				}
				s.wantState(StateErr)
				if want := fmt.Sprintf("NAK_61 %d", at); got != want {
					t.Fatalf("answered by %s, want %s", got, want)
				}
				s.wantEvents(EventQPReqErr)
				first := "1 WR_FLUSH_ERR"
				if state == inSend {
					first = "1 REM_INV_REQ_ERR" // the receive the broken SEND was filling
				}
				s.wantDone(first, "2 WR_FLUSH_ERR")
			})
		}
	}
	if seen != len(allowed) {
		t.Errorf("the table has %d opcodes, bth knows %d requests", len(allowed), seen)
	}
}

func TestPitfall10_PacketLengths(t *testing.T) {
	const mtu = 1024
	bad := []string{"NAK_61"}
	for _, tc := range []struct {
		name   string
		op     bth.Opcode
		in     message
		n      int // payload
		length int // of the RETH, for WRITE the one of its First
		want   []string
	}{
		{"First full", bth.RCSendFirst, between, mtu, 0, nil},
		{"First short", bth.RCSendFirst, between, mtu - 1, 0, bad},
		{"First long", bth.RCSendFirst, between, mtu + 1, 0, bad},
		{"First empty", bth.RCSendFirst, between, 0, 0, bad},
		{"Middle full", bth.RCSendMiddle, inSend, mtu, 0, nil},
		{"Middle short", bth.RCSendMiddle, inSend, mtu - 4, 0, bad},
		{"Middle long", bth.RCSendMiddle, inSend, mtu + 4, 0, bad},
		{"Last of one byte", bth.RCSendLast, inSend, 1, 0, nil},
		{"Last full", bth.RCSendLast, inSend, mtu, 0, nil},
		{"Last empty", bth.RCSendLast, inSend, 0, 0, bad},
		{"Last long", bth.RCSendLastImm, inSend, mtu + 1, 0, bad},
		{"Only empty", bth.RCSendOnly, between, 0, 0, nil},
		{"Only full", bth.RCSendOnly, between, mtu, 0, nil},
		{"Only long", bth.RCSendOnly, between, mtu + 1, 0, bad},
		{"WRITE Only right", bth.RCWriteOnly, between, 100, 100, nil},
		{"WRITE Only too short", bth.RCWriteOnly, between, 64, 100, bad},
		{"WRITE Only too long", bth.RCWriteOnly, between, 101, 100, bad},
		{"WRITE Only above the MTU", bth.RCWriteOnly, between, mtu + 4, mtu + 4, bad},
		{"WRITE First of a message that ends with it", bth.RCWriteFirst, between, mtu, mtu, bad},
		{"WRITE First of one that ended before", bth.RCWriteFirst, between, mtu, mtu - 1, bad},
		{"WRITE First short", bth.RCWriteFirst, between, mtu - 1, 3 * mtu, bad},
		{"WRITE First right", bth.RCWriteFirst, between, mtu, mtu + 1, nil},
		{"WRITE Middle that fills the message", bth.RCWriteMiddle, inWrite, mtu, 2 * mtu, bad},
		{"WRITE Middle right", bth.RCWriteMiddle, inWrite, mtu, 2*mtu + 1, nil},
		{"WRITE Last too early", bth.RCWriteLast, inWrite, 100, 3000, bad},
		{"WRITE Last too long", bth.RCWriteLast, inWrite, 101, mtu + 100, bad},
		{"WRITE Last empty", bth.RCWriteLast, inWrite, 0, 2 * mtu, bad},
		{"WRITE Last right", bth.RCWriteLast, inWrite, 100, mtu + 100, nil},
		{"WRITE of more than 2^31", bth.RCWriteFirst, between, mtu, 1<<31 + 1, bad},
		{"READ of more than 2^31", bth.RCReadRequest, between, 0, 1<<31 + 1, bad},
		{"READ of 2^31, more than the region has", bth.RCReadRequest, between, 0, 1 << 31, []string{"NAK_62"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScript(t, nil)
			s.recv(1, 0x1000, 8192)
			at := 0
			switch tc.in {
			case inSend:
				s.arrives(s.packet(bth.RCSendFirst, 0, data(mtu, 1)))
				at = 1
			case inWrite:
				s.arrives(s.rdma(bth.RCWriteFirst, 0, 0x4000, tc.length, data(mtu, 1)))
				at = 1
			}
			p := s.rdma(tc.op, at, 0x4000, tc.length, data(tc.n, 2))
			p.AckReq = true
			s.arrives(p)
			want := []string{"ACK"}
			if tc.want != nil {
				want = tc.want
			}
			s.wantSent(fmt.Sprintf("%s %d", want[0], at))
			if bad := tc.want != nil; bad != (s.qp.State() == StateErr) {
				t.Errorf("the queue pair is in %v", s.qp.State())
			}
		})
	}
}

func TestPitfall10_MessageOfMoreThan2GiB(t *testing.T) {
	s := newScript(t, nil)
	s.recv(1, 0, 10)
	s.qp.rq.at(0).length = MaxMessage
	s.qp.resp.in, s.qp.resp.offset = inSend, MaxMessage-1000
	s.arrives(s.packet(bth.RCSendMiddle, 0, data(1024, 0)))
	s.wantSent("NAK_61 0")
}

func TestPitfall12_NAKOfAnAtomicIsAnAcknowledgeWithoutItsResult(t *testing.T) {
	for name, spoil := range map[string]func(p *bth.Packet){
		"key":     func(p *bth.Packet) { p.AtomicETH.RKey++ },
		"address": func(p *bth.Packet) { p.AtomicETH.VA = 0 },
	} {
		s := newScript(t, nil)
		p := s.atomic(bth.RCFetchAdd, 0, 0, 1, 0)
		spoil(&p)
		s.arrives(p)
		s.transmit()
		if got := s.sent[0]; got.Opcode != bth.RCAcknowledge || got.AETH.Syndrome != bth.NAKRemoteAccess {
			t.Errorf("%s: answered by %+v", name, got.Headers)
		}
	}
}

func TestPitfall13_WriteReadAndAtomicsUseNoReceiveButTheirErrorsAreNAKed(t *testing.T) {
	for _, op := range []bth.Opcode{bth.RCWriteFirst, bth.RCWriteOnly, bth.RCReadRequest, bth.RCFetchAdd, bth.RCCompareSwap} {
		for _, fault := range []string{"none", "key", "right", "queue pair"} {
			t.Run(fmt.Sprintf("%v/%s", op, fault), func(t *testing.T) {
				s := newScript(t, func(o *options) {
					switch fault {
					case "right":
						o.regionAccess = memreg.LocalWrite
					case "queue pair":
						o.access = 0
					}
				})
				s.recv(9, 0, 10)
				n, length := 0, 64
				switch op {
				case bth.RCWriteFirst:
					n, length = 1024, 2000
				case bth.RCWriteOnly:
					n = 64
				}
				p := s.rdma(op, 0, 0x4000, length, data(n, 1))
				p.AtomicETH = s.atomic(op, 0, 0x4000, 1, 0).AtomicETH
				p.AckReq = true
				if fault == "key" {
					p.RETH.RKey++
					p.AtomicETH.RKey++
				}
				s.arrives(p)
				if fault == "none" {
					s.wantDone()
					s.wantState(StateRTS)
					return
				}
				want, event := "NAK_62 0", EventAccessErr
				if fault == "queue pair" {
					want, event = "NAK_61 0", EventQPReqErr
				}
				s.wantSent(want)
				s.wantEvents(event)
				s.wantDone("9 WR_FLUSH_ERR")
				if !bytes.Equal(s.mem, make([]byte, len(s.mem))) {
					t.Error("a refused request touched memory")
				}
			})
		}
	}
}

func TestPitfall16_RangesThatWrapAroundAreRefusedAndTouchNothing(t *testing.T) {
	const top = 1<<64 - 4096
	for _, tc := range []struct {
		name   string
		op     bth.Opcode
		va     uint64
		length uint32
		ok     bool
	}{
		{"WRITE of the last bytes", bth.RCWriteOnly, top + 4032, 64, true},
		{"READ of the last bytes", bth.RCReadRequest, top + 4032, 64, true},
		{"WRITE one too far", bth.RCWriteOnly, top + 4033, 64, false},
		{"READ one too far", bth.RCReadRequest, top + 4033, 64, false},
		{"WRITE from the last byte", bth.RCWriteOnly, top + 4095, 64, false},
		{"READ of 2 GiB from the last byte", bth.RCReadRequest, top + 4095, 1 << 31, false},
		{"READ before it", bth.RCReadRequest, top - 1, 64, false},
		{"atomic on the last word", bth.RCFetchAdd, top + 4088, 0, true},
		{"atomic past the end", bth.RCFetchAdd, 0, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScript(t, nil)
			r, err := s.table.Register(1, s.mem[:4096], memreg.Options{Access: allAccess, Addr: top})
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			if tc.op == bth.RCWriteOnly {
				n = 64
			}
			p := s.rdma(tc.op, 0, 0, 0, data(n, 3))
			p.RETH = bth.RETH{VA: tc.va, RKey: uint32(r.Key()), Length: tc.length}
			p.AtomicETH = bth.AtomicETH{VA: tc.va, RKey: uint32(r.Key()), SwapAdd: 1}
			s.arrives(p)
			s.transmit()
			got := describe(&s.sent[0], s.opt.psn)
			if refused := got == "NAK_62 0"; refused == tc.ok {
				t.Fatalf("answered by %s", got)
			}
			if untouched := bytes.Equal(s.mem, make([]byte, len(s.mem))); !tc.ok && !untouched {
				t.Error("a refused request touched memory")
			}
		})
	}
}

// A WRITE that leaves its region is refused as a whole, with its First packet.
func TestPitfall16_LongWriteOutOfBoundsTouchesNothing(t *testing.T) {
	s := newScript(t, nil)
	s.arrives(s.rdma(bth.RCWriteFirst, 0, s.opt.memory-2000, 3000, data(1024, 1)))
	s.wantSent("NAK_62 0")
	if !bytes.Equal(s.mem, make([]byte, len(s.mem))) {
		t.Error("it wrote the part that was in bounds")
	}
}

func TestPitfall16_KeyProtectionDomainAccessAndBounds(t *testing.T) {
	other := func(s *script, pd memreg.PD, a memreg.Access) uint32 {
		r, err := s.table.Register(pd, make([]byte, 64), memreg.Options{Access: a, Addr: 0x1000})
		if err != nil {
			s.t.Fatal(err)
		}
		return uint32(r.Key())
	}
	for name, reth := range map[string]func(*script) bth.RETH{
		"unknown key": func(s *script) bth.RETH { return bth.RETH{VA: s.va(0), RKey: uint32(s.region.Key()) + 1, Length: 8} },
		"key 0":       func(s *script) bth.RETH { return bth.RETH{VA: s.va(0), Length: 8} },
		"another protection domain": func(s *script) bth.RETH {
			return bth.RETH{VA: 0x1000, RKey: other(s, 2, allAccess), Length: 8}
		},
		"without the right": func(s *script) bth.RETH {
			return bth.RETH{VA: 0x1000, RKey: other(s, 1, memreg.LocalWrite|memreg.RemoteAtomic), Length: 8}
		},
		"out of bounds": func(s *script) bth.RETH {
			return bth.RETH{VA: s.va(s.opt.memory - 7), RKey: uint32(s.region.Key()), Length: 8}
		},
	} {
		for _, op := range []bth.Opcode{bth.RCWriteOnly, bth.RCReadRequest} {
			s := newScript(t, nil)
			var payload []byte
			if op == bth.RCWriteOnly {
				payload = data(8, 1)
			}
			p := s.rdma(op, 0, 0, 8, payload)
			p.RETH = reth(s)
			s.arrives(p)
			s.wantSent("NAK_62 0")
			s.wantState(StateErr)
			s.wantEvents(EventAccessErr)
			if !bytes.Equal(s.mem, make([]byte, len(s.mem))) {
				t.Errorf("%s, %v: memory was touched", name, op)
			}
		}
	}
}

func TestPitfall17_MSNCountsEachCompletedMessageOnce(t *testing.T) {
	s := newScript(t, nil)
	for i := range 4 {
		s.recv(uint64(i), 0, 4096)
	}
	msn := func() uint32 {
		s.transmit()
		n := s.sent[len(s.sent)-1].AETH.MSN
		s.sent = nil
		return n
	}
	steps := []struct {
		p    bth.Packet
		want uint32
	}{
		{s.packet(bth.RCSendFirst, 0, data(1024, 0)), 0}, // in its midst it counts what came before
		{s.packet(bth.RCSendMiddle, 1, data(1024, 0)), 0},
		{s.packet(bth.RCSendLast, 2, data(1, 0)), 1},
		{s.packet(bth.RCSendFirst, 0, data(1024, 0)), 1}, // a duplicate does not
		{s.rdma(bth.RCWriteOnly, 3, 0, 0, nil), 2},
		{s.rdma(bth.RCWriteFirst, 4, 0, 1030, data(1024, 0)), 2},
		{s.rdma(bth.RCWriteLastImm, 5, 0, 0, data(6, 0)), 3},
		{s.atomic(bth.RCFetchAdd, 6, 0, 1, 0), 4},
		{s.atomic(bth.RCFetchAdd, 6, 0, 1, 0), 4},
		{s.rdma(bth.RCReadRequest, 7, 0, 3000, nil), 5},
		{s.rdma(bth.RCReadRequest, 7, 0, 3000, nil), 5},
		{s.packet(bth.RCSendOnly, 20, nil), 5}, // a NAK carries it too
		{s.packet(bth.RCSendOnly, 10, nil), 6},
	}
	for i, step := range steps {
		step.p.AckReq = true
		s.arrives(step.p)
		if got := msn(); got != step.want {
			t.Fatalf("step %d, %v: MSN %d, want %d", i, step.p.Opcode, got, step.want)
		}
	}
	s.qp.resp.msn = 0xFFFFFF
	s.arrives(s.packet(bth.RCSendOnly, 11, nil))
	if got := msn(); got != 0 {
		t.Errorf("MSN 0xFFFFFF is followed by %d", got)
	}
}

// A READ counts when its request is accepted, so all packets of its response, and
// those of what came before it and has not left, carry the same MSN (C9-148).
func TestPitfall17_ReadCountsWhenItIsAccepted(t *testing.T) {
	s := newScript(t, nil)
	s.arrives(s.rdma(bth.RCReadRequest, 0, 0, 3000, nil))
	s.pollPacket(s.now())
	s.arrives(s.rdma(bth.RCReadRequest, 3, 0, 1, nil))
	s.transmit()
	for i, want := range []uint32{1, 0, 2, 2} {
		if p := &s.sent[i]; p.Flags.Any(bth.HasAETH) && p.AETH.MSN != want {
			t.Errorf("response %d has MSN %d, want %d", i, p.AETH.MSN, want)
		}
	}
}

func TestPitfall23_ViolationsRaiseAnEventAsWellAsTheNAK(t *testing.T) {
	for want, spoil := range map[Event]func(*script) bth.Packet{
		EventAccessErr: func(s *script) bth.Packet { return s.rdma(bth.RCReadRequest, 0, s.opt.memory, 8, nil) },
		EventQPReqErr:  func(s *script) bth.Packet { return s.packet(bth.RCSendMiddle, 0, data(1024, 0)) },
		EventQPFatal: func(s *script) bth.Packet {
			if err := s.qp.PostRecv(&RecvWR{ID: 1, SGL: []SGE{{Length: 10, LKey: 1}}}); err != nil {
				s.t.Fatal(err)
			}
			return s.packet(bth.RCSendOnly, 0, data(10, 0))
		},
	} {
		s := newScript(t, nil)
		s.arrives(spoil(s))
		s.wantEvents(want)
		s.wantEvents()
		s.wantState(StateErr)
	}
}

func TestResponder_MisalignedAtomicIsAnInvalidRequest(t *testing.T) {
	s := newScript(t, nil)
	s.arrives(s.atomic(bth.RCFetchAdd, 0, 4, 1, 0))
	s.wantSent("NAK_61 0")
	s.wantEvents(EventQPReqErr)
}

// Memory that is deregistered in the midst of a WRITE.
func TestResponder_RegionGoneBetweenThePacketsOfAWrite(t *testing.T) {
	s := newScript(t, nil)
	s.arrives(s.rdma(bth.RCWriteFirst, 0, 0, 2000, data(1024, 1)))
	if err := s.table.Deregister(s.region.Key()); err != nil {
		t.Fatal(err)
	}
	s.arrives(s.rdma(bth.RCWriteLast, 1, 0, 0, data(976, 1)))
	s.wantSent("NAK_62 1")
	s.wantEvents(EventAccessErr)
}

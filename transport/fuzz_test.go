package transport

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/memreg"
)

// tape is fuzz input read as a list of small numbers; at its end there are only zeros.
type tape []byte

func (t *tape) n(limit int) int {
	if len(*t) == 0 {
		return 0
	}
	v := int((*t)[0])
	*t = (*t)[1:]
	return v % limit
}

func (t *tape) word() uint32 {
	var b [4]byte
	*t = (*t)[copy(b[:], *t):]
	return binary.BigEndian.Uint32(b[:])
}

// fuzzOptions draws how the queue pairs of a fuzz run are made.
func fuzzOptions(in *tape) func(*options) {
	return func(o *options) {
		o.mtu, o.memory, o.psn = 256, 1<<14, bth.PSN(0xFFFFFC)
		o.depth = 1 + in.n(8)
		o.window = 1 + in.n(20)
		o.rdAtomic = uint8(in.n(4))
		o.retry, o.rnr = uint8(in.n(8)), uint8(in.n(8))
		o.credits = in.n(2) == 1
		o.timeout = uint8(in.n(20))
	}
}

// anyPacket makes whatever packet the decoder could let through, mostly near what the
// queue pair expects.
func anyPacket(in *tape, e *end) bth.Packet {
	var ops []bth.Opcode
	for op := range 256 {
		if f := bth.Opcode(op).Flags(); f != 0 && !f.Any(bth.Unsupported) {
			ops = append(ops, bth.Opcode(op))
		}
	}
	op := ops[in.n(len(ops))]
	p := bth.Packet{Flags: op.Flags(), Src: addrs["b"], Dst: addrs["a"]}
	p.Opcode = op
	switch in.n(8) {
	case 0:
		p.PSN = bth.PSN(in.word() & 0xFFFFFF)
	case 1, 2:
		p.PSN = e.qp.resp.epsn.Add(uint32(in.n(9)) - 4)
	case 3:
		p.PSN = e.qp.resp.epsn
	default:
		p.PSN = e.qp.req.una.Add(uint32(in.n(20)) - 3)
	}
	p.AckReq, p.SE = in.n(2) == 0, in.n(2) == 0
	p.AETH = bth.AETH{Syndrome: []bth.Syndrome{0x1F, 0x60, bth.Syndrome(in.n(256))}[in.n(3)], MSN: uint32(in.n(8))}
	va, length := e.va(in.n(40)*400), uint32([]int{0, 1, 255, 256, 257, 700, 3000}[in.n(7)])
	if in.n(10) == 0 {
		va, length = uint64(in.word())<<32|uint64(in.word()), in.word()
	}
	key := uint32(e.region.Key())
	if in.n(10) == 0 {
		key = in.word()
	}
	p.RETH = bth.RETH{VA: va, RKey: key, Length: length}
	p.AtomicETH = bth.AtomicETH{VA: va &^ 7, RKey: key, SwapAdd: 1}
	p.Inv = key
	if p.Flags.Any(bth.HasPayload) {
		p.Payload = make([]byte, []int{0, 1, 8, 188, 256, 257, 4096, in.n(256)}[in.n(8)])
	}
	return p
}

// anyWR makes any request, to be refused or not when posted.
func anyWR(in *tape, e, peer *end, id uint64) SendWR {
	wr := SendWR{
		ID: id, Opcode: []WROpcode{WRWrite, WRWriteImm, WRSend, WRSendImm, WRRead, WRCompareSwap, WRFetchAdd, WRSendInv, 7}[in.n(9)],
		Flags: SendFlags(in.n(16)), RemoteAddr: peer.va(in.n(50) * 320), RKey: peer.region.Key(),
	}
	if in.n(16) == 0 {
		wr.RKey++
	}
	if wr.Flags&Inline != 0 {
		wr.Inline = make([]byte, in.n(70))
		return wr
	}
	n := []int{0, 1, 8, 8, 256, 257, 700}[in.n(7)]
	wr.SGL = e.sge(in.n(50)*320, n)
	if in.n(16) == 0 {
		wr.SGL[0].LKey++
	}
	return wr
}

// FuzzPackets gives a queue pair in any state any packets, with work of its own going on.
func FuzzPackets(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{4, 8, 3, 7, 7, 0, 14, 3, 1, 1, 4, 0, 0, 0, 3, 0, 2, 3, 3, 3, 1, 2, 3, 1, 2, 5, 6, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	for seed := range byte(6) {
		f.Add(data(400, seed*41))
	}
	f.Fuzz(anyPackets)
}

func anyPackets(t *testing.T, b []byte) {
	in := tape(b)
	s := newScript(t, fuzzOptions(&in))
	if state := State(in.n(7)); state != StateRTS && state != StateSQE {
		s.end = newEnd(t, "a", s.opt)
		for _, a := range []*Attr{s.toInit(), s.toRTR(), s.toRTS(), {Mask: AttrState, State: StateSQD}}[:state%5] {
			s.modify(0, a)
		}
		if state == StateErr {
			s.modify(0, &Attr{Mask: AttrState, State: StateErr})
		}
	}
	posted, id := [2]int{}, uint64(0)
	for step := 0; len(in) > 0 && step < 2000; step++ {
		switch in.n(8) {
		case 0:
			wr := anyWR(&in, s.end, s.far, id)
			if s.qp.PostSend(&wr) == nil {
				posted[0]++
				id++
			}
		case 1:
			if s.qp.PostRecv(&RecvWR{SGL: s.sge(in.n(50)*320, in.n(256)*3)}) == nil {
				posted[1]++
			}
		case 2:
			for range in.n(20) {
				s.pollPacket(s.now())
			}
		case 3:
			if at := s.qp.NextTimeout(); at != clock.Never {
				s.clk.AdvanceTo(max(at, s.now()))
			}
			s.qp.HandleTimeout(s.now())
		default:
			s.arrives(anyPacket(&in, s.end))
		}
		checkInvariants(t, s.qp)
		s.pollDone()
		s.sent = nil
	}
	finish(t, s.end, s.now(), posted)
}

// finish moves e to ERR and checks that every work request has completed once.
func finish(t *testing.T, e *end, now clock.Time, posted [2]int) {
	t.Helper()
	e.pollDone()
	if e.qp.State() != StateErr {
		e.modify(now, &Attr{Mask: AttrState, State: StateErr})
	}
	e.pollDone()
	checkInvariants(t, e.qp)
	var completed [2]int
	for _, c := range e.done {
		if c.Recv {
			completed[1]++
		} else {
			completed[0] += int(c.Retired)
		}
	}
	if completed[0] += int(e.qp.TakeSilent()); completed != posted {
		t.Fatalf("%s: %v work requests complete, %v were posted", e.name, completed, posted)
	}
}

// FuzzOperations lets two ends work with each other while their wire, memory and
// attributes suffer.
func FuzzOperations(f *testing.F) {
	f.Add([]byte{})
	for seed := range byte(8) {
		f.Add(data(600, seed*29))
	}
	f.Fuzz(anyOperations)
}

func anyOperations(t *testing.T, b []byte) {
	in := tape(b)
	p := newPair(t, fuzzOptions(&in))
	p.latency = time.Microsecond
	ends := []*end{p.a, p.b}
	var posted [2][2]int
	for step := 0; len(in) > 0 && step < 1000; step++ {
		i := in.n(2)
		e, peer := ends[i], ends[1-i]
		switch in.n(12) {
		case 0, 1, 2:
			wr := anyWR(&in, e, peer, uint64(posted[i][0]))
			if e.qp.PostSend(&wr) == nil {
				posted[i][0]++
			}
		case 3, 4:
			if e.qp.PostRecv(&RecvWR{SGL: e.sge(in.n(50)*320, 700)}) == nil {
				posted[i][1]++
			}
		case 5:
			e.pollDone()
			p.drain(e)
		case 6: // lose one packet of those on the wire
			if len(p.wire) > 0 {
				at := in.n(len(p.wire))
				p.wire = append(p.wire[:at:at], p.wire[at+1:]...)
			}
		case 7: // let one come twice, the second time late
			if len(p.wire) > 0 {
				again := p.wire[in.n(len(p.wire))]
				again.at = again.at.Add(time.Duration(in.n(50)) * time.Microsecond)
				p.launch(again)
			}
		case 8:
			p.clk.Advance(time.Duration(in.n(3)) * time.Microsecond)
			p.deliver()
		case 9:
			p.run()
		case 10:
			p.advance(time.Duration(in.n(200)) * 100 * time.Microsecond)
		case 11:
			mishap(&in, p, e)
		}
		for _, e := range ends {
			checkInvariants(t, e.qp)
		}
	}
	p.settleAtMost(2000)
	for i, e := range ends {
		finish(t, e, p.clk.Now(), posted[i])
	}
}

// mishap changes what a queue pair relies on.
func mishap(in *tape, p *pair, e *end) {
	now := p.clk.Now()
	switch in.n(8) {
	case 0:
		if in.n(4) == 0 {
			_ = e.table.Deregister(e.region.Key()) // the second time it is gone already
		}
	case 1:
		_ = e.qp.Modify(now, &Attr{Mask: AttrState, State: StateErr})
	case 2:
		_ = e.qp.Modify(now, toSQD(true))
	case 3:
		_ = e.qp.Modify(now, &Attr{Mask: AttrState, State: StateRTS})
	case 4:
		_ = e.qp.Modify(now, &Attr{
			Mask:    AttrMaxDestRdAtomic | AttrMaxRdAtomic | AttrTimeout | AttrRetryCnt | AttrRNRRetry,
			Timeout: uint8(in.n(20)), MaxDestRdAtomic: uint8(in.n(6)), MaxRdAtomic: 8, RetryCnt: uint8(in.n(8)), RNRRetry: uint8(in.n(8)),
		})
	case 5:
		_ = e.qp.Modify(now, &Attr{Mask: AttrAccess, Access: memreg.Access(in.n(8)) << 1})
	case 6:
		_ = e.qp.Modify(now, &Attr{Mask: AttrMinRNRTimer, MinRNRTimer: uint8(in.n(32))})
	case 7:
		e.qp.HandleTimeout(now)
	}
}

// settleAtMost lets up to n things happen by themselves. A message without a receive
// is tried for ever.
func (p *pair) settleAtMost(n int) {
	p.t.Helper()
	p.run()
	for range n {
		at := p.next()
		if at == clock.Never {
			return
		}
		p.advance(max(at.Sub(p.clk.Now()), 0))
	}
}

// A piece of what the fuzz targets do, with every run of the tests.
func TestFuzz_RandomTapes(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	n := 1500
	if testing.Short() {
		n = 150
	}
	for range n {
		b := make([]byte, r.IntN(1500))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		anyPackets(t, b)
		anyOperations(t, b)
	}
}

package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/memreg"
)

var (
	modelSeeds = flag.Int("seeds", 300, "how many seeds the model tests run")
	modelSeed  = flag.Uint64("seed", 0, "run the model tests with this seed alone")
)

// The memory of an end of the model.
const (
	modelSource   = 0       // never written: what is sent, and what the peer READs
	modelTarget   = 0x8000  // the peer WRITEs here
	modelWords    = 0x10000 // the peer's atomics act here
	modelLanding  = 0x20000 // READs and original values arrive here, each in a place of its own
	modelReceives = 0x90000 // likewise the messages
	modelMemory   = 1 << 20

	modelSpan    = 0x8000 // bytes of source and target
	modelLongest = 4096   // no message is longer
	modelNWords  = 16
)

// model is a pair with a random program for each end, and what must come of it.
type model struct {
	*pair
	r     *rand.Rand
	seed  uint64
	sides [2]*side
	// How often, in 1000, a packet is lost, doubled, late.
	loss, dup, reorder int
}

// side is one end's program: the requests it makes and what they must do to the peer.
type side struct {
	*end
	peer *side

	toPost   int // sends
	posted   int
	signaled []uint64 // IDs of the sends that must complete visibly, in order
	landing  int
	// What the peer's memory must hold in the end: this side alone changes it.
	target [modelSpan]byte
	words  [modelNWords]uint64
	// fenceWrites: a READ of the target is under way, which a WRITE must not overtake
	// when the READ is repeated.
	fenceWrites bool
	expected    []landed       // what READs and atomics must bring
	messages    []modelMessage // what the peer must receive, in order
	received    int            // receives posted here
}

// landed is what a response must bring, and where.
type landed struct {
	off  int
	want []byte
}

// modelMessage is what a receive must bring.
type modelMessage struct {
	data []byte // nil for a WRITE with immediate
	n    uint32
	op   WCOpcode
	imm  uint32
	inv  memreg.Key
}

func newModel(t testing.TB, seed uint64) *model {
	m := &model{r: rand.New(rand.NewPCG(seed, 0x5EED)), seed: seed}
	r := m.r
	m.pair = newPair(t, func(o *options) {
		o.mtu = 256 << r.IntN(3)
		o.window = 1 + r.IntN(128)
		o.sge = []int{1, 4, 32}[r.IntN(3)]
		o.depth = 1 + r.IntN(40)
		o.inline = r.IntN(600)
		o.rdAtomic = uint8(1 + r.IntN(9))
		o.minRNR = uint8(1 + r.IntN(14))
		o.timeout = uint8(6 + r.IntN(6))
		o.credits = r.IntN(3) == 0
		o.signalAll = r.IntN(4) == 0
		o.psn = bth.PSN(r.Uint32() & 0xFFFFFF)
		if r.IntN(2) == 0 {
			o.psn = 0xFFFFFF - bth.PSN(r.IntN(100))
		}
		o.memory = modelMemory
		o.recovery = func(string) Recovery { return anyRecovery(r) }
	})
	m.latency = time.Duration(r.IntN(20)) * time.Microsecond
	if r.IntN(4) > 0 {
		m.loss, m.dup, m.reorder = r.IntN(60), r.IntN(60), r.IntN(60)
	}
	m.tamper = func(*end, *bth.Packet) fate {
		jitter := time.Duration(r.IntN(100)) * time.Microsecond
		switch x := r.IntN(1000); {
		case x < m.loss:
			return lost
		case x < m.loss+m.dup:
			return fate{0, jitter}
		case x < m.loss+m.dup+m.reorder:
			return fate{jitter}
		}
		return arrives
	}
	m.sides = [2]*side{{end: m.a}, {end: m.b}}
	m.sides[0].peer, m.sides[1].peer = m.sides[1], m.sides[0]
	for _, s := range m.sides {
		s.toPost = r.IntN(40)
		for i := range s.mem[:modelSpan] {
			s.mem[modelSource+i] = byte(r.Uint32())
		}
	}
	return m
}

// anyRecovery is each of its means with some chance; plain go-back-N is likely.
func anyRecovery(r *rand.Rand) Recovery {
	if r.IntN(3) == 0 {
		return Recovery{}
	}
	c := Recovery{Selective: r.IntN(4) > 0}
	if r.IntN(3) > 0 {
		c.Probe = time.Duration(50+r.IntN(1000)) * time.Microsecond
	}
	if r.IntN(4) > 0 {
		c.Hold = []int{1, 3, 20, 256}[r.IntN(4)]
		c.Pool = NewHoldPool(1 + r.IntN(300))
	}
	if r.IntN(3) == 0 {
		c.ReorderWindow = time.Duration(1+r.IntN(100)) * time.Microsecond
	}
	return c
}

// run posts the programs bit by bit, with time and receives in between.
func (m *model) run() {
	m.t.Helper()
	for m.sides[0].posted < m.sides[0].toPost || m.sides[1].posted < m.sides[1].toPost {
		s := m.sides[m.r.IntN(2)]
		switch m.r.IntN(4) {
		case 0, 1:
			if s.posted < s.toPost {
				m.post(s)
			}
		case 2:
			m.receive(s)
		case 3:
			m.advance(time.Duration(m.r.IntN(200)) * time.Microsecond)
			m.invariants()
		}
	}
	for {
		all := m.sides[0].received >= len(m.sides[1].messages) && m.sides[1].received >= len(m.sides[0].messages)
		if all {
			break
		}
		m.receive(m.sides[m.r.IntN(2)])
		m.advance(time.Duration(m.r.IntN(300)) * time.Microsecond)
		m.invariants()
	}
	m.settle()
	m.invariants()
}

func (m *model) invariants() {
	m.t.Helper()
	checkInvariants(m.t, m.a.qp)
	checkInvariants(m.t, m.b.qp)
}

// receive posts a receive in a place of its own, if the queue has room.
func (m *model) receive(s *side) {
	m.t.Helper()
	at := modelReceives + s.received*modelLongest
	if at+modelLongest > modelMemory {
		return
	}
	wr := RecvWR{ID: uint64(s.received), SGL: s.pieces(m.r, at, modelLongest, 1+m.r.IntN(s.opt.sge))}
	switch err := s.qp.PostRecv(&wr); {
	case errors.Is(err, ErrQueueFull):
		m.advance(100 * time.Microsecond)
	case err != nil:
		m.t.Fatal(err)
	default:
		s.received++
	}
}

// post posts the next request of s and notes what it must do.
func (m *model) post(s *side) {
	m.t.Helper()
	if s.qp.sq.full() {
		m.advance(100 * time.Microsecond)
		return
	}
	r, peer := m.r, s.peer
	wr := SendWR{ID: uint64(s.posted), RKey: peer.region.Key(), Imm: r.Uint32()}
	n := r.IntN(modelLongest + 1)
	if r.IntN(2) == 0 {
		n = r.IntN(300)
	}
	src := r.IntN(modelSpan - n)
	bytesOf := s.mem[modelSource+src : modelSource+src+n]
	wr.SGL = s.pieces(r, modelSource+src, n, 1+r.IntN(s.opt.sge))
	if r.IntN(3) == 0 && n <= s.opt.inline {
		wr.SGL, wr.Inline = nil, bytes.Clone(bytesOf)
		wr.Flags |= Inline
	}
	if r.IntN(3) > 0 {
		wr.Flags |= Signaled
	}
	if r.IntN(8) == 0 {
		wr.Flags |= Fence
	}
	switch wr.Opcode = []WROpcode{WRSend, WRSendImm, WRSendInv, WRWrite, WRWrite, WRWriteImm, WRRead, WRRead, WRCompareSwap, WRFetchAdd}[r.IntN(10)]; wr.Opcode {
	case WRSend:
		s.messages = append(s.messages, modelMessage{data: bytesOf, n: uint32(n), op: WCRecv})
	case WRSendImm:
		s.messages = append(s.messages, modelMessage{data: bytesOf, n: uint32(n), op: WCRecv, imm: wr.Imm})
	case WRSendInv:
		region, err := peer.table.Register(1, make([]byte, 8), memreg.Options{Access: memreg.RemoteInvalidate})
		if err != nil {
			m.t.Fatal(err)
		}
		wr.InvKey = region.Key()
		s.messages = append(s.messages, modelMessage{data: bytesOf, n: uint32(n), op: WCRecv, inv: region.Key()})
	case WRWrite, WRWriteImm:
		off := r.IntN(modelSpan - n)
		wr.RemoteAddr = peer.va(modelTarget + off)
		copy(s.target[off:], bytesOf)
		if s.fenceWrites {
			wr.Flags |= Fence
			s.fenceWrites = false
		}
		if wr.Opcode == WRWriteImm {
			s.messages = append(s.messages, modelMessage{n: uint32(n), op: WCRecvImm, imm: wr.Imm})
		}
	case WRRead:
		off := r.IntN(modelSpan - n)
		want := bytes.Clone(peer.mem[modelSource+off : modelSource+off+n])
		wr.RemoteAddr = peer.va(modelSource + off)
		if r.IntN(2) == 0 {
			// It sees every WRITE posted before it.
			want = bytes.Clone(s.target[off : off+n])
			wr.RemoteAddr = peer.va(modelTarget + off)
			s.fenceWrites = true
		}
		wr.SGL = m.land(s, n, want)
		wr.Inline, wr.Flags = nil, wr.Flags&^Inline
	case WRCompareSwap, WRFetchAdd:
		i := r.IntN(modelNWords)
		word := &s.words[i]
		wr.RemoteAddr = peer.va(modelWords + 8*i)
		wr.SGL = m.land(s, 8, binary.NativeEndian.AppendUint64(nil, *word))
		wr.Inline, wr.Flags = nil, wr.Flags&^Inline
		wr.Swap = r.Uint64()
		wr.CompareAdd = r.Uint64()
		if wr.Opcode == WRFetchAdd {
			*word += wr.CompareAdd
		} else if r.IntN(2) == 0 {
			wr.CompareAdd = *word
			*word = wr.Swap
		}
	}
	s.send(wr)
	s.posted++
	if wr.Flags&Signaled != 0 || s.opt.signalAll {
		s.signaled = append(s.signaled, wr.ID)
	}
}

// land gives n bytes of the landing area, where want must arrive.
func (m *model) land(s *side, n int, want []byte) []SGE {
	sgl := s.pieces(m.r, modelLanding+s.landing, n, 1+m.r.IntN(s.opt.sge))
	s.expected = append(s.expected, landed{modelLanding + s.landing, want})
	s.landing += n
	return sgl
}

// verify compares everything with what it must be.
func (m *model) verify() {
	m.t.Helper()
	for _, s := range m.sides {
		s.wantState(StateRTS)
		s.wantTimer(m.clk.Now(), -1)
		m.verifyCompletions(s)
		if !bytes.Equal(s.peer.mem[modelTarget:modelTarget+modelSpan], s.target[:]) {
			m.t.Errorf("the WRITEs of %s did not leave what they must", s.name)
		}
		for i, want := range s.words {
			if got := binary.NativeEndian.Uint64(s.peer.mem[modelWords+8*i:]); got != want {
				m.t.Errorf("word %d of %s holds %d, want %d", i, s.peer.name, got, want)
			}
		}
		for i, l := range s.expected {
			if !bytes.Equal(s.mem[l.off:l.off+len(l.want)], l.want) {
				m.t.Errorf("response %d of %s, of %d bytes, brought the wrong ones", i, s.name, len(l.want))
			}
		}
		c := s.qp.Counters()
		if m.loss+m.dup+m.reorder == 0 && c.RNRNAKsReceived == 0 && c.Retransmits != 0 {
			m.t.Errorf("%s sent %d packets again on a clean wire", s.name, c.Retransmits)
		}
	}
}

func (m *model) verifyCompletions(s *side) {
	m.t.Helper()
	sends, receives, retired := 0, 0, uint32(0)
	for _, c := range s.done {
		if c.Status != StatusSuccess {
			m.t.Fatalf("%s completes %d with %v", s.name, c.ID, c.Status)
		}
		if !c.Recv {
			if sends >= len(s.signaled) || c.ID != s.signaled[sends] {
				m.t.Fatalf("%s: send completion %d is of %d, want the IDs %v", s.name, sends, c.ID, s.signaled)
			}
			sends++
			retired += c.Retired
			continue
		}
		if receives >= len(s.peer.messages) {
			m.t.Fatalf("%s receives more than the %d messages that were sent", s.name, receives)
		}
		want := s.peer.messages[receives]
		at := modelReceives + receives*modelLongest
		if c.ID != uint64(receives) || c.ByteLen != want.n || c.Opcode != want.op || c.Imm != want.imm || c.InvKey != want.inv {
			m.t.Fatalf("%s: receive %d is %+v, want %+v", s.name, receives, c, want)
		}
		if want.data != nil && !bytes.Equal(s.mem[at:at+int(want.n)], want.data) {
			m.t.Fatalf("%s: message %d has the wrong bytes", s.name, receives)
		}
		if want.inv != 0 {
			if _, f := s.table.Lookup(want.inv, 1, 0); f != memreg.FaultKey {
				m.t.Fatalf("%s: the key that message %d invalidates still leads somewhere", s.name, receives)
			}
		}
		receives++
	}
	if retired += s.qp.TakeSilent(); sends != len(s.signaled) || receives != len(s.peer.messages) || int(retired) != s.posted {
		m.t.Fatalf("%s: %d of %d sends complete, %d of %d messages, %d of %d slots are free", s.name, sends, len(s.signaled),
			receives, len(s.peer.messages), retired, s.posted)
	}
}

// forSeeds runs f under each seed of the flags, and names it when f fails.
func forSeeds(t *testing.T, f func(t *testing.T, seed uint64)) {
	t.Helper()
	first, n := uint64(1), *modelSeeds
	if *modelSeed != 0 {
		first, n = *modelSeed, 1
	}
	for seed := first; seed < first+uint64(n); seed++ {
		if !t.Run("", func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("again with -seed=%d", seed)
				}
			})
			f(t, seed)
		}) {
			return
		}
	}
}

func TestModel_RandomProgramsOverABadWire(t *testing.T) {
	var total Counters
	forSeeds(t, func(t *testing.T, seed uint64) {
		m := newModel(t, seed)
		m.run()
		m.verify()
		total.Add(m.a.qp.Counters())
		total.Add(m.b.qp.Counters())
	})
	if *modelSeeds >= 100 && *modelSeed == 0 {
		for what, n := range map[string]uint64{
			"retransmits": total.Retransmits, "timeouts": 4 * total.Timeouts, "probes": total.Probes, "held": total.OutOfSequenceHeld, "NAKs": total.NAKsReceived, "RNR NAKs": total.RNRNAKsReceived,
			"implied NAKs": 2 * total.ImpliedNAKs, "duplicates": total.DuplicateRequests, "gaps": total.OutOfSequence,
		} {
			if n < uint64(*modelSeeds) {
				t.Errorf("only %d %s in %d programs: the model has become harmless", n, what, *modelSeeds)
			}
		}
	}
}

// The same, with one request of one side doomed. Whatever else happens, each work
// request completes once, in order, and no more than one with a status of its own.
func TestModel_RandomProgramsWithAFatalRequest(t *testing.T) {
	seen := map[Status]int{}
	forSeeds(t, func(t *testing.T, seed uint64) {
		m := newModel(t, seed^0xFA7A1)
		doomed, at := m.sides[m.r.IntN(2)], m.r.IntN(20)
		doomed.toPost += 20
		for steps := 0; steps < 400 && m.a.qp.State() == StateRTS && m.b.qp.State() == StateRTS; steps++ {
			s := m.sides[m.r.IntN(2)]
			switch {
			case s == doomed && s.posted == at && !s.qp.sq.full():
				wr := s.write(uint64(s.posted), 100, s.peer.end, 0)
				switch m.r.IntN(4) {
				case 0:
					wr.RKey++
				case 1:
					wr.SGL[0].LKey++
				case 2:
					wr = s.sendWR(wr.ID, modelLongest+1)
				case 3:
					wr = s.fetchAdd(wr.ID, modelLanding, s.peer.end, 4, 1)
				}
				s.send(wr)
				s.posted++
			case m.r.IntN(2) == 0 && s.posted < s.toPost:
				m.post(s)
			default:
				m.receive(s)
			}
			m.advance(time.Duration(m.r.IntN(100)) * time.Microsecond)
			m.invariants()
		}
		m.advance(300 * time.Millisecond) // a message may wait for a receive for ever
		for _, s := range m.sides {
			s.modify(m.clk.Now(), &Attr{Mask: AttrState, State: StateErr})
			s.pollDone()
			var next [2]int // IDs, of sends and receives
			var failed [2]int
			var flushing [2]bool
			for _, c := range s.done {
				q := 0
				if c.Recv {
					q = 1
				}
				if int(c.ID) < next[q] {
					t.Fatalf("%s: completion of %d (receive %v) comes after that of %d", s.name, c.ID, c.Recv, next[q]-1)
				}
				if silent := int(c.ID) - next[q]; silent != int(c.Retired)-1 || silent > 0 && flushing[q] {
					t.Fatalf("%s: completion of %d retires %d slots, the last was of %d", s.name, c.ID, c.Retired, next[q]-1)
				}
				next[q] = int(c.ID) + 1
				switch c.Status {
				case StatusSuccess:
					if flushing[q] {
						t.Fatalf("%s: %d succeeds behind one that did not", s.name, c.ID)
					}
				case StatusWRFlushErr:
					flushing[q] = true
				default:
					seen[c.Status]++
					flushing[q] = true
					if failed[q]++; failed[q] > 1 {
						t.Fatalf("%s: %d is the second with a status of its own, %v", s.name, c.ID, c.Status)
					}
				}
			}
			if rest := int(s.qp.TakeSilent()); next[0]+rest != s.posted || next[1] != s.received {
				t.Fatalf("%s: %d of %d sends and %d of %d receives complete", s.name, next[0]+rest, s.posted, next[1], s.received)
			}
			m.invariants()
		}
	})
	if *modelSeeds >= 100 && *modelSeed == 0 {
		for _, status := range []Status{StatusRemAccessErr, StatusLocProtErr, StatusRemInvReqErr, StatusLocLenErr, StatusRetryExcErr} {
			if seen[status] == 0 {
				t.Errorf("no program ended with %v: the model has become harmless", status)
			}
		}
	}
}

package transport

import (
	"bytes"
	"testing"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
)

// lean drives two queue pairs without allocating: packets wait in fixed buffers, as
// frames do in a driver.
type lean struct {
	t    testing.TB
	ends [2]*end
	now  clock.Time
	out  Out
	c    Completion
	// frames are those under way, from head to tail.
	frames     [256]leanFrame
	head, tail int
	// n counts the packets; drop and double say which, in the order of sending, are lost or come twice.
	n, drop, double int
	done            int
}

type leanFrame struct {
	to   int
	p    bth.Packet
	data [4096]byte
}

func newLean(t testing.TB, change func(*options)) *lean {
	o := makeOptions(change)
	l := &lean{t: t, ends: [2]*end{newEnd(t, "a", o), newEnd(t, "b", o)}}
	l.ends[0].connect(0)
	l.ends[1].connect(0)
	return l
}

func (l *lean) put(to int) {
	f := &l.frames[l.tail%len(l.frames)]
	l.tail++
	f.to = to
	f.p = bth.Packet{Headers: l.out.Headers, Flags: l.out.Opcode.Flags(), Src: l.ends[1-to].addr, Dst: l.ends[to].addr}
	b := f.data[:0]
	for _, piece := range l.out.Payload {
		b = append(b, piece...)
	}
	f.p.Payload = b
}

// deliver hands over all that is under way.
func (l *lean) deliver() (some bool) {
	for ; l.head != l.tail; l.head++ {
		f := &l.frames[l.head%len(l.frames)]
		_ = l.ends[f.to].qp.HandlePacket(l.now, &f.p) // duplicates and gaps are meant
		some = true
	}
	return some
}

// run goes on until nothing happens any more by itself.
func (l *lean) run() {
	for {
		busy := false
		for i, e := range l.ends {
			for e.qp.PollCompletion(&l.c) {
				l.done++
				busy = true
			}
			for room := 0; room < 16 && e.qp.PollTransmit(l.now, &l.out); room++ {
				busy = true
				l.n++
				if l.drop != 0 && l.n%l.drop == 0 {
					continue
				}
				l.put(1 - i)
				if l.double != 0 && l.n%l.double == 0 {
					l.put(1 - i)
				}
			}
			e.qp.TakeSilent()
		}
		busy = l.deliver() || busy
		if busy {
			continue
		}
		at := min(l.ends[0].qp.NextTimeout(), l.ends[1].qp.NextTimeout())
		if at == clock.Never {
			return
		}
		l.now = at
		l.ends[0].qp.HandleTimeout(at)
		l.ends[1].qp.HandleTimeout(at)
	}
}

// everything posts requests of all kinds on both ends, and the receives for them.
func (l *lean) everything(wrs []SendWR, recv *[2]RecvWR) {
	for i, e := range l.ends {
		for j := range wrs {
			wr := wrs[j]
			peer := l.ends[1-i]
			wr.RemoteAddr, wr.RKey = peer.region.Addr(), peer.region.Key()
			if err := e.qp.PostSend(&wr); err != nil {
				l.t.Fatal(err)
			}
			if w := (&sendWQE{op: wr.Opcode}); w.consumesReceive() {
				if err := peer.qp.PostRecv(&recv[1-i]); err != nil {
					l.t.Fatal(err)
				}
			}
		}
	}
	l.run()
}

func TestAlloc_NoneOnAnyPath(t *testing.T) {
	for name, tc := range map[string]struct {
		drop, double int
		late         bool // receives are posted after the sends have met none
	}{
		"clean":      {},
		"duplicates": {double: 3},
		"loss":       {drop: 13},
		"both":       {drop: 17, double: 5},
		"RNR":        {late: true, drop: 23},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLean(t, func(o *options) { o.mtu, o.timeout, o.rdAtomic = 512, 5, 2 })
			l.drop, l.double = tc.drop, tc.double
			a, b := l.ends[0], l.ends[1]
			var wrs []SendWR
			for range 2 {
				wrs = append(wrs, SendWR{Opcode: WRSend, SGL: a.sge(0, 3000)}, SendWR{Opcode: WRWrite, Flags: Signaled, SGL: a.sge(0, 3000)},
					SendWR{Opcode: WRRead, Flags: Signaled, SGL: a.sge(0x8000, 3000)}, SendWR{Opcode: WRFetchAdd, SGL: a.sge(0, 8)},
					SendWR{Opcode: WRWriteImm, Flags: Signaled, SGL: a.sge(0, 600)}, SendWR{Opcode: WRCompareSwap, Flags: Fence, SGL: a.sge(0, 8)},
					SendWR{Opcode: WRSendImm, Flags: Signaled | Inline, Inline: make([]byte, 60)})
			}
			// Both ends use a's lists: give them one region with one key.
			b.mem, b.region, b.table, b.qp.cfg.Table = a.mem, a.region, a.table, a.table
			recv := [2]RecvWR{{SGL: a.sge(0x10000, 4096)}, {SGL: a.sge(0x20000, 4096)}}
			once := func() {
				if !tc.late {
					l.everything(wrs, &recv)
					return
				}
				for i, e := range l.ends {
					if err := e.qp.PostSend(&wrs[0]); err != nil {
						t.Fatal(err)
					}
					for e.qp.PollTransmit(l.now, &l.out) {
						l.put(1 - i)
					}
				}
				l.deliver()
				for i, e := range l.ends {
					if err := e.qp.PostRecv(&recv[i]); err != nil {
						t.Fatal(err)
					}
				}
				l.run()
			}
			once()
			if n := testing.AllocsPerRun(50, once); n != 0 {
				t.Errorf("%v allocations a round, want none", n)
			}
			c := *a.qp.Counters()
			c.Add(b.qp.Counters())
			lossy, doubled := tc.drop != 0 && !tc.late, tc.double != 0
			switch {
			case a.qp.State() != StateRTS || b.qp.State() != StateRTS || l.done == 0:
				t.Errorf("states %v and %v, %d completions", a.qp.State(), b.qp.State(), l.done)
			case lossy && (c.Timeouts == 0 || c.NAKsReceived == 0 || c.ImpliedNAKs == 0 || c.Retransmits == 0):
				t.Errorf("not all of the loss paths were taken: %+v", c)
			case doubled && c.DuplicateRequests == 0, tc.late && c.RNRNAKsReceived == 0:
				t.Errorf("the path was not taken: %+v", c)
			}
		})
	}
}

// Flushing, too, costs nothing.
func TestAlloc_NoneInError(t *testing.T) {
	e := inState(t, StateErr)
	send, recv := SendWR{Opcode: WRSend, SGL: e.sge(0, 10)}, RecvWR{SGL: e.sge(0, 10)}
	var c Completion
	once := func() {
		if e.qp.PostSend(&send) != nil || e.qp.PostRecv(&recv) != nil {
			t.Fatal("refused")
		}
		for e.qp.PollCompletion(&c) {
		}
	}
	once()
	if n := testing.AllocsPerRun(100, once); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestAlloc_RingMemoryIsMadeAtTheFirstPost(t *testing.T) {
	e := newEnd(t, "a", makeOptions(nil))
	if e.qp.sq.wqes != nil || e.qp.rq.wqes != nil {
		t.Error("a queue pair that nothing was posted to has rings")
	}
}

// Messages of many packets, all of them, across the wrap of the PSNs.
func TestAlloc_LongMessages(t *testing.T) {
	const size = 8 << 20
	l := newLean(t, func(o *options) { o.mtu, o.memory, o.psn, o.window = 256, 2*size, 0xFFC000, 64 })
	a, b := l.ends[0], l.ends[1]
	fill(a.mem[:size], 1)
	once := func() {
		a.send(a.write(1, size, b, size))
		a.send(a.read(2, size, size, b, size))
		l.run()
	}
	if n := testing.AllocsPerRun(1, once); n != 0 {
		t.Errorf("%v allocations for 8 MiB each way, want none", n)
	}
	if !bytes.Equal(a.mem[:size], b.mem[size:]) || !bytes.Equal(a.mem[:size], a.mem[size:]) || l.done != 4 {
		t.Error("the bytes are not the same everywhere")
	}
	if c := a.qp.Counters(); c.Retransmits != 0 {
		t.Errorf("%d retransmits", c.Retransmits)
	}
}

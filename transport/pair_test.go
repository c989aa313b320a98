package transport

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
)

// pair is two connected queue pairs and a wire that a test can tamper with.
type pair struct {
	t    testing.TB
	clk  clock.Manual
	a, b *end
	// latency is the time a packet takes.
	latency time.Duration
	// tamper decides what becomes of a packet that from sends; nil lets all arrive.
	tamper func(from *end, p *bth.Packet) fate
	wire   []flight // in order of arrival
}

// fate says when the copies of a packet arrive, beyond the latency.
type fate []time.Duration

var (
	arrives = fate{0}
	lost    = fate{}
	twice   = fate{0, 0}
	// late: what is sent in the next 25 us overtakes it.
	late = fate{25 * time.Microsecond}
)

// quantum is how many packets an end sends in its turn.
const quantum = 16

type flight struct {
	at clock.Time
	to *end
	p  bth.Packet
}

func newPair(t testing.TB, change func(*options)) *pair {
	t.Helper()
	o := makeOptions(change)
	p := &pair{t: t, a: newEnd(t, "a", o), b: newEnd(t, "b", o)}
	p.a.connect(0)
	p.b.connect(0)
	return p
}

func (p *pair) peer(e *end) *end {
	if e == p.a {
		return p.b
	}
	return p.a
}

// run drives both ends until, at this instant, neither has anything to say.
func (p *pair) run() {
	p.t.Helper()
	for range 1_000_000 {
		busy := p.drain(p.a)
		busy = p.drain(p.b) || busy
		busy = p.deliver() || busy
		if !busy {
			return
		}
	}
	p.t.Fatal("the pair never comes to rest")
}

// drain does what an end asks for, deliveries first.
func (p *pair) drain(e *end) (busy bool) {
	p.t.Helper()
	busy = e.pollDone()
	for range quantum {
		pkt, ok := e.pollPacket(p.clk.Now())
		if !ok {
			break
		}
		busy = true
		f := arrives
		if p.tamper != nil {
			f = p.tamper(e, &pkt)
		}
		for _, extra := range f {
			p.launch(flight{p.clk.Now().Add(p.latency + extra), p.peer(e), pkt})
		}
	}
	return e.pollDone() || busy
}

func (p *pair) launch(f flight) {
	i := len(p.wire)
	for i > 0 && p.wire[i-1].at > f.at {
		i--
	}
	p.wire = slices.Insert(p.wire, i, f)
}

// deliver hands over what has arrived.
func (p *pair) deliver() bool {
	n := 0
	for n < len(p.wire) && p.wire[n].at <= p.clk.Now() {
		p.wire[n].to.handle(p.clk.Now(), &p.wire[n].p)
		n++
	}
	p.wire = slices.Delete(p.wire, 0, n)
	return n > 0
}

// next is when something will happen by itself.
func (p *pair) next() clock.Time {
	at := min(p.a.qp.NextTimeout(), p.b.qp.NextTimeout())
	if len(p.wire) > 0 {
		at = min(at, p.wire[0].at)
	}
	return at
}

// advance lets d pass.
func (p *pair) advance(d time.Duration) {
	p.t.Helper()
	until := p.clk.Now().Add(d)
	p.run()
	for at := p.next(); at <= until; at = p.next() {
		p.clk.AdvanceTo(max(at, p.clk.Now()))
		p.a.qp.HandleTimeout(p.clk.Now())
		p.b.qp.HandleTimeout(p.clk.Now())
		p.run()
	}
	p.clk.AdvanceTo(until)
}

// settle lets time pass until nothing is on the wire and no timer is armed.
func (p *pair) settle() {
	p.t.Helper()
	p.run()
	for range 100_000 {
		at := p.next()
		if at == clock.Never {
			return
		}
		p.advance(max(at.Sub(p.clk.Now()), 0))
	}
	p.t.Fatal("the pair never comes to rest: timers run for ever")
}

func TestPair_EveryOperationMovesItsBytes(t *testing.T) {
	for _, mtu := range []int{256, 512, 1024, 2048, 4096} {
		for _, size := range []int{0, 1, 2, 3, 4, 5, mtu - 3, mtu - 1, mtu, mtu + 1, mtu + 3, 2*mtu - 1, 2 * mtu, 2*mtu + 1, 65536} {
			p := newPair(t, func(o *options) { o.mtu = mtu; o.psn = 0xFFFFFE; o.inline = 4096 })
			fill(p.a.mem[:size], byte(size))
			p.b.recv(100, 0x10000, 65536)
			p.b.recv(101, 0, 0)
			p.b.recv(102, 0x60000, 65536)
			p.a.send(p.a.sendWR(1, size))
			p.a.send(p.a.write(2, size, p.b, 0x20000))
			withImm := p.a.write(3, size, p.b, 0x40000)
			withImm.Opcode, withImm.Imm = WRWriteImm, 0xAABBCCDD
			p.a.send(withImm)
			p.a.send(p.a.read(4, 0x80000, size, p.b, 0x20000))
			want := []string{"1 SUCCESS", "2 SUCCESS", "3 SUCCESS", "4 SUCCESS"}
			received := []string{"100 SUCCESS", "101 SUCCESS"}
			if size <= 4096 {
				p.a.send(SendWR{ID: 5, Opcode: WRSendImm, Flags: Signaled | Inline, Inline: p.a.mem[:size], Imm: 7})
				want, received = append(want, "5 SUCCESS"), append(received, "102 SUCCESS")
			}
			p.settle()
			for i, c := range p.b.done {
				if c.ByteLen != uint32(size) || !c.Recv || c.Retired != 1 {
					t.Fatalf("mtu %d size %d: receive completion %d is %+v", mtu, size, i, c)
				}
			}
			if c := p.b.done[1]; c.Opcode != WCRecvImm || c.Flags != WCWithImm || c.Imm != 0xAABBCCDD {
				t.Fatalf("mtu %d size %d: WRITE with immediate received as %+v", mtu, size, c)
			}
			p.a.wantDone(want...)
			p.b.wantDone(received...)
			for name, got := range map[string][]byte{
				"SEND": p.b.mem[0x10000:], "WRITE": p.b.mem[0x20000:], "WRITE_IMM": p.b.mem[0x40000:], "READ": p.a.mem[0x80000:],
			} {
				if !bytes.Equal(got[:size], p.a.mem[:size]) {
					t.Fatalf("mtu %d size %d: %s moved the wrong bytes", mtu, size, name)
				}
			}
			if size <= 4096 && !bytes.Equal(p.b.mem[0x60000:0x60000+size], p.a.mem[:size]) {
				t.Fatalf("mtu %d size %d: inline SEND moved the wrong bytes", mtu, size)
			}
			if r := p.a.qp.Counters().Retransmits; r != 0 {
				t.Fatalf("mtu %d size %d: %d retransmits on a clean wire", mtu, size, r)
			}
		}
	}
}

func TestPair_AtomicsActOnTheWordAndReturnWhatWasThere(t *testing.T) {
	p := newPair(t, nil)
	binary.NativeEndian.PutUint64(p.b.mem[64:], 40)
	p.a.send(p.a.fetchAdd(1, 0, p.b, 64, 2))
	for i, swap := range []uint64{7, 8} {
		wr := p.a.fetchAdd(uint64(i)+2, 8*(i+1), p.b, 64, 42) // compares with 42
		wr.Opcode, wr.Swap = WRCompareSwap, swap
		p.a.send(wr)
	}
	p.settle()
	p.a.wantDone("1 SUCCESS", "2 SUCCESS", "3 SUCCESS")
	for i, want := range []uint64{40, 42, 7} {
		if got := binary.NativeEndian.Uint64(p.a.mem[8*i:]); got != want {
			t.Errorf("atomic %d returned %d, want %d", i+1, got, want)
		}
	}
	if got := binary.NativeEndian.Uint64(p.b.mem[64:]); got != 7 {
		t.Errorf("the word holds %d, want 7", got)
	}
}

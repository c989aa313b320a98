package transport

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/memreg"
)

// end is one side of a pair: a queue pair with a region that it may be reached in.
type end struct {
	name   string
	qp     *QP
	table  *memreg.Table
	mem    []byte
	region *memreg.Region
	done   []Completion
	events []Event
	drops  map[bth.Drop]int
	sent   []bth.Packet // everything it sent, oldest first
}

// pair is two connected queue pairs and a wire that a test can tamper with.
type pair struct {
	t    *testing.T
	clk  clock.Manual
	a, b *end
	// tamper decides about the packet that from sends: how many copies arrive.
	tamper func(from *end, p *bth.Packet) int
	// hold keeps packets on the wire; deliver lets them go.
	hold bool
	wire []flight
	seed uint32
}

type flight struct {
	to *end
	p  bth.Packet
}

const pairMemory = 1 << 20

type pairOptions struct {
	mtu          int
	psn          bth.PSN
	depth, sge   int
	inline       int
	window       int
	rdAtomic     uint8
	timeout      uint8
	retry, rnr   uint8
	minRNR       uint8
	credits      bool
	access       memreg.Access
	regionAccess memreg.Access
}

func defaults() pairOptions {
	all := memreg.LocalWrite | memreg.RemoteWrite | memreg.RemoteRead | memreg.RemoteAtomic
	return pairOptions{
		mtu: 1024, psn: 0x1000, depth: 64, sge: 4, inline: 64, rdAtomic: 4, timeout: 14, retry: 7, rnr: 7, minRNR: 12,
		access: all, regionAccess: all,
	}
}

func newPair(t *testing.T, change func(*pairOptions)) *pair {
	t.Helper()
	o := defaults()
	if change != nil {
		change(&o)
	}
	p := &pair{t: t, seed: 1}
	p.a = p.newEnd("a", 0x11, o)
	p.b = p.newEnd("b", 0x22, o)
	p.connect(p.a, p.b, o)
	p.connect(p.b, p.a, o)
	return p
}

var addrs = map[string]netip.Addr{
	"a": netip.MustParseAddr("10.77.0.1"),
	"b": netip.MustParseAddr("10.77.0.2"),
}

func (p *pair) newEnd(name string, qpn bth.QPN, o pairOptions) *end {
	p.t.Helper()
	e := &end{name: name, mem: make([]byte, pairMemory), drops: map[bth.Drop]int{}}
	e.table = memreg.NewTable(func() uint32 { p.seed = p.seed*1664525 + 1013904223; return p.seed })
	var err error
	if e.region, err = e.table.Register(1, e.mem, memreg.Options{Access: o.regionAccess}); err != nil {
		p.t.Fatal(err)
	}
	e.qp, err = New(Config{
		Type: TypeRC, QPN: qpn, PD: 1, Table: e.table, SendDepth: o.depth, RecvDepth: o.depth,
		SendSGE: o.sge, RecvSGE: o.sge, MaxInline: o.inline, Window: o.window, Credits: o.credits,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return e
}

func (p *pair) connect(e, peer *end, o pairOptions) {
	p.t.Helper()
	for _, a := range []Attr{
		{Mask: AttrState | AttrPKeyIndex | AttrPort | AttrAccess, State: StateInit, Port: 1, Access: o.access},
		{
			Mask:  AttrState | AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN | AttrMaxDestRdAtomic | AttrMinRNRTimer,
			State: StateRTR, AV: AV{Src: addrs[e.name], Dst: addrs[peer.name]}, PathMTU: o.mtu,
			DestQPN: peer.qp.QPN(), RQPSN: o.psn, MaxDestRdAtomic: o.rdAtomic, MinRNRTimer: o.minRNR,
		},
		{
			Mask:  AttrState | AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrSQPSN | AttrMaxRdAtomic,
			State: StateRTS, Timeout: o.timeout, RetryCnt: o.retry, RNRRetry: o.rnr, SQPSN: o.psn, MaxRdAtomic: o.rdAtomic,
		},
	} {
		if err := e.qp.Modify(p.clk.Now(), &a); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *pair) peer(e *end) *end {
	if e == p.a {
		return p.b
	}
	return p.a
}

// run drives both ends until neither has anything to say.
func (p *pair) run() {
	p.t.Helper()
	for range 1_000_000 {
		busy := p.drain(p.a)
		busy = p.drain(p.b) || busy
		if !p.hold {
			busy = p.deliver() || busy
		}
		if !busy {
			return
		}
	}
	p.t.Fatal("the pair never comes to rest")
}

// deliver hands over everything on the wire.
func (p *pair) deliver() bool {
	wire := p.wire
	p.wire = nil
	for i := range wire {
		if d := wire[i].to.qp.HandlePacket(p.clk.Now(), &wire[i].p); d != bth.DropNone {
			wire[i].to.drops[d]++
		}
	}
	return len(wire) > 0
}

func (p *pair) drain(e *end) (busy bool) {
	var c Completion
	for e.qp.PollCompletion(&c) {
		e.done = append(e.done, c)
		busy = true
	}
	var out Out
	for e.qp.PollTransmit(p.clk.Now(), &out) {
		busy = true
		pkt := p.packet(e, &out)
		e.sent = append(e.sent, pkt)
		copies := 1
		if p.tamper != nil {
			copies = p.tamper(e, &pkt)
		}
		for range copies {
			p.wire = append(p.wire, flight{p.peer(e), pkt})
		}
	}
	for e.qp.PollCompletion(&c) {
		e.done = append(e.done, c)
		busy = true
	}
	for ev := e.qp.PollEvent(); ev != EventNone; ev = e.qp.PollEvent() {
		e.events = append(e.events, ev)
	}
	return busy
}

// packet turns what a queue pair wants sent into what its peer receives, by way of the bytes of its headers.
func (p *pair) packet(from *end, out *Out) bth.Packet {
	p.t.Helper()
	pkt := bth.Packet{Headers: out.Headers, Flags: out.Opcode.Flags(), Src: addrs[from.name], Dst: addrs[p.peer(from).name]}
	pkt.Payload = bytes.Join(out.Payload, nil)
	if len(pkt.Payload) != out.Length {
		p.t.Fatalf("%v: Out.Length is %d, payload has %d bytes", out.Opcode, out.Length, len(pkt.Payload))
	}
	if pkt.Flags == 0 {
		p.t.Fatalf("%s sends opcode %v", from.name, out.Opcode)
	}
	if want := uint8(-len(pkt.Payload) & 3); out.Pad != want {
		p.t.Fatalf("%v with %d bytes has pad count %d", out.Opcode, len(pkt.Payload), out.Pad)
	}
	return pkt
}

// advance lets d pass in steps of the ends' own timers.
func (p *pair) advance(d time.Duration) {
	p.t.Helper()
	until := p.clk.Now().Add(d)
	for {
		next := min(p.a.qp.NextTimeout(), p.b.qp.NextTimeout())
		if next > until {
			break
		}
		p.clk.AdvanceTo(max(next, p.clk.Now()))
		p.a.qp.HandleTimeout(p.clk.Now())
		p.b.qp.HandleTimeout(p.clk.Now())
		p.run()
	}
	p.clk.AdvanceTo(until)
}

// settle lets time pass until no timer is armed.
func (p *pair) settle() {
	p.t.Helper()
	p.run()
	for range 10_000 {
		next := min(p.a.qp.NextTimeout(), p.b.qp.NextTimeout())
		if next == clock.Never {
			return
		}
		p.advance(max(next.Sub(p.clk.Now()), 0))
	}
	p.t.Fatal("timers never come to rest")
}

func (e *end) sge(off, n int) []SGE {
	return []SGE{{Addr: e.region.Addr() + uint64(off), Length: uint32(n), LKey: e.region.Key()}}
}

func (p *pair) send(e *end, wr SendWR) {
	p.t.Helper()
	if err := e.qp.PostSend(&wr); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pair) recv(e *end, id uint64, off, n int) {
	p.t.Helper()
	if err := e.qp.PostRecv(&RecvWR{ID: id, SGL: e.sge(off, n)}); err != nil {
		p.t.Fatal(err)
	}
}

// to fills in the peer's address and key.
func (e *end) at(off int) (uint64, memreg.Key) { return e.region.Addr() + uint64(off), e.region.Key() }

// wantDone checks and forgets the completions of e so far, given as "id STATUS".
func (p *pair) wantDone(e *end, want ...string) {
	p.t.Helper()
	var got []string
	for _, c := range e.done {
		got = append(got, fmt.Sprintf("%d %v", c.ID, c.Status))
	}
	e.done = nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		p.t.Fatalf("%s completed %v, want %v", e.name, got, want)
	}
}

// wantSent checks and forgets what e sent, given as "OPCODE psn".
func (p *pair) wantSent(e *end, want ...string) {
	p.t.Helper()
	var got []string
	for i := range e.sent {
		s := fmt.Sprintf("%v %d", e.sent[i].Opcode, e.sent[i].PSN)
		if e.sent[i].Flags.Any(bth.Ack) && !e.sent[i].AETH.Syndrome.IsAck() {
			s += fmt.Sprintf(" 0x%02x", uint8(e.sent[i].AETH.Syndrome))
		}
		got = append(got, s)
	}
	e.sent = nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		p.t.Fatalf("%s sent\n%v\nwant\n%v", e.name, got, want)
	}
}

func fill(b []byte, seed byte) {
	for i := range b {
		b[i] = byte(i)*7 + seed
	}
}

package transport

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/memreg"
)

// options are what a test may want different about its queue pairs. Both ends get the same.
type options struct {
	mtu                int
	psn                bth.PSN // first of both directions
	depth, sge, inline int
	window             int
	rdAtomic           uint8
	timeout            uint8
	retry, rnr         uint8
	minRNR             uint8
	signalAll, credits bool
	memory             int // bytes of each end's region
	access             memreg.Access
	regionAccess       memreg.Access
	// recovery, unless nil, says how the end of that name makes losses good.
	recovery   func(name string) Recovery
	congestion Congestion
}

const allAccess = memreg.LocalWrite | memreg.RemoteWrite | memreg.RemoteRead | memreg.RemoteAtomic

func makeOptions(change func(*options)) options {
	o := options{
		mtu: 1024, psn: 0x1000, depth: 64, sge: 4, inline: 64, rdAtomic: 4, timeout: 14, retry: 7, rnr: 7, minRNR: 12,
		memory: 1 << 20, access: allAccess &^ memreg.LocalWrite, regionAccess: allAccess,
	}
	if change != nil {
		change(&o)
	}
	return o
}

// end is a queue pair with a region that it may be reached in, and what came out of it.
type end struct {
	t      testing.TB
	name   string
	opt    options
	addr   netip.Addr
	qp     *QP
	table  *memreg.Table
	mem    []byte
	region *memreg.Region
	done   []Completion
	events []Event
	drops  map[bth.Drop]int
	sent   []bth.Packet // everything it sent, oldest first
	out    Out
	// manners, unless nil, are those of another implementation.
	manners *rxeManners
	// top is the PSN behind the last request sent so far, valid once asked is set.
	top   bth.PSN
	asked bool
}

var addrs = map[string]netip.Addr{
	"a": netip.MustParseAddr("10.77.0.1"),
	"b": netip.MustParseAddr("10.77.0.2"),
}

var qpns = map[string]bth.QPN{"a": 0x11, "b": 0x22}

// other names the other end of a connection.
func other(name string) string {
	if name == "a" {
		return "b"
	}
	return "a"
}

// newEnd makes the end called name, in RESET.
func newEnd(t testing.TB, name string, o options) *end {
	t.Helper()
	e := &end{t: t, name: name, opt: o, addr: addrs[name], mem: make([]byte, o.memory), drops: map[bth.Drop]int{}}
	seed := uint32(qpns[name])
	e.table = memreg.NewTable(func() uint32 { seed = seed*1664525 + 1013904223; return seed })
	var recovery Recovery
	if o.recovery != nil {
		recovery = o.recovery(name)
	}
	var err error
	if e.region, err = e.table.Register(1, e.mem, memreg.Options{Access: o.regionAccess}); err != nil {
		t.Fatal(err)
	}
	e.qp, err = New(Config{
		Type: TypeRC, QPN: qpns[name], PD: 1, Table: e.table, SendDepth: o.depth, RecvDepth: o.depth, SendSGE: o.sge,
		RecvSGE: o.sge, MaxInline: o.inline, SignalAll: o.signalAll, Window: o.window, Credits: o.credits,
		Recovery: recovery, Congestion: o.congestion,
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The attributes that bring e from RESET to RTS.
func (e *end) toInit() *Attr {
	return &Attr{Mask: AttrState | AttrPKeyIndex | AttrPort | AttrAccess, State: StateInit, Port: 1, Access: e.opt.access}
}

func (e *end) toRTR() *Attr {
	peer := other(e.name)
	return &Attr{
		Mask:  AttrState | AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN | AttrMaxDestRdAtomic | AttrMinRNRTimer,
		State: StateRTR, AV: AV{Src: e.addr, Dst: addrs[peer]}, PathMTU: e.opt.mtu,
		DestQPN: qpns[peer], RQPSN: e.opt.psn, MaxDestRdAtomic: e.opt.rdAtomic, MinRNRTimer: e.opt.minRNR,
	}
}

func (e *end) toRTS() *Attr {
	return &Attr{
		Mask:  AttrState | AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrSQPSN | AttrMaxRdAtomic,
		State: StateRTS, Timeout: e.opt.timeout, RetryCnt: e.opt.retry, RNRRetry: e.opt.rnr, SQPSN: e.opt.psn,
		MaxRdAtomic: e.opt.rdAtomic,
	}
}

func (e *end) connect(now clock.Time) {
	e.t.Helper()
	for _, a := range []*Attr{e.toInit(), e.toRTR(), e.toRTS()} {
		e.modify(now, a)
	}
}

func (e *end) modify(now clock.Time, a *Attr) {
	e.t.Helper()
	if err := e.qp.Modify(now, a); err != nil {
		e.t.Fatal(err)
	}
}

// sge names n bytes of the end's region at offset off.
func (e *end) sge(off, n int) []SGE {
	return []SGE{{Addr: e.region.Addr() + uint64(off), Length: uint32(n), LKey: e.region.Key()}}
}

// va is the virtual address of offset off in the end's region.
func (e *end) va(off int) uint64 { return e.region.Addr() + uint64(off) }

func (e *end) send(wr SendWR) {
	e.t.Helper()
	if err := e.qp.PostSend(&wr); err != nil {
		e.t.Fatal(err)
	}
}

func (e *end) recv(id uint64, off, n int) {
	e.t.Helper()
	if err := e.qp.PostRecv(&RecvWR{ID: id, SGL: e.sge(off, n)}); err != nil {
		e.t.Fatal(err)
	}
}

// write, read, fetchAdd and compareSwap make work requests that act on offset off of
// the peer's memory, or on what a script takes for it.
func (e *end) write(id uint64, n int, peer *end, off int) SendWR {
	return SendWR{ID: id, Opcode: WRWrite, Flags: Signaled, SGL: e.sge(0, n), RemoteAddr: peer.va(off), RKey: peer.region.Key()}
}

func (e *end) read(id uint64, local, n int, peer *end, off int) SendWR {
	return SendWR{ID: id, Opcode: WRRead, Flags: Signaled, SGL: e.sge(local, n), RemoteAddr: peer.va(off), RKey: peer.region.Key()}
}

func (e *end) fetchAdd(id uint64, local int, peer *end, off int, add uint64) SendWR {
	return SendWR{
		ID: id, Opcode: WRFetchAdd, Flags: Signaled, SGL: e.sge(local, 8), RemoteAddr: peer.va(off), RKey: peer.region.Key(),
		CompareAdd: add,
	}
}

func (e *end) sendWR(id uint64, n int) SendWR {
	return SendWR{ID: id, Opcode: WRSend, Flags: Signaled, SGL: e.sge(0, n)}
}

// handle gives the queue pair a packet.
func (e *end) handle(now clock.Time, p *bth.Packet) {
	if e.manners != nil && p.Flags.Any(bth.Request) && !e.manners.request(e, p) {
		return
	}
	if d := e.qp.HandlePacket(now, p); d != bth.DropNone {
		e.drops[d]++
	}
}

// pollDone takes the completions and reports whether there were any.
func (e *end) pollDone() (some bool) {
	var c Completion
	for e.qp.PollCompletion(&c) {
		e.done = append(e.done, c)
		some = true
	}
	for ev := e.qp.PollEvent(); ev != EventNone; ev = e.qp.PollEvent() {
		e.events = append(e.events, ev)
	}
	return some
}

// pollPacket takes the next packet, as its peer will see it.
func (e *end) pollPacket(now clock.Time) (p bth.Packet, ok bool) {
	e.t.Helper()
	if m := e.manners; m != nil && m.ahead && len(m.crafted) > 0 {
		return m.next(e), true
	}
	out := &e.out
	if !e.qp.PollTransmit(now, out) {
		if m := e.manners; m != nil && len(m.crafted) > 0 {
			return m.next(e), true
		}
		return p, false
	}
	p = bth.Packet{Headers: out.Headers, Flags: out.Opcode.Flags(), Src: e.addr, Dst: addrs[other(e.name)]}
	p.Payload = joined(out.Payload)
	switch {
	case p.Flags == 0:
		e.t.Fatalf("%s sends opcode %v", e.name, out.Opcode)
	case len(p.Payload) != out.Length:
		e.t.Fatalf("%v: Out.Length is %d, the payload has %d bytes", out.Opcode, out.Length, len(p.Payload))
	case len(p.Payload) > 0 && !p.Flags.Any(bth.HasPayload):
		e.t.Fatalf("%v has a payload of %d bytes", out.Opcode, len(p.Payload))
	case out.Pad != uint8(-len(p.Payload)&3):
		e.t.Fatalf("%v with %d bytes has pad count %d", out.Opcode, len(p.Payload), out.Pad)
	case p.DestQP != qpns[other(e.name)] || p.PKey != bth.DefaultPKey || p.TVer != 0 || !p.MigReq:
		e.t.Fatalf("%v has BTH %+v", out.Opcode, p.Header)
	case p.Flags.Any(bth.Response) && (p.AckReq || p.SE):
		e.t.Fatalf("response %v asks for an acknowledgement or event: %+v", out.Opcode, p.Header)
	case out.Copy != p.Flags.Any(bth.ReadResponse):
		e.t.Fatalf("%v has Copy %v", out.Opcode, out.Copy)
	case out.Retransmit != e.sentBefore(&p):
		e.t.Fatalf("%v with PSN %d has Retransmit %v", out.Opcode, p.PSN, out.Retransmit)
	}
	for _, b := range out.Payload {
		if len(b) == 0 {
			e.t.Fatalf("%v has an empty slice in its payload", out.Opcode)
		}
	}
	if e.manners != nil && p.Flags.Any(bth.Response) {
		e.manners.response(&p)
	}
	e.sent = append(e.sent, p)
	return p, true
}

// sentBefore reports whether p is a request with a PSN that was used before.
func (e *end) sentBefore(p *bth.Packet) bool {
	if !p.Flags.Any(bth.Request) {
		return false
	}
	again := e.asked && p.PSN.Before(e.top)
	if !again {
		span := uint32(1)
		if p.Flags.Any(bth.Read) {
			span = max(1, (p.RETH.Length+uint32(e.opt.mtu)-1)/uint32(e.opt.mtu))
		}
		e.top, e.asked = p.PSN.Add(span), true
	}
	return again
}

// joined copies slices of registered memory into one, as a driver does.
func joined(list [][]byte) []byte {
	var whole []byte
	for _, b := range list {
		n := len(whole)
		whole = append(whole, make([]byte, len(b))...)
		memreg.Copy(whole[n:], b)
	}
	return whole
}

// wantDone checks and forgets the completions of e so far, given as "id STATUS".
func (e *end) wantDone(want ...string) {
	e.t.Helper()
	e.pollDone()
	var got []string
	for i := range e.done {
		c := &e.done[i]
		if c.QPN != e.qp.QPN() {
			e.t.Fatalf("completion %d is of QP 0x%x", c.ID, c.QPN)
		}
		if c.Status != StatusSuccess && !c.Solicited {
			e.t.Fatalf("completion %d, with an error, is not solicited", c.ID)
		}
		got = append(got, fmt.Sprintf("%d %v", c.ID, c.Status))
	}
	e.done = nil
	wantList(e.t, e.name+" completes", got, want)
}

// wantEvents checks and forgets the asynchronous events.
func (e *end) wantEvents(want ...Event) {
	e.t.Helper()
	e.pollDone()
	got := e.events
	e.events = nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		e.t.Fatalf("%s raised %v, want %v", e.name, got, want)
	}
}

// wantState checks the state of the queue pair.
func (e *end) wantState(want State) {
	e.t.Helper()
	if got := e.qp.State(); got != want {
		e.t.Fatalf("%s is in %v, want %v", e.name, got, want)
	}
}

// wantTimer checks how long the queue pair will wait from now, -1 for ever.
func (e *end) wantTimer(now clock.Time, want time.Duration) {
	e.t.Helper()
	at := e.qp.NextTimeout()
	got := at.Sub(now)
	if at == clock.Never {
		got = -1
	}
	if got != want {
		e.t.Fatalf("%s waits for %v, want %v", e.name, got, want)
	}
}

// wantDrops checks and forgets what the queue pair dropped.
func (e *end) wantDrops(want map[bth.Drop]int) {
	e.t.Helper()
	if fmt.Sprint(e.drops) != fmt.Sprint(want) {
		e.t.Fatalf("%s dropped %v, want %v", e.name, e.drops, want)
	}
	clear(e.drops)
}

func wantList(t testing.TB, what string, got, want []string) {
	t.Helper()
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Fatalf("%s\n\t%s\nwant\n\t%s", what, strings.Join(got, ", "), strings.Join(want, ", "))
	}
}

// describe gives a packet in short, its PSN counted from base: SEND_FIRST 0, or
// SEND_ONLY 3! when it asks for an acknowledgement; ACK 3, NAK_60 4, RNR_12 4.
func describe(p *bth.Packet, base bth.PSN) string {
	name := strings.TrimPrefix(strings.TrimPrefix(p.Opcode.String(), "RC_"), "RDMA_")
	if p.Opcode == bth.RCAcknowledge {
		switch s := p.AETH.Syndrome; {
		case s.IsAck():
			name = "ACK"
		case s.IsRNR():
			name = fmt.Sprintf("RNR_%d", s&0x1F)
		default:
			name = fmt.Sprintf("NAK_%x", uint8(s))
		}
	}
	text := fmt.Sprintf("%s %d", name, p.PSN.Diff(base))
	if p.AckReq {
		text += "!"
	}
	return text
}

func describeAll(ps []bth.Packet, base bth.PSN) []string {
	list := make([]string, len(ps))
	for i := range ps {
		list[i] = describe(&ps[i], base)
	}
	return list
}

// fill gives b contents that differ with the place and the seed.
func fill(b []byte, seed byte) {
	for i := range b {
		b[i] = byte(i)*7 + byte(i>>8)*13 + seed
	}
}

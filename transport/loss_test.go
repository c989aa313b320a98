package transport

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/go-roce/roce/bth"
)

// nth lets everything arrive but the packets with these numbers, in the order of
// sending, of both directions together, retransmissions counted too.
func nth(f fate, numbers ...int) func(*end, *bth.Packet) fate {
	n := -1
	return func(*end, *bth.Packet) fate {
		n++
		for _, k := range numbers {
			if n == k {
				return f
			}
		}
		return arrives
	}
}

// exchange is a program whose outcome is known: the same request twice, then a SEND.
type exchange struct {
	op   WROpcode
	size int
}

func (x exchange) String() string { return fmt.Sprintf("%v of %d", wrNames[x.op], x.size) }

var wrNames = map[WROpcode]string{
	WRSend: "SEND", WRSendImm: "SEND_IMM", WRWrite: "WRITE", WRWriteImm: "WRITE_IMM", WRRead: "READ", WRCompareSwap: "CAS", WRFetchAdd: "FADD",
}

// run carries the program out on p and checks everything there is to check.
func (x exchange) run(t *testing.T, p *pair) {
	t.Helper()
	const local, remote = 0x2000, 0x4000
	fill(p.a.mem[:0x1000], 1)
	fill(p.b.mem[remote:remote+0x2000], 2)
	binary.NativeEndian.PutUint64(p.b.mem[0x8000:], 5)
	for i := range uint64(3) {
		p.b.recv(100+i, 0xA000+0x1000*int(i), 0x1000)
	}
	for i := range 2 {
		wr := p.a.sendWR(uint64(i), x.size)
		switch x.op {
		case WRWrite, WRWriteImm:
			wr = p.a.write(uint64(i), x.size, p.b, remote+0x1000*i)
		case WRRead:
			wr = p.a.read(uint64(i), local+0x1000*i, x.size, p.b, remote+0x1000*i)
		case WRFetchAdd, WRCompareSwap:
			wr = p.a.fetchAdd(uint64(i), local+8*i, p.b, 0x8000, uint64(5+3*i)) // compares with 5, then 8
			wr.Swap = uint64(8 + 3*i)
		}
		wr.Opcode = x.op
		wr.Imm = uint32(i)
		p.a.send(wr)
	}
	p.a.send(p.a.sendWR(2, 7))
	p.settle()
	p.a.wantDone("0 SUCCESS", "1 SUCCESS", "2 SUCCESS")
	receives := p.b.done
	p.b.done = nil
	var want []int // lengths received
	switch x.op {
	case WRSend, WRSendImm, WRWriteImm:
		want = []int{x.size, x.size}
	}
	want = append(want, 7)
	for i := range max(len(want), len(receives)) {
		if i >= len(receives) || i >= len(want) || int(receives[i].ByteLen) != want[i] || receives[i].ID != uint64(100+i) || receives[i].Status != StatusSuccess {
			t.Fatalf("received %+v, want lengths %v", receives, want)
		}
		at := 0xA000 + 0x1000*i
		if receives[i].Opcode == WCRecv && !bytes.Equal(p.b.mem[at:at+want[i]], p.a.mem[:want[i]]) {
			t.Fatalf("message %d arrived with the wrong bytes", i)
		}
	}
	for i := range 2 {
		src, dst, n := p.a.mem, p.b.mem[remote+0x1000*i:], x.size
		switch x.op {
		case WRRead:
			src, dst = p.b.mem[remote+0x1000*i:], p.a.mem[local+0x1000*i:]
		case WRWrite, WRWriteImm:
		case WRFetchAdd, WRCompareSwap:
			original := []uint64{5, []uint64{8, 10}[x.op-WRCompareSwap]}[i]
			if got := binary.NativeEndian.Uint64(p.a.mem[local+8*i:]); got != original {
				t.Fatalf("atomic %d returned %d, want %d", i, got, original)
			}
			n = 0
		default:
			n = 0
		}
		if !bytes.Equal(src[:n], dst[:n]) {
			t.Fatalf("request %d moved the wrong bytes", i)
		}
	}
	if x.op == WRFetchAdd || x.op == WRCompareSwap {
		if got, want := binary.NativeEndian.Uint64(p.b.mem[0x8000:]), []uint64{11, 18}[x.op-WRCompareSwap]; got != want {
			t.Fatalf("the word holds %d, want %d", got, want)
		}
	}
	for _, e := range []*end{p.a, p.b} {
		e.wantState(StateRTS)
		e.wantTimer(p.clk.Now(), -1)
		if q := e.qp; q.req.una != q.req.high || q.req.next != q.req.high || q.req.outstanding != 0 || !q.resp.answers.empty() {
			t.Fatalf("%s is left with una %d, next %d, high %d, %d outstanding", e.name, q.req.una, q.req.next, q.req.high, q.req.outstanding)
		}
	}
}

func exchanges() (all []exchange) {
	for op := range wrNames {
		sizes := []int{0, 1, 255, 256, 257, 512, 1000}
		if op == WRCompareSwap || op == WRFetchAdd {
			sizes = []int{8}
		}
		for _, size := range sizes {
			all = append(all, exchange{op, size})
		}
	}
	return all
}

func smallPair(t *testing.T) *pair {
	t.Helper()
	// The PSNs wrap in the midst of it.
	return newPair(t, func(o *options) { o.mtu, o.memory, o.psn = 256, 1<<16, 0xFFFFFE })
}

func TestLoss_EveryPacketOfEveryOperationOnce(t *testing.T) {
	for _, x := range exchanges() {
		t.Run(x.String(), func(t *testing.T) {
			clean := smallPair(t)
			x.run(t, clean)
			packets := len(clean.a.sent) + len(clean.b.sent)
			if n := clean.a.qp.Counters().Retransmits; n != 0 {
				t.Fatalf("%d retransmits without a loss", n)
			}
			for name, f := range map[string]fate{"lost": lost, "twice": twice, "late": late, "twice, once late": {0, late[0]}} {
				for k := range packets {
					p := smallPair(t)
					p.latency = 10e3
					p.tamper = nth(f, k)
					x.run(t, p)
					c := p.a.qp.Counters()
					if len(f) == 2 && c.Retransmits != 0 {
						t.Fatalf("packet %d %s: %d retransmits", k, name, c.Retransmits)
					}
					if c.Timeouts > 1 {
						t.Fatalf("packet %d %s: %d timeouts", k, name, c.Timeouts)
					}
				}
			}
		})
	}
}

// Loss exactly where the PSN wraps: of the packet before, the one behind, both, and
// their answers.
func TestPitfall33_PSNWrapWithLossExactlyThere(t *testing.T) {
	for _, x := range exchanges() {
		for psn := bth.PSN(0xFFFFF8); psn != 1; psn = psn.Next() {
			for mask := range 4 {
				for _, responses := range []bool{false, true} {
					p := newPair(t, func(o *options) { o.mtu, o.memory, o.psn = 256, 1<<16, psn })
					seen := map[bth.PSN]bool{}
					p.tamper = func(_ *end, pkt *bth.Packet) fate {
						at := pkt.PSN == 0xFFFFFF && mask&1 != 0 || pkt.PSN == 0 && mask&2 != 0
						if at && pkt.Flags.Any(bth.Response) == responses && !seen[pkt.PSN] {
							seen[pkt.PSN] = true
							return lost
						}
						return arrives
					}
					x.run(t, p)
				}
			}
		}
	}
}

// program is a mixture of everything from both sides at once.
func program(t *testing.T, p *pair) {
	t.Helper()
	for _, e := range []*end{p.a, p.b} {
		peer := p.peer(e)
		fill(e.mem[:0x1000], e.name[0])
		for i := range uint64(3) {
			e.recv(100+i, 0xA000+0x1000*int(i), 0x1000)
		}
		e.send(e.sendWR(1, 600))
		e.send(e.read(2, 0x2000, 700, peer, 0))
		e.send(e.write(3, 500, peer, 0x4000))
		e.send(e.fetchAdd(4, 0x3000, peer, 0x8000, 1))
		e.send(e.sendWR(5, 300))
		e.send(e.read(6, 0x3100, 300, peer, 0x100))
		withImm := e.write(7, 300, peer, 0x5000)
		withImm.Opcode = WRWriteImm
		e.send(withImm)
	}
	p.settle()
	for _, e := range []*end{p.a, p.b} {
		e.wantAllDone("100 101 102", "1 2 3 4 5 6 7")
		peer := p.peer(e)
		mine, theirs := e.mem, peer.mem
		for what, got := range map[string][2][]byte{
			"SEND 1":  {mine[:600], theirs[0xA000:]},
			"READ 2":  {theirs[:700], mine[0x2000:]},
			"WRITE 3": {mine[:500], theirs[0x4000:]},
			"SEND 5":  {mine[:300], theirs[0xB000:]},
			"READ 6":  {theirs[0x100 : 0x100+300], mine[0x3100:]},
			"WRITE 7": {mine[:300], theirs[0x5000:]},
		} {
			if !bytes.Equal(got[0], got[1][:len(got[0])]) {
				t.Fatalf("%s of %s moved the wrong bytes", what, e.name)
			}
		}
		if n := binary.NativeEndian.Uint64(theirs[0x8000:]); n != 1 {
			t.Fatalf("the atomic of %s ran %d times", e.name, n)
		}
		e.wantState(StateRTS)
		e.wantTimer(p.clk.Now(), -1)
	}
}

// wantAllDone checks that the receives and the sends completed, each in order, all well.
func (e *end) wantAllDone(receives, sends string) {
	e.t.Helper()
	e.pollDone()
	var r, s []string
	for _, c := range e.done {
		if c.Status != StatusSuccess {
			e.t.Fatalf("%s completes %d with %v", e.name, c.ID, c.Status)
		}
		if c.Recv {
			r = append(r, fmt.Sprint(c.ID))
		} else {
			s = append(s, fmt.Sprint(c.ID))
		}
	}
	e.done = nil
	if got, want := fmt.Sprint(r, s), fmt.Sprintf("[%s] [%s]", receives, sends); got != want {
		e.t.Fatalf("%s completes %s, want %s", e.name, got, want)
	}
}

func TestLoss_EveryTwoPacketsOfABusyExchange(t *testing.T) {
	clean := smallPair(t)
	program(t, clean)
	packets := len(clean.a.sent) + len(clean.b.sent)
	if packets < 40 {
		t.Fatalf("only %d packets", packets)
	}
	step := 1
	if testing.Short() {
		step = 5
	}
	for k := range packets {
		// Up to a few more than the clean exchange has: retransmissions are lost too.
		for l := k + 1; l < packets+10; l += step {
			p := smallPair(t)
			p.tamper = nth(lost, k, l)
			if program(t, p); t.Failed() {
				t.Fatalf("packets %d and %d lost", k, l)
			}
		}
	}
}

func TestLoss_EveryTwoPacketsLate(t *testing.T) {
	clean := smallPair(t)
	program(t, clean)
	packets := len(clean.a.sent) + len(clean.b.sent)
	for k := range packets {
		for l := k + 1; l < packets; l += 3 {
			p := smallPair(t)
			p.latency = 10e3
			p.tamper = nth(late, k, l)
			program(t, p)
		}
	}
}

// Everything is lost for a while, in one direction or both.
func TestLoss_BlackoutsThatEndInTime(t *testing.T) {
	for begin := range 40 {
		for _, direction := range []string{"a", "b", "ab"} {
			p := smallPair(t)
			sent := 0
			p.tamper = func(from *end, _ *bth.Packet) fate {
				if sent++; sent > begin && p.clk.Now() < 5*3*67e6 && bytes.Contains([]byte(direction), []byte(from.name)) {
					return lost
				}
				return arrives
			}
			program(t, p)
		}
	}
}

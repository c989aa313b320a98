package transport

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
)

// experiment is a stream of 1 MiB messages from a to b over a long fat pipe: 100 Gbit/s, 10 us each way, path MTU 4096. A
// packet leaves when the one before has, so no queue adds to the round trip.
type experiment struct {
	op       WROpcode
	recovery func(end string) Recovery
	// loss is of packets with payload; reorder is of those that come up to eight packets late.
	loss, reorder float64
	took          time.Duration
}

const (
	pipeBits    = 100 // a nanosecond
	pipeLatency = 10 * time.Microsecond
	pipeHeaders = 14 + 20 + 8 + 12 + 4 + 24 // Ethernet to BTH, ICRC, and what Ethernet adds on the wire
	pipeMessage = 1 << 20
)

// goodput returns Gbit/s of payload of complete messages.
func (x experiment) goodput(t *testing.T) float64 {
	t.Helper()
	o := makeOptions(func(o *options) {
		o.mtu, o.depth, o.rdAtomic, o.memory, o.recovery = 4096, 16, 16, pipeMessage, x.recovery
	})
	ends := [2]*end{newEnd(t, "a", o), newEnd(t, "b", o)}
	ends[0].connect(0)
	ends[1].connect(0)
	var (
		now   clock.Time
		free  [2]clock.Time // when an end's transmitter is
		wires [2][]flight   // towards each, in order of arrival
		rnd   = rand.New(rand.NewPCG(7, 9))
		wr    = SendWR{
			Opcode: x.op, Flags: Signaled, SGL: ends[0].sge(0, pipeMessage),
			RemoteAddr: ends[1].va(0), RKey: ends[1].region.Key(),
		}
		c    Completion
		done int
	)
	for now < clock.Time(x.took) {
		for !ends[0].qp.sq.full() {
			if err := ends[0].qp.PostSend(&wr); err != nil {
				t.Fatal(err)
			}
		}
		for i, e := range ends {
			for e.qp.PollCompletion(&c) {
				if c.Status != StatusSuccess {
					t.Fatalf("%+v after %v: %v", x, time.Duration(now), c.Status)
				}
				done++
			}
			for free[i] <= now && e.qp.PollTransmit(now, &e.out) {
				free[i] = now.Add(time.Duration((e.out.Length+pipeHeaders)*8+pipeBits-1) / pipeBits)
				if e.out.Length > 0 && rnd.Float64() < x.loss {
					continue
				}
				f := flight{at: free[i].Add(pipeLatency), p: bth.Packet{
					Headers: e.out.Headers, Flags: e.out.Opcode.Flags(), Payload: joined(e.out.Payload), Src: e.addr, Dst: ends[1-i].addr,
				}}
				if rnd.Float64() < x.reorder {
					f.at = f.at.Add(time.Duration(1+rnd.IntN(8)) * (free[i].Sub(now)))
				}
				at, _ := slices.BinarySearchFunc(wires[1-i], f.at+1, func(f flight, t clock.Time) int { return cmp.Compare(f.at, t) })
				wires[1-i] = slices.Insert(wires[1-i], at, f)
			}
		}
		next := clock.Never
		for i, e := range ends {
			next = min(next, e.qp.NextTimeout())
			if len(wires[i]) > 0 {
				next = min(next, wires[i][0].at)
			}
			if free[i] > now {
				next = min(next, free[i])
			}
		}
		now = max(now, next)
		for i, e := range ends {
			for len(wires[i]) > 0 && wires[i][0].at <= now {
				e.qp.HandlePacket(now, &wires[i][0].p)
				wires[i] = wires[i][1:]
			}
			if e.qp.NextTimeout() <= now {
				e.qp.HandleTimeout(now)
			}
		}
	}
	return float64(done) * pipeMessage * 8 / float64(x.took)
}

// shipped is what devices use by default.
func shipped(string) Recovery {
	return Recovery{Probe: time.Millisecond, Selective: true, Hold: 512, Pool: NewHoldPool(1 << 14)}
}

// towardsStrict is the same with a peer that drops what is behind a gap, as rdma_rxe does.
func towardsStrict(end string) Recovery {
	if end == "a" {
		return shipped(end)
	}
	return Recovery{}
}

func goBackN(string) Recovery { return Recovery{} }

// raceDetector makes the experiments ten times slower, and they have one goroutine.
var raceDetector bool

func TestGoodput_UnderLoss(t *testing.T) {
	if raceDetector {
		t.Skip("covered without the race detector")
	}
	losses := [...]float64{0.0001, 0.001, 0.01, 0.05}
	for _, tc := range []struct {
		name     string
		op       WROpcode
		recovery func(string) Recovery
		least    [len(losses)]float64 // of the goodput without loss
	}{
		{"WRITE", WRWrite, shipped, [...]float64{0.98, 0.95, 0.85, 0.60}},
		{"READ", WRRead, shipped, [...]float64{0.98, 0.95, 0.85, 0.60}},
		// Ideal go-back-N at this window has 0.99, 0.94, 0.62, 0.24.
		{"WRITE towards a strict peer", WRWrite, towardsStrict, [...]float64{0.98, 0.90, 0.50, 0.15}},
		{"READ from a strict peer", WRRead, towardsStrict, [...]float64{0.98, 0.90, 0.50, 0.15}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := experiment{op: tc.op, recovery: tc.recovery, took: 20 * time.Millisecond}
			clean := x.goodput(t)
			if clean < 90 {
				t.Errorf("%.1f Gbit/s without loss", clean)
			}
			line := fmt.Sprintf("%.1f Gbit/s without loss, and of that", clean)
			for i, loss := range losses {
				x.loss, x.took = loss, 60*time.Millisecond
				got := x.goodput(t) / clean
				x.recovery = goBackN
				plain := x.goodput(t) / clean
				x.recovery = tc.recovery
				line += fmt.Sprintf(" %.3f at %v %% (go-back-N %.3f),", got, 100*loss, plain)
				if got < tc.least[i] || got < 0.99*plain {
					t.Errorf("%.3f of the goodput at %v %% loss, want %v, plain go-back-N has %.3f", got, 100*loss, tc.least[i], plain)
				}
			}
			t.Log(line)
		})
	}
}

// Packets that come late are not taken for lost within the reorder window.
func TestGoodput_UnderReordering(t *testing.T) {
	if raceDetector {
		t.Skip("covered without the race detector")
	}
	x := experiment{op: WRWrite, took: 50 * time.Millisecond, recovery: func(end string) Recovery {
		r := shipped(end)
		r.ReorderWindow = 5 * time.Microsecond
		return r
	}}
	for _, x.op = range []WROpcode{WRWrite, WRRead} {
		x.reorder = 0
		clean := x.goodput(t)
		x.reorder = 0.05
		got := x.goodput(t) / clean
		t.Logf("opcode %d: %.3f of %.1f Gbit/s", x.op, got, clean)
		if got < 0.95 {
			t.Errorf("opcode %d: %.3f of the goodput when 5 %% come up to eight packets late, want 0.95", x.op, got)
		}
	}
}

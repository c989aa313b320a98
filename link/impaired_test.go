package link_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/link"
)

// run sends packets through the impairment, a batch at a time, and returns what came,
// with the time of the manual clock that moves a microsecond a packet.
func run(t *testing.T, im link.Impairment, packets int) (*link.Impaired, []received) {
	t.Helper()
	var clk clock.Manual
	w := newWire(t, false, 0, link.MemOptions{Clock: &clk})
	a := link.NewImpaired(w.a, im, &clk)
	q := a.Queues()[0]
	var got []received
	take := func() {
		for _, r := range w.receive(t) {
			r.at = clk.Now()
			got = append(got, r)
		}
	}
	for psn := range bth.PSN(packets) {
		w.send(t, a, psn, psn+1, 64)
		take()
		clk.Advance(time.Microsecond)
	}
	for range 200 { // what is held comes out in time
		clk.Advance(100 * time.Microsecond)
		if err := q.Flush(); err != nil {
			t.Fatal(err)
		}
		take()
	}
	if n := q.Alloc(make([]link.Frame, 300)); n != 256 {
		t.Errorf("%d of 256 buffers are back", n)
	}
	return a, got
}

func psns(rs []received) (ps []bth.PSN) {
	for _, r := range rs {
		ps = append(ps, r.psn)
	}
	return ps
}

// near checks a count of independent events of probability p against n tries: within five sigma.
func near(t *testing.T, what string, got uint64, n int, p float64) {
	t.Helper()
	mean, sigma := float64(n)*p, math.Sqrt(float64(n)*p*(1-p))
	if math.Abs(float64(got)-mean) > 5*sigma {
		t.Errorf("%s: %d of %d, far from %.0f", what, got, n, mean)
	}
}

func TestImpaired_NothingChangesNothing(t *testing.T) {
	a, got := run(t, link.Impairment{Seed: 9}, 1000)
	for i, r := range got {
		if r.psn != bth.PSN(i) || r.drop != bth.DropNone {
			t.Fatalf("packet %d: PSN %d, %v", i, r.psn, r.drop)
		}
	}
	if len(got) != 1000 || a.Counts() != (link.ImpairedCounts{Packets: 1000}) {
		t.Errorf("%d came, counted %+v", len(got), a.Counts())
	}
}

func TestImpaired_LosesAsSeldomAsTold(t *testing.T) {
	const n = 20000
	a, got := run(t, link.Impairment{Loss: 0.03, Seed: 1}, n)
	near(t, "lost", a.Counts().Lost, n, 0.03)
	if len(got) != n-int(a.Counts().Lost) || !slices.IsSorted(psns(got)) {
		t.Errorf("%d came of %d with %d lost, in order: %v", len(got), n, a.Counts().Lost, slices.IsSorted(psns(got)))
	}
}

func TestImpaired_Duplicates(t *testing.T) {
	const n = 20000
	a, got := run(t, link.Impairment{Dup: 0.05, Seed: 2}, n)
	near(t, "duplicated", a.Counts().Duplicated, n, 0.05)
	if len(got) != n+int(a.Counts().Duplicated) || !slices.IsSorted(psns(got)) {
		t.Errorf("%d came of %d with %d duplicated", len(got), n, a.Counts().Duplicated)
	}
	if distinct := len(slices.Compact(psns(got))); distinct != n {
		t.Errorf("%d of %d distinct packets", distinct, n)
	}
	for _, r := range got {
		if r.drop != bth.DropNone {
			t.Fatalf("PSN %d: %v", r.psn, r.drop)
		}
	}
}

func TestImpaired_ReordersWithoutLosing(t *testing.T) {
	const n = 20000
	a, got := run(t, link.Impairment{Reorder: 0.02, Seed: 3}, n)
	near(t, "reordered", a.Counts().Reordered, n, 0.02)
	seen := make([]bool, n)
	behind := 0
	for i, r := range got {
		seen[r.psn] = true
		if i > 0 && r.psn < got[i-1].psn {
			behind++
			// Overtaken by one to three that are not reordered themselves.
			if d := got[i-1].psn - r.psn; d > 8 {
				t.Errorf("PSN %d came after %d", r.psn, got[i-1].psn)
			}
		}
	}
	if slices.Contains(seen, false) || len(got) != n {
		t.Errorf("%d of %d packets came", len(got), n)
	}
	if c := int(a.Counts().Reordered); behind < c*8/10 || behind > c {
		t.Errorf("%d packets came late, %d were reordered", behind, c)
	}
}

// The last packet of all has nobody to be overtaken by; it comes all the same.
func TestImpaired_ReorderedLastPacketComes(t *testing.T) {
	_, got := run(t, link.Impairment{Reorder: 1}, 5)
	if len(got) != 5 || got[4].at.Sub(0) < time.Millisecond {
		t.Errorf("%d of 5 packets came, the last at %v", len(got), got[len(got)-1].at)
	}
}

func TestImpaired_CorruptsOneBitOfThePayload(t *testing.T) {
	const n = 5000
	a, got := run(t, link.Impairment{Corrupt: 0.1, Seed: 4}, n)
	near(t, "corrupted", a.Counts().Corrupted, n, 0.1)
	if len(got) != n {
		t.Fatalf("%d of %d came", len(got), n)
	}
	w := newWire(t, false, 0, link.MemOptions{})
	bad := uint64(0)
	places := map[int]bool{}
	for i, r := range got {
		clean := w.write(nil, bth.PSN(i), 64)
		flipped := 0
		for j := range clean {
			for x := clean[j] ^ r.data[j]; x != 0; x &= x - 1 {
				flipped++
				places[j] = true
				if j < 42 {
					t.Fatalf("packet %d: byte %d of the headers is hit", i, j)
				}
			}
		}
		if flipped > 1 {
			t.Fatalf("packet %d: %d bits are hit", i, flipped)
		}
		bad += uint64(flipped)
	}
	if bad != a.Counts().Corrupted {
		t.Errorf("%d packets are hit, %d counted", bad, a.Counts().Corrupted)
	}
	if len(places) < 70 { // of 80 bytes from the BTH to the ICRC
		t.Errorf("only %d different bytes are ever hit", len(places))
	}
}

func TestImpaired_MarksCongestion(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		w := newWire(t, v6, 0, link.MemOptions{})
		a := link.NewImpaired(w.a, link.Impairment{CE: 0.5, Seed: 5}, nil)
		marked := uint64(0)
		for psn := range bth.PSN(1000) {
			w.send(t, a, psn, psn+1, 64)
			for _, r := range w.receive(t) {
				if r.drop != bth.DropNone { // checks the IPv4 checksum and the ICRC
					t.Fatalf("IPv6 %v, PSN %d: %v", v6, r.psn, r.drop)
				}
				clean := w.write(nil, r.psn, 64)
				if r.ecn == bth.CongestionExperienced {
					marked++
					if v6 && (r.data[14] != clean[14] || r.data[15]&0xF != clean[15]&0xF) {
						t.Fatal("more than the ECN bits changed")
					}
				} else if !bytes.Equal(r.data, clean) {
					t.Fatal("an unmarked packet changed")
				}
			}
		}
		near(t, fmt.Sprint("marked, IPv6 ", v6), marked, 1000, 0.5)
		if marked != a.Counts().Marked {
			t.Errorf("%d marked, %d counted", marked, a.Counts().Marked)
		}
	}
}

func TestImpaired_VerdictsDependOnTheSeedAlone(t *testing.T) {
	lost := func(im link.Impairment, batch int) (list []bth.PSN) {
		var clk clock.Manual
		w := newWire(t, false, 0, link.MemOptions{Clock: &clk})
		a := link.NewImpaired(w.a, im, &clk)
		came := map[bth.PSN]bool{}
		for psn := bth.PSN(0); psn < 2000; psn += bth.PSN(batch) {
			w.send(t, a, psn, psn+bth.PSN(batch), 64)
			clk.Advance(10 * time.Millisecond)
			if err := a.Queues()[0].Flush(); err != nil {
				t.Fatal(err)
			}
			for _, r := range w.receive(t) {
				came[r.psn] = true
			}
		}
		for psn := range bth.PSN(2000) {
			if !came[psn] {
				list = append(list, psn)
			}
		}
		return list
	}
	base := lost(link.Impairment{Loss: 0.05, Seed: 1}, 1)
	if len(base) == 0 {
		t.Fatal("nothing was lost")
	}
	if !slices.Equal(base, lost(link.Impairment{Loss: 0.05, Seed: 1}, 20)) {
		t.Error("other batches, other losses")
	}
	if !slices.Equal(base, lost(link.Impairment{Loss: 0.05, Dup: 0.1, Reorder: 0.1, CE: 0.1, Delay: time.Millisecond, Rate: 1e9, Seed: 1}, 10)) {
		t.Error("other probabilities change the losses")
	}
	if slices.Equal(base, lost(link.Impairment{Loss: 0.05, Seed: 2}, 1)) {
		t.Error("another seed, the same losses")
	}
}

func TestImpaired_DelayAndRateByTheClock(t *testing.T) {
	var clk clock.Manual
	w := newWire(t, false, 0, link.MemOptions{Clock: &clk})
	a := link.NewImpaired(w.a, link.Impairment{Delay: time.Millisecond, Rate: 1e9}, &clk)
	size := len(w.write(nil, 0, 1024))
	each := time.Duration(size*8) * time.Nanosecond // at 1 Gbit/s
	w.send(t, a, 0, 100, 1024)
	var arrivals []clock.Time
	for len(arrivals) < 100 && clk.Now().Sub(0) < 10*time.Millisecond {
		clk.Advance(100 * time.Nanosecond)
		if _, err := a.Queues()[0].Recv(nil); err != nil { // looking is enough
			t.Fatal(err)
		}
		for _, r := range w.receive(t) {
			if r.psn != bth.PSN(len(arrivals)) {
				t.Fatalf("PSN %d came where %d was due", r.psn, len(arrivals))
			}
			arrivals = append(arrivals, clk.Now())
		}
	}
	if len(arrivals) != 100 {
		t.Fatalf("%d of 100 packets came", len(arrivals))
	}
	for i, at := range arrivals {
		due := time.Millisecond + time.Duration(i+1)*each
		if d := at.Sub(0) - due; d < 0 || d > 200*time.Nanosecond {
			t.Fatalf("packet %d came at %v, due at %v", i, at.Sub(0), due)
		}
	}
}

// With the real clock, Wait alone gets delayed packets out, and returns in time.
func TestImpaired_WaitSendsWhatIsDue(t *testing.T) {
	w := newWire(t, false, 0, link.MemOptions{})
	a := link.NewImpaired(w.a, link.Impairment{Delay: 5 * time.Millisecond}, nil)
	q := a.Queues()[0]
	start := clock.System().Now()
	w.send(t, a, 0, 3, 64)
	for len(w.receive(t)) == 0 {
		if clock.System().Now().Sub(start) > time.Second {
			t.Fatal("nothing came within a second")
		}
		if err := q.Wait(clock.Never); err != nil {
			t.Fatal(err)
		}
	}
	if d := clock.System().Now().Sub(start); d < 5*time.Millisecond {
		t.Errorf("the packets took %v of 5 ms", d)
	}
	// The endpoint's own deadline comes first.
	w.send(t, a, 3, 4, 64)
	start = clock.System().Now()
	if err := q.Wait(start.Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if d := clock.System().Now().Sub(start); d < time.Millisecond || d > 4*time.Millisecond {
		t.Logf("Wait for 1 ms took %v (a busy machine?)", d)
	}
}

// A receiver that stops reading holds back what is due; nothing is lost or spins.
func TestImpaired_FullPeerHoldsBack(t *testing.T) {
	var clk clock.Manual
	w := newWire(t, false, 0, link.MemOptions{Clock: &clk, Depth: 16})
	a := link.NewImpaired(w.a, link.Impairment{Delay: time.Millisecond}, &clk)
	q := a.Queues()[0]
	sent := bth.PSN(0)
	for range 40 { // buffers come back as their frames are copied
		var fs [8]link.Frame
		n := q.Alloc(fs[:])
		for i := range fs[:n] {
			fs[i].Data = w.write(fs[i].Data, sent, 64)
			sent++
		}
		q.Submit(fs[:n])
	}
	if sent != 320 {
		t.Fatalf("%d packets taken, want 320", sent)
	}
	clk.Advance(2 * time.Millisecond)
	var got []bth.PSN
	for range 100 {
		if n := q.Alloc(make([]link.Frame, 1)); n != 0 && len(got) < 300 {
			t.Fatalf("a buffer was leased with %d packets due", 320-len(got))
		}
		got = append(got, psns(w.receive(t))...)
		if err := q.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != 320 || !slices.IsSorted(got) {
		t.Errorf("%d of 320 packets came, in order: %v", len(got), slices.IsSorted(got))
	}
}

func TestImpaired_HoldsABoundedNumber(t *testing.T) {
	var clk clock.Manual
	w := newWire(t, false, 0, link.MemOptions{Clock: &clk})
	a := link.NewImpaired(w.a, link.Impairment{Delay: time.Hour}, &clk)
	q := a.Queues()[0]
	var fs [64]link.Frame
	sent := 0
	for range 1000 {
		n := q.Alloc(fs[:])
		if n == 0 {
			break
		}
		for i := range fs[:n] {
			fs[i].Data = w.write(fs[i].Data, bth.PSN(sent), 64)
			sent++
		}
		q.Submit(fs[:n])
	}
	if sent != 4096 {
		t.Errorf("%d packets were taken, want 4096", sent)
	}
	clk.Advance(2 * time.Hour)
	for came := 0; came < sent; {
		if err := q.Wait(0); err != nil { // says that there is room, or makes some
			t.Fatal(err)
		}
		got := w.receive(t)
		if len(got) == 0 {
			t.Fatalf("after %d packets no more come", came)
		}
		came += len(got)
	}
	if q.Alloc(fs[:]) != len(fs) {
		t.Error("no room after everything went out")
	}
}

// opcodeAndPSN matches packets by their BTH, as a caller that knows bth does.
func opcodeAndPSN(op bth.Opcode, from bth.PSN) func([]byte) bool {
	return func(frame []byte) bool {
		ib := frame[42:]
		return bth.Opcode(ib[0]) == op && bth.PSN(binary.BigEndian.Uint32(ib[8:])&0xFFFFFF) >= from
	}
}

func TestImpaired_RulesHitChosenPackets(t *testing.T) {
	middle := opcodeAndPSN(bth.RCSendMiddle, 10)
	for _, tc := range []struct {
		name  string
		rules []link.Rule
		want  []bth.PSN // of 15
		check func(rs []received) bool
	}{
		{"lose the second from 10 on", []link.Rule{{Match: middle, Nth: 2}},
			[]bth.PSN{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14}, nil},
		{"lose all from 10 on", []link.Rule{{Match: middle}},
			[]bth.PSN{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, nil},
		{"no such opcode", []link.Rule{{Match: opcodeAndPSN(bth.RCAcknowledge, 0)}},
			[]bth.PSN{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, nil},
		{"lose the first two and the last", []link.Rule{{Nth: 1}, {Nth: 2}, {Nth: 15}},
			[]bth.PSN{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}, nil},
		{"duplicate the first", []link.Rule{{Nth: 1, Action: link.ActionDuplicate}},
			[]bth.PSN{0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, nil},
		{"delay the first", []link.Rule{{Nth: 1, Action: link.ActionDelay, Delay: 3500 * time.Nanosecond}},
			[]bth.PSN{1, 2, 3, 0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, nil},
		{"corrupt the fourth", []link.Rule{{Nth: 4, Action: link.ActionCorrupt}},
			nil, func(rs []received) bool {
				bad := 0
				for i, r := range rs {
					if r.drop != bth.DropNone && i == 3 {
						bad++
					}
				}
				return bad == 1 && len(rs) == 15
			}},
		{"mark the fourth", []link.Rule{{Nth: 4, Action: link.ActionMarkCE}},
			nil, func(rs []received) bool {
				for i, r := range rs {
					if (r.ecn == bth.CongestionExperienced) != (i == 3) {
						return false
					}
				}
				return len(rs) == 15
			}},
		{"reorder the first", []link.Rule{{Nth: 1, Action: link.ActionReorder}},
			nil, func(rs []received) bool {
				at := slices.Index(psns(rs), 0)
				return len(rs) == 15 && at >= 1 && at <= 3
			}},
	} {
		_, got := run(t, link.Impairment{Rules: tc.rules}, 15)
		if tc.want != nil && !slices.Equal(psns(got), tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, psns(got), tc.want)
		}
		if tc.check != nil && !tc.check(got) {
			t.Errorf("%s: %v", tc.name, psns(got))
		}
	}
}

// Every packet of a super-frame is judged by itself and arrives as a frame of its own.
func TestImpaired_ActsOnEachPacketOfASuperFrame(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		w := newWire(t, v6, 0, link.MemOptions{})
		at := w.encap.Len()
		third := func(frame []byte) bool { return binary.BigEndian.Uint32(frame[at+8:])&0xFFFFFF == 102 }
		a := link.NewImpaired(w.a, link.Impairment{Rules: []link.Rule{{Match: third}}}, nil)
		var f [1]link.Frame
		q := lease(t, a, f[:])
		f[0].Data = w.writeSuper(f[0].Data, 100, 1024, 6, 11)
		f[0].Segment = bth.Len + 1024 + bth.ICRCLen
		q.Submit(f[:])
		got := w.receive(t)
		if want := []bth.PSN{100, 101, 103, 104, 105}; !slices.Equal(psns(got), want) {
			t.Errorf("IPv6 %v: PSNs %v, want %v", v6, psns(got), want)
		}
		for _, r := range got {
			if r.drop != bth.DropNone {
				t.Errorf("IPv6 %v, PSN %d: %v", v6, r.psn, r.drop)
			}
		}
		if c := a.Counts(); c.Packets != 6 || c.Lost != 1 {
			t.Errorf("IPv6 %v: counted %+v", v6, c)
		}
	}
}

// What is gathered is the caller's memory: it may neither be changed nor be looked at later.
func TestImpaired_LeavesGatheredMemoryAlone(t *testing.T) {
	im := link.Impairment{Corrupt: 1, Delay: time.Millisecond, Seed: 1}
	var clk clock.Manual
	w := newWire(t, false, 0, link.MemOptions{Clock: &clk})
	a := link.NewImpaired(w.a, im, &clk)
	whole := w.write(nil, 1, 1024)
	mine := bytes.Clone(whole)
	var f [1]link.Frame
	q := lease(t, a, f[:])
	f[0].Data = f[0].Data[:copy(f[0].Data, mine[:60])]
	f[0].Gather = [][]byte{mine[60:700], mine[700:]}
	q.Submit(f[:])
	if !bytes.Equal(mine, whole) {
		t.Fatal("the caller's memory was changed")
	}
	clear(mine)
	clk.Advance(time.Second)
	if err := q.Flush(); err != nil {
		t.Fatal(err)
	}
	got := w.receive(t)
	if len(got) != 1 || got[0].drop == bth.DropNone {
		t.Fatalf("%d packets, %v", len(got), got[0].drop)
	}
	different := 0
	for i := range whole {
		if whole[i] != got[0].data[i] {
			different++
		}
	}
	if different != 1 {
		t.Errorf("%d bytes are different, want 1", different)
	}
}

func TestImpaired_OtherFramesPass(t *testing.T) {
	w := newWire(t, false, 0, link.MemOptions{})
	a := link.NewImpaired(w.a, link.Impairment{Loss: 1}, nil)
	for _, change := range []func([]byte){
		func(b []byte) { b[12] = 0x88 },        // EtherType
		func(b []byte) { b[23] = 6 },           // TCP
		func(b []byte) { b[37] = 0xFF },        // port
		func(b []byte) { b[20], b[21] = 0, 8 }, // fragment
		func(b []byte) {},                      // RoCE
	} {
		var f [1]link.Frame
		q := lease(t, a, f[:])
		f[0].Data = w.write(f[0].Data, 1, 64)
		change(f[0].Data)
		q.Submit(f[:])
	}
	if got := w.receive(t); len(got) != 4 {
		t.Errorf("%d frames came, want the 4 that are not RoCE", len(got))
	}
}

func TestImpaired_NoAllocationsOnceWarm(t *testing.T) {
	w := newWire(t, false, 0, link.MemOptions{})
	a := link.NewImpaired(w.a, link.Impairment{Loss: 0.1, Dup: 0.1, Reorder: 0.1, Corrupt: 0.1, CE: 0.1, Delay: time.Nanosecond}, nil)
	q, qb := a.Queues()[0], w.b.Queues()[0]
	frame := w.write(nil, 1, 1024)
	var fs [16]link.Frame
	round := func() {
		n := q.Alloc(fs[:])
		for i := range fs[:n] {
			fs[i].Data = fs[i].Data[:copy(fs[i].Data, frame)]
		}
		q.Submit(fs[:n])
		_ = q.Flush()
		for {
			n, _ := qb.Recv(fs[:])
			if n == 0 {
				break
			}
			qb.Release(fs[:n])
		}
	}
	for range 2000 { // until there are enough spare copies
		round()
	}
	if n := testing.AllocsPerRun(500, round); n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
}

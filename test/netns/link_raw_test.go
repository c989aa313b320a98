//go:build linux

package netns

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/link"
)

func TestRaw_CarriesFramesBothWays(t *testing.T) {
	lab := newLab(t, 4200)
	a, b := lab.a.open(link.Options{}), lab.b.open(link.Options{})
	for _, v6 := range []bool{false, true} {
		for _, way := range []struct {
			from, to   link.Link
			src, dst   *host
			directions string
		}{{a, b, lab.a, lab.b, "a to b"}, {b, a, lab.b, lab.a, "b to a"}} {
			head := between(way.src, way.dst, v6)
			overhead := len(head.frame(nil)) - 14
			var frames [][]byte
			for i := range 300 { // more than the buffers there are, more than a batch
				frames = append(frames, head.frame(pattern(16+i*(4200-overhead-16)/299, byte(i))))
			}
			send(t, way.from, frames...)
			got := receive(t, way.to, len(frames), time.Second)
			if len(got) != len(frames) {
				t.Fatalf("%s, IPv6 %v: %d of %d frames came", way.directions, v6, len(got), len(frames))
			}
			for i := range frames {
				// Short frames may come padded.
				if !bytes.HasPrefix(got[i], frames[i]) || len(got[i]) > max(60, len(frames[i])) {
					t.Fatalf("%s, IPv6 %v: frame %d came changed:\n%x\nsent\n%x", way.directions, v6, i, got[i], frames[i])
				}
			}
		}
	}
	for _, l := range []link.Link{a, b} {
		if s := l.Queues()[0].Stats(); s.RxFrames != 600 || s.TxFrames != 600 || s.RxDropped+s.RxTruncated+s.TxErrors != 0 {
			t.Errorf("counted %+v", s)
		}
	}
}

func TestRaw_GathersParts(t *testing.T) {
	lab := newLab(t, 4200)
	a, b := lab.a.open(link.Options{}), lab.b.open(link.Options{})
	if !a.Caps().Gather {
		t.Fatal("the link does not gather")
	}
	whole := between(lab.a, lab.b, false).frame(pattern(4000, 3))
	rnd := rand.New(rand.NewPCG(1, 1))
	q := a.Queues()[0]
	var fs [200]link.Frame
	for round := range 10 {
		n := q.Alloc(fs[:])
		if n != len(fs) {
			t.Fatalf("%d of %d buffers", n, len(fs))
		}
		var parts [][]byte
		for i := range fs {
			rest := whole[copy(fs[i].Data[:42+rnd.IntN(80)], whole):]
			fs[i].Data = fs[i].Data[:len(whole)-len(rest)]
			for len(rest) > 0 {
				part := bytes.Clone(rest[:min(len(rest), rnd.IntN(700))]) // empty ones as well
				fs[i].Gather = append(fs[i].Gather, part)
				rest = rest[len(part):]
				parts = append(parts, part)
			}
		}
		q.Submit(fs[:])
		for _, p := range parts {
			clear(p) // ours again once Submit returned
		}
		got := receive(t, b, len(fs), time.Second)
		if len(got) != len(fs) {
			t.Fatalf("round %d: %d of %d frames came", round, len(got), len(fs))
		}
		for i := range got {
			if !bytes.Equal(got[i], whole) {
				t.Fatalf("round %d: frame %d came changed", round, i)
			}
		}
	}
}

// More parts than one system call takes.
func TestRaw_GathersVeryManyParts(t *testing.T) {
	lab := newLab(t, 4200)
	a, b := lab.a.open(link.Options{}), lab.b.open(link.Options{})
	whole := between(lab.a, lab.b, false).frame(pattern(3000, 3))
	var fs [3]link.Frame
	q := a.Queues()[0]
	q.Alloc(fs[:])
	for i := range fs {
		fs[i].Data = fs[i].Data[:copy(fs[i].Data, whole[:42])]
		for j := 42; j < len(whole); j++ {
			fs[i].Gather = append(fs[i].Gather, whole[j:j+1])
		}
	}
	q.Submit(fs[:])
	got := receive(t, b, 3, time.Second)
	if len(got) != 3 || !bytes.Equal(got[0], whole) || !bytes.Equal(got[2], whole) {
		t.Fatalf("%d of 3 frames came, or changed", len(got))
	}
}

// injector sends any frame on eth0 of the host, as a stranger.
func injector(t *testing.T, h *host) func([]byte) {
	t.Helper()
	fd := -1
	h.in(func() {
		var err error
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { _ = unix.Close(fd) })
	index := h.iface("eth0").Attrs().Index
	return func(b []byte) {
		t.Helper()
		if err := unix.Sendto(fd, b, 0, &unix.SockaddrLinklayer{Ifindex: index}); err != nil {
			t.Fatal(err)
		}
	}
}

func tag(tpid, tci uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, tpid), tci)
}

func TestRaw_TakesOnlyWhatIsRoCEAndForThisHost(t *testing.T) {
	lab := newLab(t, 1500)
	b := lab.b.open(link.Options{})
	inject := injector(t, lab.a)
	v4, v6 := between(lab.a, lab.b, false), between(lab.a, lab.b, true)
	with := func(h header, change func(*header)) header {
		change(&h)
		return h
	}
	for _, tc := range []struct {
		name   string
		header header
		passes bool
	}{
		{"IPv4", v4, true},
		{"IPv6", v6, true},
		{"IPv4 with options", with(v4, func(h *header) { h.options = 8 }), true},
		{"IPv4 priority tag", with(v4, func(h *header) { h.vlan = tag(0x8100, 0xA000) }), true},
		{"IPv6 priority tag", with(v6, func(h *header) { h.vlan = tag(0x8100, 0x2000) }), true},
		{"IPv4 to all hosts", with(v4, func(h *header) { h.dst = [6]byte{255, 255, 255, 255, 255, 255} }), true},
		{"IPv4 to a group", with(v4, func(h *header) { h.dst = [6]byte{1, 0, 0x5e, 1, 2, 3} }), true},
		{"TCP", with(v4, func(h *header) { h.proto = 6 }), false},
		{"TCP over IPv6", with(v6, func(h *header) { h.proto = 6 }), false},
		{"another port", with(v4, func(h *header) { h.port = 4790 }), false},
		{"another port over IPv6", with(v6, func(h *header) { h.port = 4792 }), false},
		{"first fragment", with(v4, func(h *header) { h.fragment = 0x2000 }), false},
		{"later fragment", with(v4, func(h *header) { h.fragment = 0x0010 }), false},
		{"another host's", with(v4, func(h *header) { h.dst = [6]byte{2, 1, 2, 3, 4, 5} }), false},
		{"a VLAN's", with(v4, func(h *header) { h.vlan = tag(0x8100, 5) }), false},
		{"two tags", with(v4, func(h *header) { h.vlan = append(tag(0x88A8, 5), tag(0x8100, 6)...) }), false},
	} {
		frame := tc.header.frame(pattern(40, 1))
		inject(frame)
		end := v4.frame([]byte("the last one, which passes for certain"))
		inject(end)
		got := receive(t, b, 2, 200*time.Millisecond)
		if len(got) == 0 || !bytes.Equal(got[len(got)-1], end) {
			t.Fatalf("%s: what follows did not come", tc.name)
		}
		switch {
		case !tc.passes && len(got) != 1:
			t.Errorf("%s: passed", tc.name)
		case tc.passes && (len(got) != 2 || !bytes.Equal(got[0], frame)):
			t.Errorf("%s: got\n%x\nsent\n%x", tc.name, got[0], frame)
		}
		// Nothing is left: the next case begins clean.
		if rest := receive(t, b, 1, 0); len(rest) > 0 {
			t.Fatalf("%s: frames left over", tc.name)
		}
	}
}

func TestRaw_DoesNotHearItself(t *testing.T) {
	lab := newLab(t, 1500)
	a, b := lab.a.open(link.Options{}), lab.b.open(link.Options{})
	send(t, a, between(lab.a, lab.b, false).frame(pattern(100, 1)))
	if got := receive(t, b, 1, time.Second); len(got) != 1 {
		t.Fatal("the peer heard nothing")
	}
	if got := receive(t, a, 1, 50*time.Millisecond); len(got) != 0 {
		t.Error("the sender heard its own frame")
	}
}

// icmpUnreachables reads how many ICMP and ICMPv6 destination unreachables the host sent.
func icmpUnreachables(h *host) (n string) {
	h.in(func() {
		v4, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err != nil {
			h.t.Error(err)
		}
		v6, err := os.ReadFile("/proc/thread-self/net/snmp6")
		if err != nil {
			h.t.Error(err)
		}
		var names []string
		for line := range strings.Lines(string(v4)) {
			f := strings.Fields(line)
			if f[0] != "Icmp:" {
				continue
			}
			if names == nil {
				names = f
				continue
			}
			for i := range f {
				if names[i] == "OutDestUnreachs" {
					n = "IPv4 " + f[i]
				}
			}
		}
		for line := range strings.Lines(string(v6)) {
			if f := strings.Fields(line); f[0] == "Icmp6OutDestUnreachs" {
				n += ", IPv6 " + f[1]
			}
		}
	})
	return n
}

func TestRaw_KeepsTheKernelFromAnsweringUnreachable(t *testing.T) {
	lab := newLab(t, 1500)
	// The other end of the test: without the link the kernel does answer.
	a := lab.a.open(link.Options{})
	// Over IPv6 the kernel answers only what has a checksum, as super-frames will have.
	var frames [2][]byte
	for i, v6 := range []bool{false, true} {
		h := between(lab.a, lab.b, v6)
		h.checksum = true
		frames[i] = h.frame(pattern(40, 1))
	}
	before := icmpUnreachables(lab.b)
	send(t, a, frames[:]...)
	eventually(t, "the kernel answers port unreachable without a link", func() bool { return icmpUnreachables(lab.b) == "IPv4 1, IPv6 1" })
	if before != "IPv4 0, IPv6 0" {
		t.Fatalf("unreachables before: %s", before)
	}
	b := lab.b.open(link.Options{})
	send(t, a, frames[:]...)
	if got := receive(t, b, 2, time.Second); len(got) != 2 {
		t.Fatalf("%d of 2 frames came", len(got))
	}
	time.Sleep(20 * time.Millisecond)
	if got := icmpUnreachables(lab.b); got != "IPv4 1, IPv6 1" {
		t.Errorf("unreachables sent with the link open: %s, before: IPv4 1, IPv6 1", got)
	}
}

func TestRaw_WaitWakesForAFrameAndIdlesWithoutCPU(t *testing.T) {
	lab := newLab(t, 1500)
	a, b := lab.a.open(link.Options{}), lab.b.open(link.Options{})
	frame := between(lab.a, lab.b, false).frame(pattern(40, 1))
	q := b.Queues()[0]
	woken := make(chan error, 1)
	go func() { woken <- q.Wait(clock.Never) }()
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	time.Sleep(300 * time.Millisecond)
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	cpu := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	if cpu > 150*time.Millisecond { // spinning would use all of it; the rest is the runtime's, more on a slow machine
		t.Errorf("waiting 300 ms used %v of CPU", cpu)
	}
	select {
	case err := <-woken:
		t.Fatalf("Wait returned with nothing to receive: %v", err)
	default:
	}
	send(t, a, frame)
	if err := <-woken; err != nil {
		t.Fatal(err)
	}
	if got := receive(t, b, 1, 0); len(got) != 1 {
		t.Error("Wait returned for a frame, but there was none")
	}

	q.Wake()
	if err := q.Wait(clock.Never); err != nil {
		t.Fatal(err)
	}
	go func() { woken <- q.Wait(clock.Never) }()
	runtime.Gosched()
	q.Wake()
	if err := <-woken; err != nil {
		t.Fatal(err)
	}
	start := clock.System().Now()
	if err := q.Wait(start.Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if d := clock.System().Now().Sub(start); d < 20*time.Millisecond {
		t.Errorf("Wait returned after %v of 20 ms", d)
	}
}

// A frame comes into the ring at once, not when a block of them is full or a timeout passes.
func TestRaw_SingleFramesComeAtOnce(t *testing.T) {
	lab := newLab(t, 1500)
	a, b := lab.a.open(link.Options{}), lab.b.open(link.Options{})
	there, back := between(lab.a, lab.b, false).frame(pattern(40, 1)), between(lab.b, lab.a, false).frame(pattern(40, 2))
	best := time.Hour
	for range 200 {
		start := time.Now()
		send(t, a, there)
		if len(receive(t, b, 1, time.Second)) != 1 {
			t.Fatal("lost")
		}
		send(t, b, back)
		if len(receive(t, a, 1, time.Second)) != 1 {
			t.Fatal("lost")
		}
		best = min(best, time.Since(start))
	}
	// Far above what it takes, far below the timeout of a TPACKET_V3 block.
	if best > time.Millisecond {
		t.Errorf("the best of 200 round trips took %v", best)
	}
}

func TestRaw_RingHoldsABurstAndCountsWhatItCannot(t *testing.T) {
	lab := newLab(t, 4200)
	a := lab.a.open(link.Options{})
	head := between(lab.a, lab.b, false)
	burst := func(n int) (frames [][]byte) {
		for i := range n {
			frames = append(frames, head.frame(binary.BigEndian.AppendUint32(pattern(4136, 1), uint32(i))))
		}
		return frames
	}
	// All responses of an 8 MiB READ, while nobody reads.
	b := lab.b.open(link.Options{})
	frames := burst(2048)
	send(t, a, frames...)
	got := receive(t, b, len(frames), 100*time.Millisecond)
	if len(got) != len(frames) || !bytes.Equal(got[len(got)-1], frames[len(frames)-1]) {
		t.Fatalf("%d of %d frames came", len(got), len(frames))
	}
	if s := b.Queues()[0].Stats(); s.RxDropped != 0 {
		t.Errorf("%d frames dropped", s.RxDropped)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = lab.b.open(link.Options{RingBytes: 1 << 20})
	send(t, a, frames...)
	got = receive(t, b, len(frames), 100*time.Millisecond)
	s := b.Queues()[0].Stats()
	if s.RxDropped == 0 || int(s.RxDropped)+len(got) != len(frames) || len(got) < 128 {
		t.Errorf("%d frames came and %d were counted as dropped, of %d", len(got), s.RxDropped, len(frames))
	}
	// It goes on after an overflow, also round the end of the ring.
	for range 10 {
		send(t, a, frames[:100]...)
		if got := receive(t, b, 100, 100*time.Millisecond); len(got) != 100 {
			t.Fatalf("%d of 100 frames came after an overflow", len(got))
		}
	}
}

// Leased slots stay leased while others come and go, whatever the order of release.
func TestRaw_LeasedFramesSurviveTheRingGoingRound(t *testing.T) {
	lab := newLab(t, 4200)
	a, b := lab.a.open(link.Options{}), lab.b.open(link.Options{RingBytes: 1 << 20})
	head := between(lab.a, lab.b, false)
	q := b.Queues()[0]
	send(t, a, head.frame(pattern(1000, 77)))
	var held [1]link.Frame
	eventually(t, "the frame comes", func() bool { n, _ := q.Recv(held[:]); return n == 1 })
	want := bytes.Clone(held[0].Data)
	total := 0
	for i := range 10 {
		var frames [][]byte
		for range 60 {
			frames = append(frames, head.frame(pattern(1000, byte(i))))
		}
		send(t, a, frames...)
		total += len(receive(t, b, 60, 50*time.Millisecond))
	}
	if !bytes.Equal(held[0].Data, want) {
		t.Fatal("a leased frame was overwritten")
	}
	if s := q.Stats(); int(s.RxDropped)+total != 600 {
		t.Errorf("%d received, %d dropped of 600", total, s.RxDropped)
	}
	q.Release(held[:])
	send(t, a, head.frame(pattern(100, 1)))
	if got := receive(t, b, 1, time.Second); len(got) != 1 {
		t.Error("nothing comes after the release")
	}
}

func TestRaw_NoAllocations(t *testing.T) {
	lab := newLab(t, 4200)
	a, b := lab.a.open(link.Options{}), lab.b.open(link.Options{})
	frame := between(lab.a, lab.b, false).frame(pattern(4096, 1))
	qa, qb := a.Queues()[0], b.Queues()[0]
	out, in := make([]link.Frame, 32), make([]link.Frame, 32)
	gather := [][]byte{frame[100:2000], frame[2000:]}
	if n := testing.AllocsPerRun(200, func() {
		if k := qa.Alloc(out); k != len(out) {
			t.Fatalf("%d of %d buffers", k, len(out))
		}
		for i := range out {
			out[i].Data = out[i].Data[:copy(out[i].Data, frame[:100])]
			out[i].Gather = gather
		}
		qa.Submit(out)
		_ = qa.Flush()
		for got := 0; got < len(out); {
			_ = qb.Wait(clock.System().Now().Add(time.Second))
			k, err := qb.Recv(in)
			if err != nil {
				t.Fatal(err)
			}
			got += k
			qb.Release(in[:k])
		}
		_ = qb.Wait(clock.System().Now().Add(time.Microsecond)) // really sleeps
	}); n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
}

// A queue discipline that lets out less than is sent: every frame arrives all the
// same, and Alloc holds the sender back.
func TestRaw_FullQueueKeepsFramesAndHoldsBack(t *testing.T) {
	lab := newLab(t, 4200)
	lab.a.in(func() { addTokenBucket(t, "eth0") })
	a, b := lab.a.open(link.Options{Depth: 128}), lab.b.open(link.Options{})
	head := between(lab.a, lab.b, false)
	q := a.Queues()[0]
	const frames = 1000
	var got [][]byte
	done := make(chan bool)
	go func() {
		got = receive(t, b, frames, 2*time.Second)
		close(done)
	}()
	sent, short := 0, 0
	fs := make([]link.Frame, 32)
	number := make([]byte, 2000)
	for sent < frames {
		n := q.Alloc(fs[:min(len(fs), frames-sent)])
		for i := range fs[:n] {
			binary.BigEndian.PutUint32(number, uint32(sent))
			whole := head.frame(number)
			fs[i].Data = fs[i].Data[:copy(fs[i].Data, whole[:60])]
			fs[i].Gather = [][]byte{whole[60:]}
			sent++
		}
		q.Submit(fs[:n])
		if n == 0 {
			short++
			if err := q.Wait(clock.Never); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The rest must go out of Wait alone.
	if err := q.Wait(clock.System().Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	<-done
	if len(got) != frames {
		t.Fatalf("%d of %d frames came", len(got), frames)
	}
	// In any order: the bucket lets frames out on whatever CPU its timer runs, and a
	// veth keeps them in order for each CPU only.
	seen := map[uint32]bool{}
	for _, b := range got {
		seen[binary.BigEndian.Uint32(b[42:])] = true
	}
	if len(seen) != frames {
		t.Errorf("%d different frames came, want %d", len(seen), frames)
	}
	s := q.Stats()
	if short == 0 || s.TxKept == 0 {
		t.Errorf("the queue was never full: Alloc short %d times, %d frames kept", short, s.TxKept)
	}
	if s.TxFrames != frames || s.TxErrors != 0 {
		t.Errorf("counted %+v", s)
	}
	t.Logf("Alloc short %d times, %d frames kept", short, s.TxKept)
}

func TestRaw_TooLongFrameIsCounted(t *testing.T) {
	lab := newLab(t, 1500)
	a, b := lab.a.open(link.Options{}), lab.b.open(link.Options{})
	head := between(lab.a, lab.b, false)
	fits := 1500 - 28
	// 4 bytes too long fits the buffer, which has room for a VLAN tag, but not the interface.
	q := a.Queues()[0]
	var fs [4]link.Frame
	q.Alloc(fs[:])
	for i, n := range []int{fits, fits + 4, 5000, fits} {
		whole := head.frame(pattern(n, byte(i)))
		fs[i].Data = fs[i].Data[:copy(fs[i].Data, whole[:50])]
		fs[i].Gather = [][]byte{whole[50:]}
	}
	q.Submit(fs[:])
	if got := receive(t, b, 4, 100*time.Millisecond); len(got) != 2 {
		t.Errorf("%d frames came, want the 2 that fit", len(got))
	}
	if s := q.Stats(); s.TxErrors != 2 || s.TxFrames != 2 {
		t.Errorf("counted %+v", s)
	}
	if n := q.Alloc(make([]link.Frame, 300)); n != 256 {
		t.Errorf("%d of 256 buffers are back", n)
	}
}

func TestRaw_FrameLongerThanASlotIsCounted(t *testing.T) {
	lab := newLab(t, 1500)
	b := lab.b.open(link.Options{SingleFrames: true})
	for _, h := range []*host{lab.a, lab.b} {
		h.must(h.nl.LinkSetMTU(h.iface("eth0"), 9000))
	}
	a := lab.a.open(link.Options{})
	head := between(lab.a, lab.b, false)
	send(t, a, head.frame(pattern(8000, 1)), head.frame(pattern(1000, 2)))
	if got := receive(t, b, 2, 100*time.Millisecond); len(got) != 1 {
		t.Errorf("%d frames came, want the one that fits", len(got))
	}
	if s := b.Queues()[0].Stats(); s.RxTruncated != 1 || s.RxFrames != 1 {
		t.Errorf("counted %+v", s)
	}
}

func TestRaw_CloseGivesEverythingBack(t *testing.T) {
	lab := newLab(t, 1500)
	open := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	l := lab.a.open(link.Options{}) // once for what opens on first use and stays
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	fds, goroutines := open(), runtime.NumGoroutine()
	for range 20 {
		l := lab.a.open(link.Options{})
		q := l.Queues()[0]
		ended := make(chan error)
		go func() { ended <- q.Wait(clock.Never) }()
		time.Sleep(time.Millisecond)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "closed") {
			t.Fatalf("Wait ended with %v", err)
		}
		// All of it may be called after Close.
		q.Wake()
		_ = q.Stats()
		if _, err := q.Recv(make([]link.Frame, 1)); err == nil {
			t.Fatal("Recv works after Close")
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := open(); n != fds {
		t.Errorf("%d files open after 20 links, %d before", n, fds)
	}
	eventually(t, "all goroutines of 20 links are gone", func() bool { return runtime.NumGoroutine() <= goroutines })
	lab.a.in(func() {
		table, err := os.ReadFile("/proc/thread-self/net/udp")
		if err != nil || strings.Contains(string(table), fmt.Sprintf(":%04X ", 4791)) {
			t.Errorf("UDP port 4791 is still held: %v", err)
		}
	})
}

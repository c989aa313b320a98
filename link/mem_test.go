package link

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-roce/roce/clock"
)

// frameTo writes a frame of n bytes for dst into f: header, a number, and bytes that follow from it.
func frameTo(f *Frame, dst, src [6]byte, n int, number uint32) {
	f.Data = f.Data[:n]
	copy(f.Data, dst[:])
	copy(f.Data[6:], src[:])
	f.Data[12], f.Data[13] = 0x08, 0x00
	binary.BigEndian.PutUint32(f.Data[14:], number)
	for i := 18; i < n; i++ {
		f.Data[i] = byte(number) + byte(i)
	}
}

// checkFrame tells what is wrong with a frame that frameTo made.
func checkFrame(data []byte, number uint32) error {
	if got := binary.BigEndian.Uint32(data[14:]); got != number {
		return fmt.Errorf("frame %d came where %d was due", got, number)
	}
	for i := 18; i < len(data); i++ {
		if data[i] != byte(number)+byte(i) {
			return fmt.Errorf("frame %d: byte %d is %#x", number, i, data[i])
		}
	}
	return nil
}

func sendOne(t *testing.T, m *Mem, dst [6]byte, n int, number uint32) bool {
	t.Helper()
	var f [1]Frame
	q := m.queue
	if q.Alloc(f[:]) == 0 {
		return false
	}
	frameTo(&f[0], dst, m.MAC(), n, number)
	q.Submit(f[:])
	if err := q.Flush(); err != nil {
		t.Fatal(err)
	}
	return true
}

func TestMem_CarriesFramesInOrder(t *testing.T) {
	a, b := NewMemPair(MemOptions{})
	for i := range uint32(1000) {
		n := 60 + int(i)%4000
		if !sendOne(t, a, b.MAC(), n, i) {
			t.Fatalf("frame %d: no buffer on an idle wire", i)
		}
		var in [4]Frame
		k, err := b.queue.Recv(in[:])
		if err != nil || k != 1 {
			t.Fatalf("frame %d: Recv = %d, %v", i, k, err)
		}
		if len(in[0].Data) != n {
			t.Fatalf("frame %d: came with %d bytes, sent with %d", i, len(in[0].Data), n)
		}
		if err := checkFrame(in[0].Data, i); err != nil {
			t.Fatal(err)
		}
		b.queue.Release(in[:k])
	}
	if s := b.queue.Stats(); s.RxFrames != 1000 || s != (Stats{RxFrames: 1000, RxBytes: s.RxBytes}) {
		t.Errorf("receiver counted %+v", s)
	}
	if s := a.queue.Stats(); s.TxFrames != 1000 || s.TxBytes != b.queue.Stats().RxBytes {
		t.Errorf("sender counted %+v", s)
	}
}

func TestMem_HandsOverTheBufferItself(t *testing.T) {
	a, b := NewMemPair(MemOptions{})
	var out, in [1]Frame
	a.queue.Alloc(out[:])
	frameTo(&out[0], b.MAC(), a.MAC(), 100, 7)
	sent := &out[0].Data[0]
	a.queue.Submit(out[:])
	if n, err := b.queue.Recv(in[:]); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if &in[0].Data[0] != sent {
		t.Error("the frame was copied between the devices")
	}
	if cap(in[0].Data) > a.queue.frame {
		t.Error("a received frame reaches into the next buffer")
	}
}

func TestMem_PassesSegmentOn(t *testing.T) {
	a, b := NewMemPair(MemOptions{})
	var out, in [1]Frame
	a.queue.Alloc(out[:])
	frameTo(&out[0], b.MAC(), a.MAC(), 4000, 7)
	out[0].Segment = 1056
	a.queue.Submit(out[:])
	if n, _ := b.queue.Recv(in[:]); n != 1 || in[0].Segment != 1056 {
		t.Errorf("got %d frames, segment %d", n, in[0].Segment)
	}
	if a.queue.Stats().TxMerged != 1 || b.queue.Stats().RxMerged != 1 {
		t.Errorf("merged frames counted %d and %d", a.queue.Stats().TxMerged, b.queue.Stats().RxMerged)
	}
}

// A peer that does not read leaves the sender without buffers, and nothing is lost.
func TestMem_FullPeerHoldsTheSenderBack(t *testing.T) {
	const depth = 8
	a, b := NewMemPair(MemOptions{Depth: depth})
	sent := uint32(0)
	for sendOne(t, a, b.MAC(), 64, sent) {
		sent++
	}
	if sent != depth {
		t.Fatalf("%d frames fit into %d buffers", sent, depth)
	}
	if a.queue.ready() {
		t.Fatal("Wait would not block although no buffer is free")
	}
	in := make([]Frame, depth)
	n, _ := b.queue.Recv(in)
	if n != depth {
		t.Fatalf("%d of %d frames came", n, depth)
	}
	for i := range in {
		if err := checkFrame(in[i].Data, uint32(i)); err != nil {
			t.Fatal(err)
		}
	}
	// Give them back backwards and one by one.
	for i := n - 1; i >= 0; i-- {
		b.queue.Release(in[i : i+1])
	}
	if !a.queue.ready() {
		t.Fatal("Wait would sleep although buffers came home")
	}
	out := make([]Frame, depth+1)
	if n := a.queue.Alloc(out); n != depth {
		t.Fatalf("%d of %d buffers came home", n, depth)
	}
}

func TestMem_EmptyFrameGoesBackUnsent(t *testing.T) {
	a, b := NewMemPair(MemOptions{Depth: 4})
	var out, in [4]Frame
	for range 10 {
		if n := a.queue.Alloc(out[:]); n != 4 {
			t.Fatalf("%d of 4 buffers left", n)
		}
		for i := range out {
			out[i].Data = out[i].Data[:0]
		}
		a.queue.Submit(out[:])
	}
	if n, _ := b.queue.Recv(in[:]); n != 0 {
		t.Errorf("%d frames came", n)
	}
	if s := a.queue.Stats(); s != (Stats{}) {
		t.Errorf("counted %+v", s)
	}
}

func TestMem_SwitchDeliversByAddress(t *testing.T) {
	s := NewMemSwitch(MemOptions{})
	var ports []*Mem
	for range 5 {
		m, err := s.Open()
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, m)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	want := make(map[[2]int][]uint32)
	for i := range uint32(3000) {
		from, to := rnd.IntN(5), rnd.IntN(5) // a device may talk to itself
		if !sendOne(t, ports[from], ports[to].MAC(), 64, i) {
			t.Fatalf("no buffer for frame %d", i)
		}
		want[[2]int{from, to}] = append(want[[2]int{from, to}], i)
		if i%50 != 49 {
			continue
		}
		for to, p := range ports {
			for {
				in := make([]Frame, 3)
				n, err := p.queue.Recv(in)
				if err != nil {
					t.Fatal(err)
				}
				if n == 0 {
					break
				}
				for _, f := range in[:n] {
					key := [2]int{int(f.Data[11]) - 1, to}
					if len(want[key]) == 0 {
						t.Fatalf("device %d got a frame nobody sent it", to)
					}
					if err := checkFrame(f.Data, want[key][0]); err != nil {
						t.Fatalf("%d to %d: %v", key[0], to, err)
					}
					want[key] = want[key][1:]
				}
				p.queue.Release(in[:n])
			}
		}
	}
	for key, left := range want {
		if len(left) > 0 {
			t.Errorf("%d frames from %d to %d are missing", len(left), key[0], key[1])
		}
	}
}

func TestMem_FrameForNobodyIsCounted(t *testing.T) {
	a, _ := NewMemPair(MemOptions{Depth: 4})
	for i := range uint32(10) {
		if !sendOne(t, a, [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 64, i) {
			t.Fatal("a frame for nobody kept its buffer")
		}
	}
	if s := a.queue.Stats(); s != (Stats{TxErrors: 10}) {
		t.Errorf("counted %+v", s)
	}
}

// A device that closes with our frames unread and leased gives their buffers back.
func TestMem_CloseOfAPeerFreesBuffers(t *testing.T) {
	a, b := NewMemPair(MemOptions{Depth: 8})
	for i := range uint32(8) {
		sendOne(t, a, b.MAC(), 64, i)
	}
	in := make([]Frame, 5)
	if n, err := b.queue.Recv(in); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	b.queue.Release(in[:2])
	for i := range uint32(2) {
		if !sendOne(t, a, b.MAC(), 64, 8+i) {
			t.Fatal("a released buffer did not come home")
		}
	}
	if sendOne(t, a, b.MAC(), 64, 10) {
		t.Fatal("more buffers than there are")
	}
	woken := make(chan error, 1)
	go func() { woken <- a.queue.Wait(clock.Never) }()
	time.Sleep(10 * time.Millisecond)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-woken; err != nil {
		t.Fatal(err)
	}
	if n := a.queue.Alloc(make([]Frame, 9)); n != 8 {
		t.Errorf("%d of 8 buffers came home", n)
	}
	if _, err := b.queue.Recv(in); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Recv after Close: %v", err)
	}
	if err := b.queue.Wait(clock.Never); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Wait after Close: %v", err)
	}
	if b.queue.Alloc(in) != 0 {
		t.Error("Alloc after Close gave a buffer")
	}
	if b.Close() != nil {
		t.Error("second Close failed")
	}
	if _, err := a.Resolve(context.Background(), netip.Addr{}, netip.MustParseAddr("10.77.0.2")); err == nil {
		t.Error("a closed device is still resolved")
	}
}

func TestMem_WakeEndsThePresentOrTheNextWait(t *testing.T) {
	a, _ := NewMemPair(MemOptions{})
	a.queue.Wake()
	a.queue.Wake()
	if err := a.queue.Wait(clock.Never); err != nil { // hangs if the wake-up was lost
		t.Fatal(err)
	}
	for range 1000 {
		done := make(chan error)
		go func() { done <- a.queue.Wait(clock.Never) }()
		runtime.Gosched()
		a.queue.Wake()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

func TestMem_WaitKeepsTheDeadline(t *testing.T) {
	a, _ := NewMemPair(MemOptions{})
	clk := clock.System()
	start := clk.Now()
	if err := a.queue.Wait(start.Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if d := clk.Now().Sub(start); d < 20*time.Millisecond {
		t.Errorf("Wait returned after %v of 20 ms", d)
	}
	start = clk.Now()
	for range 1000 {
		if err := a.queue.Wait(start); err != nil {
			t.Fatal(err)
		}
	}
	if d := clk.Now().Sub(start); d > time.Second {
		t.Errorf("1000 waits for the past took %v", d)
	}
}

// Both ends send and receive at once, sleeping whenever they can; no wake-up may
// be lost and every frame arrives once, in order.
func TestMem_TwoGoroutinesNoLostWakeup(t *testing.T) {
	const frames = 200_000
	a, b := NewMemPair(MemOptions{Depth: 16})
	end := func(me, peer *Mem, seed uint64) error {
		rnd := rand.New(rand.NewPCG(seed, 1))
		q := me.queue
		var sent, got uint32
		var buf [24]Frame
		for sent < frames || got < frames {
			n, err := q.Recv(buf[:1+rnd.IntN(len(buf)-1)])
			if err != nil {
				return err
			}
			for _, f := range buf[:n] {
				if err := checkFrame(f.Data, got); err != nil {
					return err
				}
				got++
			}
			q.Release(buf[:n])
			k := q.Alloc(buf[:min(1+rnd.IntN(len(buf)-1), int(frames-sent))])
			for i := range buf[:k] {
				frameTo(&buf[i], peer.MAC(), me.MAC(), 64, sent)
				sent++
			}
			q.Submit(buf[:k])
			if err := q.Flush(); err != nil {
				return err
			}
			if n == 0 && k == 0 {
				before := clock.System().Now()
				if err := q.Wait(before.Add(10 * time.Second)); err != nil {
					return err
				}
				if clock.System().Now().Sub(before) > 5*time.Second {
					return fmt.Errorf("slept on with work waiting: sent %d, got %d", sent, got)
				}
			}
		}
		return nil
	}
	done := make(chan error, 2)
	go func() { done <- end(a, b, 1) }()
	go func() { done <- end(b, a, 2) }()
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

func TestMem_Resolve(t *testing.T) {
	s := NewMemSwitch(MemOptions{MTU: 4200})
	a, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	only4, err := s.Open(netip.MustParseAddr("192.0.2.9"))
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddr
	for _, tc := range []struct {
		from     *Mem
		src, dst string
		want     Route
		fails    string
	}{
		{from: a, dst: "192.0.2.9", want: Route{a.MAC(), only4.MAC(), addr("10.77.0.1"), 4200}},
		{from: a, dst: "::ffff:192.0.2.9", want: Route{a.MAC(), only4.MAC(), addr("10.77.0.1"), 4200}},
		{from: a, dst: "fd77::1", want: Route{a.MAC(), a.MAC(), addr("fd77::1"), 4200}},
		{from: only4, src: "192.0.2.9", dst: "10.77.0.1", want: Route{only4.MAC(), a.MAC(), addr("192.0.2.9"), 4200}},
		{from: only4, dst: "fd77::1", fails: "no IPv6 address"},
		{from: a, src: "192.0.2.9", dst: "192.0.2.9", fails: "not an address of mem1"},
		{from: a, src: "fd77::1", dst: "192.0.2.9", fails: "one IP version"},
		{from: a, dst: "10.77.0.3", fails: "there are 10.77.0.1, fd77::1, 192.0.2.9"},
	} {
		var src netip.Addr
		if tc.src != "" {
			src = addr(tc.src)
		}
		got, err := tc.from.Resolve(context.Background(), src, addr(tc.dst))
		switch {
		case tc.fails == "" && (err != nil || got != tc.want):
			t.Errorf("%s to %s: %+v, %v, want %+v", tc.src, tc.dst, got, err, tc.want)
		case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)):
			t.Errorf("%s to %s: error %v, want one with %q", tc.src, tc.dst, err, tc.fails)
		}
	}
	for _, bad := range []string{"192.0.2.9", "0.0.0.0", "ff02::1", "fe80::1%eth0"} {
		if _, err := s.Open(addr(bad)); err == nil {
			t.Errorf("a second device opened with address %s", bad)
		}
	}
}

func TestMem_SwitchIsFullAfter255(t *testing.T) {
	s := NewMemSwitch(MemOptions{MTU: 64, Depth: 1})
	var last *Mem
	for i := range maxMemPorts {
		m, err := s.Open()
		if err != nil {
			t.Fatalf("device %d: %v", i+1, err)
		}
		last = m
	}
	if _, err := s.Open(); err == nil {
		t.Error("device 256 opened")
	}
	if !sendOne(t, s.ports[0], last.MAC(), 64, 1) {
		t.Fatal("no buffer")
	}
	var in [1]Frame
	if n, _ := last.queue.Recv(in[:]); n != 1 || !bytes.Equal(in[0].Data[:6], []byte{2, 'R', 'o', 'C', 'E', 255}) {
		t.Error("device 255 did not get its frame")
	}
}

func TestMem_NoAllocations(t *testing.T) {
	a, b := NewMemPair(MemOptions{})
	out, in := make([]Frame, 32), make([]Frame, 32)
	if n := testing.AllocsPerRun(1000, func() {
		k := a.queue.Alloc(out)
		for i := range out[:k] {
			frameTo(&out[i], b.MAC(), a.MAC(), 64, uint32(i))
		}
		a.queue.Submit(out[:k])
		_ = a.queue.Flush()
		_ = b.queue.Wait(clock.Never)
		n, _ := b.queue.Recv(in)
		if n != 32 {
			t.Fatalf("%d of 32 frames came", n)
		}
		b.queue.Release(in[:n])
		_ = b.queue.Wait(clock.System().Now().Add(time.Microsecond))
	}); n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
}

func BenchmarkMem_Batch32(b *testing.B) {
	x, y := NewMemPair(MemOptions{})
	out, in := make([]Frame, 32), make([]Frame, 32)
	dst, src := y.MAC(), x.MAC()
	b.ReportAllocs()
	for i := 0; i < b.N; i += 32 {
		k := x.queue.Alloc(out)
		for i := range out[:k] {
			out[i].Data = out[i].Data[:64]
			copy(out[i].Data, dst[:])
			copy(out[i].Data[6:], src[:])
		}
		x.queue.Submit(out[:k])
		_ = x.queue.Flush()
		n, _ := y.queue.Recv(in)
		y.queue.Release(in[:n])
	}
}

//go:build linux

package netns

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/go-roce/roce/link"
	"github.com/go-roce/roce/xdp"
)

// Sockets as package xdp has them, without a link on top. A raw link, or one of
// package xdp, is at the other end.

const socketRing = 64

// tryOpenSocket opens an AF_XDP socket on a queue of eth0 in the namespace.
func (h *host) tryOpenSocket(u *xdp.UMEM, o xdp.SocketOptions) (s *xdp.Socket, err error) {
	h.t.Helper()
	o.Ifindex = h.iface("eth0").Attrs().Index
	h.in(func() { s, err = xdp.OpenSocket(u, o) })
	if err == nil {
		h.t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

// openSocket opens one with rings of socketRing entries.
func (h *host) openSocket(u *xdp.UMEM, o xdp.SocketOptions) *xdp.Socket {
	h.t.Helper()
	o.RX, o.TX, o.MultiBuffer = socketRing, socketRing, true
	if o.Shared == nil || o.Queue != 0 {
		o.Fill, o.Completion = socketRing, socketRing
	}
	s, err := h.tryOpenSocket(u, o)
	h.must(err)
	return s
}

func newUMEM(t testing.TB, chunks int) *xdp.UMEM {
	t.Helper()
	u, err := xdp.NewUMEM(chunks, 4096)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = u.Close() })
	return u
}

// put writes a frame at the address and into the transmit ring, in as many descriptors as it needs.
func put(t testing.TB, s *xdp.Socket, u *xdp.UMEM, at uint64, frame []byte) {
	t.Helper()
	copy(u.Bytes(at, len(frame)), frame)
	for n := len(frame); n > 0; n -= u.ChunkSize() {
		d := xdp.Desc{Addr: at, Len: uint32(min(n, u.ChunkSize()))}
		if n > u.ChunkSize() {
			d.Options = xdp.OptionContinued
		}
		if s.TX.Room(1) < 1 {
			t.Fatal("the transmit ring is full")
		}
		s.TX.Put(d)
		at += uint64(u.ChunkSize())
	}
	s.TX.Submit()
}

// completed waits for n entries of the completion ring and returns them.
func completed(t testing.TB, s *xdp.Socket, n int) []uint64 {
	t.Helper()
	eventually(t, "every chunk is completed", func() bool { return s.Completion.Ready(n) >= n })
	var at []uint64
	for i := range s.Completion.Ready(n) {
		at = append(at, s.Completion.Get(i))
	}
	s.Completion.Release(len(at))
	return at
}

// Pitfall 58: where the kernel copies, nothing leaves before a kick, whatever is in the ring; a frame in several chunks
// leaves as one, and every chunk is completed.
func TestXDPSocket_SendsWhatItIsKickedFor(t *testing.T) {
	lab := newLab(t, 9000)
	b := lab.b.open(link.Options{})
	u := newUMEM(t, 64)
	s := lab.a.openSocket(u, xdp.SocketOptions{})
	if s.ZeroCopy() || !s.MultiBuffer() || !s.TX.NeedWakeup() || s.Fill.NeedWakeup() {
		t.Fatalf("zero-copy %v, multi-buffer %v, wake-up wanted for sending %v and receiving %v", s.ZeroCopy(), s.MultiBuffer(), s.TX.NeedWakeup(), s.Fill.NeedWakeup())
	}
	head := between(lab.a, lab.b, false)
	chunks := 0
	var frames [][]byte
	for i, n := range []int{60, 1000, 4096, 4097, 8192, 9014} {
		frame := head.frame(pattern(n-42, byte(i)))
		frames = append(frames, frame)
		put(t, s, u, uint64(i*3*4096), frame)
		chunks += (n + 4095) / 4096
	}
	if got := receive(t, b, 1, 20*time.Millisecond); len(got) != 0 || s.TX.Pending() != chunks {
		t.Fatalf("%d frames left without a kick; %d of %d descriptors are pending", len(got), s.TX.Pending(), chunks)
	}
	if err := s.KickTX(); err != nil {
		t.Fatal(err)
	}
	got := receive(t, b, len(frames), time.Second)
	if len(got) != len(frames) {
		t.Fatalf("%d of %d frames came", len(got), len(frames))
	}
	for i := range got {
		if !bytes.Equal(got[i], frames[i]) {
			t.Errorf("frame %d of %d bytes came with %d, or changed", i, len(frames[i]), len(got[i]))
		}
	}
	completed(t, s, chunks)
}

// Pitfall 62: a bad descriptor is counted, and those behind it are sent.
func TestXDPSocket_BadDescriptorsAreCounted(t *testing.T) {
	lab := newLab(t, 1500)
	b := lab.b.open(link.Options{})
	u := newUMEM(t, 64)
	s := lab.a.openSocket(u, xdp.SocketOptions{})
	frame := between(lab.a, lab.b, false).frame(pattern(100, 1))
	for _, bad := range []xdp.Desc{
		{Addr: uint64(u.Chunks() * u.ChunkSize()), Len: 100}, // behind the memory
		{Addr: 4000, Len: 200},                               // into the next chunk
		{Addr: 0, Len: 60, Options: 1 << 5},
	} {
		s.TX.Put(bad)
		put(t, s, u, 4096, frame)
	}
	if err := s.KickTX(); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, b, 3, time.Second); len(got) != 3 || !bytes.Equal(got[2], frame) {
		t.Errorf("%d of 3 frames came", len(got))
	}
	if st, err := s.Stats(); err != nil || st.TxInvalid != 3 {
		t.Errorf("counted %+v, %v", st, err)
	}
	completed(t, s, 3)
}

// A socket without a completion ring of its own sends from the memory of another on the same queue, whose ring tells
// of both's frames; on another queue it has rings of its own.
func TestXDPSocket_SharesAUMEM(t *testing.T) {
	lab := newLabOf(t, labOptions{mtu: 9000, queues: 2})
	b := lab.b.open(link.Options{})
	u := newUMEM(t, 64)
	first := lab.a.openSocket(u, xdp.SocketOptions{})
	second := lab.a.openSocket(u, xdp.SocketOptions{Shared: first})
	third := lab.a.openSocket(u, xdp.SocketOptions{Shared: first, Queue: 1})
	if second.Fill != nil || second.Completion != nil || third.Completion == nil || !third.MultiBuffer() {
		t.Fatalf("sockets %+v and %+v", second, third)
	}
	head := between(lab.a, lab.b, false)
	for i, s := range []*xdp.Socket{first, second, third} {
		put(t, s, u, uint64(i*2*4096), head.frame(pattern(5000, byte(i))))
		if err := s.KickTX(); err != nil {
			t.Fatal(err)
		}
		if got := receive(t, b, 1, time.Second); len(got) != 1 || !bytes.Equal(got[0], head.frame(pattern(5000, byte(i)))) {
			t.Errorf("%d frames came from socket %d, or changed", len(got), i)
		}
	}
	at := append(completed(t, first, 4), completed(t, third, 2)...)
	for i, want := range []uint64{0, 4096, 8192, 12288, 16384, 20480} {
		if at[i] != want {
			t.Fatalf("completed %v", at)
		}
	}
}

// Pitfalls 59 and 62: a queue whose socket was closed a moment ago, with frames in flight and in the ring, is there again at once;
// one that is in use is an error after a bounded while. No memory stays behind.
func TestXDPSocket_ReopensAtOnce(t *testing.T) {
	lab := newLab(t, 1500)
	frame := between(lab.a, lab.b, false).frame(pattern(1000, 1))
	before := mapped(t)
	for range 20 {
		u := newUMEM(t, 64)
		s := lab.a.openSocket(u, xdp.SocketOptions{})
		if now := mapped(t); now != before+4 {
			t.Fatalf("there are %d mappings of sockets, before %d: four rings must be more", now, before)
		}
		for n := range 48 {
			put(t, s, u, uint64(n*4096), frame)
			if n == 24 {
				_ = s.KickTX()
			}
		}
		lab.a.must(errors.Join(s.Close(), u.Close()))
		if now := mapped(t); now != before {
			t.Fatalf("%d mappings of sockets are left, before there were %d", now, before)
		}
	}
	lab.a.openSocket(newUMEM(t, 64), xdp.SocketOptions{})
	began := time.Now()
	_, err := lab.a.tryOpenSocket(newUMEM(t, 64), xdp.SocketOptions{TX: 64, Fill: 64, Completion: 64})
	if !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), "queue 0 is in use by another AF_XDP socket") {
		t.Errorf("a second socket on the queue: %v", err)
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("it took %v to say so", d)
	}
}

// mapped counts this process's mappings of AF_XDP rings.
func mapped(t testing.TB) (n int) {
	t.Helper()
	for _, line := range readLines("/proc/self/maps") {
		if strings.Contains(line, "socket:[") {
			n++
		}
	}
	return n
}

// Pitfall 63: what a better mode failed of is remembered; a mode that must be and is not is an error in words.
func TestXDPSocket_SaysWhyNoBetterMode(t *testing.T) {
	lab := newLab(t, 1500)
	u := newUMEM(t, 64)
	s := lab.a.openSocket(u, xdp.SocketOptions{})
	if got := strings.Join(s.Reasons(), "; "); got != "zero-copy: the driver does not have it" {
		t.Errorf("reasons %q", got)
	}
	lab.a.must(s.Close())
	for _, c := range []struct {
		o    xdp.SocketOptions
		want string
	}{
		{xdp.SocketOptions{Copy: xdp.CopyNever}, "zero-copy: the driver does not have it"},
		{xdp.SocketOptions{Queue: 7}, "there is no such queue"},
	} {
		c.o.TX, c.o.Fill, c.o.Completion = 64, 64, 64
		if _, err := lab.a.tryOpenSocket(u, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
	if _, err := lab.a.tryOpenSocket(u, xdp.SocketOptions{TX: 48, Fill: 64, Completion: 64}); err == nil || !strings.Contains(err.Error(), "transmit ring of 48 entries") {
		t.Errorf("a ring of 48 entries: %v", err)
	}
}

// The options of busy polling reach the socket. The kernel does not tell the budget.
func TestXDPSocket_BusyPolls(t *testing.T) {
	lab := newLab(t, 1500)
	s := lab.a.openSocket(newUMEM(t, 64), xdp.SocketOptions{Copy: xdp.CopyAlways, BusyPoll: xdp.BusyPoll{Prefer: true, Time: 30 * time.Microsecond, Budget: 16}})
	if r := s.Reasons(); len(r) != 0 {
		t.Errorf("reasons %q", r)
	}
	for option, want := range map[int]int{unix.SO_PREFER_BUSY_POLL: 1, unix.SO_BUSY_POLL: 30} {
		if got, err := unix.GetsockoptInt(s.FD(), unix.SOL_SOCKET, option); err != nil || got != want {
			t.Errorf("socket option %d is %d, want %d, %v", option, got, want, err)
		}
	}
}

// An interface that is down takes nothing, and says so; the frames stay in the ring and leave when it is up.
func TestXDPSocket_KeepsFramesWhileTheInterfaceIsDown(t *testing.T) {
	lab := newLab(t, 1500)
	b := lab.b.open(link.Options{})
	u := newUMEM(t, 64)
	s := lab.a.openSocket(u, xdp.SocketOptions{})
	frame := between(lab.a, lab.b, false).frame(pattern(100, 1))
	lab.a.must(lab.a.nl.LinkSetDown(lab.a.iface("eth0")))
	put(t, s, u, 0, frame)
	if err := s.KickTX(); !errors.Is(err, unix.ENETDOWN) || s.TX.Pending() != 1 {
		t.Fatalf("%v; %d pending", err, s.TX.Pending())
	}
	lab.a.must(lab.a.nl.LinkSetUp(lab.a.iface("eth0")))
	eventually(t, "the interface has its carrier", func() bool {
		return lab.a.iface("eth0").Attrs().OperState == netlink.OperUp
	})
	if err := s.KickTX(); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, b, 1, time.Second); len(got) != 1 || !bytes.Equal(got[0], frame) {
		t.Errorf("%d frames came", len(got))
	}
}

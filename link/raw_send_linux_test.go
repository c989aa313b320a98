package link

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

// A datagram socket whose reader is slow stands in for an interface: it takes a few
// messages and then answers EAGAIN. Whatever the pattern of reading, all frames
// come out whole and in order, although the parts are overwritten after submit.
func TestSender_KeepsWhatFindsNoRoom(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	const depth, frames = 150, 20_000
	var c counters
	s := newSender(fds[0], 600, 0, depth, &c)
	rnd := rand.New(rand.NewPCG(3, 4))
	sent, got, mostKept := 0, 0, 0
	buf := make([]byte, 600)
	read := func(n int) {
		for ; n > 0; n-- {
			k, err := unix.Read(fds[1], buf)
			if errors.Is(err, unix.EAGAIN) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if number := binary.BigEndian.Uint32(buf); number != uint32(got) {
				t.Fatalf("frame %d came where %d was due", number, got)
			}
			for i := 4; i < k; i++ {
				if buf[i] != byte(got+i) {
					t.Fatalf("frame %d of %d bytes: byte %d is wrong", got, k, i)
				}
			}
			if want := 4 + got%590; k != want {
				t.Fatalf("frame %d has %d bytes, want %d", got, k, want)
			}
			got++
		}
	}
	fs := make([]Frame, 100)
	part := make([]byte, 100*600)
	for sent < frames || s.keptLen > 0 {
		n := s.lease(fs[:min(rnd.IntN(len(fs)), frames-sent)])
		for i := range fs[:n] {
			length := 4 + sent%590
			whole := part[i*600 : i*600+length]
			binary.BigEndian.PutUint32(whole, uint32(sent))
			for j := 4; j < length; j++ {
				whole[j] = byte(sent + j)
			}
			cut := 4 + rnd.IntN(length-3)
			fs[i].Data = fs[i].Data[:copy(fs[i].Data, whole[:cut])]
			for rest := whole[cut:]; len(rest) > 0; {
				k := 1 + rnd.IntN(len(rest))
				fs[i].Gather = append(fs[i].Gather, rest[:k])
				rest = rest[k:]
			}
			if rnd.IntN(10) == 0 {
				fs[i].Data = fs[i].Data[:0] // changed our mind
				continue
			}
			sent++
		}
		s.submit(fs[:n])
		clear(part)
		mostKept = max(mostKept, s.keptLen)
		if rnd.IntN(3) > 0 {
			read(rnd.IntN(30))
			s.retry()
		}
	}
	read(frames)
	if got != frames {
		t.Errorf("%d of %d frames came", got, frames)
	}
	if mostKept < depth/2 {
		t.Errorf("at most %d frames were kept: the socket was hardly ever full", mostKept)
	}
	if len(s.free) != depth {
		t.Errorf("%d of %d buffers are back", len(s.free), depth)
	}
	if st := c.stats(); st.TxFrames != frames || st.TxErrors != 0 || st.TxKept == 0 {
		t.Errorf("counted %+v", st)
	}
	for _, p := range s.parts {
		if p.Base != nil {
			t.Fatal("the sender still holds on to the caller's memory")
		}
	}
}

func TestSender_RefusedFramesAreCountedAndTheRestGoesOn(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	if err := unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 8<<10); err != nil {
		t.Fatal(err)
	}
	var c counters
	s := newSender(fds[0], 100_000, 0, 8, &c)
	fs := make([]Frame, 5)
	s.lease(fs)
	for i, n := range []int{100, 90_000, 100, 100, 90_000} { // the second and last: EMSGSIZE
		fs[i].Data = fs[i].Data[:n]
	}
	s.submit(fs)
	if st := c.stats(); st.TxFrames != 3 || st.TxErrors != 2 || st.TxBytes != 300 {
		t.Errorf("counted %+v", st)
	}
	if len(s.free) != 8 {
		t.Errorf("%d of 8 buffers are back", len(s.free))
	}
}

package doorbell

import (
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// rung polls without waiting.
func rung(t *testing.T, b *Bell) bool {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(b.FD()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
}

func TestBell_StaysRungUntilCleared(t *testing.T) {
	var b Bell
	if err := b.Open(); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if rung(t, &b) {
		t.Error("it is rung from the beginning")
	}
	b.Ring()
	b.Ring()
	if !rung(t, &b) {
		t.Error("it was not heard")
	}
	b.Clear()
	if rung(t, &b) {
		t.Error("it rings on")
	}
	b.Clear() // does not block
}

// The number of a closed eventfd may be another file's at once: whoever rings late must not write into that.
func TestBell_LateRingsTouchNoOtherFile(t *testing.T) {
	for range 200 {
		var b Bell
		if err := b.Open(); err != nil {
			t.Fatal(err)
		}
		var ringing sync.WaitGroup
		ringing.Go(func() {
			for range 10 {
				b.Ring()
			}
		})
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		var next Bell
		if err := next.Open(); err != nil {
			t.Fatal(err)
		}
		ringing.Wait()
		if rung(t, &next) {
			t.Fatal("the next file was written to")
		}
		if err := next.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

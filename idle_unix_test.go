//go:build unix

package roce_test

import (
	"syscall"
	"testing"
	"time"
)

// Pitfall 42 as a user sees it: two open, connected devices and a waiting goroutine use no CPU.
func TestIdle_UsesNoCPU(t *testing.T) {
	a, b := newPair(t, options{Tweak: shortTimeout})
	idleAfterTraffic(t, a, b)
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	const pause = time.Second
	before := used()
	time.Sleep(pause)
	// The runtime itself wakes now and then; one spinning loop would use all of it.
	if d := used() - before; d > pause/50 {
		t.Errorf("in %v of idleness the process used %v of CPU", pause, d)
	}
}

package xdp

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// apply sets the socket's options and says which the kernel does not take.
func (b BusyPoll) apply(fd int) (reasons []string) {
	if !b.Prefer {
		return nil
	}
	for _, o := range []struct {
		name   string
		option int
		value  int
	}{
		{"SO_PREFER_BUSY_POLL", unix.SO_PREFER_BUSY_POLL, 1},
		{"SO_BUSY_POLL", unix.SO_BUSY_POLL, int(b.time() / time.Microsecond)},
		{"SO_BUSY_POLL_BUDGET", unix.SO_BUSY_POLL_BUDGET, b.budget()},
	} {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, o.option, o.value); err != nil {
			reasons = append(reasons, fmt.Sprintf("busy polling: %s %d: %v (it needs Linux 5.11 and CAP_NET_ADMIN)", o.name, o.value, err))
		}
	}
	return reasons
}

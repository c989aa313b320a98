package doorbell

import (
	"encoding/binary"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Bell is an eventfd that ends a poll. The zero Bell is closed.
type Bell struct {
	mu    sync.RWMutex // held by Close: nobody rings at what the number stands for next
	works bool
	fd    int
	count [8]byte // what Clear reads
}

// Open makes the eventfd.
func (b *Bell) Open() error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("making an eventfd: %w", err)
	}
	b.fd, b.works = fd, true
	return nil
}

// FD returns the file descriptor, which is readable (POLLIN) from Ring to Clear.
func (b *Bell) FD() int { return b.fd }

// Ring ends the present poll or the next. Any goroutine may ring, also when the bell is closed already.
func (b *Bell) Ring() {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.works {
		_, _ = unix.Write(b.fd, one[:]) // fails only when it has been rung 2^64-2 times
	}
}

var one = func() (b [8]byte) {
	binary.NativeEndian.PutUint64(b[:], 1)
	return b
}()

// Clear forgets that it was rung. Only the one who polls calls it.
func (b *Bell) Clear() { _, _ = unix.Read(b.fd, b.count[:]) }

// Close gives the eventfd back. Calling it again does nothing.
func (b *Bell) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.works {
		return nil
	}
	b.works = false
	return unix.Close(b.fd)
}

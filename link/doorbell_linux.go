package link

import (
	"encoding/binary"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// doorbell is an eventfd that ends a poll. Any goroutine may ring it, also
// when it is closed already.
type doorbell struct {
	mu    sync.RWMutex // held by close: nobody rings at what the number stands for next
	works bool
	fd    int
	count [8]byte // what clear reads
}

func (d *doorbell) open() error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("making an eventfd: %w", err)
	}
	d.fd, d.works = fd, true
	return nil
}

// ring ends the present poll or the next.
func (d *doorbell) ring() {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.works {
		_, _ = unix.Write(d.fd, one[:]) // fails only when it has been rung 2^64-2 times
	}
}

var one = func() (b [8]byte) {
	binary.NativeEndian.PutUint64(b[:], 1)
	return b
}()

// clear forgets that it was rung. Only the one who polls calls it.
func (d *doorbell) clear() { _, _ = unix.Read(d.fd, d.count[:]) }

func (d *doorbell) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.works {
		return nil
	}
	d.works = false
	return unix.Close(d.fd)
}

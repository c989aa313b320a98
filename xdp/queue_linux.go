package xdp

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/internal/doorbell"
	"github.com/go-roce/roce/link"
)

// queue is the link.Queue of an AF_XDP socket.
type queue struct {
	name string // for errors
	clk  clock.Clock
	umem *UMEM
	sock *Socket
	rx   *receiver
	tx   *sender
	busy bool // the device is driven by looking for frames

	needRoom bool // Alloc had none, and Wait has not yet told that there is some
	polls    [2]unix.PollFd
	timeout  unix.Timespec
	bell     doorbell.Bell

	// gone is why the link is over for good, once it is.
	gone     atomic.Pointer[error]
	waiting  sync.Mutex // held in Wait: Close frees nothing under a sleeper
	statsMu  sync.Mutex // held for reading the socket's statistics, and for closing it
	closed   bool       // under statsMu
	last     Statistics // under statsMu: the kernel's count when last asked
	counters counters
}

var _ link.Queue = (*queue)(nil)

func (q *queue) Recv(dst []link.Frame) (int, error) {
	if err := q.gone.Load(); err != nil {
		return 0, *err
	}
	n := q.rx.take(dst)
	if n == 0 && q.busy {
		q.sock.poll()
		n = q.rx.take(dst)
	}
	return n, nil
}

func (q *queue) Release(fs []link.Frame) { q.rx.giveBack(fs) }

func (q *queue) Alloc(dst []link.Frame) int {
	if q.gone.Load() != nil {
		return 0
	}
	n := q.tx.lease(dst)
	q.needRoom = n == 0 && len(dst) > 0
	return n
}

// Submit puts the frames into the transmit ring, where a driver that is awake finds them.
func (q *queue) Submit(fs []link.Frame) { q.tx.submit(fs) }

// Flush has the kernel send what is in the transmit ring. What it has no room for stays there; Wait asks again.
func (q *queue) Flush() error {
	if q.gone.Load() == nil && q.tx.pending() {
		_ = q.sock.KickTX()
		q.tx.kicked()
	}
	return nil
}

const (
	// firstRetry and lastRetry are how long to leave the kernel alone that had no room for a frame, or that
	// has not completed one. Nothing tells when it does: POLLOUT is about places in the transmit ring, and a
	// queue has fewer buffers than that.
	firstRetry = 50 * time.Microsecond
	lastRetry  = 10 * time.Millisecond
)

func (q *queue) Wait(deadline clock.Time) error {
	q.waiting.Lock()
	defer func() {
		q.needRoom = false // told, or no longer of interest
		q.waiting.Unlock()
	}()
	for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
		if err := q.gone.Load(); err != nil {
			return *err
		}
		q.tx.reap()
		if q.rx.ready() || q.needRoom && len(q.tx.free) > 0 {
			return nil
		}
		_ = q.Flush()
		longest := time.Duration(-1)
		if q.needRoom || q.tx.pending() {
			longest = retry
		}
		over, err := q.poll(deadline, longest)
		if err != nil {
			return err
		}
		if over && q.gone.Load() == nil {
			return nil
		}
	}
}

// poll sleeps once, not longer than longest unless that is negative. It reports whether Wait is over.
func (q *queue) poll(deadline clock.Time, longest time.Duration) (over bool, err error) {
	left := time.Duration(-1) // for ever
	if deadline != clock.Never {
		left = max(0, deadline.Sub(q.clk.Now()))
	}
	again := longest >= 0 && (left < 0 || left > longest)
	if again {
		left = longest
	}
	var timeout *unix.Timespec
	if left >= 0 {
		q.timeout = unix.NsecToTimespec(int64(left))
		timeout = &q.timeout
	}
	n, err := unix.Ppoll(q.polls[:], timeout, nil)
	switch {
	case errors.Is(err, unix.EINTR):
		return false, nil
	case err != nil:
		return true, fmt.Errorf("waiting on %s: %w", q.name, err)
	case n == 0:
		return !again, nil
	}
	if q.polls[0].Revents&unix.POLLERR != 0 {
		// The interface was removed, of which the link tells otherwise. The error stays until it is
		// read, and poll returns at once as long as it stays.
		_, _ = unix.GetsockoptInt(q.sock.FD(), unix.SOL_SOCKET, unix.SO_ERROR)
	}
	if q.polls[1].Revents != 0 {
		q.bell.Clear()
	}
	return true, nil
}

func (q *queue) Wake() { q.bell.Ring() }

// Stats may be called by any goroutine.
func (q *queue) Stats() link.Stats {
	q.statsMu.Lock()
	defer q.statsMu.Unlock()
	if !q.closed {
		if s, err := q.sock.Stats(); err == nil {
			q.last = s
		}
	}
	return q.counters.stats(&q.last)
}

// end makes the queue's calls fail with err from now on and ends a Wait. The first reason stays.
func (q *queue) end(err error) {
	if q.gone.CompareAndSwap(nil, &err) {
		q.bell.Ring()
	}
}

// Close waits for a Wait to end; no other call may be under way, and no frame
// may be looked at any more: its memory is gone.
func (q *queue) Close() error {
	q.end(fmt.Errorf("the xdp link on %s is closed: %w", q.name, net.ErrClosed))
	q.bell.Ring()
	q.waiting.Lock()
	defer q.waiting.Unlock()
	q.Stats() // the kernel's last count
	q.statsMu.Lock()
	defer q.statsMu.Unlock()
	if q.closed {
		return nil
	}
	q.closed = true
	return errors.Join(q.sock.Close(), q.umem.Close(), q.bell.Close())
}

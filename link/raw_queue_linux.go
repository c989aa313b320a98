package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/internal/doorbell"
)

// rawQueue is the queue of an AF_PACKET socket.
type rawQueue struct {
	iface string
	clk   clock.Clock
	fd    int
	ring  *rxRing
	send  *sender

	whySingle []string // no super-frames

	needRoom bool // Alloc had none, and Wait has not yet told that there is some
	polls    [2]unix.PollFd
	timeout  unix.Timespec
	bell     doorbell.Bell

	// gone is why the link is over for good, once it is.
	gone     atomic.Pointer[error]
	waiting  sync.Mutex // held in Wait: Close frees nothing under a sleeper
	statsMu  sync.Mutex // held for reading the socket's statistics, and for closing it
	closed   bool       // under statsMu
	counters counters
}

// openRawQueue opens and binds the socket of an interface that is up.
func openRawQueue(iface string, index, mtu int, o Options) (_ *rawQueue, err error) {
	// With protocol 0 the socket hears nothing until bind: nothing gets past the filter.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return nil, fmt.Errorf("the raw link on %s needs CAP_NET_RAW for its packet socket: run as root or give the program the capability (setcap cap_net_raw+ep FILE), or use a link without privilege: %w", iface, err)
	}
	if err != nil {
		return nil, fmt.Errorf("opening a packet socket for %s: %w", iface, err)
	}
	q := &rawQueue{iface: iface, clk: o.Clock, fd: fd}
	defer func() {
		if err != nil {
			_ = q.free()
			err = fmt.Errorf("opening the raw link on %s: %w", iface, err)
		}
	}()
	if err := attachFilter(fd, roceFilter()); err != nil {
		return nil, err
	}
	// Since Linux 4.20; the filter drops outgoing frames as well, at a higher price.
	_ = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1)
	// PACKET_QDISC_BYPASS stays off: the queue discipline tells us when it is full
	// instead of dropping, and it segments super-frames for devices that cannot.
	setSendBuffer(fd, sendBuffer)
	super := 0
	switch {
	case o.SingleFrames:
	case !kernelTakesSuperFrames():
		q.whySingle = []string{"super-frames need Linux 6.2 or newer"}
	default:
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
			q.whySingle = []string{fmt.Sprintf("super-frames are refused by the kernel (PACKET_VNET_HDR): %v", err)}
			break
		}
		super = maxSuper
	}
	if q.ring, err = openRing(fd, mtu, o.RingBytes, super > 0); err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ALL), Ifindex: index}); err != nil {
		return nil, fmt.Errorf("binding the packet socket: %w", err)
	}
	if err := q.bell.Open(); err != nil {
		return nil, err
	}
	q.send = newSender(fd, mtu+ethernetLen, super, o.Depth, &q.counters)
	q.polls = [2]unix.PollFd{{Fd: int32(fd)}, {Fd: int32(q.bell.FD()), Events: unix.POLLIN}}
	return q, nil
}

// sendBuffer is how many bytes of frames may wait below the socket. The kernel counts
// 8 KiB and more for a 4 KiB frame; its default of 208 KiB is less than a batch.
const sendBuffer = 4 << 20

// setSendBuffer asks for n bytes, beyond the system's limit if we may (CAP_NET_ADMIN).
func setSendBuffer(fd, n int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, n) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, n)
	}
}

// bigEndian returns v with its bytes in network order.
func bigEndian(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}

func (q *rawQueue) Recv(dst []Frame) (int, error) {
	if err := q.gone.Load(); err != nil {
		return 0, *err
	}
	n, bytes, truncated, merged := 0, 0, 0, 0
	for n < len(dst) {
		ok, cut := q.ring.take(&dst[n])
		if !ok {
			break
		}
		if cut {
			truncated++
			continue
		}
		bytes += len(dst[n].Data)
		if dst[n].Segment > 0 {
			merged++
		}
		n++
	}
	addTo(&q.counters.rxMerged, uint64(merged))
	addTo(&q.counters.rxFrames, uint64(n))
	addTo(&q.counters.rxBytes, uint64(bytes))
	addTo(&q.counters.rxTruncated, uint64(truncated))
	return n, nil
}

func (q *rawQueue) Release(fs []Frame) {
	for i := range fs {
		q.ring.giveBack(fs[i].Token)
		fs[i] = Frame{}
	}
}

// Alloc leases nothing while frames are kept: more would only queue behind them.
func (q *rawQueue) Alloc(dst []Frame) int {
	if q.gone.Load() != nil {
		return 0
	}
	q.send.retry()
	n := 0
	if q.send.keptLen == 0 {
		n = q.send.lease(dst)
	}
	q.needRoom = n == 0 && len(dst) > 0
	return n
}

// Submit hands the frames to the kernel at once, 64 a system call, because gathered
// parts are good only until it returns. So a batch is best submitted in one call.
func (q *rawQueue) Submit(fs []Frame) { q.send.submit(fs) }

// Flush tries the kept frames again. There is nothing else to kick.
func (q *rawQueue) Flush() error {
	q.send.retry()
	return nil
}

func (q *rawQueue) Wait(deadline clock.Time) error {
	q.waiting.Lock()
	defer func() {
		q.needRoom = false // told, or no longer of interest
		q.waiting.Unlock()
	}()
	for {
		if err := q.gone.Load(); err != nil {
			return *err
		}
		q.send.retry()
		if q.ring.ready() || q.needRoom && q.send.keptLen == 0 && len(q.send.free) > 0 {
			return nil
		}
		over, err := q.poll(deadline)
		if err != nil {
			return err
		}
		if over && q.gone.Load() == nil {
			return nil
		}
	}
}

// poll sleeps once. It reports whether Wait is over; if not, there may be room for kept frames.
func (q *rawQueue) poll(deadline clock.Time) (over bool, err error) {
	left := time.Duration(-1) // for ever
	if deadline != clock.Never {
		left = max(0, deadline.Sub(q.clk.Now()))
	}
	q.polls[0].Events = unix.POLLIN
	again := false
	if q.send.keptLen > 0 {
		if q.send.full == unix.EAGAIN {
			q.polls[0].Events |= unix.POLLOUT
		} else if left < 0 || left > fullRetry {
			left, again = fullRetry, true
		}
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
		return true, fmt.Errorf("waiting on %s: %w", q.iface, err)
	case n == 0:
		return !again, nil
	}
	if q.polls[0].Revents&unix.POLLERR != 0 {
		// Down, for instance. The error stays until it is read, and poll returns at
		// once as long as it stays; that the interface is down the link tells as an event.
		_, _ = unix.GetsockoptInt(q.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	}
	if q.polls[1].Revents != 0 {
		q.bell.Clear()
		return true, nil
	}
	return q.polls[0].Revents&^unix.POLLOUT != 0, nil
}

func (q *rawQueue) Wake() { q.bell.Ring() }

// Stats may be called by any goroutine.
func (q *rawQueue) Stats() Stats {
	q.statsMu.Lock()
	defer q.statsMu.Unlock()
	if !q.closed {
		// Reading resets the kernel's counters.
		if s, err := unix.GetsockoptTpacketStats(q.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			addTo(&q.counters.rxDropped, uint64(s.Drops))
		}
	}
	return q.counters.stats()
}

// end makes the queue's calls fail with err from now on and ends a Wait. The first reason stays.
func (q *rawQueue) end(err error) {
	if q.gone.CompareAndSwap(nil, &err) {
		q.bell.Ring()
	}
}

// Close waits for a Wait to end; no other call may be under way, and no received
// frame may be read any more: its memory is gone.
func (q *rawQueue) Close() error {
	q.end(fmt.Errorf("the raw link on %s is closed: %w", q.iface, net.ErrClosed))
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
	return q.free()
}

// free gives everything back that openRawQueue took.
func (q *rawQueue) free() error {
	var errs []error
	if q.ring != nil {
		errs = append(errs, q.ring.close())
	}
	errs = append(errs, unix.Close(q.fd), q.bell.Close())
	return errors.Join(errs...)
}

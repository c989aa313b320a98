package xdp

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// SocketOptions say what an AF_XDP socket is to be like.
type SocketOptions struct {
	// Ifindex and Queue are the interface and its receive and transmit queue.
	Ifindex, Queue int
	// RX, TX, Fill and Completion are how many entries the rings have: powers of two. A socket
	// without RX or without TX is legal; one that shares another's queue needs no Fill and Completion.
	RX, TX, Fill, Completion int
	// Copy says whether frames may, must or must not be copied between driver and UMEM.
	Copy CopyMode
	// MultiBuffer asks for frames in several descriptors (Linux 6.6).
	MultiBuffer bool
	// Shared is a socket whose UMEM this one uses too. If it is bound to the same interface and
	// queue, the two also share its fill and completion ring. Copy and MultiBuffer are as there.
	Shared *Socket
	// SendBuffer is how many bytes of frames may wait in the kernel where it copies; 0 leaves the system's default.
	SendBuffer int
	// BusyPoll is how the socket drives the device itself.
	BusyPoll BusyPoll
}

// Socket is an AF_XDP socket bound to a queue of an interface, with its rings. One goroutine at a time may
// use it; Stats may be called by any other until Close.
type Socket struct {
	// Fill and Completion are nil where they are those of another socket; RX and TX where the socket has none.
	Fill       *Producer[uint64]
	Completion *Consumer[uint64]
	RX         *Consumer[Desc]
	TX         *Producer[Desc]

	fd       int
	opts     SocketOptions
	maps     [][]byte
	zeroCopy bool
	multi    bool
	reasons  []string
}

// OpenSocket opens a socket that sends from and receives into u, and binds it, in the best mode that
// the options allow and kernel and driver have; Reasons tells what was better. The
// socket receives nothing before an XDP program redirects frames to it.
func OpenSocket(u *UMEM, o SocketOptions) (_ *Socket, err error) {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("opening an AF_XDP socket needs CAP_NET_RAW: run as root, or give the program the capabilities (setcap cap_net_raw,cap_net_admin,cap_bpf+ep FILE): %w", err)
	case errors.Is(err, unix.EAFNOSUPPORT):
		return nil, fmt.Errorf("this kernel has no AF_XDP sockets (CONFIG_XDP_SOCKETS): %w", err)
	case err != nil:
		return nil, fmt.Errorf("opening an AF_XDP socket: %w", err)
	}
	s := &Socket{fd: fd, opts: o}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	if o.Shared == nil {
		if err := u.register(fd); err != nil {
			return nil, err
		}
	}
	if err := s.makeRings(); err != nil {
		return nil, err
	}
	if o.SendBuffer > 0 {
		// Beyond the system's limit if we may (CAP_NET_ADMIN).
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, o.SendBuffer) != nil {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, o.SendBuffer)
		}
	}
	s.reasons = append(s.reasons, o.BusyPoll.apply(fd)...)
	if err := s.bind(); err != nil {
		return nil, err
	}
	if s.zeroCopy, err = zeroCopy(fd); err != nil {
		return nil, fmt.Errorf("asking how queue %d was bound: %w", o.Queue, err)
	}
	// A kick sends no more than this at once where frames are copied. Since Linux 6.18; else it is 32.
	if o.TX >= 64 {
		_ = unix.SetsockoptInt(fd, unix.SOL_XDP, unix.XDP_MAX_TX_SKB_BUDGET, min(o.TX, 256))
	}
	return s, nil
}

// sharesQueue reports whether fill and completion ring are those of another socket.
func (o *SocketOptions) sharesQueue() bool {
	return o.Shared != nil && o.Shared.opts.Ifindex == o.Ifindex && o.Shared.opts.Queue == o.Queue
}

// makeRings has the kernel make the rings, and maps them.
func (s *Socket) makeRings() error {
	o := &s.opts
	sizes := []struct {
		option, n int
		name      string
	}{
		{unix.XDP_RX_RING, o.RX, "receive"}, {unix.XDP_TX_RING, o.TX, "transmit"},
		{unix.XDP_UMEM_FILL_RING, o.Fill, "fill"}, {unix.XDP_UMEM_COMPLETION_RING, o.Completion, "completion"},
	}
	for _, r := range sizes {
		if r.n == 0 {
			continue
		}
		if err := unix.SetsockoptInt(s.fd, unix.SOL_XDP, r.option, r.n); err != nil {
			return fmt.Errorf("making a %s ring of %d entries (which must be a power of two): %w", r.name, r.n, err)
		}
	}
	off, err := ringOffsets(s.fd)
	if err != nil {
		return fmt.Errorf("asking for the layout of the AF_XDP rings: %w", err)
	}
	if s.Fill, err = mapProducer[uint64](s, o.Fill, unix.XDP_UMEM_PGOFF_FILL_RING, off.Fr); err != nil {
		return err
	}
	if s.Completion, err = mapConsumer[uint64](s, o.Completion, unix.XDP_UMEM_PGOFF_COMPLETION_RING, off.Cr); err != nil {
		return err
	}
	if s.RX, err = mapConsumer[Desc](s, o.RX, unix.XDP_PGOFF_RX_RING, off.Rx); err != nil {
		return err
	}
	s.TX, err = mapProducer[Desc](s, o.TX, unix.XDP_PGOFF_TX_RING, off.Tx)
	return err
}

func mapProducer[T uint64 | Desc](s *Socket, n int, at int64, off unix.XDPRingOffset) (*Producer[T], error) {
	if n == 0 {
		return nil, nil
	}
	r, err := mapRing[T](s, n, at, off)
	if err != nil {
		return nil, err
	}
	p := newProducer(r)
	return &p, nil
}

func mapConsumer[T uint64 | Desc](s *Socket, n int, at int64, off unix.XDPRingOffset) (*Consumer[T], error) {
	if n == 0 {
		return nil, nil
	}
	r, err := mapRing[T](s, n, at, off)
	if err != nil {
		return nil, err
	}
	c := newConsumer(r)
	return &c, nil
}

// mapRing maps a ring of n entries, which begins at the offset at of the socket's file.
func mapRing[T uint64 | Desc](s *Socket, n int, at int64, off unix.XDPRingOffset) (ring[T], error) {
	size := int(off.Desc) + n*entrySize[T]()
	mem, err := unix.Mmap(s.fd, at, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return ring[T]{}, fmt.Errorf("mapping an AF_XDP ring of %d entries: %w", n, err)
	}
	s.maps = append(s.maps, mem)
	return ringView[T](mem, off, n), nil
}

const (
	// bindPatience is how long a queue may be in use before that is an error: a socket that was closed
	// keeps it until the kernel has let go of the last frame.
	bindPatience = time.Second
	bindPause    = 5 * time.Millisecond
)

// attempt is a way to bind.
type attempt struct {
	flags int
	name  string
}

// attempts lists the ways to bind, best first.
func (o *SocketOptions) attempts() []attempt {
	if o.Shared != nil {
		return []attempt{{unix.XDP_SHARED_UMEM, "a shared UMEM"}} // and the modes of that
	}
	var list []attempt
	for _, c := range []attempt{{unix.XDP_ZEROCOPY, "zero-copy"}, {unix.XDP_COPY, "copy"}} {
		if c.flags == unix.XDP_ZEROCOPY && o.Copy == CopyAlways || c.flags == unix.XDP_COPY && o.Copy == CopyNever {
			continue
		}
		if o.MultiBuffer {
			list = append(list, attempt{c.flags | unix.XDP_USE_SG, c.name + " with several buffers a frame"})
		}
		list = append(list, c)
	}
	return list
}

// bind binds the socket in the first way that works.
func (s *Socket) bind() error {
	var refused []string // by the way with several buffers a frame
	var err error
	for _, a := range s.opts.attempts() {
		if err = s.bindOnce(a.flags); err == nil {
			s.multi = a.flags&unix.XDP_USE_SG != 0 || s.opts.Shared != nil && s.opts.Shared.multi
			s.reasons = append(s.reasons, refused...)
			return nil
		}
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("queue %d is in use by another AF_XDP socket: stop the program that has it: %w", s.opts.Queue, err)
		}
		said := fmt.Sprintf("%s: %s", a.name, refusal(a.flags, err))
		if a.flags&unix.XDP_USE_SG != 0 {
			refused = append(refused, said)
			continue
		}
		// If it does not work with one buffer either, that says all.
		s.reasons, refused = append(s.reasons, said), nil
		err = fmt.Errorf("binding an AF_XDP socket to queue %d: %s: %w", s.opts.Queue, said, err)
	}
	return err
}

// bindOnce binds with the flags. A queue that is in use may be free in a moment.
func (s *Socket) bindOnce(flags int) error {
	at := unix.SockaddrXDP{Flags: uint16(flags), Ifindex: uint32(s.opts.Ifindex), QueueID: uint32(s.opts.Queue)}
	if s.opts.Shared != nil {
		at.SharedUmemFD = uint32(s.opts.Shared.fd)
	} else {
		at.Flags |= unix.XDP_USE_NEED_WAKEUP
	}
	for end := time.Now().Add(bindPatience); ; time.Sleep(bindPause) {
		if err := unix.Bind(s.fd, &at); !errors.Is(err, unix.EBUSY) || time.Now().After(end) {
			return err
		}
	}
}

// refusal says why the kernel did not bind with the flags.
func refusal(flags int, err error) string {
	switch {
	case errors.Is(err, unix.EINVAL) && flags&unix.XDP_USE_SG != 0:
		return "this kernel does not have it (Linux 6.6 does), or there is no such queue"
	case errors.Is(err, unix.EINVAL):
		return "there is no such queue, or the frames do not fit its buffers"
	case errors.Is(err, unix.EOPNOTSUPP):
		return "the driver does not have it"
	case errors.Is(err, unix.ENETDOWN):
		return "the interface is down"
	}
	return err.Error()
}

// FD returns the socket's file descriptor, to be put into an XSKMAP or polled.
func (s *Socket) FD() int { return s.fd }

// ZeroCopy reports whether the device reads and writes the UMEM itself.
func (s *Socket) ZeroCopy() bool { return s.zeroCopy }

// MultiBuffer reports whether a frame may have several descriptors.
func (s *Socket) MultiBuffer() bool { return s.multi }

// Reasons says of each better mode why it was not taken.
func (s *Socket) Reasons() []string { return s.reasons }

// Statistics is struct xdp_statistics of linux/if_xdp.h, counted since the socket was opened.
type Statistics struct {
	RxDropped   uint64 // frames for which no chunk was there, or too long
	RxInvalid   uint64 // entries of the fill ring that are no chunk
	TxInvalid   uint64 // descriptors of the transmit ring that are not in a chunk; they never complete
	RxRingFull  uint64 // frames for which there was no place in the receive ring
	RxFillEmpty uint64 // times the fill ring was found empty
	TxEmpty     uint64 // times the transmit ring was found empty
}

// Stats reads the socket's statistics.
func (s *Socket) Stats() (Statistics, error) {
	var st Statistics
	if err := statistics(s.fd, &st); err != nil {
		return st, fmt.Errorf("reading the statistics of an AF_XDP socket: %w", err)
	}
	return st, nil
}

// Close ends the socket. The kernel gives up what it has not sent, and the queue once it has
// let go of the last frame.
func (s *Socket) Close() error {
	var errs []error
	for _, m := range s.maps {
		errs = append(errs, unix.Munmap(m))
	}
	s.maps, s.Fill, s.Completion, s.RX, s.TX = nil, nil, nil, nil, nil
	if s.fd >= 0 {
		errs = append(errs, unix.Close(s.fd))
		s.fd = -1
	}
	return errors.Join(errs...)
}

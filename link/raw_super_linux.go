package link

import "golang.org/x/sys/unix"

const (
	// superBacklog is the receive buffer that super-frames need, for a good many to wait in.
	superBacklog = 16 << 20
	// superLeases is how many may be leased at a time.
	superLeases = 64
	// superToken is where the tokens of frames in superBuffers begin.
	superToken = 1 << 32
	// tagRoom is before a frame, for its VLAN tag.
	tagRoom = 4
)

// superBuffers holds frames that were too long for the ring, used last first so that they stay in cache.
type superBuffers struct {
	buffers [][]byte
	free    []uint32
}

// get returns a buffer, or false when all are leased.
func (s *superBuffers) get() (uint32, bool) {
	if n := len(s.free); n > 0 {
		b := s.free[n-1]
		s.free = s.free[:n-1]
		return b, true
	}
	if len(s.buffers) == superLeases {
		return 0, false
	}
	s.buffers = append(s.buffers, make([]byte, tagRoom+vnetLen+64<<10))
	return uint32(len(s.buffers) - 1), true
}

func (s *superBuffers) put(token uint64) { s.free = append(s.free, uint32(token-superToken)) }

// takeLong leases the next frame, which did not fit into its slot and is with the socket.
func (r *rxRing) takeLong(f *Frame, h *unix.Tpacket2Hdr, status uint32) (ok, truncated bool) {
	i, free := r.super.get()
	if !free {
		return false, false // it stays until one is given back
	}
	header := *h
	r.skip(h)
	b := r.super.buffers[i]
	n, err := unix.Read(r.fd, b[tagRoom:])
	if err != nil || n < vnetLen {
		r.super.put(superToken + uint64(i))
		return true, true
	}
	from, to := tagRoom, tagRoom+n
	segment := 0
	if r.vnet {
		segment = vnetSegment(b[from:])
		from += vnetLen
	}
	if status&unix.TP_STATUS_VLAN_VALID != 0 {
		from -= tagRoom
		restoreTag(b[from:], &header, status)
	}
	*f = Frame{Data: b[from:to:to], Segment: segment, Token: superToken + uint64(i)}
	return true, false
}

// setReceiveBuffer asks for n bytes, beyond the system's limit if we may (CAP_NET_ADMIN), and
// returns what there is.
func setReceiveBuffer(fd, n int) int {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, n) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, n)
	}
	have, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return 0
	}
	return have / 2 // the kernel doubles what is asked for, for its overhead
}

package xdp

import "golang.org/x/sys/unix"

// KickTX has the kernel look at the transmit ring after Submit, if it wants to be told. Where frames
// are copied it sends them now, as many as it can. The error says why some are left that were
// submitted: EAGAIN, EBUSY and ENOBUFS that there is no room just now, ENETDOWN that the interface is down; with
// these the frames stay in the ring for the next kick. ENXIO says that the interface is gone.
func (s *Socket) KickTX() error {
	if !s.TX.NeedWakeup() {
		return nil
	}
	for before := s.TX.Pending(); ; {
		errno := sendTo(s.fd)
		left := s.TX.Pending()
		switch {
		case left == 0 && errno != unix.ENETDOWN && errno != unix.ENXIO, errno == 0 && s.zeroCopy:
			return nil
		case left == before && errno != unix.EINTR:
			if errno == 0 {
				errno = unix.EAGAIN
			}
			return errno
		}
		// A call sends a limited number of frames, or stops at a bad descriptor (EINVAL), which Stats
		// counts. There are more.
		before = left
	}
}

// KickRX has the driver look at the fill ring, if it wants to be told. Where frames are copied it never does.
func (s *Socket) KickRX() {
	if s.Fill.NeedWakeup() {
		s.poll()
	}
}

// poll has the kernel look at the rings, and at the device if the socket polls that.
func (s *Socket) poll() {
	if receiveFrom(s.fd) == unix.EOPNOTSUPP { // before Linux 5.11
		fds := [1]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
		_, _ = unix.Poll(fds[:], 0)
	}
}

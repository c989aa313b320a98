package link

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"golang.org/x/sys/unix"
)

// qpnSlot is a process's claim to a range of queue pair numbers on an interface.
//
// The claim is an abstract unix socket's name, "@go-roce/qpn/<interface index>/<slot>".
// It behaves as a lock file would, but its scope is exactly the network
// namespace, as it should be and is not for files (containers that share an interface
// need not share a directory); it ends with the process however that ends; and it
// leaves nothing behind that another user could not open.
type qpnSlot struct {
	fd   int
	slot uint32
}

const (
	// qpnSlots is how many ranges the 2^24 numbers are cut into.
	qpnSlots    = 256
	qpnsPerSlot = 1 << 24 / qpnSlots
	// claimPrefix begins the names of all claims of this library.
	claimPrefix = "go-roce/qpn/"
)

// takeQPNSlot claims a free range. It begins looking at a random one, so that a
// process started anew seldom gets packets meant for the one before it.
func takeQPNSlot(ifindex int) (*qpnSlot, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a socket to claim queue pair numbers: %w", err)
	}
	first := rand.Uint32N(qpnSlots)
	for i := range uint32(qpnSlots) {
		slot := (first + i) % qpnSlots
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("@%s%d/%d", claimPrefix, ifindex, slot)})
		if err == nil {
			return &qpnSlot{fd, slot}, nil
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	_ = unix.Close(fd)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("all %d ranges of queue pair numbers on this interface are taken: close some of the links", qpnSlots)
	}
	return nil, fmt.Errorf("claiming queue pair numbers: %w", err)
}

// qpns returns the range without 0 and 1, which are the management queue pairs'
// (IBA 3.9.3), and 0xFFFFFF, which is multicast's.
func (s *qpnSlot) qpns() QPNRange {
	r := QPNRange{First: s.slot * qpnsPerSlot, Count: qpnsPerSlot}
	switch s.slot {
	case 0:
		r.First, r.Count = 2, r.Count-2
	case qpnSlots - 1:
		r.Count--
	}
	return r
}

func (s *qpnSlot) close() error { return unix.Close(s.fd) }

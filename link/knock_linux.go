package link

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// knocker makes the kernel look for neighbours by sending them empty datagrams. Its sockets
// are opened beforehand because a socket stays in the network namespace it was
// opened in, and a goroutine's thread need not.
type knocker struct {
	v4, v6 int // -1 where the host lacks the IP version
}

func openKnocker(iface string) (_ *knocker, err error) {
	k := &knocker{v4: -1, v6: -1}
	for _, s := range []struct {
		family int
		fd     *int
	}{{unix.AF_INET, &k.v4}, {unix.AF_INET6, &k.v6}} {
		fd, err := unix.Socket(s.family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if errors.Is(err, unix.EAFNOSUPPORT) {
			continue
		}
		if err != nil {
			_ = k.close()
			return nil, fmt.Errorf("opening a socket to look for neighbours: %w", err)
		}
		*s.fd = fd
		// Without it, which before Linux 5.7 needs CAP_NET_RAW, the way is the routing table's.
		_ = unix.BindToDevice(fd, iface)
		// Answers are of no interest.
		_ = attachFilter(fd, []bpf.Instruction{bpf.RetConstant{Val: 0}})
	}
	return k, nil
}

// send sends an empty datagram to the discard port of dst, so that the kernel looks for
// the neighbour on the way. Its fate does not matter.
func (k *knocker) send(dst netip.Addr, ifindex int) {
	const discard = 9 // RFC 863
	if dst.Is4() {
		_ = unix.Sendto(k.v4, nil, 0, &unix.SockaddrInet4{Port: discard, Addr: dst.As4()})
		return
	}
	_ = unix.Sendto(k.v6, nil, 0, &unix.SockaddrInet6{Port: discard, Addr: dst.As16(), ZoneId: uint32(ifindex)})
}

func (k *knocker) close() error {
	return errors.Join(closeSocket(k.v4), closeSocket(k.v6))
}

// closeSocket closes fd unless it is -1, which stands for none.
func closeSocket(fd int) error {
	if fd < 0 {
		return nil
	}
	return unix.Close(fd)
}

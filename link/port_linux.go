package link

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// portHold keeps UDP port 4791 of an interface with sockets that a filter lets take nothing.
type portHold struct {
	v4, v6 int // -1 where the host lacks the IP version
}

// holdPort takes the port on the interface, whose addresses are addrs. SO_REUSEPORT
// lets processes of one user share it; that only processes of this library do is checked first, because
// the kernel would spread another program's packets over its sockets and ours.
func holdPort(iface string, addrs []netip.Addr) (_ *portHold, err error) {
	owners, err := portOwners()
	if err != nil {
		return nil, err
	}
	for _, o := range owners {
		if o.addr.IsUnspecified() || slices.Contains(addrs, o.addr) {
			if o.program != "" && !o.ours {
				return nil, o.conflict(iface)
			}
		}
	}
	h := &portHold{v4: -1, v6: -1}
	defer func() {
		if err != nil {
			_ = h.close()
		}
	}()
	if h.v4, err = holdSocket(iface, unix.AF_INET, &unix.SockaddrInet4{Port: rocePort}); err == nil {
		h.v6, err = holdSocket(iface, unix.AF_INET6, &unix.SockaddrInet6{Port: rocePort})
	}
	if errors.Is(err, unix.EADDRINUSE) {
		for _, o := range owners {
			if !o.ours {
				return nil, o.conflict(iface)
			}
		}
		if len(owners) > 0 {
			return nil, fmt.Errorf("UDP port 4791 is held by %s of another user, with whom the raw link on %s cannot share it: run both as the same user", owners[0].name(), iface)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("holding UDP port 4791 on %s: %w", iface, err)
	}
	return h, nil
}

// holdSocket binds a socket that takes nothing to the port. It returns -1 without an
// error when the host has not got the IP version.
func holdSocket(iface string, family int, at unix.Sockaddr) (_ int, err error) {
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		return -1, nil
	}
	if err != nil {
		return -1, err
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	if family == unix.AF_INET6 {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return -1, err
		}
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return -1, err
	}
	// Packets of other interfaces are not ours to hold.
	if err := unix.BindToDevice(fd, iface); err != nil {
		return -1, err
	}
	if err := attachFilter(fd, []bpf.Instruction{bpf.RetConstant{Val: 0}}); err != nil {
		return -1, err
	}
	if err := unix.Bind(fd, at); err != nil {
		if errors.Is(err, unix.EADDRNOTAVAIL) { // net.ipv6.conf.all.disable_ipv6
			return -1, unix.Close(fd)
		}
		return -1, err
	}
	return fd, nil
}

// knock sends an empty datagram to the discard port of dst from the socket of its IP
// version, so that the kernel looks for the neighbour on the way. Its fate does not matter.
func (h *portHold) knock(dst netip.Addr, ifindex int) {
	const discard = 9 // RFC 863
	if dst.Is4() {
		_ = unix.Sendto(h.v4, nil, 0, &unix.SockaddrInet4{Port: discard, Addr: dst.As4()})
		return
	}
	_ = unix.Sendto(h.v6, nil, 0, &unix.SockaddrInet6{Port: discard, Addr: dst.As16(), ZoneId: uint32(ifindex)})
}

func (h *portHold) close() error {
	var errs []error
	for _, fd := range []int{h.v4, h.v6} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}

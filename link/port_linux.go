package link

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// PortHold keeps UDP port 4791 of an interface with sockets that a filter lets take nothing.
type PortHold struct {
	v4, v6 int // -1 where the host lacks the IP version
}

// HoldPort takes the port on the interface for a link that gets its packets by another way than from
// UDP sockets: without an owner of the port the kernel would answer them with ICMP port unreachable. It looks into
// the network namespace of the calling thread, which must be the interface's. SO_REUSEPORT
// lets processes of one user share the port; that only processes of this library do is checked first, because
// the kernel would spread another program's packets over its sockets and ours.
// The error names another owner and what to do about it.
func HoldPort(i *Interface) (_ *PortHold, err error) {
	iface, kind, addrs := i.name, i.kind, i.Addrs()
	owners, err := portOwners()
	if err != nil {
		return nil, err
	}
	for _, o := range owners {
		if o.addr.IsUnspecified() || slices.Contains(addrs, o.addr) {
			if o.program != "" && !o.ours {
				return nil, o.conflict(iface, kind)
			}
		}
	}
	h := &PortHold{v4: -1, v6: -1}
	defer func() {
		if err != nil {
			_ = h.Close()
		}
	}()
	if h.v4, err = holdSocket(iface, unix.AF_INET, &unix.SockaddrInet4{Port: rocePort}); err == nil {
		h.v6, err = holdSocket(iface, unix.AF_INET6, &unix.SockaddrInet6{Port: rocePort})
	}
	if errors.Is(err, unix.EADDRINUSE) {
		for _, o := range owners {
			if !o.ours {
				return nil, o.conflict(iface, kind)
			}
		}
		if len(owners) > 0 {
			return nil, fmt.Errorf("UDP port 4791 is held by %s of another user, with whom the %s link on %s cannot share it: run both as the same user", owners[0].name(), kind, iface)
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

// Close gives the port back.
func (h *PortHold) Close() error {
	return errors.Join(closeSocket(h.v4), closeSocket(h.v6))
}

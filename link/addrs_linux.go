package link

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ifaceAddr is an address of an interface with its IFA_F_ flags (linux/if_addr.h).
type ifaceAddr struct {
	addr  netip.Addr // without a zone
	flags int
}

// usable reports whether the address may be a source: tentative ones may not
// before the kernel has found that nobody else has them (RFC 4862, 5.4), and never if somebody has.
func (a ifaceAddr) usable() bool {
	return a.flags&unix.IFA_F_DADFAILED == 0 &&
		(a.flags&unix.IFA_F_TENTATIVE == 0 || a.flags&unix.IFA_F_OPTIMISTIC != 0)
}

// listAddrs returns the unicast addresses of l, best first.
func listAddrs(nl *netlink.Handle, l netlink.Link) ([]ifaceAddr, error) {
	list, err := nl.AddrList(l, netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	var addrs []ifaceAddr
	for _, a := range list {
		ip, ok := netip.AddrFromSlice(a.IP)
		if !ok || ip.IsLoopback() || ip.IsMulticast() {
			continue
		}
		addrs = append(addrs, ifaceAddr{ip.Unmap(), a.Flags})
	}
	slices.SortStableFunc(addrs, func(a, b ifaceAddr) int { return cmp.Compare(a.rank(), b.rank()) })
	return addrs, nil
}

// rank orders addresses for being a GID: whether others can reach it decides first,
// then how long it stays, then IPv4 before IPv6.
func (a ifaceAddr) rank() int {
	rank := 0
	if a.addr.IsLinkLocalUnicast() {
		rank += 8
	}
	if a.flags&unix.IFA_F_DEPRECATED != 0 {
		rank += 4
	}
	if a.addr.Is6() {
		rank += 2
		// On IPv4 the same bit (IFA_F_SECONDARY) says another address is of the same prefix.
		if a.flags&unix.IFA_F_TEMPORARY != 0 {
			rank++
		}
	}
	return rank
}

// describeAddrs lists addresses and says what is wrong with those not usable.
func describeAddrs(addrs []ifaceAddr) string {
	if len(addrs) == 0 {
		return "none"
	}
	var b strings.Builder
	for i, a := range addrs {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(a.addr.String())
		switch {
		case a.flags&unix.IFA_F_DADFAILED != 0:
			fmt.Fprint(&b, " (somebody else on the network has it: choose another)")
		case !a.usable():
			fmt.Fprint(&b, " (tentative: the kernel still checks that nobody else has it, for a second or two)")
		}
	}
	return b.String()
}

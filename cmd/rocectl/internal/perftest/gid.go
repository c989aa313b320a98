package perftest

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// gid chooses the local address and says why: what the options say, or else of the family of the peer's, or else the
// address that the TCP connection has if the device has it too, or else the best one.
func (s *Session) gid(peer *Key) (gid netip.Addr, why string, err error) {
	addrs := s.Device.Addrs()
	first := func(fits func(netip.Addr) bool) (netip.Addr, bool) {
		i := slices.IndexFunc(addrs, fits)
		if i < 0 {
			return netip.Addr{}, false
		}
		return addrs[i], true
	}
	name := s.Device.Info().Interface
	switch i := s.Params.GIDIndex; {
	case i >= len(addrs):
		return gid, "", fmt.Errorf("%s has no GID with index -x %d; it has %v, counted from 0", name, i, addrs)
	case i >= 0:
		return addrs[i], "-x asks for it", nil
	case s.Params.IPv6:
		if a, ok := first(netip.Addr.Is6); ok {
			return a, "it is the first IPv6 address, for --ipv6", nil
		}
		return gid, "", fmt.Errorf("%s has no IPv6 address for --ipv6: add one, or leave --ipv6 out at both ends", name)
	case peer != nil:
		c, err := s.Device.ChooseGID(peer.GID)
		return c.Addr, strings.Join(append([]string{c.Reason}, c.Refused...), "; "), err
	}
	if t, ok := s.Exchange.conn.LocalAddr().(*net.TCPAddr); ok {
		own := t.AddrPort().Addr().Unmap().WithZone("")
		if a, ok := first(func(a netip.Addr) bool { return a == own }); ok {
			return a, "the TCP connection comes from it, too", nil
		}
	}
	if a, ok := first(netip.Addr.Is4); ok {
		return a, "it is the first IPv4 address", nil
	}
	if len(addrs) > 0 {
		return addrs[0], "it is the best address, and there is no IPv4 address", nil
	}
	return gid, "", fmt.Errorf("%s has no IP address, and so no GID: ip address add ADDRESS/PREFIX dev %s", name, name)
}

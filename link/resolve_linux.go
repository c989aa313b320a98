package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// hop is a next hop that Resolve found: its hardware address and the destinations behind it.
type hop struct {
	mac   [6]byte
	dests map[netip.Addr]bool
}

// Resolve looks up route and neighbour of dst as the kernel would for a packet from
// src out of this interface. If the neighbour is unknown the kernel is made to
// ask for it. A known but old one is used at once, and the kernel made to
// check it: if it has changed, an event tells later. So resolving again when a peer falls silent follows it.
//
// dst may have this interface as its zone. The interface's own addresses, groups and
// broadcasts cannot be resolved.
func (i *Interface) Resolve(ctx context.Context, src, dst netip.Addr) (Route, error) {
	if z := dst.Zone(); z != "" && z != i.name && z != fmt.Sprint(i.index) {
		return Route{}, fmt.Errorf("%v is on interface %s, but this link is on %s: open the other", dst, z, i.name)
	}
	dst, src = dst.WithZone("").Unmap(), src.WithZone("").Unmap()
	if !dst.IsValid() || dst.IsUnspecified() || dst.IsMulticast() || dst == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return Route{}, fmt.Errorf("%v is not the address of one peer", dst)
	}
	if err := i.checkSource(src, dst); err != nil {
		return Route{}, err
	}
	route, err := i.route(src, dst)
	if err != nil {
		return Route{}, err
	}
	if !src.IsValid() {
		if src, err = i.chooseSource(route, dst); err != nil {
			return Route{}, err
		}
	}
	next := dst
	if gw := gateway(route); gw.IsValid() {
		next = gw
	}
	if err := i.await(ctx, next, dst); err != nil {
		return Route{}, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	mac, err := i.follow(next, dst)
	if err != nil {
		return Route{}, err
	}
	mtu := i.mtu
	if route.MTU > 0 {
		mtu = min(mtu, route.MTU)
	}
	return Route{SrcMAC: i.mac, DstMAC: mac, Src: src, MTU: mtu}, nil
}

// follow returns the hardware address of next and has the watcher tell when it
// changes. The caller holds the mutex, so whatever changes after
// this look the watcher compares with what it saw.
func (i *Interface) follow(next, dst netip.Addr) ([6]byte, error) {
	n, err := i.lookUp(next)
	if err == nil && (n.State&nudUsable == 0 || len(n.HardwareAddr) != 6) {
		err = i.noAnswer(next, dst, nil) // it went just now
	}
	if err != nil {
		return [6]byte{}, err
	}
	for _, h := range i.hops {
		delete(h.dests, dst) // the route may be another than last time
	}
	h := i.hops[next]
	if h == nil {
		h = &hop{dests: map[netip.Addr]bool{}}
		i.hops[next] = h
	}
	h.mac = [6]byte(n.HardwareAddr)
	h.dests[dst] = true
	return h.mac, nil
}

// checkSource says why packets to dst cannot come from src, or from any address if src is zero.
func (i *Interface) checkSource(src, dst netip.Addr) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if src.IsValid() && src.Is4() != dst.Is4() {
		return fmt.Errorf("%v cannot be reached from %v: both must be of one IP version", dst, src)
	}
	some := false // of dst's IP version
	for _, a := range i.addrs {
		if a.addr == dst {
			return fmt.Errorf("%v is %s's own address: packets of the %s link leave the host and do not come back; use a memory link, or two network namespaces (rocectl lab)", dst, i.name, i.kind)
		}
		some = some || a.usable() && a.addr.Is4() == dst.Is4()
		if a.addr == src {
			if !a.usable() {
				return fmt.Errorf("%s cannot be used to reach %v from", describeAddrs([]ifaceAddr{a}), dst)
			}
			return nil
		}
	}
	if src.IsValid() {
		return fmt.Errorf("%v is not an address of interface %s, which has %s", src, i.name, describeAddrs(i.addrs))
	}
	if !some {
		return fmt.Errorf("interface %s has no %s address to reach %v from; it has %s", i.name, family(dst), dst, describeAddrs(i.addrs))
	}
	return nil
}

// route asks the kernel for the way to dst.
func (i *Interface) route(src, dst netip.Addr) (netlink.Route, error) {
	o := netlink.RouteGetOptions{SrcAddr: netIP(src)}
	if dst.IsLinkLocalUnicast() {
		o.OifIndex = i.index // every interface has such addresses behind it
	}
	free, err := i.nl.RouteGetWithOptions(netIP(dst), &o)
	switch {
	case err == nil && len(free) > 0 && free[0].Type == unix.RTN_BROADCAST:
		return netlink.Route{}, fmt.Errorf("%v is a broadcast address, not that of one peer", dst)
	case err == nil && len(free) > 0 && free[0].LinkIndex == i.index:
		return free[0], nil
	case err == nil && len(free) > 0 && free[0].Type == unix.RTN_LOCAL:
		return netlink.Route{}, fmt.Errorf("%v is an address of this host: the %s link on %s cannot reach it; use a memory link, or two network namespaces (rocectl lab)", dst, i.kind, i.name)
	case err != nil && !errors.Is(err, unix.ENETUNREACH):
		return netlink.Route{}, i.noRoute(dst, err)
	}
	// The kernel prefers another interface, but there may be a route by this one as
	// well: two interfaces in one network. FIBMatch keeps the kernel from making one
	// up, which it does for IPv4 when the interface is given.
	o.OifIndex, o.FIBMatch = i.index, true
	if _, err := i.nl.RouteGetWithOptions(netIP(dst), &o); err != nil {
		if len(free) > 0 {
			return netlink.Route{}, fmt.Errorf("%v is reached by interface %s, not by %s: open a link on that, or add a route with `ip route add %v dev %s`", dst, i.nameOf(free[0].LinkIndex), i.name, dst, i.name)
		}
		return netlink.Route{}, i.noRoute(dst, err)
	}
	o.FIBMatch = false
	mine, err := i.nl.RouteGetWithOptions(netIP(dst), &o)
	if err != nil || len(mine) == 0 {
		return netlink.Route{}, i.noRoute(dst, err)
	}
	return mine[0], nil
}

func (i *Interface) noRoute(dst netip.Addr, err error) error {
	return fmt.Errorf("there is no route to %v: add one with `ip route add %v dev %s` (%w)", dst, dst, i.name, err)
}

func (i *Interface) nameOf(index int) string {
	l, err := i.nl.LinkByIndex(index)
	if err != nil {
		return fmt.Sprintf("number %d", index)
	}
	return l.Attrs().Name
}

// chooseSource takes the address the route prefers, if it is one of this interface, else
// the best of dst's IP version: link-local for a link-local peer.
func (i *Interface) chooseSource(route netlink.Route, dst netip.Addr) (netip.Addr, error) {
	prefers, _ := netip.AddrFromSlice(route.Src)
	prefers = prefers.Unmap()
	var best netip.Addr
	for _, a := range i.Addrs() {
		if a == prefers {
			return a, nil
		}
		if a.Is4() != dst.Is4() {
			continue
		}
		if !best.IsValid() || dst.IsLinkLocalUnicast() && a.IsLinkLocalUnicast() && !best.IsLinkLocalUnicast() {
			best = a
		}
	}
	if !best.IsValid() {
		return best, fmt.Errorf("the last %s address of interface %s went away: give it one to reach %v from", family(dst), i.name, dst)
	}
	return best, nil
}

// gateway returns the route's next hop, or the zero Addr if it has none.
func gateway(route netlink.Route) netip.Addr {
	gw, _ := netip.AddrFromSlice(route.Gw)
	if via, ok := route.Via.(*netlink.Via); ok && !gw.IsValid() {
		gw, _ = netip.AddrFromSlice(via.Addr)
	}
	return gw.Unmap()
}

// netIP is a as package netlink takes it; nil for the zero Addr.
func netIP(a netip.Addr) net.IP { return a.AsSlice() }

const (
	// nudUsable are the states of a neighbour whose hardware address may be used, nudOld those
	// that the kernel would check on use (linux/neighbour.h, RFC 4861 7.3.2).
	nudUsable = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_PERMANENT | netlink.NUD_NOARP
	nudOld    = netlink.NUD_STALE
)

// await returns once the kernel knows the hardware address of next, which is on the way to
// dst. It waits until ctx ends or the kernel gives up, after some three seconds.
func (i *Interface) await(ctx context.Context, next, dst netip.Addr) error {
	const first, longest = time.Millisecond, 100 * time.Millisecond
	knocked := false
	for pause := first; ; pause = min(2*pause, longest) {
		n, err := i.lookUp(next)
		if err != nil {
			return err
		}
		if n.State&nudUsable != 0 && len(n.HardwareAddr) == 6 {
			if n.State&nudOld != 0 {
				i.knock.send(dst, i.index)
			}
			return nil
		}
		if knocked && n.State&netlink.NUD_FAILED != 0 {
			return i.noAnswer(next, dst, nil)
		}
		if !knocked {
			i.knock.send(dst, i.index)
			knocked = true
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return i.noAnswer(next, dst, ctx.Err())
		case <-timer.C:
		}
	}
}

func (i *Interface) noAnswer(next, dst netip.Addr, cause error) error {
	asked := "ARP"
	if next.Is6() {
		asked = "neighbour solicitation"
	}
	who := next.String()
	if next != dst {
		who = fmt.Sprintf("%v, the gateway to %v,", next, dst)
	}
	err := fmt.Errorf("%s did not answer %s on %s: is it up, and is this the right interface or VLAN?", who, asked, i.name)
	if cause != nil {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return err
}

// lookUp returns the kernel's entry for a neighbour, with state 0 if it has none.
func (i *Interface) lookUp(a netip.Addr) (netlink.Neigh, error) {
	fam := netlink.FAMILY_V4
	if a.Is6() {
		fam = netlink.FAMILY_V6
	}
	list, err := i.nl.NeighList(i.index, fam)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return netlink.Neigh{}, fmt.Errorf("looking up neighbour %v on %s: %w", a, i.name, err)
	}
	for _, n := range list {
		if ip, ok := netip.AddrFromSlice(n.IP); ok && ip.Unmap() == a {
			return n, nil
		}
	}
	return netlink.Neigh{}, nil
}

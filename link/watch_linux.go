package link

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// watcher follows what happens to an interface. A notification is only a
// reason to look again: so one that is lost, when the kernel has more to tell
// than the socket holds, costs nothing but another look at everything.
type watcher struct {
	iface   *Interface
	sock    *nl.NetlinkSocket
	running sync.WaitGroup
}

func newWatcher(i *Interface) (*watcher, error) {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	if err != nil {
		return nil, fmt.Errorf("subscribing to changes of network interfaces: %w", err)
	}
	return &watcher{iface: i, sock: s}, nil
}

func (w *watcher) start() { w.running.Go(w.run) }

func (w *watcher) close() {
	w.sock.Close()
	w.running.Wait()
}

func (w *watcher) run() {
	for {
		msgs, _, err := w.sock.Receive()
		if errors.Is(err, unix.ENOBUFS) {
			w.iface.lookAtLink()
			w.iface.lookAtAddrs()
			w.iface.lookAtHops()
			continue
		}
		if err != nil {
			return // closed
		}
		// Several notifications of one kind need one look.
		link, addrs := false, false
		for _, m := range msgs {
			switch m.Header.Type {
			case unix.RTM_NEWLINK, unix.RTM_DELLINK:
				link = true
			case unix.RTM_NEWADDR, unix.RTM_DELADDR:
				addrs = true
			case unix.RTM_NEWNEIGH:
				if n, err := netlink.NeighDeserialize(m.Data); err == nil {
					w.iface.seeNeighbour(*n)
				}
			}
		}
		if link {
			w.iface.lookAtLink()
		}
		if addrs {
			w.iface.lookAtAddrs()
		}
	}
}

// lookAtLink compares the interface with what is known of it.
func (i *Interface) lookAtLink() {
	l, err := i.nl.LinkByIndex(i.index)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		if i.gone != nil {
			i.gone(fmt.Errorf("interface %s was removed: open the link again when it is back", i.name))
		}
		i.emit(Event{Kind: EventDown})
		return
	}
	if err != nil {
		return // the next notification brings another look
	}
	a := l.Attrs()
	i.mu.Lock()
	wasUp, mtu, mac := i.up, i.mtu, i.mac
	i.setLink(a)
	up, newMTU, newMAC := i.up, i.mtu, i.mac
	i.mu.Unlock()
	if mtu != newMTU {
		i.emit(Event{Kind: EventMTU, MTU: newMTU})
	}
	if mac != newMAC {
		i.emit(Event{Kind: EventAddrs})
	}
	if up && !wasUp {
		i.emit(Event{Kind: EventUp})
	}
	if wasUp && !up {
		i.emit(Event{Kind: EventDown})
	}
}

// lookAtAddrs compares the interface's addresses with those known.
func (i *Interface) lookAtAddrs() {
	l, err := i.nl.LinkByIndex(i.index)
	if err != nil {
		return
	}
	addrs, err := listAddrs(i.nl, l)
	if err != nil {
		return
	}
	before := i.Addrs()
	i.mu.Lock()
	i.addrs = addrs
	i.mu.Unlock()
	if !slices.Equal(before, i.Addrs()) {
		i.emit(Event{Kind: EventAddrs})
	}
}

// lookAtHops compares the neighbours in use with the kernel's table.
func (i *Interface) lookAtHops() {
	list, err := i.nl.NeighList(i.index, netlink.FAMILY_ALL)
	if err != nil {
		return
	}
	for _, n := range list {
		i.seeNeighbour(n)
	}
}

// seeNeighbour tells of every destination whose next hop has another hardware address than it had.
func (i *Interface) seeNeighbour(n netlink.Neigh) {
	ip, ok := netip.AddrFromSlice(n.IP)
	if !ok || n.LinkIndex != i.index || n.State&nudUsable == 0 || len(n.HardwareAddr) != 6 {
		return
	}
	mac := [6]byte(n.HardwareAddr)
	for _, dst := range i.moveHop(ip.Unmap(), mac) {
		i.emit(Event{Kind: EventNeighbor, Addr: dst, MAC: mac})
	}
}

// moveHop takes over the hardware address of a next hop in use and returns the destinations
// behind it, or none if nothing changes.
func (i *Interface) moveHop(next netip.Addr, mac [6]byte) []netip.Addr {
	i.mu.Lock()
	defer i.mu.Unlock()
	h := i.hops[next]
	if h == nil || h.mac == mac {
		return nil
	}
	h.mac = mac
	return slices.Collect(maps.Keys(h.dests))
}

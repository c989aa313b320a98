package link

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// watcher follows what happens to a raw link's interface. A notification is only a
// reason to look again: so one that is lost, when the kernel has more to tell
// than the socket holds, costs nothing but another look at everything.
type watcher struct {
	raw     *rawLink
	sock    *nl.NetlinkSocket
	running sync.WaitGroup
}

func newWatcher(r *rawLink) (*watcher, error) {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	if err != nil {
		return nil, fmt.Errorf("subscribing to changes of network interfaces: %w", err)
	}
	return &watcher{raw: r, sock: s}, nil
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
			w.raw.lookAtLink()
			w.raw.lookAtAddrs()
			w.raw.lookAtHops()
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
					w.raw.seeNeighbour(*n)
				}
			}
		}
		if link {
			w.raw.lookAtLink()
		}
		if addrs {
			w.raw.lookAtAddrs()
		}
	}
}

// lookAtLink compares the interface with what is known of it.
func (r *rawLink) lookAtLink() {
	l, err := r.nl.LinkByIndex(r.index)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		r.queue.end(fmt.Errorf("interface %s was removed: open the link again when it is back", r.name))
		r.events.put(Event{Kind: EventDown})
		return
	}
	if err != nil {
		return // the next notification brings another look
	}
	a := l.Attrs()
	r.mu.Lock()
	wasUp, mtu, mac := r.up, r.mtu, r.mac
	r.setLink(a)
	up, newMTU, newMAC := r.up, r.mtu, r.mac
	r.mu.Unlock()
	if mtu != newMTU {
		r.events.put(Event{Kind: EventMTU, MTU: newMTU})
	}
	if mac != newMAC {
		r.events.put(Event{Kind: EventAddrs})
	}
	if up && !wasUp {
		r.events.put(Event{Kind: EventUp})
	}
	if wasUp && !up {
		r.events.put(Event{Kind: EventDown})
	}
}

// lookAtAddrs compares the interface's addresses with those known.
func (r *rawLink) lookAtAddrs() {
	l, err := r.nl.LinkByIndex(r.index)
	if err != nil {
		return
	}
	addrs, err := listAddrs(r.nl, l)
	if err != nil {
		return
	}
	before := r.Addrs()
	r.mu.Lock()
	r.addrs = addrs
	r.mu.Unlock()
	if !slices.Equal(before, r.Addrs()) {
		r.events.put(Event{Kind: EventAddrs})
	}
}

// lookAtHops compares the neighbours in use with the kernel's table.
func (r *rawLink) lookAtHops() {
	list, err := r.nl.NeighList(r.index, netlink.FAMILY_ALL)
	if err != nil {
		return
	}
	for _, n := range list {
		r.seeNeighbour(n)
	}
}

// seeNeighbour tells of every destination whose next hop has another hardware address than it had.
func (r *rawLink) seeNeighbour(n netlink.Neigh) {
	ip, ok := netip.AddrFromSlice(n.IP)
	if !ok || n.LinkIndex != r.index || n.State&nudUsable == 0 || len(n.HardwareAddr) != 6 {
		return
	}
	mac := [6]byte(n.HardwareAddr)
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.hops[ip.Unmap()]
	if h == nil || h.mac == mac {
		return
	}
	h.mac = mac
	for dst := range h.dests {
		r.events.put(Event{Kind: EventNeighbor, Addr: dst, MAC: mac})
	}
}

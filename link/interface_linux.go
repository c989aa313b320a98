package link

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// minMTU is what path MTU 256, the smallest (IBA 9.6.2), needs of an IP packet.
const minMTU = 256 + 80

// Interface is a network interface as every link onto one needs it: its addresses,
// the ways to peers, what changes, and queue pair numbers that no other process uses there. The
// link itself adds how frames come and go. All methods may be called by any goroutine.
type Interface struct {
	name  string
	kind  string // of the link, for errors
	index int
	nl    *netlink.Handle
	watch *watcher
	claim *qpnClaim
	knock *knocker

	// As the watcher last saw them.
	mu    sync.Mutex
	mac   [6]byte
	mtu   int
	up    bool
	addrs []ifaceAddr
	hops  map[netip.Addr]*hop // next hops that were resolved

	events    eventQueue
	tell      func(Event)
	gone      func(error)
	closeOnce sync.Once
	closeErr  error
}

// OpenInterface looks the interface up in the network namespace of the calling thread, where it
// stays. It needs no privilege. kind is the kind of link it is for (raw, udp, xdp), which errors name.
// qpns are the queue pair numbers it is to have, with a zero Count any range that is free.
// The error is a sentence about a missing, down, unfit or addressless interface, or about who has the numbers.
//
// It notices changes from here on, but tells of them only after Watch.
func OpenInterface(name, kind string, qpns QPNRange) (_ *Interface, err error) {
	i := &Interface{name: name, kind: kind, hops: map[netip.Addr]*hop{}}
	i.events.init()
	defer func() {
		if err != nil {
			_ = i.Close()
		}
	}()
	if i.nl, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("opening a netlink socket: %w", err)
	}
	// Listen before looking, or a change in between is lost.
	if i.watch, err = newWatcher(i); err != nil {
		return nil, err
	}
	if err := i.inspect(); err != nil {
		return nil, err
	}
	if i.knock, err = openKnocker(name); err != nil {
		return nil, err
	}
	if i.claim, err = claimQPNs(i.index, qpns); err != nil {
		return nil, fmt.Errorf("the %s link cannot have %s: %w", kind, name, err)
	}
	return i, nil
}

// inspect finds the interface and what a link must know of it, and says why it is unfit.
func (i *Interface) inspect() error {
	l, err := i.nl.LinkByName(i.name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return fmt.Errorf("there is no interface %s here: there are %s", i.name, i.others())
	}
	if err != nil {
		return fmt.Errorf("looking up interface %s: %w", i.name, err)
	}
	a := l.Attrs()
	i.index = a.Index
	switch {
	case a.Flags&net.FlagLoopback != 0:
		return fmt.Errorf("%s is the loopback interface, which the %s link cannot use: use a memory link, or two network namespaces joined by a veth pair (rocectl lab)", i.name, i.kind)
	case a.EncapType != "ether" || len(a.HardwareAddr) != 6:
		return fmt.Errorf("%s is not an Ethernet interface but %s: the %s link builds Ethernet frames", i.name, a.EncapType, i.kind)
	case a.Flags&net.FlagUp == 0:
		return fmt.Errorf("interface %s is down: bring it up with `ip link set %s up`", i.name, i.name)
	case a.MTU < minMTU:
		return fmt.Errorf("interface %s has MTU %d, but path MTU 256 needs %d: raise it with `ip link set %s mtu 1500`", i.name, a.MTU, minMTU, i.name)
	}
	i.setLink(a)
	if i.addrs, err = listAddrs(i.nl, l); err != nil {
		return fmt.Errorf("listing the addresses of %s: %w", i.name, err)
	}
	if len(i.Addrs()) > 0 {
		return nil
	}
	if len(i.addrs) == 0 {
		return fmt.Errorf("interface %s has no address: give it one with `ip addr add ADDRESS/LENGTH dev %s`", i.name, i.name)
	}
	return fmt.Errorf("no address of interface %s is usable yet: %s", i.name, describeAddrs(i.addrs))
}

// setLink takes over what netlink says of the interface. The caller holds the mutex or owns i alone.
func (i *Interface) setLink(a *netlink.LinkAttrs) {
	copy(i.mac[:], a.HardwareAddr)
	i.mtu, i.up = a.MTU, isUp(a)
}

// isUp reports whether the interface is up and has its carrier.
func isUp(a *netlink.LinkAttrs) bool {
	return a.Flags&net.FlagUp != 0 && a.RawFlags&unix.IFF_LOWER_UP != 0
}

// others lists the names of the interfaces there are.
func (i *Interface) others() string {
	links, err := i.nl.LinkList()
	if err != nil {
		return "none that could be listed"
	}
	var names []string
	for _, l := range links {
		names = append(names, l.Attrs().Name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Watch begins to deliver events. tell, if not nil, gets each of them first, in the order of the
// changes, and gone, if not nil, the reason when the interface was removed: the link is over for
// good then. Both are called by one goroutine, which Close waits for, so they must not call Close.
func (i *Interface) Watch(tell func(Event), gone func(error)) {
	i.tell, i.gone = tell, gone
	i.watch.start()
}

// emit tells of a change.
func (i *Interface) emit(e Event) {
	if i.tell != nil {
		i.tell(e)
	}
	i.events.put(e)
}

// Name returns the interface's name when it was opened.
func (i *Interface) Name() string { return i.name }

// Index returns the interface's number in its network namespace.
func (i *Interface) Index() int { return i.index }

// MTU returns the longest IP packet the interface takes now.
func (i *Interface) MTU() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.mtu
}

// Addrs returns the interface's addresses, global before link-local, IPv4 before
// IPv6, permanent before temporary and deprecated; no tentative ones. Link-local
// addresses come without a zone: it can only be this interface.
func (i *Interface) Addrs() []netip.Addr {
	i.mu.Lock()
	defer i.mu.Unlock()
	var addrs []netip.Addr
	for _, a := range i.addrs {
		if a.usable() {
			addrs = append(addrs, a.addr)
		}
	}
	return addrs
}

// QPNs returns the numbers that no other process on the interface uses.
func (i *Interface) QPNs() QPNRange { return i.claim.qpns }

// Events delivers changes of the interface and of resolved neighbours.
func (i *Interface) Events() <-chan Event { return i.events.ch }

// Close ends the watching and gives back sockets and queue pair numbers. Calling it again does nothing.
func (i *Interface) Close() error {
	i.closeOnce.Do(func() {
		var errs []error
		if i.watch != nil {
			i.watch.close()
		}
		if i.nl != nil {
			i.nl.Close()
		}
		if i.knock != nil {
			errs = append(errs, i.knock.close())
		}
		if i.claim != nil {
			errs = append(errs, i.claim.close())
		}
		i.closeErr = errors.Join(errs...)
	})
	return i.closeErr
}

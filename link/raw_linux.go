package link

import (
	"context"
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

// rawLink is a link onto an Ethernet interface by an AF_PACKET socket.
type rawLink struct {
	name  string
	index int
	queue *rawQueue
	port  *portHold
	slot  *qpnSlot
	nl    *netlink.Handle
	watch *watcher

	// Of the interface, as the watcher last saw it.
	mu    sync.Mutex
	mac   [6]byte
	mtu   int
	up    bool
	addrs []ifaceAddr
	hops  map[netip.Addr]*hop // next hops that were resolved

	events    eventQueue
	closeOnce sync.Once
	closeErr  error
}

var _ Link = (*rawLink)(nil)

// OpenRaw opens a link onto an Ethernet interface, which may be a VLAN, bond, bridge, veth or
// macvlan one, by an AF_PACKET socket (packet(7)). It needs CAP_NET_RAW. It looks
// into the network namespace of the calling thread, and the link stays there. The error is a
// sentence about a missing, down, unfit or addressless interface, missing
// privilege, or another owner of UDP port 4791.
//
// The kernel goes on using the interface beside it. A host cannot reach itself this
// way: what is sent to one of its own addresses would go out on the wire, so Resolve refuses them.
//
// It holds UDP port 4791 with sockets that take nothing, or the kernel
// would answer every RoCEv2 packet with ICMP port unreachable. Several
// processes of one user may open the same interface; each gets queue pair numbers of its own.
func OpenRaw(ctx context.Context, iface string, o Options) (_ Link, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	r := &rawLink{name: iface, hops: map[netip.Addr]*hop{}}
	r.events.init()
	defer func() {
		if err != nil {
			_ = r.Close()
		}
	}()
	if r.nl, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("opening a netlink socket: %w", err)
	}
	// Listen before looking, or a change in between is lost.
	if r.watch, err = newWatcher(r); err != nil {
		return nil, err
	}
	if err := r.inspect(); err != nil {
		return nil, err
	}
	if r.slot, err = takeQPNSlot(r.index); err != nil {
		return nil, err
	}
	if r.port, err = holdPort(iface, r.Addrs()); err != nil {
		return nil, err
	}
	if r.queue, err = openRawQueue(iface, r.index, r.mtu, o); err != nil {
		return nil, err
	}
	r.watch.start()
	return r, nil
}

// inspect finds the interface and what the link must know of it, and says why it is unfit.
func (r *rawLink) inspect() error {
	l, err := r.nl.LinkByName(r.name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return fmt.Errorf("there is no interface %s here: there are %s", r.name, r.interfaces())
	}
	if err != nil {
		return fmt.Errorf("looking up interface %s: %w", r.name, err)
	}
	a := l.Attrs()
	r.index = a.Index
	switch {
	case a.Flags&net.FlagLoopback != 0:
		return fmt.Errorf("%s is the loopback interface, which the raw link cannot use: use a memory link, or two network namespaces joined by a veth pair (rocectl lab)", r.name)
	case a.EncapType != "ether" || len(a.HardwareAddr) != 6:
		return fmt.Errorf("%s is not an Ethernet interface but %s: the raw link builds Ethernet frames", r.name, a.EncapType)
	case a.Flags&net.FlagUp == 0:
		return fmt.Errorf("interface %s is down: bring it up with `ip link set %s up`", r.name, r.name)
	case a.MTU < minMTU:
		return fmt.Errorf("interface %s has MTU %d, but path MTU 256 needs %d: raise it with `ip link set %s mtu 1500`", r.name, a.MTU, minMTU, r.name)
	}
	r.setLink(a)
	if r.addrs, err = listAddrs(r.nl, l); err != nil {
		return fmt.Errorf("listing the addresses of %s: %w", r.name, err)
	}
	if len(r.Addrs()) > 0 {
		return nil
	}
	if len(r.addrs) == 0 {
		return fmt.Errorf("interface %s has no address: give it one with `ip addr add ADDRESS/LENGTH dev %s`", r.name, r.name)
	}
	return fmt.Errorf("no address of interface %s is usable yet: %s", r.name, describeAddrs(r.addrs))
}

// setLink takes over what netlink says of the interface. The caller holds the mutex or owns r alone.
func (r *rawLink) setLink(a *netlink.LinkAttrs) {
	r.mac, r.mtu, r.up = [6]byte(a.HardwareAddr), a.MTU, isUp(a)
}

// isUp reports whether the interface is up and has its carrier.
func isUp(a *netlink.LinkAttrs) bool {
	return a.Flags&net.FlagUp != 0 && a.RawFlags&unix.IFF_LOWER_UP != 0
}

// interfaces lists the names of the interfaces there are.
func (r *rawLink) interfaces() string {
	links, err := r.nl.LinkList()
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

// Queues returns the link's one queue.
func (r *rawLink) Queues() []Queue { return []Queue{r.queue} }

// Info describes the link.
func (r *rawLink) Info() Info {
	return Info{Kind: "raw", Mode: "AF_PACKET, single frames", Interface: r.name}
}

// Caps returns the interface's present MTU, but not more than the buffers were made for at opening.
func (r *rawLink) Caps() Caps {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Caps{MTU: min(r.mtu, r.queue.send.frame-ethernetLen), MaxSegments: 1, Gather: true}
}

// Addrs returns the interface's addresses, global before link-local, IPv4 before
// IPv6, permanent before temporary and deprecated; no tentative ones. Link-local
// addresses come without a zone: it can only be this interface.
func (r *rawLink) Addrs() []netip.Addr {
	r.mu.Lock()
	defer r.mu.Unlock()
	var addrs []netip.Addr
	for _, a := range r.addrs {
		if a.usable() {
			addrs = append(addrs, a.addr)
		}
	}
	return addrs
}

// QPNs returns the numbers that no other process on the interface uses.
func (r *rawLink) QPNs() QPNRange { return r.slot.qpns() }

// Events delivers changes of the interface and of resolved neighbours.
func (r *rawLink) Events() <-chan Event { return r.events.ch }

// Close ends the queue, see there, and gives back sockets, memory, port and queue pair numbers.
func (r *rawLink) Close() error {
	r.closeOnce.Do(func() {
		var errs []error
		if r.watch != nil {
			r.watch.close()
		}
		if r.queue != nil {
			errs = append(errs, r.queue.Close())
		}
		if r.nl != nil {
			r.nl.Close()
		}
		if r.port != nil {
			errs = append(errs, r.port.close())
		}
		if r.slot != nil {
			errs = append(errs, r.slot.close())
		}
		r.closeErr = errors.Join(errs...)
	})
	return r.closeErr
}

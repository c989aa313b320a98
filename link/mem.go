package link

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-roce/roce/clock"
)

// ethernetLen is the Ethernet header with one VLAN tag: what a frame has beyond the MTU.
const ethernetLen = 14 + 4

// maxMemPorts is how many devices a memory switch ever has: the last byte of their MAC addresses.
const maxMemPorts = 255

// MemOptions are the properties of a memory switch. The zero value means the defaults.
type MemOptions struct {
	// MTU is the longest IP packet; 0 means 9000.
	MTU int
	// Depth is how many transmit buffers each device has, and so how many of its
	// frames are on the way or unread at most; 0 means 256.
	Depth int
	// Clock measures the deadlines of Wait. It must run as real time does; nil means [clock.System].
	Clock clock.Clock
}

func (o MemOptions) withDefaults() MemOptions {
	if o.MTU == 0 {
		o.MTU = 9000
	}
	if o.Depth == 0 {
		o.Depth = 256
	}
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	return o
}

// MemSwitch joins devices of one process, as an Ethernet switch joins hosts. It
// needs no privilege and runs on every system.
//
// It never loses a frame: a sender whose buffers are all unread by the
// receivers gets none from Alloc until one reads on. Like a switch with
// Ethernet pause, one device that stops reading thus stops those that send to it.
type MemSwitch struct {
	opts  MemOptions
	mu    sync.Mutex
	ports []*Mem // in order of their numbers from 1 on, closed ones included
}

// NewMemSwitch returns a switch without devices.
func NewMemSwitch(o MemOptions) *MemSwitch {
	return &MemSwitch{opts: o.withDefaults()}
}

// NewMemPair returns two devices joined by a wire, with addresses 10.77.0.1 and
// fd77::1, 10.77.0.2 and fd77::2.
func NewMemPair(o MemOptions) (a, b *Mem) {
	s := NewMemSwitch(o)
	return s.attach(s.invent(1)), s.attach(s.invent(2))
}

// invent makes up the addresses of device n.
func (s *MemSwitch) invent(n int) []netip.Addr {
	v6 := [16]byte{0: 0xfd, 1: 0x77, 15: byte(n)}
	return []netip.Addr{netip.AddrFrom4([4]byte{10, 77, 0, byte(n)}), netip.AddrFrom16(v6)}
}

// Open attaches a device with the given addresses to the switch; without any, the
// n-th device gets 10.77.0.n and fd77::n. An error says that an address is taken
// or not unicast, or that the switch is full.
func (s *MemSwitch) Open(addrs ...netip.Addr) (*Mem, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.ports) + 1
	if n > maxMemPorts {
		return nil, fmt.Errorf("the memory switch has had its %d devices: make another switch", maxMemPorts)
	}
	if len(addrs) == 0 {
		addrs = s.invent(n)
	}
	for _, a := range addrs {
		if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || a.Zone() != "" || a.Is4In6() {
			return nil, fmt.Errorf("%v cannot be the address of a memory device: give a unicast IPv4 or IPv6 address without a zone", a)
		}
		if p := s.find(a); p != nil {
			return nil, fmt.Errorf("%s of the memory switch has address %v already: give another", p.Info().Interface, a)
		}
	}
	return s.attach(addrs), nil
}

// attach makes the next port and wires it to every port, itself included. The caller
// holds the mutex or is the only one to know s.
func (s *MemSwitch) attach(addrs []netip.Addr) *Mem {
	m := &Mem{sw: s, addrs: addrs, number: len(s.ports) + 1, events: make(chan Event)}
	m.queue = newMemQueue(m.number, s.opts)
	s.ports = append(s.ports, m)
	for _, p := range s.ports {
		there, here := newMemWire(s.opts.Depth), newMemWire(s.opts.Depth)
		if p == m {
			here = there
		}
		m.queue.join(&memPeer{queue: p.queue, number: p.number, out: there, in: here})
		if p != m {
			p.queue.join(&memPeer{queue: m.queue, number: m.number, out: here, in: there})
		}
	}
	return m
}

// find returns the open device with address a, or nil. The caller holds the mutex.
func (s *MemSwitch) find(a netip.Addr) *Mem {
	for _, p := range s.ports {
		if p.closed.Load() {
			continue
		}
		for _, b := range p.addrs {
			if a == b {
				return p
			}
		}
	}
	return nil
}

// Mem is a device on a memory switch.
type Mem struct {
	sw     *MemSwitch
	number int
	addrs  []netip.Addr
	queue  *memQueue
	events chan Event // nothing ever changes here, so nothing is ever sent
	closed atomic.Bool
}

var _ Link = (*Mem)(nil)

// MAC returns the device's made-up hardware address, 02:52:6f:43:45:n.
func (m *Mem) MAC() [6]byte { return memMAC(m.number) }

// memMAC makes up the hardware address of port n: locally administered, then "RoCE".
func memMAC(n int) [6]byte { return [6]byte{0x02, 'R', 'o', 'C', 'E', byte(n)} }

// Queues returns the device's one queue.
func (m *Mem) Queues() []Queue { return []Queue{m.queue} }

// Info describes the link.
func (m *Mem) Info() Info {
	return Info{Kind: "mem", Mode: "in-process, buffers handed over", Interface: fmt.Sprintf("mem%d", m.number)}
}

// Caps returns the MTU of the switch. Frames are whole: a copy into the frame is
// the only one there is.
func (m *Mem) Caps() Caps { return Caps{MTU: m.sw.opts.MTU, MaxSegments: 1} }

// Addrs returns the device's addresses in the order given to Open.
func (m *Mem) Addrs() []netip.Addr { return append([]netip.Addr(nil), m.addrs...) }

// QPNs returns every number but 0 and 1, which are the management queue pairs'
// (IBA 3.9.3), and 0xFFFFFF, which is multicast's.
func (m *Mem) QPNs() QPNRange { return AllQPNs }

// Resolve finds the device with address dst, which may be m itself.
func (m *Mem) Resolve(_ context.Context, src, dst netip.Addr) (Route, error) {
	if m.closed.Load() {
		return Route{}, m.errClosed()
	}
	dst = dst.Unmap()
	if src.IsValid() {
		src = src.Unmap()
	} else {
		src = firstOfFamily(m.addrs, dst)
	}
	m.sw.mu.Lock()
	defer m.sw.mu.Unlock()
	if !src.IsValid() {
		return Route{}, fmt.Errorf("%s has no %s address to reach %v from: open it with one", m.Info().Interface, family(dst), dst)
	}
	if m.sw.find(src) != m {
		return Route{}, fmt.Errorf("%v is not an address of %s, which has %s", src, m.Info().Interface, joinAddrs(m.addrs))
	}
	if src.Is4() != dst.Is4() {
		return Route{}, fmt.Errorf("%v cannot be reached from %v: both must be of one IP version", dst, src)
	}
	p := m.sw.find(dst)
	if p == nil {
		var there []netip.Addr
		for _, p := range m.sw.ports {
			if !p.closed.Load() {
				there = append(there, p.addrs...)
			}
		}
		return Route{}, fmt.Errorf("no device of the memory switch has address %v: there are %s", dst, joinAddrs(there))
	}
	return Route{SrcMAC: m.MAC(), DstMAC: p.MAC(), Src: src, MTU: m.sw.opts.MTU}, nil
}

// Events returns a channel on which nothing comes: nothing changes on this link.
func (m *Mem) Events() <-chan Event { return m.events }

// Close detaches the device. Frames sent to it from then on vanish, as they do when a cable is pulled.
func (m *Mem) Close() error {
	if m.closed.Swap(true) {
		return nil
	}
	return m.queue.Close()
}

func (m *Mem) errClosed() error {
	return fmt.Errorf("%s is closed: %w", m.Info().Interface, net.ErrClosed)
}

// firstOfFamily returns the first of addrs that is of a's IP version, or the zero Addr.
func firstOfFamily(addrs []netip.Addr, a netip.Addr) netip.Addr {
	for _, b := range addrs {
		if a.Is4() == b.Is4() {
			return b
		}
	}
	return netip.Addr{}
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

func joinAddrs(addrs []netip.Addr) string {
	if len(addrs) == 0 {
		return "none"
	}
	var b strings.Builder
	for i, a := range addrs {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(a.String())
	}
	return b.String()
}

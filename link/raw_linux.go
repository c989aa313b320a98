package link

import (
	"context"
	"errors"
	"sync"
)

// rawLink is a link onto an Ethernet interface by an AF_PACKET socket.
type rawLink struct {
	*Interface
	queue *rawQueue
	port  *PortHold

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
	r := &rawLink{}
	defer func() {
		if err != nil {
			_ = r.Close()
		}
	}()
	if r.Interface, err = OpenInterface(iface, "raw", QPNRange{}); err != nil {
		return nil, err
	}
	if r.port, err = HoldPort(r.Interface); err != nil {
		return nil, err
	}
	if r.queue, err = openRawQueue(iface, r.index, r.MTU(), o); err != nil {
		return nil, err
	}
	r.Watch(nil, r.queue.end)
	return r, nil
}

// Queues returns the link's one queue.
func (r *rawLink) Queues() []Queue { return []Queue{r.queue} }

// Info describes the link.
func (r *rawLink) Info() Info {
	i := Info{Kind: "raw", Mode: "AF_PACKET, single frames", Interface: r.name}
	if r.queue.send.super > 0 {
		i.Mode = "AF_PACKET, super-frames"
	} else {
		i.Reasons = r.queue.whySingle
	}
	return i
}

// Caps returns the interface's present MTU, but not more than the buffers were made for at opening.
func (r *rawLink) Caps() Caps {
	c := Caps{MTU: min(r.MTU(), r.queue.send.frame-ethernetLen), MaxSegments: 1, Gather: true}
	if r.queue.send.super > 0 {
		c.MaxSegments = maxSegments
	}
	return c
}

// Close ends the queue, see there, and gives back sockets, memory, port and queue pair numbers.
func (r *rawLink) Close() error {
	r.closeOnce.Do(func() {
		var errs []error
		if r.Interface != nil {
			// First: its watcher may end the queue.
			errs = append(errs, r.Interface.Close())
		}
		if r.queue != nil {
			errs = append(errs, r.queue.Close())
		}
		if r.port != nil {
			errs = append(errs, r.port.Close())
		}
		r.closeErr = errors.Join(errs...)
	})
	return r.closeErr
}

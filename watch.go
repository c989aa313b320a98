package roce

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/link"
	"github.com/go-roce/roce/transport"
)

// resolveTimeout bounds a renewed look-up of a peer's hardware address.
const resolveTimeout = 3 * time.Second

// watch follows changes of the link until ctx ends.
func (d *Device) watch(ctx context.Context) {
	for {
		select {
		case e := <-d.link.Events():
			d.handleLinkEvent(ctx, e)
		case <-ctx.Done():
			return
		}
	}
}

func (d *Device) handleLinkEvent(ctx context.Context, e link.Event) {
	switch e.Kind {
	case link.EventNeighbor:
		d.reroute(ctx)
	case link.EventDown:
		d.log.Warn("the interface went down: queue pairs retry until it is up again or their retries are used up")
		d.events.push(Event{Type: EventPortErr, Text: fmt.Sprintf("%s went down", d.link.Info().Interface)})
	case link.EventUp:
		d.log.Info("the interface is up again")
		d.events.push(Event{Type: EventPortActive, Text: fmt.Sprintf("%s is up again", d.link.Info().Interface)})
		d.reroute(ctx)
	case link.EventMTU:
		d.checkPathMTU(ctx, e.MTU)
	case link.EventAddrs:
		addrs := d.Addrs()
		for _, l := range d.loops {
			_ = l.SetAddrs(ctx, addrs)
		}
		d.log.Debug("the addresses changed", "addresses", addrs)
		d.events.push(Event{Type: EventGIDChange, Text: fmt.Sprintf("the addresses of %s are now %v", d.link.Info().Interface, addrs)})
	}
}

// connected returns the queue pairs that have a way to a peer, each with its mutex to be taken.
func (d *Device) all() []*QP {
	d.mu.Lock()
	defer d.mu.Unlock()
	qps := make([]*QP, 0, len(d.qps))
	for _, q := range d.qps {
		qps = append(qps, q)
	}
	return qps
}

// reroute looks up the way to every peer again, and leads the packets of those that
// moved to their new hardware address. The event may be about a router, so its address tells little.
func (d *Device) reroute(ctx context.Context) {
	type ends struct{ src, dst netip.Addr }
	routes := map[ends]link.Route{}
	for _, q := range d.all() {
		q.mu.Lock()
		to := ends{q.path.av.Src, q.path.av.Dst}
		q.mu.Unlock()
		if !to.dst.IsValid() {
			continue
		}
		route, known := routes[to]
		if !known {
			lookup, cancel := context.WithTimeout(ctx, resolveTimeout)
			var err error
			route, err = d.link.Resolve(lookup, to.src, to.dst)
			cancel()
			if err != nil {
				d.log.Warn("a peer cannot be found any more: its queue pairs keep the hardware address they had", "peer", to.dst, "error", err)
			}
			routes[to] = route
		}
		if route != (link.Route{}) {
			q.reroute(ctx, route)
		}
	}
}

// reroute leads the packets along route if its hardware addresses are new.
func (q *QP) reroute(ctx context.Context, route link.Route) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.path
	if p.av.Dst == (netip.Addr{}) || p.route.SrcMAC == route.SrcMAC && p.route.DstMAC == route.DstMAC {
		return
	}
	p.route = route
	var err error
	if p.encap, err = p.newEncap(q.QPN()); err != nil {
		return // it was made from the same addresses before
	}
	if q.qp.Reroute(ctx, &p.encap) == nil {
		q.path = p
		q.dev.log.Info("a peer moved", "qpn", uint32(q.QPN()), "peer", p.av.Dst, "mac", fmt.Sprintf("% x", route.DstMAC))
	}
}

// checkPathMTU moves queue pairs whose packets are too long for the link now to ERR:
// nothing they send would arrive, and nobody would say why.
func (d *Device) checkPathMTU(ctx context.Context, mtu int) {
	most := bth.PathMTUFor(mtu)
	d.log.Info("the MTU changed", "mtu", mtu, "path_mtu", most)
	for _, q := range d.all() {
		q.checkPathMTU(ctx, mtu, most)
	}
}

func (q *QP) checkPathMTU(ctx context.Context, mtu, most int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var a Attr
	if q.qp.Inspect(ctx, func(t *transport.QP) { t.Query(&a) }) != nil || a.PathMTU <= most || a.State == StateErr {
		return
	}
	reason := fmt.Sprintf("the MTU of %s was lowered to %d, which carries a path MTU of %d, but the queue pair was connected with %d: raise the MTU, or connect again with a smaller path MTU at both ends",
		q.dev.link.Info().Interface, mtu, most, a.PathMTU)
	if q.apply(ctx, &Attr{Mask: AttrState, State: StateErr}, nil) != nil {
		return
	}
	q.reason = reason
	q.dev.log.Error("a queue pair failed", "qpn", uint32(q.QPN()), "reason", reason)
	q.dev.events.push(Event{Type: EventPathMTU, QPN: q.QPN(), Text: fmt.Sprintf("QP 0x%06x failed: %s", uint32(q.QPN()), reason)})
}

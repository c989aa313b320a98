package roce

import (
	"context"
	"errors"
	"net/netip"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/link"
)

// path is the way from a queue pair to its peer.
type path struct {
	av    AV
	dest  QPN
	route link.Route
	encap bth.Encap
}

// resolve finds the way to the peer at av.Dst and fills in av.Src if that is not given.
func (d *Device) resolve(ctx context.Context, qpn, dest QPN, av *AV) (*path, error) {
	av.Dst = plain(av.Dst)
	av.Src = plain(av.Src)
	if !av.Dst.IsValid() {
		return nil, errors.New("the peer's address is missing: it is the GID that the peer told")
	}
	if !av.Src.IsValid() {
		c, err := d.ChooseGID(av.Dst)
		if err != nil {
			return nil, err
		}
		av.Src = c.Addr
	}
	route, err := d.link.Resolve(ctx, av.Src, av.Dst)
	if err != nil {
		return nil, err
	}
	p := &path{av: *av, dest: dest, route: route}
	if p.encap, err = p.newEncap(qpn); err != nil {
		return nil, err
	}
	return p, nil
}

// newEncap makes the headers of the path's packets.
func (p *path) newEncap(qpn QPN) (bth.Encap, error) {
	return bth.NewEncap(bth.Path{
		SrcMAC:       p.route.SrcMAC,
		DstMAC:       p.route.DstMAC,
		Src:          p.av.Src,
		Dst:          p.av.Dst,
		SrcPort:      bth.SourcePort(p.av.FlowLabel, qpn, p.dest),
		TrafficClass: p.av.TrafficClass,
		HopLimit:     p.av.HopLimit,
		FlowLabel:    p.av.FlowLabel,
	})
}

// plain strips what addresses have on their way through text: a zone, which the link
// knows, and the IPv6 form that GIDs have for IPv4.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

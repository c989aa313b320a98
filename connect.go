package roce

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/link"
)

// Remote is the peer of [QP.Connect] and how to deal with it. Addr, QPN and PSN are
// what the peer's QP.Local says; the zero value of each other field means the default it names.
type Remote struct {
	Addr netip.Addr
	QPN  QPN
	PSN  PSN
	// Src is the local address that the peer was told; by default ChooseGID chooses it.
	Src netip.Addr
	// PathMTU is the payload of a full packet, the same at both ends: 256, 512, 1024,
	// 2048 or 4096. 0 means what the link carries.
	PathMTU int
	// Timeout is the ACK timeout code, 4.096 us x 2^n, 0 for none; nil means 14, 67 ms.
	// RetryCnt and RNRRetry are 0 to 7, RNRRetry 7 for ever; nil means 7.
	// MinRNRTimer is the RNR timer code the peer is told, 0 for the longest; nil means 12, 0.64 ms.
	Timeout, RetryCnt, RNRRetry, MinRNRTimer *uint8
	// MaxRdAtomic is how many READs and atomics may be outstanding at the peer, at most
	// the peer's MaxDestRdAtomic, which is how many the peer may have outstanding here.
	// nil means 16.
	MaxRdAtomic, MaxDestRdAtomic *uint8
	// TrafficClass is the IPv4 TOS or IPv6 traffic class of all packets.
	TrafficClass uint8
	// FlowLabel is the IPv6 flow label, 20 bits; not 0, it also chooses the UDP source port.
	FlowLabel uint32
	// HopLimit is the IPv4 TTL or IPv6 hop limit; 0 means 64.
	HopLimit uint8
}

// The defaults of Remote: those of perftest and ibv_rc_pingpong, but for the
// READs and atomics, which are what RNICs allow.
const (
	defaultTimeout     = 14
	defaultRetryCnt    = 7
	defaultRNRRetry    = 7
	defaultMinRNRTimer = 12
	defaultRdAtomic    = 16
)

// Init takes the queue pair from RESET to INIT with the Access of its configuration, so that
// receives can be posted before the peer can send.
func (q *QP) Init(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.opError("initialize", q.init(ctx))
}

func (q *QP) init(ctx context.Context) error {
	return q.apply(ctx, &Attr{
		Mask:   AttrState | AttrPKeyIndex | AttrPort | AttrAccess,
		State:  StateInit,
		Port:   1,
		Access: q.cfg.Access,
	}, nil)
}

// Connect takes the queue pair from RESET or INIT to RTS: it resolves the way to the
// peer and sets all attributes. The peer does the same, in any order, but the first
// SEND should find a receive posted: call Init, then PostRecv, then tell the peer Local.
//
// When it fails a queue pair that was in RESET is there again, and one that was in INIT is in INIT.
func (q *QP) Connect(ctx context.Context, r Remote) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.opError("connect", q.connect(ctx, r))
}

func (q *QP) connect(ctx context.Context, r Remote) error {
	rtr := Attr{
		Mask:            AttrState | AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN | AttrMaxDestRdAtomic | AttrMinRNRTimer,
		State:           StateRTR,
		AV:              AV{Src: r.Src, Dst: r.Addr, TrafficClass: r.TrafficClass, FlowLabel: r.FlowLabel, HopLimit: r.HopLimit},
		DestQPN:         r.QPN,
		RQPSN:           r.PSN,
		MaxDestRdAtomic: or(r.MaxDestRdAtomic, defaultRdAtomic),
		MinRNRTimer:     or(r.MinRNRTimer, defaultMinRNRTimer),
	}
	rts := Attr{
		Mask:        AttrState | AttrSQPSN | AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrMaxRdAtomic,
		State:       StateRTS,
		SQPSN:       q.psn,
		Timeout:     or(r.Timeout, defaultTimeout),
		RetryCnt:    or(r.RetryCnt, defaultRetryCnt),
		RNRRetry:    or(r.RNRRetry, defaultRNRRetry),
		MaxRdAtomic: or(r.MaxRdAtomic, defaultRdAtomic),
	}
	way, err := q.dev.resolve(ctx, q.QPN(), r.QPN, &rtr.AV)
	if err != nil {
		return err
	}
	if rtr.PathMTU, err = pathMTU(r.PathMTU, way.route, q.dev.PathMTU()); err != nil {
		return err
	}
	fromReset := q.State() == StateReset
	if fromReset {
		if err := q.init(ctx); err != nil {
			return err
		}
	}
	if err = q.apply(ctx, &rtr, way); err == nil {
		err = q.apply(ctx, &rts, nil)
	}
	if err != nil && fromReset {
		_ = q.apply(context.WithoutCancel(ctx), &Attr{Mask: AttrState, State: StateReset}, nil)
	}
	return err
}

// pathMTU returns the path MTU asked for, or the largest there is if that is 0, and
// refuses one that the link or the way to the peer does not carry.
func pathMTU(want int, route link.Route, most int) (int, error) {
	if n := bth.PathMTUFor(route.MTU); n < most {
		most = n
	}
	switch {
	case want == 0 && most != 0:
		return most, nil
	case want > most:
		return 0, fmt.Errorf("path MTU %d does not fit: packets to the peer may be %d bytes, which carries a path MTU of %d; raise the MTU on the way or use that path MTU at both ends",
			want, route.MTU, most)
	}
	return want, nil
}

// or returns what p points to, or v.
func or(p *uint8, v uint8) uint8 {
	if p == nil {
		return v
	}
	return *p
}

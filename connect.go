package roce

import (
	"context"
	"net/netip"
)

// Remote is the peer of [QP.Connect] and how to deal with it. Addr, QPN and PSN are
// what the peer's QP.Local says; the zero value of each other field means the default it names.
type Remote struct {
	Addr netip.Addr
	QPN  QPN
	PSN  PSN
	// Src is the local address the peer was told; by default ChooseGID chooses it.
	Src netip.Addr
	// PathMTU is the payload of a full packet, the same at both ends: 256, 512, 1024,
	// 2048 or 4096. 0 means what the way to the peer carries.
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

// Connect takes the queue pair from RESET over INIT and RTR to RTS: it resolves the
// way to the peer and sets all attributes. The peer does the same, in any order. Receives may be posted
// before Connect returns only on a queue pair that Modify moved to INIT; Connect
// takes it on from there.
func (q *QP) Connect(ctx context.Context, r Remote) error { panic("not built yet") }

package engine

import (
	"context"
	"net/netip"
	"slices"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/link"
)

// rxBatch is how many frames a turn takes at most.
const rxBatch = 64

// receiver is the state of the way in.
type receiver struct {
	frames [rxBatch]link.Frame
	env    bth.Envelope
	packet bth.Packet
	icrc   bth.ICRC
	addrs  []netip.Addr
}

// receive takes in the frames that wait. The error is the link's, which is gone.
func (l *Loop) receive(now clock.Time) error {
	n, err := l.queue.Recv(l.rx.frames[:])
	if n > 0 {
		frames := l.rx.frames[:n]
		for i := range frames {
			l.takeFrame(now, &frames[i])
		}
		l.queue.Release(frames)
		l.moved += n
	}
	return err
}

// takeFrame takes in the packets of a frame and notes why it was dropped, for a tap.
func (l *Loop) takeFrame(now clock.Time, f *link.Frame) {
	d := l.rx.env.Decode(f.Data)
	switch {
	case d != bth.DropNone:
		l.counters.Drops[d]++
	case f.Segment == 0:
		d = l.takePacket(now, l.rx.env.IB, 0)
	default:
		d = l.takeSegments(now, f.Segment)
	}
	if d != bth.DropNone {
		f.Note = d.String()
	}
}

// takeSegments takes in the packets of a super-frame, all of which are size bytes but
// the last, which may be shorter. It returns the last reason for which one was dropped.
func (l *Loop) takeSegments(now clock.Time, size int) bth.Drop {
	drop := bth.DropNone
	rest := l.rx.env.IB
	for i := 0; len(rest) > 0; i++ {
		n := min(size, len(rest))
		if d := l.takePacket(now, rest[:n:n], i); d != bth.DropNone {
			drop = d
		}
		rest = rest[n:]
	}
	return drop
}

// takePacket takes in one packet, the index-th of its frame, and counts it if it is dropped.
func (l *Loop) takePacket(now clock.Time, ib []byte, index int) bth.Drop {
	d := l.dispatch(now, ib, index)
	if d != bth.DropNone {
		l.counters.Drops[d]++
	}
	return d
}

// dispatch checks a packet and hands it to its queue pair.
func (l *Loop) dispatch(now clock.Time, ib []byte, index int) bth.Drop {
	p := &l.rx.packet
	if d := p.Decode(&l.rx.env, ib); d != bth.DropNone {
		return d
	}
	if !l.rx.icrc.Verify(&l.rx.env, ib, index) {
		return l.rx.icrc.Explain(&l.rx.env, ib)
	}
	// Partitions match in 15 bits, and one end must be a full member, which this one is (IBA 10.9.3).
	const membership = 0x8000
	if p.PKey|membership != bth.DefaultPKey {
		return bth.DropPKey
	}
	q := l.qps.find(p.DestQP)
	if q == nil {
		if !slices.Contains(l.rx.addrs, p.Dst) {
			return bth.DropNotOurs
		}
		return bth.DropUnknownQP
	}
	// A connected queue pair knows the address its peer must use, so p.Dst is checked there.
	l.touch(q)
	return q.tr.HandlePacket(now, p)
}

// SetAddrs changes the local addresses, which tell packets for nobody here from those for
// a queue pair that does not exist.
func (l *Loop) SetAddrs(ctx context.Context, addrs []netip.Addr) error {
	return l.Do(ctx, func(clock.Time) { l.rx.addrs = addrs })
}

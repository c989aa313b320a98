package link

import "github.com/go-roce/roce/clock"

// Options are the properties of a link onto a network interface. The zero value means the defaults.
type Options struct {
	// Clock measures the deadlines of Wait. It must run as real time does; nil means [clock.System].
	Clock clock.Clock
	// RingBytes is the memory for received frames; 0 means 64 MiB, or what the kernel
	// gives. A frame takes as much of it as the longest that the interface's MTU allows:
	// the default holds some 7,000 at an MTU of 9000 and 40,000 at 1500. Nothing stops a peer
	// from sending the responses to all outstanding READs back to back, and what finds the ring full
	// is lost (Stats.RxDropped).
	RingBytes int
	// Depth is how many transmit buffers there are; 0 means 256.
	Depth int
	// SingleFrames keeps the link from sending super-frames, and from receiving them uncut.
	SingleFrames bool
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.RingBytes == 0 {
		o.RingBytes = 64 << 20
	}
	if o.Depth == 0 {
		o.Depth = 256
	}
	return o
}

// rocePort is the UDP destination port of RoCEv2 (IBA annex A17, IANA).
const rocePort = 4791

package transport

// window limits the packets in flight.
type window struct {
	size uint32
	// blocked: a request waited for it since the last gap.
	blocked bool
	control Congestion
	full    fullQueue
}

// Congestion decides how much of the window may be used. It is asked after everything it is told.
type Congestion interface {
	// Limit returns the packets that may be in flight, at most window.
	Limit(window uint32) uint32
	// Acked is told that n packets were acknowledged.
	Acked(n uint32)
	// Lost is told of a loss.
	Lost(l Loss)
	// Notified is told of a congestion notification packet (CNP).
	Notified()
}

// Loss is a loss as congestion control is told of it.
type Loss struct {
	// Again: what was lost had been sent again for an earlier loss.
	Again bool
	// Depth is how many packets arrived since the last loss; 0 when that is not known.
	Depth uint32
}

var (
	lostOnce  = Loss{}
	lostAgain = Loss{Again: true}
)

func (w *window) start(c *Config) {
	*w = window{size: c.window(), control: c.Congestion}
	w.full.start(c.window())
	if w.control == nil {
		w.control = &w.full
	}
	w.size = w.control.Limit(w.full.max)
}

// holdingPeer is how many times the window may be as wide towards a peer that keeps
// what is behind a gap: each gap holds the window up for a round trip.
const holdingPeer = 4

func (w *window) widen(c *Config) {
	w.full.max = c.window() * holdingPeer
	w.full.limit = w.full.max
	w.size = w.control.Limit(w.full.max)
}

func (w *window) acked(n uint32) {
	w.control.Acked(n)
	w.size = max(w.control.Limit(w.full.max), 1)
}

func (w *window) lost(l Loss) {
	w.control.Lost(l)
	w.size = max(w.control.Limit(w.full.max), 1)
}

func (w *window) lostAt(depth uint32) { w.lost(Loss{Depth: depth}) }

func (w *window) notified() { w.control.Notified() }

// fullQueue is the congestion control used when none is given: it reduces the window only where
// losses look like a receive queue that runs full, never for an isolated one.
type fullQueue struct {
	max, limit uint32
	grown      uint32 // packets acknowledged since the limit last grew
	depth      uint32 // at which the last loss was
	same       uint32 // losses in a row at about that depth
}

// Bounds of the reduction.
const (
	minWindow = 8
	// sameDepth is how many losses in a row must be at one depth.
	sameDepth = 4
	// minDepth is the shortest receive queue thought of. Nearer losses are chance.
	minDepth = 16
)

func (f *fullQueue) start(window uint32) { *f = fullQueue{max: window, limit: window} }

// Limit implements Congestion.
func (f *fullQueue) Limit(window uint32) uint32 { return min(f.limit, window) }

// Acked widens the window by a quarter of what was acknowledged.
func (f *fullQueue) Acked(n uint32) {
	if f.limit >= f.max {
		return
	}
	f.grown += n
	f.limit = min(f.limit+f.grown/4, f.max)
	f.grown %= 4
}

// Lost implements Congestion.
func (f *fullQueue) Lost(l Loss) {
	switch {
	case l.Again:
		f.reduce(f.limit - f.limit/4)
	case l.Depth < minDepth:
		f.same = 0
	case diff(l.Depth, f.depth) <= f.depth/8:
		if f.same++; f.same >= sameDepth && l.Depth < f.limit {
			f.reduce(l.Depth - l.Depth/4)
		}
	default:
		f.depth, f.same = l.Depth, 1
	}
}

func (f *fullQueue) reduce(to uint32) {
	f.limit = min(max(to, minWindow), f.limit)
	f.grown, f.same = 0, 0
}

func diff(a, b uint32) uint32 { return max(a, b) - min(a, b) }

// Notified implements Congestion. CNPs are counted; reacting to them needs pacing.
func (f *fullQueue) Notified() {}

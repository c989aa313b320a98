package perftest

import (
	"time"

	"github.com/go-roce/roce/cmd/rocectl/internal/measure"
)

// window is the part of a run that is measured: all of it, or with -D its middle half, so that neither the start nor
// the end of the two programs, which are not at the same time, counts.
type window struct {
	duration time.Duration // 0: until the messages are through
	peakOver uint64        // messages over which the highest rate is looked for; 0 for none

	start       time.Time
	open        bool
	from, till  time.Duration // since start
	first, last uint64        // messages at from and till

	peakAt    time.Duration
	peakCount uint64
	peak      float64 // messages a second
}

// begin starts the run.
func (w *window) begin() {
	w.start = time.Now()
	w.open = w.duration == 0
}

// tick is told how many messages are through, and says whether the time is up.
func (w *window) tick(messages uint64) (now time.Duration, over bool) {
	now = time.Since(w.start)
	if w.duration == 0 {
		w.till, w.last = now, messages
	} else {
		margin := w.duration / 4
		if w.till == 0 && now >= margin {
			w.open, w.from, w.till, w.first, w.last = true, margin, w.duration-margin, messages, messages
			w.peakAt, w.peakCount = now, messages
		}
		if w.open = w.open && now <= w.till; w.open {
			w.last = messages
		}
	}
	if n := messages - w.peakCount; w.open && w.peakOver > 0 && n >= w.peakOver {
		w.peak = max(w.peak, float64(n)/(now-w.peakAt).Seconds())
		w.peakAt, w.peakCount = now, messages
	}
	return now, w.duration != 0 && now >= w.duration
}

// result fills in r from the messages of size bytes in the window.
func (w *window) result(r *measure.Result, size int) {
	n := w.last - w.first
	r.Rate(n*uint64(size), n, w.till-w.from)
	if w.duration != 0 {
		r.Iterations = n
	}
	r.PeakGbitPerS = max(r.GbitPerS, w.peak*float64(size)*8/1e9)
}

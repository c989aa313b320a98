// Package spin decides how long a loop that drives a device itself keeps polling before it sleeps. On a fast link the
// answer is there before that, so that nothing is lost; where the peer takes its time, or shares the processor, sleeping
// lets it get on.
package spin

import (
	"cmp"
	"runtime"
	"time"
)

// defaultLimit is how long to poll: longer than it takes to wake a peer that sleeps, or else two ends that have once
// begun to sleep would go on waking each other for ever.
const defaultLimit = time.Millisecond

// stride is how many polls go between two looks at the clock.
const stride = 32

// Spin counts polls that found nothing. The zero value is ready.
type Spin struct {
	// Limit is how long to poll; 0 means 1 ms.
	Limit time.Duration

	polls uint
	since time.Time
}

// Idle counts a poll that found nothing, and says whether there have been such for so long that it is time to sleep.
func (s *Spin) Idle() bool {
	s.polls++
	switch {
	case s.polls == 1:
		s.since = time.Now()
	case s.polls%stride == 0:
		runtime.Gosched() // other goroutines have no processor of their own where there is only one
		return time.Since(s.since) > cmp.Or(s.Limit, defaultLimit)
	}
	return false
}

// Reset begins anew, after a poll that found something or a sleep.
func (s *Spin) Reset() { s.polls = 0 }

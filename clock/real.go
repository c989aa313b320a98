package clock

import "time"

// Real is the machine's monotonic clock, counted from the moment NewReal made it.
type Real struct {
	start time.Time
}

var system = NewReal()

// System returns the process's one monotonic clock: what links and devices use
// that were given none, so that an instant means the same to all of them.
func System() *Real { return system }

// NewReal returns a monotonic clock whose origin is now.
func NewReal() *Real { return &Real{start: time.Now()} }

// Now returns the time since the clock was made. It is safe for concurrent use.
func (c *Real) Now() Time { return Time(time.Since(c.start)) }

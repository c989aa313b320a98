package clock

import "time"

// Manual is a clock that moves only when told to. The zero Manual stands at 0.
// It is not safe for concurrent use: one goroutine owns the simulated world.
type Manual struct {
	now Time
}

// Now returns the instant the clock stands at.
func (c *Manual) Now() Time { return c.now }

// Advance moves the clock on by d, which must not be negative.
func (c *Manual) Advance(d time.Duration) {
	c.AdvanceTo(c.now.Add(d))
}

// AdvanceTo moves the clock to t. It panics when t is in the past: a test that
// turns time back has lost its meaning.
func (c *Manual) AdvanceTo(t Time) {
	if t < c.now {
		panic("clock: a manual clock cannot go back")
	}
	c.now = t
}

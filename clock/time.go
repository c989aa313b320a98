package clock

import (
	"math"
	"time"
)

// Time is an instant in nanoseconds since an origin that its clock chose. Only
// instants of one clock compare. The zero Time is that clock's origin.
type Time int64

// Never is later than every instant: the deadline of a timer that is off.
const Never Time = math.MaxInt64

// Add returns the instant d after t. It saturates at Never instead of wrapping,
// so a deadline far in the future cannot become one in the past.
func (t Time) Add(d time.Duration) Time {
	if d > 0 && int64(t) > math.MaxInt64-int64(d) {
		return Never
	}
	return t + Time(d)
}

// Sub returns the time that passed from u to t.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Before reports whether t is earlier than u.
func (t Time) Before(u Time) bool { return t < u }

// Clock tells the present instant. Its readings never go back.
type Clock interface {
	Now() Time
}

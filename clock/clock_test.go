package clock

import (
	"testing"
	"time"
)

func TestTime_AddSaturatesAtNever(t *testing.T) {
	for _, tc := range []struct {
		at   Time
		d    time.Duration
		want Time
	}{
		{0, time.Second, Time(time.Second)},
		{Never - 1, 1, Never},
		{Never - 1, 2, Never},
		{Never, time.Hour, Never},
		{5, -5, 0},
	} {
		if got := tc.at.Add(tc.d); got != tc.want {
			t.Errorf("%d.Add(%d) = %d, want %d", tc.at, tc.d, got, tc.want)
		}
	}
}

func TestManual_MovesOnlyWhenTold(t *testing.T) {
	var c Manual
	if c.Now() != 0 {
		t.Fatalf("a new manual clock stands at %d, want 0", c.Now())
	}
	c.Advance(time.Millisecond)
	c.AdvanceTo(c.Now())
	if got := c.Now().Sub(0); got != time.Millisecond {
		t.Fatalf("after 1 ms the clock stands at %v", got)
	}
	defer func() {
		if recover() == nil {
			t.Fatal("AdvanceTo the past did not panic")
		}
	}()
	c.AdvanceTo(0)
}

func TestReal_NeverGoesBack(t *testing.T) {
	c := NewReal()
	last := c.Now()
	for range 1000 {
		now := c.Now()
		if now.Before(last) {
			t.Fatalf("real clock went from %d back to %d", last, now)
		}
		last = now
	}
}

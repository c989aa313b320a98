package spin

import (
	"testing"
	"time"
)

func TestSpin_SleepsAfterALongIdleTimeOnly(t *testing.T) {
	var s Spin
	start := time.Now()
	polls := 0
	for !s.Idle() {
		polls++
	}
	if took := time.Since(start); took < defaultLimit || polls < stride-1 {
		t.Errorf("it gave up after %d polls and %v", polls, took)
	}
	s.Reset()
	for i := range stride - 1 {
		if s.Idle() {
			t.Errorf("it gave up at poll %d after Reset", i)
		}
	}
}

func TestSpin_DoesNotAllocate(t *testing.T) {
	var s Spin
	if n := testing.AllocsPerRun(1000, func() {
		if s.Idle() {
			s.Reset()
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

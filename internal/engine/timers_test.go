package engine

import (
	"math/rand/v2"
	"testing"

	"github.com/go-roce/roce/clock"
)

func TestTimers_KeepTheOrderOfAModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var h timers
	qps := make([]*QP, 40)
	due := map[*QP]clock.Time{}
	for i := range qps {
		qps[i] = &QP{due: clock.Never}
	}
	earliest := func() clock.Time {
		at := clock.Never
		for _, d := range due {
			at = min(at, d)
		}
		return at
	}
	for range 20_000 {
		q := qps[rnd.IntN(len(qps))]
		switch rnd.IntN(4) {
		case 0, 1:
			at := clock.Time(rnd.IntN(1000))
			h.arm(q, at)
			if old, ok := due[q]; !ok || at < old {
				due[q] = at
			}
		case 2:
			h.remove(q)
			delete(due, q)
		case 3:
			if len(due) == 0 {
				continue
			}
			want := earliest()
			if got := h.pop(); due[got] != want {
				t.Fatalf("popped one due at %v, the earliest is %v", due[got], want)
			} else {
				delete(due, got)
			}
		}
		if h.next() != earliest() || len(h.heap) != len(due) {
			t.Fatalf("next is %v of %d, want %v of %d", h.next(), len(h.heap), earliest(), len(due))
		}
	}
}

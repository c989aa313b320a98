package transport

import (
	"math/rand/v2"
	"testing"

	"github.com/go-roce/roce/bth"
)

func TestPSNSet_AgreesWithAMapAcrossTheWrap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, base := range []bth.PSN{0, 63, 1000, 0xFFFFFF - 500} {
		var s psnSet
		want := map[bth.PSN]bool{}
		for range 20_000 {
			p := base.Add(rng.Uint32N(psnSpan))
			switch rng.IntN(5) {
			case 0, 1:
				s.add(p)
				want[p] = true
			case 2:
				s.remove(p)
				delete(want, p)
			case 3:
				n := min(rng.Uint32N(100), psnSpan-dist(base, p))
				s.removeRange(p, n)
				for i := range n {
					delete(want, p.Add(i))
				}
			case 4:
				n := rng.Uint32N(psnSpan - dist(base, p) + 1)
				got, ok := s.first(p, n)
				wantFirst, wantOK := bth.PSN(0), false
				for i := range n {
					if want[p.Add(i)] {
						wantFirst, wantOK = p.Add(i), true
						break
					}
				}
				if got != wantFirst || ok != wantOK {
					t.Fatalf("first of %d from %#x: got %#x %v, want %#x %v", n, p, got, ok, wantFirst, wantOK)
				}
			}
			if s.n != len(want) || s.has(p) != want[p] {
				t.Fatalf("after a step at %#x: %d members and has %v, want %d and %v", p, s.n, s.has(p), len(want), want[p])
			}
		}
	}
}

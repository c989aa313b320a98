package engine

import (
	"math/rand/v2"
	"testing"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/link"
)

func TestQPNTable_FindsExactlyWhatItHolds(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	r := link.QPNRange{First: 0x345678, Count: 0x10000}
	table := newQPNTable(r)
	held := map[bth.QPN]*QP{}
	for i := range 5000 {
		n, err := table.draw(rnd.Uint32)
		if err != nil {
			t.Fatal(err)
		}
		if uint32(n) < r.First || uint32(n) >= r.First+r.Count || held[n] != nil {
			t.Fatalf("drew 0x%x, outside of the range or in use", n)
		}
		held[n] = &QP{qpn: n}
		table.insert(held[n])
		if i%3 == 0 {
			for n, q := range held {
				table.remove(q)
				delete(held, n)
				break
			}
		}
	}
	for n := range uint32(1 << 24) {
		if got := table.find(bth.QPN(n)); got != held[bth.QPN(n)] {
			t.Fatalf("0x%x leads to %v, want %v", n, got, held[bth.QPN(n)])
		}
	}
	if len(table.slot) > 4*len(held) {
		t.Errorf("%d slots for %d queue pairs", len(table.slot), len(held))
	}
}

func TestQPNTable_UsesARangeToTheLast(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	// It holds the reserved numbers 0 and 1.
	table := newQPNTable(link.QPNRange{First: 0, Count: 300})
	for range 298 {
		n, err := table.draw(rnd.Uint32)
		if err != nil {
			t.Fatal(err)
		}
		table.insert(&QP{qpn: n})
	}
	if n, err := table.draw(rnd.Uint32); err == nil {
		t.Fatalf("drew 0x%x from a range that is used up", n)
	}
	table.remove(table.find(77))
	if n, err := table.draw(rnd.Uint32); err != nil || n != 77 {
		t.Fatalf("drew 0x%x, %v; only 77 is free", n, err)
	}
}

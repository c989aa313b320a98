package bth_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/go-roce/roce/bth"
)

func TestPSN_Wraps(t *testing.T) {
	const last = bth.PSN(0xFFFFFF)
	if got := last.Next(); got != 0 {
		t.Errorf("after 0x%x comes 0x%x, want 0", uint32(last), uint32(got))
	}
	if got := bth.PSN(0).Prev(); got != last {
		t.Errorf("before 0 comes 0x%x, want 0x%x", uint32(got), uint32(last))
	}
	if got := last.Add(5); got != 4 {
		t.Errorf("five after 0x%x is 0x%x, want 4", uint32(last), uint32(got))
	}
	if !last.Before(0) || bth.PSN(0).Before(last) {
		t.Error("0xffffff does not come before 0")
	}
	if last.Before(last) {
		t.Error("a PSN comes before itself")
	}
}

func TestPSN_DiffAtHalfTheSpace(t *testing.T) {
	for _, c := range []struct {
		p, q bth.PSN
		want int
	}{
		{0, 0, 0},
		{1, 0, 1},
		{0, 1, -1},
		{0x7FFFFF, 0, bth.MaxPSNDistance - 1},
		{0x800000, 0, -bth.MaxPSNDistance},
		{0x800001, 0, -bth.MaxPSNDistance + 1},
		{0, 0x800001, bth.MaxPSNDistance - 1},
		{2, 0xFFFFFE, 4},
		{0xFFFFFE, 2, -4},
	} {
		if got := c.p.Diff(c.q); got != c.want {
			t.Errorf("0x%x lies %d after 0x%x, want %d", uint32(c.p), got, uint32(c.q), c.want)
		}
	}
}

// TestPSN_Laws holds the arithmetic to that of integers modulo 2^24.
func TestPSN_Laws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := bth.PSN(rapid.Uint32Range(0, 0xFFFFFF).Draw(t, "p"))
		n := rapid.Uint32().Draw(t, "n")
		q := p.Add(n)
		if want := (uint64(p) + uint64(n)) % (1 << 24); uint64(q) != want {
			t.Fatalf("p+n is 0x%x, want 0x%x", uint32(q), want)
		}
		if q.Next().Prev() != q || q.Prev().Next() != q {
			t.Fatal("Next and Prev do not undo each other")
		}
		d := q.Diff(p)
		if d < -bth.MaxPSNDistance || d >= bth.MaxPSNDistance {
			t.Fatalf("distance %d is out of range", d)
		}
		if p.Add(uint32(d)) != q {
			t.Fatalf("p+(q-p) is 0x%x, want 0x%x", uint32(p.Add(uint32(d))), uint32(q))
		}
		if d != -bth.MaxPSNDistance && p.Diff(q) != -d {
			t.Fatalf("p-q is %d, but q-p is %d", p.Diff(q), d)
		}
		if q.Before(p) != (d < 0) {
			t.Fatalf("q before p is %v at distance %d", q.Before(p), d)
		}
	})
}

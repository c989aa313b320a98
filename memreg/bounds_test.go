package memreg

import (
	"math"
	"math/big"
	"testing"
)

// checkSlice compares the bounds check with arithmetic that cannot overflow.
func checkSlice(t *testing.T, r *Region, va, n uint64) {
	t.Helper()
	u := func(v uint64) *big.Int { return new(big.Int).SetUint64(v) }
	end := new(big.Int).Add(u(va), u(n))
	top := new(big.Int).Add(u(r.Addr()), u(r.Len()))
	inside := n == 0 || va >= r.Addr() && end.Cmp(top) <= 0

	b, f := r.Slice(va, n)
	switch {
	case (f == FaultNone) != inside:
		t.Fatalf("[%#x, +%#x) in [%#x, +%#x): fault %v, want inside %v", va, n, r.Addr(), r.Len(), f.String(), inside)
	case f != FaultNone && (f != FaultBounds || b != nil):
		t.Fatalf("[%#x, +%#x) in [%#x, +%#x): fault %v with %d bytes", va, n, r.Addr(), r.Len(), f.String(), len(b))
	case f == FaultNone && n != 0:
		if uint64(len(b)) != n || uint64(cap(b)) != n || &b[0] != &r.Bytes()[va-r.Addr()] {
			t.Fatalf("[%#x, +%#x) in [%#x, +%#x): %d bytes, capacity %d, or the wrong ones", va, n, r.Addr(), r.Len(), len(b), cap(b))
		}
	}
}

// Pitfall 16: va + length may wrap 2^64.
func TestSlice_BoundsDoNotOverflow(t *testing.T) {
	const size = 64
	tb := newTable()
	b := words(size)
	for _, o := range []Options{
		{},
		{Access: ZeroBased},
		{Addr: 1},
		{Addr: size},
		{Addr: 1 << 63},
		{Addr: math.MaxUint64 - size},     // one byte below the top
		{Addr: math.MaxUint64 - size + 1}, // up to the last address
	} {
		r := register(t, tb, b, o)
		interesting := []uint64{
			0, 1, 2, size - 1, size, size + 1, math.MaxUint32, math.MaxUint32 + 1,
			1<<63 - 1, 1 << 63, 1<<63 + 1, math.MaxUint64 - size, math.MaxUint64 - 1, math.MaxUint64,
		}
		for _, d := range interesting {
			for _, n := range interesting {
				checkSlice(t, r, d, n)
				checkSlice(t, r, r.Addr()+d, n)
				checkSlice(t, r, r.Addr()-d, n)
				checkSlice(t, r, r.Addr()+d, -d+n) // often ends exactly at the end, or wraps round to the beginning
			}
		}
	}
}

func FuzzBounds(f *testing.F) {
	f.Add(uint64(0), uint16(63), uint64(0), uint64(64))
	f.Add(uint64(math.MaxUint64-63), uint16(63), uint64(math.MaxUint64-7), uint64(8))
	f.Add(uint64(math.MaxUint64-63), uint16(63), uint64(math.MaxUint64-7), uint64(9))
	f.Add(uint64(0x1000), uint16(63), uint64(0x1001), uint64(math.MaxUint64))
	f.Fuzz(func(t *testing.T, addr uint64, size uint16, va, n uint64) {
		b := make([]byte, int(size)+1)
		tb := newTable()
		r, err := tb.Register(ours, b, Options{Addr: addr})
		wraps := addr != 0 && addr > math.MaxUint64-uint64(size)
		if (err != nil) != wraps {
			t.Fatalf("%d bytes at %#x: error %v", len(b), addr, err)
		}
		if err != nil {
			return
		}
		checkSlice(t, r, va, n)
		checkSlice(t, r, r.Addr()+va%uint64(len(b)), n)
		checkSlice(t, r, r.Addr()+va%uint64(len(b)), n%uint64(len(b)))
	})
}

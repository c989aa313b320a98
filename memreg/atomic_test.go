package memreg

import (
	"encoding/binary"
	"math"
	"sync"
	"testing"
)

func TestFetchAdd_ReturnsTheOriginalAndWraps(t *testing.T) {
	tb := newTable()
	b := words(24)
	binary.NativeEndian.PutUint64(b[8:], math.MaxUint64-1)
	r := register(t, tb, b, Options{Access: everything})
	for _, want := range []uint64{math.MaxUint64 - 1, 1, 4} {
		if old, f := tb.FetchAdd(r.Key(), ours, r.Addr()+8, 3); old != want || f != FaultNone {
			t.Errorf("FetchAdd = %#x, fault %v; want %#x", old, f.String(), want)
		}
	}
	if got := binary.NativeEndian.Uint64(b[8:]); got != 7 || r.LoadUint64(0) != 0 || r.LoadUint64(16) != 0 {
		t.Errorf("memory is %x", b)
	}
}

func TestCompareSwap_StoresOnlyWhenEqual(t *testing.T) {
	tb := newTable()
	b := words(24)
	r := register(t, tb, b, Options{Access: everything})
	r.StoreUint64(8, 10)
	for _, c := range []struct{ compare, swap, old, after uint64 }{
		{11, 12, 10, 10},
		{10, 12, 10, 12},
		{10, 13, 12, 12},
		{12, 12, 12, 12},
	} {
		old, f := tb.CompareSwap(r.Key(), ours, r.Addr()+8, c.compare, c.swap)
		if after := r.LoadUint64(8); old != c.old || after != c.after || f != FaultNone {
			t.Errorf("CompareSwap(%d, %d) = %d, fault %v, leaves %d; want %d, leaves %d", c.compare, c.swap, old, f.String(), after, c.old, c.after)
		}
	}
	if r.LoadUint64(0) != 0 || r.LoadUint64(16) != 0 {
		t.Errorf("memory is %x", b)
	}
}

// An address that is not a multiple of 8 is FaultAlign inside the region and
// FaultBounds outside. Nothing is touched. (Soft-RoCE answers the same way round.)
func TestAtomics_NeedEightAlignedBytes(t *testing.T) {
	tb := newTable()
	for name, o := range map[string]Options{
		"address-based": {Access: everything},
		"zero-based":    {Access: everything | ZeroBased},
		"chosen":        {Access: everything, Addr: 0x1000},
		"at the top":    {Access: everything, Addr: math.MaxUint64 - 23},
	} {
		r := register(t, tb, words(24), o)
		for d := range uint64(24 + 1) {
			want := FaultNone
			if d%8 != 0 {
				want = FaultAlign
			}
			if d > 16 {
				want = FaultBounds
			}
			_, f := tb.FetchAdd(r.Key(), ours, r.Addr()+d, 1)
			wantFault(t, name+", FetchAdd", f, want)
			_, f = tb.CompareSwap(r.Key(), ours, r.Addr()+d, 1, 2)
			wantFault(t, name+", CompareSwap", f, want)
		}
		_, f := tb.FetchAdd(r.Key(), ours, r.Addr()-8, 1)
		wantFault(t, name+", FetchAdd below", f, FaultBounds)
		for off := 0; off < 24; off += 8 {
			if got := r.LoadUint64(off); got != 2 {
				t.Errorf("%s: word %d is %d, want 2", name, off/8, got)
			}
		}
	}
}

// A region may begin anywhere as long as address and memory are misaligned alike.
func TestAtomics_OverMisalignedMemory(t *testing.T) {
	tb := newTable()
	for offset := range 8 {
		b := alignedTo(offset, 32)
		for _, o := range []Options{{Access: everything}, {Access: everything, Addr: 0x1000 + uint64(offset)}} {
			r := register(t, tb, b, o)
			first := (r.Addr() + 7) &^ 7
			before := r.LoadUint64(int(first - r.Addr()))
			if old, f := tb.FetchAdd(r.Key(), ours, first, 1); old != before || f != FaultNone {
				t.Errorf("offset %d: FetchAdd = %d, fault %v; want %d", offset, old, f.String(), before)
			}
			if got := r.LoadUint64(int(first - r.Addr())); got != before+1 {
				t.Errorf("offset %d: memory holds %d, want %d", offset, got, before+1)
			}
		}
	}
}

func TestAtomics_LoseNoUpdate(t *testing.T) {
	tb := newTable()
	r := register(t, tb, words(8), Options{Access: everything})
	const goroutines = 4
	const n = 5000
	var w sync.WaitGroup
	for range goroutines {
		w.Go(func() {
			for range n {
				if _, f := tb.FetchAdd(r.Key(), ours, r.Addr(), 1); f != FaultNone {
					t.Error(f)
					return
				}
				for {
					seen := r.LoadUint64(0)
					old, f := tb.CompareSwap(r.Key(), ours, r.Addr(), seen, seen+1)
					if f != FaultNone {
						t.Error(f)
						return
					}
					if old == seen {
						break
					}
				}
			}
		})
	}
	w.Wait()
	if got, want := r.LoadUint64(0), uint64(goroutines*2*n); got != want {
		t.Errorf("counted %d, want %d", got, want)
	}
}

package memreg

import (
	"fmt"
	"testing"
)

// tableOf gives a table with n regions and begins the measurement.
func tableOf(b *testing.B, n int) (*Table, []*Region) {
	tb := newTable()
	mem := words(8192)
	regions := make([]*Region, n)
	for i := range regions {
		regions[i] = register(b, tb, mem, Options{Access: everything})
	}
	b.ReportAllocs()
	b.ResetTimer()
	return tb, regions
}

func BenchmarkLookup(b *testing.B) {
	for _, n := range []int{1, 1 << 10, 1 << 17} {
		b.Run(fmt.Sprintf("regions=%d", n), func(b *testing.B) {
			tb, regions := tableOf(b, n)
			keys := make([]Key, n)
			for i, r := range regions {
				keys[i] = r.Key()
			}
			for i := range b.N {
				if _, f := tb.Lookup(keys[i&(n-1)], ours, RemoteWrite); f != FaultNone {
					b.Fatal(f)
				}
			}
		})
	}
}

func BenchmarkLookupUnknownKey(b *testing.B) {
	tb, _ := tableOf(b, 1<<10)
	for i := range b.N {
		if _, f := tb.Lookup(Key(i)*0x9e3779b9, theirs, RemoteWrite); f == FaultNone {
			b.Fatal(f)
		}
	}
}

func BenchmarkSlice(b *testing.B) {
	tb, regions := tableOf(b, 1<<10)
	k, va := regions[500].Key(), regions[500].Addr()
	for i := range b.N {
		if _, f := tb.Slice(k, ours, RemoteWrite, va+uint64(i&4095), 4096); f != FaultNone {
			b.Fatal(f)
		}
	}
}

func BenchmarkFetchAdd(b *testing.B) {
	tb, regions := tableOf(b, 1<<10)
	k, va := regions[500].Key(), regions[500].Addr()
	for range b.N {
		if _, f := tb.FetchAdd(k, ours, va+8, 1); f != FaultNone {
			b.Fatal(f)
		}
	}
}

func BenchmarkCompareSwap(b *testing.B) {
	tb, regions := tableOf(b, 1<<10)
	k, va := regions[500].Key(), regions[500].Addr()
	for i := range b.N {
		if _, f := tb.CompareSwap(k, ours, va+8, uint64(i), uint64(i+1)); f != FaultNone {
			b.Fatal(f)
		}
	}
}

// BenchmarkCopy stands beside the built-in copy, to show what the order of the last byte costs.
func BenchmarkCopy(b *testing.B) {
	for _, n := range []int{8, 64, 1024, 4096} {
		dst, src := words(n), words(n)
		b.Run(fmt.Sprintf("Copy/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for range b.N {
				Copy(dst, src)
			}
		})
		b.Run(fmt.Sprintf("builtin/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for range b.N {
				copy(dst, src)
			}
		})
	}
}

func BenchmarkRegister(b *testing.B) {
	tb, _ := tableOf(b, 1<<10)
	mem := words(4096)
	for range b.N {
		deregister(b, tb, register(b, tb, mem, Options{Access: everything}).Key())
	}
}

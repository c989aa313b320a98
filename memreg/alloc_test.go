package memreg

import "testing"

// Nothing that happens per packet or per work request allocates.
func TestTable_DataPathDoesNotAllocate(t *testing.T) {
	tb := newTable()
	for range 1000 {
		register(t, tb, words(8), Options{})
	}
	r := register(t, tb, words(4096), Options{Access: everything})
	frame := make([]byte, 1024)
	k, va := r.Key(), r.Addr()
	for name, f := range map[string]func(){
		"Lookup":       func() { _, _ = tb.Lookup(k, ours, RemoteWrite) },
		"Lookup fault": func() { _, _ = tb.Lookup(k+1, ours, RemoteWrite) },
		"Slice":        func() { _, _ = tb.Slice(k, ours, RemoteRead, va+8, 1024) },
		"Region.Slice": func() { _, _ = r.Slice(va+8, 1024) },
		"FetchAdd":     func() { _, _ = tb.FetchAdd(k, ours, va+8, 1) },
		"CompareSwap":  func() { _, _ = tb.CompareSwap(k, ours, va+16, 0, 1) },
		"Invalidate":   func() { _ = tb.Invalidate(k, theirs) },
		"Copy":         func() { Copy(r.Bytes()[3:], frame) },
		"Load, Store":  func() { r.StoreUint64(8, r.LoadUint64(0)+uint64(r.LoadUint8(9))) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

package memreg

// Copy copies src to dst, as many bytes as the shorter has. The endpoint uses it for
// every copy out of and into registered memory; dst and src do not overlap.
//
// The last byte becomes visible last: whoever sees it by [Region.LoadUint8], or the
// word that ends with it by [Region.LoadUint64], sees all of dst, and all that the
// same goroutine copied before. Programs like ib_write_lat poll the last byte of a
// message and rely on this, as they may with the hardware they were written for. The
// other bytes become visible in any order; the built-in copy makes no promise at all,
// and on some processors writes large blocks end first.
//
// In race builds the whole aligned words of dst and src are accessed atomically, and
// the bytes before and after them unseen by the race detector: so copies are clean
// towards polling readers, atomics and other copies of the same bytes, while ordinary
// accesses that are not ordered with a copy by a completion are reported.
func Copy(dst, src []byte) {
	n := min(len(dst), len(src))
	if n != 0 {
		copyShared(dst[:n], src[:n])
	}
}

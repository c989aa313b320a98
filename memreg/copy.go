package memreg

// Copy copies src to dst, as many bytes as the shorter has. The endpoint uses it for
// every copy out of and into registered memory; dst and src do not overlap.
//
// The last byte becomes visible last: whoever sees it by [Region.LoadUint8], or the
// word that ends with it by [Region.LoadUint64], sees all of dst, and all that the
// same goroutine copied before. If dst ends with an aligned 8-byte word, that word
// appears in one piece. Programs like ib_write_lat poll the end of a message and rely
// on this, as they may with the hardware they were written for. The other bytes become
// visible in any order, and the built-in copy promises nothing at all: its string
// instructions and overlapping stores leave it open which byte comes last.
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

//go:build !race && !amd64

package memreg

import (
	"encoding/binary"
	"sync/atomic"
)

// copyShared copies len(dst) > 0 bytes. These processors may make stores visible in
// any order, or a word in two pieces, so the last word is stored atomically. There is
// no atomic store of a byte, but a compare-and-swap of the 4 bytes that hold it does
// the same and loses no neighbour's store.
func copyShared(dst, src []byte) {
	if last := len(dst) - 8; last >= 0 && address(dst[last:])%8 == 0 {
		copy(dst[:last], src[:last])
		atomic.StoreUint64(wordOf(dst[last:]), binary.NativeEndian.Uint64(src[last:]))
		return
	}
	last := len(dst) - 1
	copy(dst[:last], src[:last])
	half, i := halfAround(&dst[last])
	for {
		old := atomic.LoadUint32(half)
		var b [4]byte
		binary.NativeEndian.PutUint32(b[:], old)
		b[i] = src[last]
		if atomic.CompareAndSwapUint32(half, old, binary.NativeEndian.Uint32(b[:])) {
			return
		}
	}
}

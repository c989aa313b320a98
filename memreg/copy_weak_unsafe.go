//go:build !race && !amd64 && !386

package memreg

import (
	"encoding/binary"
	"sync/atomic"
)

// copyShared copies len(dst) > 0 bytes. These processors may make stores visible in
// any order, so the last byte is stored with release semantics. There is no atomic
// store of a byte: a compare-and-swap of the word that holds it does the same and
// loses no neighbour's store.
func copyShared(dst, src []byte) {
	last := len(dst) - 1
	copy(dst[:last], src[:last])
	w, i := halfAround(&dst[last])
	for {
		old := atomic.LoadUint32(w)
		var b [4]byte
		binary.NativeEndian.PutUint32(b[:], old)
		b[i] = src[last]
		if atomic.CompareAndSwapUint32(w, old, binary.NativeEndian.Uint32(b[:])) {
			return
		}
	}
}

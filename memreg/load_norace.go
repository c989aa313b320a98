//go:build !race

package memreg

import (
	"encoding/binary"
	"sync/atomic"
)

// loadByte reads a shared byte with acquire semantics. There is no atomic load of a
// byte, but of the word that holds it.
func loadByte(p *byte) byte {
	w, i := halfAround(p)
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], atomic.LoadUint32(w))
	return b[i]
}

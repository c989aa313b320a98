//go:build race

package memreg

import (
	"encoding/binary"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// copyShared copies len(dst) > 0 bytes by way of a private buffer, because dst and
// src may be aligned differently and both may be shared.
func copyShared(dst, src []byte) {
	var private [512]byte
	for len(dst) != 0 {
		// A chunk ends where a word of dst ends, so that only the ends of dst itself are partial words.
		n := min(len(dst), len(private)-int(address(dst)%8))
		loadShared(private[:n], src[:n])
		storeShared(dst[:n], private[:n])
		dst, src = dst[n:], src[n:]
	}
}

// storeShared copies to shared memory: whole words by atomic stores, which the race
// detector takes as releases. There is no atomic store of a byte, and a word at the
// edge may hold bytes that are none of our business, so partial words are written
// unseen by the detector, the release being declared at the address of the word,
// where LoadUint8 and LoadUint64 acquire.
//
//go:norace
func storeShared(dst, b []byte) {
	for len(dst) != 0 {
		n := wholeOrPart(dst)
		if n == 8 {
			atomic.StoreUint64(wordOf(dst), binary.NativeEndian.Uint64(b))
		} else {
			for i := range n - 1 {
				dst[i] = b[i]
			}
			runtime.RaceReleaseMerge(wordAround(&dst[0]))
			dst[n-1] = b[n-1]
		}
		dst, b = dst[n:], b[n:]
	}
}

// loadShared copies from shared memory: whole words by atomic loads, the bytes of partial
// words unseen by the race detector. Nobody draws conclusions from what they
// hold, so there is nothing to acquire.
//
//go:norace
func loadShared(b, src []byte) {
	for len(src) != 0 {
		n := wholeOrPart(src)
		if n == 8 {
			binary.NativeEndian.PutUint64(b, atomic.LoadUint64(wordOf(src)))
		} else {
			for i := range n {
				b[i] = src[i]
			}
		}
		src, b = src[n:], b[n:]
	}
}

// wholeOrPart returns how many bytes at the start of b lie in one aligned word: 8 if b
// begins with a whole word.
func wholeOrPart(b []byte) int {
	return min(len(b), 8-int(address(b)%8))
}

func wordAround(p *byte) unsafe.Pointer {
	return unsafe.Pointer(uintptr(unsafe.Pointer(p)) &^ 7)
}

// loadByte reads a shared byte unseen by the race detector, then acquires what the
// copy that stored it released.
//
//go:norace
func loadByte(p *byte) byte {
	v := *p
	runtime.RaceAcquire(wordAround(p))
	return v
}

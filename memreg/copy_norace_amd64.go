//go:build !race

package memreg

import "encoding/binary"

// copyShared copies len(dst) > 0 bytes. This processor makes stores visible in program
// order, except for those inside one string instruction, which the built-in copy may
// use, and an aligned word in one piece. So it is enough to leave the last word or
// byte to an ordinary store.
func copyShared(dst, src []byte) {
	if last := len(dst) - 8; last >= 0 && address(dst[last:])%8 == 0 {
		copy(dst[:last], src[:last])
		*wordOf(dst[last:]) = binary.NativeEndian.Uint64(src[last:])
		return
	}
	last := len(dst) - 1
	copy(dst[:last], src[:last])
	dst[last] = src[last]
}

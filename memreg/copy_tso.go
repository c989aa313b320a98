//go:build !race && (amd64 || 386)

package memreg

// copyShared copies len(dst) > 0 bytes. These processors make stores visible in
// program order, except for those inside one string instruction, which the built-in
// copy may use; so it leaves the last byte to an ordinary store.
func copyShared(dst, src []byte) {
	last := len(dst) - 1
	copy(dst[:last], src[:last])
	dst[last] = src[last]
}

package memreg

import "unsafe"

// address returns the address of b[0]. The Go heap does not move, and whatever a
// Region refers to is on the heap or outside it, never on a stack.
func address(b []byte) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// wordOf returns b[0:8], which must be aligned, as a word.
func wordOf(b []byte) *uint64 {
	return (*uint64)(unsafe.Pointer(unsafe.SliceData(b)))
}

// halfAround returns the aligned 4 bytes that hold *p, and where in them. They are on
// the page of *p and in its heap object, whose address and size are multiples of 8.
func halfAround(p *byte) (*uint32, int) {
	a := uintptr(unsafe.Pointer(p))
	return (*uint32)(unsafe.Pointer(uintptr(unsafe.Pointer(p)) &^ 3)), int(a & 3)
}

package link

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// slotHeader views the beginning of a ring slot as what the kernel writes there
// (linux/if_packet.h, TPACKET_V2). Slots are 16-byte aligned.
func slotHeader(slot []byte) *unix.Tpacket2Hdr {
	return (*unix.Tpacket2Hdr)(unsafe.Pointer(unsafe.SliceData(slot)))
}

// loadStatus reads who owns the slot; what the kernel wrote before it is visible after.
func loadStatus(h *unix.Tpacket2Hdr) uint32 { return atomic.LoadUint32(&h.Status) }

// storeStatus hands the slot over; what was read from it before stays read.
func storeStatus(h *unix.Tpacket2Hdr, s uint32) { atomic.StoreUint32(&h.Status, s) }

// sendmmsg sends messages on fd without blocking and returns how many the kernel
// took; the errno is why it took none. The messages and all they point to are on
// the heap, which does not move.
func sendmmsg(fd int, msgs []unix.Mmsghdr) (int, unix.Errno) {
	n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&msgs[0])),
		uintptr(len(msgs)), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

package xdp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// registerUMEM gives memory to a socket (XDP_UMEM_REG). The memory is a mapping of its own, so
// it stays where it is.
func registerUMEM(fd int, mem []byte, chunk int) error {
	reg := unix.XDPUmemReg{Addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))), Len: uint64(len(mem)), Size: uint32(chunk)}
	return setOption(fd, unix.XDP_UMEM_REG, unsafe.Pointer(&reg), unsafe.Sizeof(reg))
}

// ringOffsets asks where in the mappings of its rings a socket has what (XDP_MMAP_OFFSETS).
func ringOffsets(fd int) (off unix.XDPMmapOffsets, err error) {
	err = getOption(fd, unix.XDP_MMAP_OFFSETS, unsafe.Pointer(&off), unsafe.Sizeof(off))
	return off, err
}

// statistics reads XDP_STATISTICS. Fields the kernel does not know stay 0.
func statistics(fd int, s *Statistics) error {
	return getOption(fd, unix.XDP_STATISTICS, unsafe.Pointer(s), unsafe.Sizeof(*s))
}

// zeroCopy reads XDP_OPTIONS: whether the socket was bound without copying.
func zeroCopy(fd int) (bool, error) {
	var flags uint32 // struct xdp_options
	err := getOption(fd, unix.XDP_OPTIONS, unsafe.Pointer(&flags), unsafe.Sizeof(flags))
	return flags&unix.XDP_OPTIONS_ZEROCOPY != 0, err
}

func setOption(fd, option int, value unsafe.Pointer, n uintptr) error {
	if _, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(option), uintptr(value), n, 0); errno != 0 {
		return errno
	}
	return nil
}

func getOption(fd, option int, value unsafe.Pointer, n uintptr) error {
	size := uint32(n)
	if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(option), uintptr(value), uintptr(unsafe.Pointer(&size)), 0); errno != 0 {
		return errno
	}
	return nil
}

// ringView views a mapping as a ring with n entries. Mappings are page-aligned and the
// kernel's offsets are aligned as their types are.
func ringView[T uint64 | Desc](mem []byte, off unix.XDPRingOffset, n int) ring[T] {
	at := func(o uint64) unsafe.Pointer { return unsafe.Pointer(&mem[o]) }
	return ring[T]{
		producer: (*uint32)(at(off.Producer)),
		consumer: (*uint32)(at(off.Consumer)),
		flags:    (*uint32)(at(off.Flags)),
		entries:  unsafe.Slice((*T)(at(off.Desc)), n),
		mask:     uint32(n - 1),
	}
}

// entrySize is the bytes of a ring's entry.
func entrySize[T uint64 | Desc]() int {
	var v T
	return int(unsafe.Sizeof(v))
}

// sendTo is sendto(fd, NULL, 0, MSG_DONTWAIT), without the allocation of an address.
func sendTo(fd int) unix.Errno {
	_, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

// receiveFrom is recvfrom(fd, NULL, 0, MSG_DONTWAIT).
func receiveFrom(fd int) unix.Errno {
	_, _, errno := unix.Syscall6(unix.SYS_RECVFROM, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

// channels is struct ethtool_channels of linux/ethtool.h.
type channels struct {
	cmd                                 uint32
	maxRX, maxTX, maxOther, maxCombined uint32
	rx, tx, other, combined             uint32
}

// receiveQueues asks the driver how many receive queues the interface has (ETHTOOL_GCHANNELS).
// The socket decides in which network namespace.
func receiveQueues(fd int, iface string) (int, error) {
	c := channels{cmd: unix.ETHTOOL_GCHANNELS}
	var request struct { // struct ifreq with its ifr_data
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [24 - unsafe.Sizeof(uintptr(0))]byte
	}
	copy(request.name[:unix.IFNAMSIZ-1], iface)
	request.data = unsafe.Pointer(&c)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return 0, errno
	}
	return int(c.rx + c.combined), nil
}

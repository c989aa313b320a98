package xdp

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// UMEM is the memory that frames are received into and sent from, cut into chunks of one size. The kernel
// and the device write to it, so it lies outside of what the garbage collector knows, and a
// socket that it is registered with pins it.
type UMEM struct {
	mem   []byte
	chunk int
	huge  bool
}

// hugePage is the size of a huge page on most machines, and a multiple of it or of which on the others. Memory
// in multiples of it is what the kernel can back with such pages.
const hugePage = 2 << 20

// headroom is what the kernel leaves free at the beginning of a chunk to receive into (XDP_PACKET_HEADROOM).
const headroom = 256

// NewUMEM maps memory for at least that many chunks, with huge pages if some are reserved
// (vm.nr_hugepages), and otherwise such that the kernel may make it huge pages. A chunk is a power of two, at least 2048
// and at most a page.
func NewUMEM(chunks, chunkSize int) (*UMEM, error) {
	if chunkSize < 2048 || chunkSize > os.Getpagesize() || chunkSize&(chunkSize-1) != 0 {
		return nil, fmt.Errorf("a chunk of %d bytes is none that AF_XDP knows: it is a power of two, at least 2048 and at most the page size %d", chunkSize, os.Getpagesize())
	}
	n := (chunks*chunkSize + hugePage - 1) / hugePage * hugePage
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	u := &UMEM{chunk: chunkSize, huge: true}
	var err error
	if u.mem, err = unix.Mmap(-1, 0, n, prot, flags|unix.MAP_HUGETLB); err != nil {
		u.huge = false
		if u.mem, err = unix.Mmap(-1, 0, n, prot, flags); err != nil {
			return nil, fmt.Errorf("mapping %d MiB for frames: %w", n>>20, err)
		}
		_ = unix.Madvise(u.mem, unix.MADV_HUGEPAGE) // it works without as well
	}
	// A child process of another program has no use for it, and before Linux 5.12 a fork
	// would part this memory from what the kernel writes to.
	_ = unix.Madvise(u.mem, unix.MADV_DONTFORK)
	return u, nil
}

// Chunks returns how many chunks there are.
func (u *UMEM) Chunks() int { return len(u.mem) / u.chunk }

// ChunkSize returns the size of a chunk in bytes.
func (u *UMEM) ChunkSize() int { return u.chunk }

// Huge reports whether the memory is reserved huge pages.
func (u *UMEM) Huge() bool { return u.huge }

// Bytes returns the n bytes at addr, or nil if they are not all in the UMEM.
func (u *UMEM) Bytes(addr uint64, n int) []byte {
	if size := uint64(len(u.mem)); addr > size || uint64(n) > size-addr {
		return nil
	}
	return u.mem[addr : addr+uint64(n) : addr+uint64(n)]
}

// Close gives the memory back. Sockets that it is registered with keep their pages until they are closed too, but nobody
// may look at what Bytes returned any more.
func (u *UMEM) Close() error {
	if u.mem == nil {
		return nil
	}
	mem := u.mem
	u.mem = nil
	return unix.Munmap(mem)
}

// register makes u the memory of the socket.
func (u *UMEM) register(fd int) error {
	if u.mem == nil {
		return errors.New("this UMEM is closed")
	}
	err := registerUMEM(fd, u.mem, u.chunk)
	switch {
	case errors.Is(err, unix.ENOBUFS):
		// Pinned memory counts against the user's limit, unless it has CAP_IPC_LOCK.
		return fmt.Errorf("pinning %d MiB for frames goes beyond the limit for locked memory: raise it (ulimit -l, LimitMEMLOCK= of systemd), ask for fewer frames, or give the program CAP_IPC_LOCK: %w", len(u.mem)>>20, err)
	case err != nil:
		return fmt.Errorf("registering %d MiB for frames: %w", len(u.mem)>>20, err)
	}
	return nil
}

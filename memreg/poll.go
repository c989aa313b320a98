package memreg

import (
	"fmt"
	"sync/atomic"
)

// LoadUint8 reads the byte at offset off while the endpoint may write it. A program
// that sees the last byte of a message this way sees the whole message; see [Copy].
// It panics if off is not in the region.
func (r *Region) LoadUint8(off int) byte { return loadByte(&r.mem[off]) }

// LoadUint64 reads the 8 bytes at offset off, in host byte order and in one piece,
// while the endpoint may write them. It sees atomics and a word at the end of a
// packet's payload whole; other words may be half old while they are being written.
// Like LoadUint8 it lets the program see what came before. It panics if the bytes are
// not in the region, or not aligned to 8 in memory.
func (r *Region) LoadUint64(off int) uint64 { return atomic.LoadUint64(r.wordAt("LoadUint64", off)) }

// StoreUint64 writes 8 bytes at offset off in one piece, while the endpoint may read
// them. What the program wrote to memory before is seen by whoever sees them. It
// panics as LoadUint64 does.
func (r *Region) StoreUint64(off int, v uint64) { atomic.StoreUint64(r.wordAt("StoreUint64", off), v) }

// wordAt panics on a bad offset: the program chose it, not a peer.
func (r *Region) wordAt(op string, off int) *uint64 {
	b := r.mem[off : off+8 : off+8]
	if address(b)%8 != 0 {
		panic(fmt.Sprintf("memreg: %s at offset %d is not aligned to 8 bytes in memory: the region begins at %#x",
			op, off, address(r.mem)))
	}
	return wordOf(b)
}

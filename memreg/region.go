package memreg

import "sync/atomic"

// PD identifies a protection domain: a queue pair reaches only regions of its own.
type PD uint32

// Key names a region on the wire and in gather lists. L_Key and R_Key of a
// region are equal, as in rdma_rxe; the access rights tell what it may be used for.
// No region has key 0.
type Key uint32

// Region is registered memory. It does not change once it is made, except that
// it can be revoked, so it may be used by any goroutine.
type Region struct {
	mem    []byte
	addr   uint64 // virtual address of mem[0]; addr+len(mem) <= 2^64
	key    Key
	pd     PD
	access Access
	// revoked is set for good by Deregister or Invalidate.
	revoked atomic.Bool
}

// Key returns the key that names the region, as L_Key and as R_Key.
func (r *Region) Key() Key { return r.key }

// Addr returns the virtual address of the first byte.
func (r *Region) Addr() uint64 { return r.addr }

// Len returns the length in bytes, at least 1.
func (r *Region) Len() uint64 { return uint64(len(r.mem)) }

// Access returns the rights the region was registered with.
func (r *Region) Access() Access { return r.access }

// PD returns the protection domain the region belongs to.
func (r *Region) PD() PD { return r.pd }

// Bytes returns the registered memory itself, of length and capacity Len.
func (r *Region) Bytes() []byte { return r.mem }

// Valid reports whether the key still leads to the region: it does until Deregister or Invalidate.
func (r *Region) Valid() bool { return !r.revoked.Load() }

// Slice returns the n bytes of the region at virtual address va. The capacity is n.
// It returns FaultKey when the region is no longer valid and FaultBounds when the
// range is not inside it. n == 0 gives nil and FaultNone, whatever va is.
func (r *Region) Slice(va, n uint64) ([]byte, Fault) {
	if n == 0 {
		return nil, FaultNone
	}
	if r.revoked.Load() {
		return nil, FaultKey
	}
	return r.slice(va, n)
}

// slice is the bounds check. An address below the region wraps to an offset of at
// least 2^64-addr, which is at least the length because the region does not wrap.
func (r *Region) slice(va, n uint64) ([]byte, Fault) {
	size := uint64(len(r.mem))
	off := va - r.addr
	if off >= size || n > size-off {
		return nil, FaultBounds
	}
	return r.mem[off : off+n : off+n], FaultNone
}

// word returns the 8 bytes at va as a word for sync/atomic. Register has seen to it
// that a multiple of 8 is one in memory too wherever RemoteAtomic is granted.
func (r *Region) word(va uint64) (*uint64, Fault) {
	b, f := r.slice(va, 8)
	if f != FaultNone {
		return nil, f
	}
	if va%8 != 0 {
		return nil, FaultAlign
	}
	return wordOf(b), FaultNone
}

package memreg

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

const (
	// minSlots is the size of a new slot array; a power of two.
	minSlots = 64
	// maxDraws bounds how often Register asks for another key. With a true random
	// source and a million regions, this many collisions in a row have probability 10^-116.
	maxDraws = 32
	// quarantine is how many of the keys that were deregistered last are not given out again.
	quarantine = 256
)

// Options say how memory is registered.
type Options struct {
	// Access is what the region allows. RemoteWrite and RemoteAtomic need LocalWrite too.
	Access Access
	// Addr is the virtual address of the first byte. Zero means the address the
	// first byte has in this process, or 0 with ZeroBased.
	Addr uint64
}

// Table maps the keys of a device to its regions. See the package documentation for
// what may be called beside what.
//
// It is an array with open addressing behind an atomic pointer. The low bits of a key
// are its index: keys are random, so they spread by themselves, and a peer cannot
// choose them. A slot gets its key once; Deregister takes away the region but not the
// key, so a reader never sees a slot change its meaning. When half the slots have a
// key, Register copies the live ones to a new array. A reader still in the old one
// finds the same regions, and what is deregistered after that is revoked in the
// region itself.
type Table struct {
	random func() uint32
	slots  atomic.Pointer[slotArray]
	used   int // slots of the present array that have a key
	live   int // slots that have a region
	// retired holds the keys deregistered last, oldest overwritten first.
	retired     [quarantine]Key
	nextRetired int
}

// slotArray has a power of two of slots, at most half of them with a key, so that
// every probe ends at an empty one.
type slotArray struct {
	slot []slot
}

type slot struct {
	key    atomic.Uint32 // 0: never used. Set after region, never changed.
	region atomic.Pointer[Region]
}

// NewTable returns an empty table. Keys are drawn from random, which should be
// unpredictable, as crypto/rand is: knowing a key is what entitles a peer. It is called
// by Register only.
func NewTable(random func() uint32) *Table {
	t := &Table{random: random}
	t.slots.Store(&slotArray{slot: make([]slot, minSlots)})
	return t
}

// Register makes b a region of pd and gives it a new random key. The region keeps b
// alive; its spare capacity is not part of it. Regions may overlap.
//
// It refuses, with an error that says why:
//   - memory of length 0: a zero-length operation needs no region;
//   - RemoteWrite or RemoteAtomic without LocalWrite, as ibv_reg_mr does (EINVAL), and unknown rights;
//   - an Addr together with ZeroBased, and a range that passes 2^64;
//   - RemoteAtomic where virtual and real addresses differ modulo 8, by Addr or
//     ZeroBased: an aligned atomic would not be aligned in memory.
func (t *Table) Register(pd PD, b []byte, o Options) (*Region, error) {
	if o.Addr == 0 && o.Access&ZeroBased == 0 {
		o.Addr = address(b)
	} else if o.Addr != 0 && o.Access&ZeroBased != 0 {
		return nil, fmt.Errorf("memreg: cannot register memory as ZERO_BASED at virtual address %#x: "+
			"leave out one of the two", o.Addr)
	}
	if err := checkRange(b, o.Addr, o.Access); err != nil {
		return nil, err
	}
	k, err := t.drawKey()
	if err != nil {
		return nil, err
	}
	r := &Region{mem: b[:len(b):len(b)], addr: o.Addr, key: k, pd: pd, access: o.Access}
	a := t.slots.Load()
	if 2*(t.used+1) > len(a.slot) {
		a = t.rebuild(a)
	}
	a.insert(r)
	t.used++
	t.live++
	return r, nil
}

func checkRange(b []byte, addr uint64, a Access) error {
	switch {
	case len(b) == 0:
		return errors.New("memreg: cannot register memory of length 0: a zero-length operation needs no region")
	case a&^knownAccess != 0:
		return fmt.Errorf("memreg: cannot register memory with access %v: %v is not an access right", a, a&^knownAccess)
	case a&(RemoteWrite|RemoteAtomic) != 0 && a&LocalWrite == 0:
		return fmt.Errorf("memreg: cannot register memory with access %v: "+
			"REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE as well", a)
	case addr+uint64(len(b)-1) < addr:
		return fmt.Errorf("memreg: cannot register %d bytes at virtual address %#x: they would pass 2^64", len(b), addr)
	case a&RemoteAtomic != 0 && (address(b)-addr)%8 != 0:
		return fmt.Errorf("memreg: cannot register memory at %#x for REMOTE_ATOMIC at virtual address %#x: "+
			"they must be equal modulo 8, or aligned atomics would not be aligned in memory", address(b), addr)
	}
	return nil
}

// drawKey returns a random key that is not 0, not in use and not in use lately.
func (t *Table) drawKey() (Key, error) {
	a := t.slots.Load()
	for range maxDraws {
		k := Key(t.random())
		if k != 0 && a.find(k) == nil && !slices.Contains(t.retired[:], k) {
			return k, nil
		}
	}
	return 0, fmt.Errorf("memreg: cannot register memory: the random source gave %d keys in a row "+
		"that are 0, in use or used lately", maxDraws)
}

// rebuild publishes a new array with the live regions, which together with one more
// fill a quarter of it at most.
func (t *Table) rebuild(old *slotArray) *slotArray {
	n := minSlots
	for n < 4*(t.live+1) {
		n *= 2
	}
	a := &slotArray{slot: make([]slot, n)}
	for i := range old.slot {
		if r := old.slot[i].region.Load(); r != nil {
			a.insert(r)
		}
	}
	t.used = t.live
	t.slots.Store(a)
	return a
}

// insert puts r into the first empty slot of its probe sequence.
func (a *slotArray) insert(r *Region) {
	for i := uint32(r.key); ; i++ {
		s := a.at(i)
		if s.key.Load() == 0 {
			s.region.Store(r)
			s.key.Store(uint32(r.key))
			return
		}
	}
}

// find returns the slot of key k, which may have lost its region, or nil.
func (a *slotArray) find(k Key) *slot {
	for i := uint32(k); ; i++ {
		s := a.at(i)
		switch s.key.Load() {
		case 0:
			return nil
		case uint32(k):
			return s
		}
	}
}

func (a *slotArray) at(i uint32) *slot {
	return &a.slot[i&uint32(len(a.slot)-1)]
}

// Deregister ends the region with key k: look-ups that begin after it returned fail
// with FaultKey. What was looked up before may still be in use; see the package
// documentation for the grace period. An invalidated region has to be deregistered
// as well. The key is not drawn again before 256 others were deregistered.
func (t *Table) Deregister(k Key) error {
	s := t.slots.Load().find(k)
	if s == nil || s.region.Load() == nil {
		return fmt.Errorf("memreg: cannot deregister key %#010x: no region has it; was it deregistered before?", uint32(k))
	}
	s.region.Load().revoked.Store(true)
	s.region.Store(nil)
	t.live--
	t.retired[t.nextRetired] = k
	t.nextRetired = (t.nextRetired + 1) % quarantine
	return nil
}

// Lookup returns the region with key k if it belongs to pd and allows all of need
// (0: local reading). Faults: FaultKey, FaultPD, FaultAccess.
func (t *Table) Lookup(k Key, pd PD, need Access) (*Region, Fault) {
	s := t.slots.Load().find(k)
	if s == nil {
		return nil, FaultKey
	}
	r := s.region.Load()
	switch {
	case r == nil || r.revoked.Load():
		return nil, FaultKey
	case r.pd != pd:
		return nil, FaultPD
	case r.access&need != need:
		return nil, FaultAccess
	}
	return r, FaultNone
}

// Slice looks the region up as Lookup does and returns its n bytes at virtual
// address va; a range not inside the region is FaultBounds. n == 0 gives nil and
// FaultNone without looking at key and address (IBA C9-88).
func (t *Table) Slice(k Key, pd PD, need Access, va, n uint64) ([]byte, Fault) {
	if n == 0 {
		return nil, FaultNone
	}
	r, f := t.Lookup(k, pd, need)
	if f != FaultNone {
		return nil, f
	}
	return r.slice(va, n)
}

// Invalidate makes all further look-ups of key k fail, as a SEND with invalidate that
// came to a queue pair of pd asks for. The region must allow RemoteInvalidate, and
// still has to be deregistered. Unlike Deregister it may be called beside Register,
// Deregister and itself. Faults: FaultKey, FaultPD, FaultAccess.
func (t *Table) Invalidate(k Key, pd PD) Fault {
	r, f := t.Lookup(k, pd, RemoteInvalidate)
	if f != FaultNone {
		return f
	}
	if !r.revoked.CompareAndSwap(false, true) {
		return FaultKey
	}
	return FaultNone
}

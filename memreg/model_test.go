package memreg

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// model is a table beside the obvious implementation of one: a map and plain slices.
type model struct {
	tb      *Table
	regions map[Key]*modelRegion
	keys    []Key // every key there ever was, in use or not
	gone    []Key // keys deregistered, oldest first
}

type modelRegion struct {
	pd          PD
	access      Access
	addr        uint64
	bytes       []byte // what the memory must hold
	region      *Region
	invalidated bool
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// colliding are key candidates that are 0, or equal, or meet in the slot array.
var colliding = []uint32{0, 0, 63, 64, 63 + 1<<16, 63 + 1<<31, math.MaxUint32}

// newModel draws half of the keys from the colliding ones.
func newModel(seed uint64) *model {
	rng := rand.New(rand.NewPCG(seed, 0))
	return &model{
		regions: map[Key]*modelRegion{},
		tb: NewTable(func() uint32 {
			if v := rng.Uint32(); v&1 == 0 {
				return v
			}
			return colliding[rng.IntN(len(colliding))]
		}),
	}
}

func (m *model) register(t failer, pd PD, misalign, size int, o Options) {
	t.Helper()
	mem := alignedTo(misalign, size)
	addr := o.Addr
	if o.Addr == 0 && o.Access&ZeroBased == 0 {
		addr = address(mem)
	}
	refuse := size == 0 ||
		o.Addr != 0 && o.Access&ZeroBased != 0 ||
		o.Access&(RemoteWrite|RemoteAtomic) != 0 && o.Access&LocalWrite == 0 ||
		addr > math.MaxUint64-uint64(size-1) ||
		o.Access&RemoteAtomic != 0 && address(mem)%8 != addr%8

	r, err := m.tb.Register(pd, mem, o)
	if (err != nil) != refuse {
		t.Fatalf("Register %d bytes at %d modulo 8 with %+v: error %v, want refused %v", size, misalign, o, err, refuse)
	}
	if err != nil {
		return
	}
	if r.Key() == 0 || m.regions[r.Key()] != nil {
		t.Fatalf("key %#x is 0 or in use", r.Key())
	}
	for _, k := range m.gone[max(0, len(m.gone)-quarantine):] {
		if k == r.Key() {
			t.Fatalf("key %#x came back too soon", k)
		}
	}
	m.regions[r.Key()] = &modelRegion{pd: pd, access: o.Access, addr: addr, bytes: make([]byte, size), region: r}
	m.keys = append(m.keys, r.Key())
}

// key returns the n-th key there ever was, or one that never was.
func (m *model) key(n int) Key {
	if n < len(m.keys) {
		return m.keys[n]
	}
	return Key(n-len(m.keys)) * 0x9e3779b9
}

func (m *model) deregister(t failer, k Key) {
	t.Helper()
	if err := m.tb.Deregister(k); (err == nil) != (m.regions[k] != nil) {
		t.Fatalf("Deregister(%#x): %v", k, err)
	}
	if m.regions[k] != nil {
		m.gone = append(m.gone, k)
		delete(m.regions, k)
	}
}

func (m *model) lookup(k Key, pd PD, need Access) (*modelRegion, Fault) {
	r := m.regions[k]
	switch {
	case r == nil || r.invalidated:
		return nil, FaultKey
	case r.pd != pd:
		return nil, FaultPD
	case r.access&need != need:
		return nil, FaultAccess
	}
	return r, FaultNone
}

func (m *model) invalidate(t failer, k Key, pd PD) {
	t.Helper()
	r, want := m.lookup(k, pd, RemoteInvalidate)
	if got := m.tb.Invalidate(k, pd); got != want {
		t.Fatalf("Invalidate(%#x): fault %v, want %v", k, got.String(), want.String())
	}
	if r != nil {
		r.invalidated = true
	}
}

// write fills n bytes at off from the beginning of the region.
func (m *model) write(t failer, k Key, pd PD, need Access, off, n uint64, fill byte) {
	t.Helper()
	va := off
	if r := m.regions[k]; r != nil {
		va += r.addr
	}
	r, want := m.lookup(k, pd, need)
	if want == FaultNone && (off > uint64(len(r.bytes)) || n > uint64(len(r.bytes))-off) {
		want = FaultBounds
	}
	if n == 0 {
		want = FaultNone
	}
	b, got := m.tb.Slice(k, pd, need, va, n)
	if got != want || got == FaultNone && uint64(len(b)) != n || got != FaultNone && b != nil {
		t.Fatalf("Slice(%#x, %d, %v, %#x, %d): %d bytes, fault %v, want %v", k, pd, need, va, n, len(b), got.String(), want.String())
	}
	if len(b) != 0 {
		src := make([]byte, n)
		for i := range src {
			src[i] = fill + byte(i)
		}
		Copy(b, src)
		copy(r.bytes[off:], src)
	}
}

// atomic does a FetchAdd, or a CompareSwap with half a chance that the comparison holds.
func (m *model) atomic(t failer, k Key, pd PD, off uint64, add bool, operand uint64) {
	t.Helper()
	va := off
	if r := m.regions[k]; r != nil {
		va += r.addr
	}
	r, want := m.lookup(k, pd, RemoteAtomic)
	switch {
	case want != FaultNone:
	case uint64(len(r.bytes)) < 8 || off > uint64(len(r.bytes))-8:
		want = FaultBounds
	case va%8 != 0:
		want = FaultAlign
	}
	var held uint64
	if want == FaultNone {
		held = binary.NativeEndian.Uint64(r.bytes[off:])
	}
	var old, after uint64
	var got Fault
	if add {
		after = held + operand
		old, got = m.tb.FetchAdd(k, pd, va, operand)
	} else {
		compare := held + operand%2
		if after = held; compare == held {
			after = operand
		}
		old, got = m.tb.CompareSwap(k, pd, va, compare, operand)
	}
	if got != want || old != held {
		t.Fatalf("atomic on %#x at %#x: original %#x, fault %v; want %#x, %v", k, va, old, got.String(), held, want.String())
	}
	if want == FaultNone {
		binary.NativeEndian.PutUint64(r.bytes[off:], after)
	}
}

func (m *model) check(t failer) {
	t.Helper()
	for k, r := range m.regions {
		if string(r.region.Bytes()) != string(r.bytes) {
			t.Fatalf("region %#x holds %x, want %x", k, r.region.Bytes(), r.bytes)
		}
		if r.region.Key() != k || r.region.Addr() != r.addr || r.region.Valid() == r.invalidated {
			t.Fatalf("region %#x changed", k)
		}
	}
}

func TestTable_BehavesAsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(rapid.Uint64().Draw(t, "seed"))
		pds := rapid.SampledFrom([]PD{ours, ours, ours, theirs})
		rights := rapid.SampledFrom([]Access{0, LocalWrite, RemoteRead, RemoteWrite, RemoteAtomic, everything, everything})
		key := func(t *rapid.T) Key { return m.key(rapid.IntRange(0, len(m.keys)+1).Draw(t, "key")) }
		offsets := rapid.OneOf(rapid.Uint64Range(0, 9), rapid.Map(rapid.Uint64Range(0, 9), func(n uint64) uint64 { return 8 * n }),
			rapid.Map(rapid.Uint64Range(0, 80), func(n uint64) uint64 { return -n }), rapid.Uint64())
		t.Repeat(map[string]func(*rapid.T){
			"register": func(t *rapid.T) {
				size := rapid.IntRange(0, 72).Draw(t, "size")
				o := Options{Access: rights.Draw(t, "access") | LocalWrite}
				if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
					o.Access &^= LocalWrite
				}
				if rapid.Bool().Draw(t, "zero-based") {
					o.Access |= ZeroBased
				}
				switch rapid.IntRange(0, 5).Draw(t, "addr") {
				case 0:
					o.Addr = -uint64(size)
				case 1:
					o.Addr = rapid.Uint64().Draw(t, "at")
				}
				m.register(t, pds.Draw(t, "pd"), rapid.SampledFrom([]int{0, 0, 0, 5}).Draw(t, "misalign"), size, o)
			},
			"deregister": func(t *rapid.T) { m.deregister(t, key(t)) },
			"invalidate": func(t *rapid.T) { m.invalidate(t, key(t), pds.Draw(t, "pd")) },
			"write": func(t *rapid.T) {
				m.write(t, key(t), pds.Draw(t, "pd"), rights.Draw(t, "need"), offsets.Draw(t, "off"), offsets.Draw(t, "n"), rapid.Byte().Draw(t, "fill"))
			},
			"atomic": func(t *rapid.T) {
				m.atomic(t, key(t), pds.Draw(t, "pd"), offsets.Draw(t, "off"), rapid.Bool().Draw(t, "add"), rapid.Uint64().Draw(t, "operand"))
			},
			"check": func(t *rapid.T) { m.check(t) },
		})
	})
}

// FuzzTable reads one operation from every four bytes: which, the key, and two operands.
func FuzzTable(f *testing.F) {
	f.Add(uint64(1), []byte{0, 0, 64, 15, 3, 0, 8, 8, 4, 0, 16, 1, 2, 0, 0, 0, 3, 0, 8, 8, 1, 0, 0, 0})
	f.Add(uint64(2), []byte{0, 0, 64, 47, 0, 1, 8, 79, 3, 1, 248, 8, 3, 1, 248, 9, 4, 1, 1, 1})
	f.Fuzz(func(t *testing.T, seed uint64, program []byte) {
		m := newModel(seed)
		for ; len(program) >= 4; program = program[4:] {
			op, k, x, y := program[0], m.key(int(program[1])), program[2], program[3]
			pd := ours
			if op&0x80 != 0 {
				pd = theirs
			}
			off := uint64(int8(x)) // up to 128 below the region, too
			switch op & 0x7f % 5 {
			case 0:
				o := Options{Access: Access(y) & (LocalWrite | RemoteWrite | RemoteRead | RemoteAtomic | BindWindow | ZeroBased)}
				if y&64 != 0 {
					o.Access |= RemoteInvalidate
				}
				if y&128 != 0 {
					o.Addr = -uint64(x)
				}
				m.register(t, pd, int(program[1]%8), int(x), o)
			case 1:
				m.deregister(t, k)
			case 2:
				m.invalidate(t, k, pd)
			case 3:
				m.write(t, k, pd, Access(op>>3)&everything, off, uint64(int8(y)), x)
			case 4:
				m.atomic(t, k, pd, off, y&1 != 0, uint64(y)<<32)
			}
		}
		m.check(t)
	})
}

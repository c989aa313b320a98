package memreg

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

const (
	ours   PD = 1
	theirs PD = 2

	everything = LocalWrite | RemoteWrite | RemoteRead | RemoteAtomic | RemoteInvalidate
)

func newTable() *Table {
	return NewTable(rand.New(rand.NewPCG(1, 2)).Uint32)
}

// script is a random source that gives the listed numbers, then 1, 2, 3 ...
func script(numbers ...uint32) func() uint32 {
	var after uint32
	return func() uint32 {
		if len(numbers) > 0 {
			n := numbers[0]
			numbers = numbers[1:]
			return n
		}
		after++
		return after
	}
}

func register(t testing.TB, tb *Table, b []byte, o Options) *Region {
	t.Helper()
	r, err := tb.Register(ours, b, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func deregister(t testing.TB, tb *Table, k Key) {
	t.Helper()
	if err := tb.Deregister(k); err != nil {
		t.Fatal(err)
	}
}

// words gives n bytes whose first is aligned to 8.
func words(n int) []byte {
	return alignedTo(8, n)
}

// alignedTo gives n bytes whose address is offset modulo 8 (8: a multiple of 8).
func alignedTo(offset, n int) []byte {
	b := make([]byte, n+16)
	skip := (offset + 8 - int(address(b)%8)) % 8
	return b[skip:][:n:n]
}

func wantFault(t testing.TB, what string, got, want Fault) {
	t.Helper()
	if got != want {
		t.Errorf("%s: fault %v, want %v", what, got.String(), want.String())
	}
}

func TestRegister_TellsWhatTheRegionIs(t *testing.T) {
	tb := newTable()
	b := make([]byte, 100, 200)
	for _, c := range []struct {
		name string
		o    Options
		addr uint64
	}{
		{"address-based", Options{Access: LocalWrite}, address(b)},
		{"zero-based", Options{Access: LocalWrite | ZeroBased}, 0},
		{"at a chosen address", Options{Access: RemoteRead, Addr: 0x7000_0000_0001}, 0x7000_0000_0001},
		{"at the top", Options{Addr: math.MaxUint64 - 99}, math.MaxUint64 - 99},
	} {
		r := register(t, tb, b, c.o)
		if r.Key() == 0 || r.PD() != ours || r.Addr() != c.addr || r.Len() != 100 || r.Access() != c.o.Access || !r.Valid() {
			t.Errorf("%s: key %d, PD %d, addr %#x, len %d, access %v", c.name, r.Key(), r.PD(), r.Addr(), r.Len(), r.Access())
		}
		if m := r.Bytes(); &m[0] != &b[0] || len(m) != 100 || cap(m) != 100 {
			t.Errorf("%s: Bytes is not the memory with its spare capacity cut off", c.name)
		}
	}
}

func TestRegister_RefusesInASentence(t *testing.T) {
	odd := alignedTo(3, 64)
	for _, c := range []struct {
		name string
		b    []byte
		o    Options
		says string
	}{
		{"nil", nil, Options{}, "length 0"},
		{"empty", make([]byte, 0, 8), Options{Access: LocalWrite}, "length 0"},
		{"REMOTE_WRITE without LOCAL_WRITE", odd, Options{Access: RemoteWrite | RemoteRead}, "access REMOTE_WRITE|REMOTE_READ: REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE"},
		{"REMOTE_ATOMIC without LOCAL_WRITE", odd, Options{Access: RemoteAtomic}, "need LOCAL_WRITE"},
		{"unknown right", odd, Options{Access: LocalWrite | 1<<20}, "0x100000 is not an access right"},
		{"zero-based at an address", odd, Options{Access: ZeroBased, Addr: 8}, "leave out one of the two"},
		{"beyond 2^64", odd, Options{Addr: math.MaxUint64 - 62}, "would pass 2^64"},
		{"far beyond 2^64", odd, Options{Addr: math.MaxUint64}, "would pass 2^64"},
		{"zero-based atomics over misaligned memory", odd, Options{Access: LocalWrite | RemoteAtomic | ZeroBased}, "equal modulo 8"},
		{"atomics at a misaligned address", odd, Options{Access: LocalWrite | RemoteAtomic, Addr: 0x1000}, "equal modulo 8"},
	} {
		r, err := newTable().Register(ours, c.b, c.o)
		if err == nil {
			t.Errorf("%s: registered as %+v", c.name, r)
		} else if !strings.HasPrefix(err.Error(), "memreg: cannot register ") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q does not say %q", c.name, err, c.says)
		}
	}
}

func TestRegister_GivesNoKeyTwiceAndNeverZero(t *testing.T) {
	tb := NewTable(script(0, 7, 7, 0, 7, 9, 7, 9))
	a, b, c := register(t, tb, words(8), Options{}), register(t, tb, words(8), Options{}), register(t, tb, words(8), Options{})
	if a.Key() != 7 || b.Key() != 9 || c.Key() != 1 {
		t.Errorf("keys %d, %d, %d; want 7, 9, 1", a.Key(), b.Key(), c.Key())
	}
	for _, r := range []*Region{a, b, c} {
		if got, f := tb.Lookup(r.Key(), ours, 0); got != r {
			t.Errorf("key %d leads to %p, fault %v, want %p", r.Key(), got, f, r)
		}
	}
}

func TestRegister_DoesNotReuseAKeySoon(t *testing.T) {
	again := false
	next := uint32(1000)
	tb := NewTable(func() uint32 {
		if again {
			again = false
			return 42
		}
		next++
		return next
	})
	again = true
	deregister(t, tb, register(t, tb, words(8), Options{}).Key())
	// Slot arrays come and go meanwhile, so it is not only the old slot that remembers.
	for i := range quarantine - 1 {
		again = true
		r := register(t, tb, words(8), Options{})
		if r.Key() == 42 {
			t.Fatalf("key 42 came back after %d other deregistrations", i)
		}
		deregister(t, tb, r.Key())
	}
	for range quarantine {
		again = true
		r := register(t, tb, words(8), Options{})
		deregister(t, tb, r.Key())
		if r.Key() == 42 {
			return
		}
	}
	t.Error("key 42 is never free again")
}

func TestRegister_NeverGivesKeyZeroHoweverManyWereRetired(t *testing.T) {
	next := uint32(0)
	tb := NewTable(func() uint32 { next++; return next / 2 * (next % 2) }) // 0 every other time
	for range 2 * quarantine {
		r := register(t, tb, words(8), Options{})
		if r.Key() == 0 {
			t.Fatal("a region has key 0")
		}
		deregister(t, tb, r.Key())
	}
}

func TestRegister_RefusesARandomSourceThatIsNotRandom(t *testing.T) {
	draws := 0
	tb := NewTable(func() uint32 { draws++; return 5 })
	register(t, tb, words(8), Options{})
	draws = 0
	_, err := tb.Register(ours, words(8), Options{})
	if err == nil || !strings.Contains(err.Error(), "the random source gave 32 keys in a row") || draws != 32 {
		t.Errorf("after %d draws: %v", draws, err)
	}
	if _, f := tb.Lookup(5, ours, 0); f != FaultNone {
		t.Errorf("the region that was there is gone: %v", f)
	}
}

// All keys share their low bits, which is the worst that can happen to the slot array,
// and lie at its end, where probing wraps.
func TestTable_FindsEveryKeyWhateverTheCollisions(t *testing.T) {
	const n = 500
	high := uint32(0)
	tb := NewTable(func() uint32 { high++; return high<<16 | 0xffff })
	var keys []Key
	for range n {
		keys = append(keys, register(t, tb, words(8), Options{}).Key())
	}
	for i := 0; i < n; i += 2 {
		deregister(t, tb, keys[i])
	}
	for i, k := range keys {
		want := FaultNone
		if i%2 == 0 {
			want = FaultKey
		}
		r, f := tb.Lookup(k, ours, 0)
		wantFault(t, "lookup", f, want)
		if f == FaultNone && r.Key() != k {
			t.Errorf("key %#x leads to the region of %#x", k, r.Key())
		}
	}
}

// A hundred live regions among the many that came and went need no more slots than a hundred.
func TestTable_DoesNotGrowByChurn(t *testing.T) {
	tb := newTable()
	b := words(8)
	var live []Key
	for range 20_000 {
		live = append(live, register(t, tb, b, Options{}).Key())
		if len(live) > 100 {
			deregister(t, tb, live[0])
			live = live[1:]
		}
	}
	if n := len(tb.slots.Load().slot); n != 512 || tb.used > n/2 {
		t.Errorf("%d slots, %d of them used up, for 100 regions", n, tb.used)
	}
	for _, k := range live {
		if _, f := tb.Lookup(k, ours, 0); f != FaultNone {
			t.Errorf("key %#x: fault %v", k, f)
		}
	}
}

// The first check that fails decides: key, domain, right, bounds, alignment.
// Pitfall 16: and nothing of the region was touched.
func TestTable_FaultsInOrder(t *testing.T) {
	tb := newTable()
	b := words(64)
	full := register(t, tb, b, Options{Access: everything})
	none := register(t, tb, b, Options{})
	for _, c := range []struct {
		name string
		k    Key
		pd   PD
		need Access
		va   uint64
		want Fault
	}{
		{"key 0", 0, theirs, RemoteWrite, 1, FaultKey},
		{"unknown key", full.Key() + 1, theirs, RemoteWrite, 1, FaultKey},
		{"foreign domain", none.Key(), theirs, RemoteWrite, 1, FaultPD},
		{"no right to write", none.Key(), ours, RemoteWrite, 1, FaultAccess},
		{"no right to read remotely", none.Key(), ours, RemoteRead, 1, FaultAccess},
		{"no right for atomics", none.Key(), ours, RemoteAtomic, 1, FaultAccess},
		{"no right to write locally", none.Key(), ours, LocalWrite, 1, FaultAccess},
		{"one right of two", none.Key(), ours, LocalWrite | RemoteRead, 1, FaultAccess},
		{"outside", full.Key(), ours, RemoteWrite, 1, FaultBounds},
		{"local reading needs no right", none.Key(), ours, 0, none.Addr(), FaultNone},
		{"everything granted", full.Key(), ours, LocalWrite | RemoteWrite, full.Addr(), FaultNone},
	} {
		_, f := tb.Slice(c.k, c.pd, c.need, c.va, 8)
		wantFault(t, c.name, f, c.want)
		if c.need != RemoteAtomic {
			continue
		}
		_, f = tb.FetchAdd(c.k, c.pd, c.va, 1)
		wantFault(t, c.name+", FetchAdd", f, c.want)
		_, f = tb.CompareSwap(c.k, c.pd, c.va, 0, 1)
		wantFault(t, c.name+", CompareSwap", f, c.want)
	}
	for i, v := range b {
		if v != 0 {
			t.Errorf("byte %d changed", i)
		}
	}
}

// Pitfall 14, IBA C9-88.
func TestSlice_LengthZeroIgnoresKeyAndAddress(t *testing.T) {
	tb := newTable()
	r := register(t, tb, words(8), Options{})
	for _, va := range []uint64{0, r.Addr(), r.Addr() + 9, math.MaxUint64} {
		for _, k := range []Key{0, 12345, r.Key()} {
			b, f := tb.Slice(k, theirs, everything, va, 0)
			if b != nil || f != FaultNone {
				t.Errorf("key %d at %#x: %v, fault %v", k, va, b, f)
			}
		}
		if b, f := r.Slice(va, 0); b != nil || f != FaultNone {
			t.Errorf("region at %#x: %v, fault %v", va, b, f)
		}
	}
	deregister(t, tb, r.Key())
	if _, f := r.Slice(r.Addr(), 0); f != FaultNone {
		t.Errorf("deregistered region: fault %v", f)
	}
}

func TestDeregister_FailsLookupsAtOnce(t *testing.T) {
	tb := newTable()
	r := register(t, tb, words(64), Options{Access: everything})
	other := register(t, tb, words(64), Options{Access: everything})
	held, f := tb.Slice(r.Key(), ours, RemoteWrite, r.Addr(), 64)
	wantFault(t, "before", f, FaultNone)

	deregister(t, tb, r.Key())

	_, f = tb.Lookup(r.Key(), ours, 0)
	wantFault(t, "Lookup", f, FaultKey)
	_, f = tb.Slice(r.Key(), ours, 0, r.Addr(), 1)
	wantFault(t, "Slice", f, FaultKey)
	_, f = r.Slice(r.Addr(), 1)
	wantFault(t, "Region.Slice", f, FaultKey)
	_, f = tb.FetchAdd(r.Key(), ours, r.Addr(), 1)
	wantFault(t, "FetchAdd", f, FaultKey)
	_, f = tb.CompareSwap(r.Key(), ours, r.Addr(), 0, 1)
	wantFault(t, "CompareSwap", f, FaultKey)
	wantFault(t, "Invalidate", tb.Invalidate(r.Key(), ours), FaultKey)
	if r.Valid() {
		t.Error("the region says it is valid")
	}
	_, f = tb.Lookup(other.Key(), ours, everything)
	wantFault(t, "the other region", f, FaultNone)

	// Pitfall 43: who still holds the memory does not touch freed memory.
	Copy(held, []byte("late"))
	if string(r.Bytes()[:4]) != "late" {
		t.Error("a slice that was held is not the memory any more")
	}
}

func TestDeregister_RefusesAKeyNoRegionHas(t *testing.T) {
	tb := newTable()
	k := register(t, tb, words(8), Options{}).Key()
	deregister(t, tb, k)
	for _, k := range []Key{0, k, k + 1} {
		if err := tb.Deregister(k); err == nil || !strings.Contains(err.Error(), "no region has it") {
			t.Errorf("key %#x: %v", k, err)
		}
	}
}

// A reader that is still in an old slot array must not find what was deregistered
// after the array was replaced.
func TestDeregister_ReachesReadersOfAnOldSlotArray(t *testing.T) {
	tb := newTable()
	r := register(t, tb, words(8), Options{})
	old := tb.slots.Load()
	for tb.slots.Load() == old {
		register(t, tb, words(8), Options{})
	}
	deregister(t, tb, r.Key())
	current := tb.slots.Load()
	tb.slots.Store(old)
	_, f := tb.Lookup(r.Key(), ours, 0)
	wantFault(t, "in the old array", f, FaultKey)
	tb.slots.Store(current)
}

// Pitfall 44: the right key is invalidated, once, and only where it is allowed.
func TestInvalidate_EndsTheUseOfOneKey(t *testing.T) {
	tb := newTable()
	b := words(64)
	r := register(t, tb, b, Options{Access: everything})
	twin := register(t, tb, b, Options{Access: everything})
	fixed := register(t, tb, b, Options{Access: everything &^ RemoteInvalidate})

	wantFault(t, "unknown key", tb.Invalidate(0, ours), FaultKey)
	wantFault(t, "foreign domain", tb.Invalidate(r.Key(), theirs), FaultPD)
	wantFault(t, "not allowed", tb.Invalidate(fixed.Key(), ours), FaultAccess)
	wantFault(t, "allowed", tb.Invalidate(r.Key(), ours), FaultNone)
	wantFault(t, "twice", tb.Invalidate(r.Key(), ours), FaultKey)

	_, f := tb.Lookup(r.Key(), ours, 0)
	wantFault(t, "invalidated", f, FaultKey)
	if r.Valid() {
		t.Error("the region says it is valid")
	}
	for _, still := range []*Region{twin, fixed} {
		_, f = tb.Lookup(still.Key(), ours, RemoteWrite)
		wantFault(t, "another region of the same memory", f, FaultNone)
	}
	deregister(t, tb, r.Key())
	if err := tb.Deregister(r.Key()); err == nil {
		t.Error("deregistered twice")
	}
}

// An invalidated region whose slot array is replaced stays invalidated and can still be deregistered.
func TestInvalidate_SurvivesGrowth(t *testing.T) {
	tb := newTable()
	r := register(t, tb, words(8), Options{Access: everything})
	wantFault(t, "Invalidate", tb.Invalidate(r.Key(), ours), FaultNone)
	for range 10 * minSlots {
		register(t, tb, words(8), Options{})
	}
	_, f := tb.Lookup(r.Key(), ours, 0)
	wantFault(t, "Lookup", f, FaultKey)
	deregister(t, tb, r.Key())
}

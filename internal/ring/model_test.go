package ring

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// model is a ring beside the obvious implementation of one.
type model struct {
	r    *SPSC[int]
	sent []int // published, oldest first
	put  []int // put, not yet published
	next int   // value to put next
}

func newModel(capacity int, start uint32) *model {
	m := &model{r: New[int](capacity)}
	startAt(m.r, start)
	return m
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func (m *model) room() int { return m.r.Cap() - len(m.sent) - len(m.put) }

func (m *model) doPut(t failer) {
	t.Helper()
	v := m.next
	if got, want := m.r.Put(&v), m.room() > 0; got != want {
		t.Fatalf("Put = %v with room for %d", got, m.room())
	} else if got {
		m.put = append(m.put, v)
		m.next++
	}
}

func (m *model) doPublish() {
	m.r.Publish()
	m.sent = append(m.sent, m.put...)
	m.put = nil
}

func (m *model) doPush(t failer, n int) {
	t.Helper()
	vs := make([]int, n)
	for i := range vs {
		vs[i] = m.next + i
	}
	want := min(n, m.room())
	if got := m.r.Push(vs...); got != want {
		t.Fatalf("Push of %d took %d, want %d", n, got, want)
	}
	m.sent = append(append(m.sent, m.put...), vs[:want]...)
	m.put = nil
	m.next += want
}

func (m *model) doPop(t failer, n int) {
	t.Helper()
	dst := make([]int, n)
	got := m.r.Pop(dst)
	want := m.sent[:min(n, len(m.sent))]
	if !slices.Equal(dst[:got], want) {
		t.Fatalf("Pop of %d gave %v, want %v", n, dst[:got], want)
	}
	if slices.ContainsFunc(dst[got:], func(v int) bool { return v != 0 }) {
		t.Fatalf("Pop wrote behind the %d values it returned: %v", got, dst)
	}
	m.sent = m.sent[got:]
}

func (m *model) check(t failer) {
	t.Helper()
	if m.r.Len() != len(m.sent) || m.r.Free() != m.room() {
		t.Fatalf("Len %d, Free %d; want %d, %d", m.r.Len(), m.r.Free(), len(m.sent), m.room())
	}
}

func TestSPSC_BehavesAsAQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.OneOf(rapid.Just(uint32(0)), rapid.Uint32Min(1<<32-40), rapid.Uint32()).Draw(t, "start")
		m := newModel(rapid.IntRange(1, 20).Draw(t, "capacity"), start)
		t.Repeat(map[string]func(*rapid.T){
			"put":     func(t *rapid.T) { m.doPut(t) },
			"publish": func(*rapid.T) { m.doPublish() },
			"push":    func(t *rapid.T) { m.doPush(t, rapid.IntRange(0, 40).Draw(t, "n")) },
			"pop":     func(t *rapid.T) { m.doPop(t, rapid.IntRange(0, 40).Draw(t, "n")) },
			"check":   func(t *rapid.T) { m.check(t) },
		})
	})
}

// FuzzSPSC reads the capacity, the start index and then one operation a byte: the low
// two bits say which, the rest how many.
func FuzzSPSC(f *testing.F) {
	f.Add(uint8(3), uint32(0), []byte{0, 0, 1, 14, 23, 1, 0, 23})
	f.Add(uint8(0), ^uint32(0), []byte{6, 7, 6, 7})
	f.Add(uint8(15), ^uint32(0)-7, []byte{42, 43, 42, 43, 0, 1, 7})
	f.Fuzz(func(t *testing.T, capacity uint8, start uint32, ops []byte) {
		m := newModel(int(capacity)+1, start)
		for _, op := range ops {
			switch n := int(op >> 2); op & 3 {
			case 0:
				m.doPut(t)
			case 1:
				m.doPublish()
			case 2:
				m.doPush(t, n)
			case 3:
				m.doPop(t, n)
			}
			// Len and Free refresh the cached indices, so they are not looked at every time.
			if op >= 128 {
				m.check(t)
			}
		}
		m.doPublish()
		m.doPop(t, m.r.Cap())
		m.check(t)
	})
}

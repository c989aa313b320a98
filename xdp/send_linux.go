package xdp

import "github.com/go-roce/roce/link"

// sender is a queue's way out: frames in slots of adjacent chunks go to the kernel by the transmit ring, one descriptor a
// chunk, and their chunks come back by the completion ring.
//
// Both rings have room for all slots, so whoever has a slot can send it. The transmit ring has twice that, because the kernel may
// complete a descriptor before it says that it has taken it.
type sender struct {
	umem       *UMEM
	tx         *Producer[Desc]
	completion *Consumer[uint64]
	counters   *counters

	base  int // address of the first slot
	slot  int // bytes of a slot
	frame int // of which a frame may have so many
	free  []uint32
	// left is how many descriptors of each slot are not completed yet.
	left []uint8
	// fresh frames were submitted since the last kick.
	fresh int
}

// newSender takes the chunks of the UMEM from the address base on for depth frames of up to frame bytes.
func newSender(s *Socket, u *UMEM, base, depth, frame int, c *counters) *sender {
	t := &sender{
		umem: u, tx: s.TX, completion: s.Completion, counters: c,
		base: base, slot: slotSize(frame, u.ChunkSize()), frame: frame,
		free: make([]uint32, depth), left: make([]uint8, depth),
	}
	for i := range t.free {
		t.free[i] = uint32(depth - 1 - i)
	}
	return t
}

// slotSize returns the bytes of whole chunks that a frame needs.
func slotSize(frame, chunk int) int { return (frame + chunk - 1) / chunk * chunk }

// lease takes buffers, the one used last first: it is still in cache.
func (t *sender) lease(dst []link.Frame) int {
	if len(t.free) < len(dst) {
		t.reap()
	}
	n := min(len(dst), len(t.free))
	for i := range dst[:n] {
		slot := t.free[len(t.free)-1-i]
		dst[i] = link.Frame{Data: t.umem.Bytes(t.address(slot), t.frame), Token: uint64(slot)}
	}
	t.free = t.free[:len(t.free)-n]
	return n
}

func (t *sender) address(slot uint32) uint64 { return uint64(t.base + int(slot)*t.slot) }

// submit puts frames into the transmit ring.
func (t *sender) submit(fs []link.Frame) {
	sent, bytes := 0, 0
	chunk := t.umem.ChunkSize()
	for i := range fs {
		f := &fs[i]
		slot, n := uint32(f.Token), len(f.Data)
		switch {
		case n == 0:
			t.free = append(t.free, slot)
		case n > t.frame || len(f.Gather) > 0:
			t.counters.txErrors.Add(1)
			t.free = append(t.free, slot)
		default:
			at := t.address(slot)
			for ; n > chunk; n -= chunk {
				t.put(slot, Desc{Addr: at, Len: uint32(chunk), Options: OptionContinued})
				at += uint64(chunk)
			}
			t.put(slot, Desc{Addr: at, Len: uint32(n)})
			sent++
			bytes += len(f.Data)
		}
		fs[i] = link.Frame{}
	}
	if sent == 0 {
		return
	}
	t.tx.Submit()
	t.fresh += sent
	addTo(&t.counters.txFrames, sent)
	addTo(&t.counters.txBytes, bytes)
}

func (t *sender) put(slot uint32, d Desc) {
	t.tx.Put(d)
	t.left[slot]++
}

// reap takes back the slots of frames that were sent.
func (t *sender) reap() {
	n := t.completion.Ready(t.completion.Size())
	if n == 0 {
		return
	}
	for i := range n {
		slot := (int(t.completion.Get(i)) - t.base) / t.slot
		if t.left[slot]--; t.left[slot] == 0 {
			t.free = append(t.free, uint32(slot))
		}
	}
	t.completion.Release(n)
}

// pending reports whether frames are in the transmit ring that the kernel has not taken yet.
func (t *sender) pending() bool { return t.tx.Pending() > 0 }

// kicked counts the frames that a kick left, of those submitted since the one before.
func (t *sender) kicked() {
	if t.fresh > 0 {
		addTo(&t.counters.txKept, min(t.tx.Pending(), t.fresh))
		t.fresh = 0
	}
}

package xdp

import "github.com/go-roce/roce/link"

// receiver is a queue's way in: chunks go to the kernel by the fill ring and come back by the receive ring.
//
// The fill ring has room for twice the receiver's chunks. The kernel may hand a chunk over before it says that it has
// taken it out of the fill ring, so a chunk may briefly count twice.
type receiver struct {
	umem     *UMEM
	rx       *Consumer[Desc]
	fill     *Producer[uint64]
	wake     func() // has the driver look at the fill ring if it wants to be told
	counters *counters

	// Frames of several chunks are copied together into buffers of size bytes.
	whole []byte
	size  int
	free  []uint32
}

// wholeBuffers is how many frames of several chunks may be leased at a time. Whoever
// leases more gets them once he has given some back.
const wholeBuffers = 256

// tokenWhole marks the token of a frame in one of those buffers; below it is its number. Other
// tokens are the address of a chunk.
const tokenWhole = 1 << 63

// newReceiver takes the first chunks of the UMEM for receiving frames of up to size bytes.
func newReceiver(s *Socket, u *UMEM, chunks, size int, c *counters) *receiver {
	r := &receiver{umem: u, rx: s.RX, fill: s.Fill, wake: s.KickRX, counters: c, size: size}
	if s.MultiBuffer() {
		r.whole = make([]byte, wholeBuffers*size)
		r.free = make([]uint32, wholeBuffers)
		for i := range r.free {
			r.free[i] = uint32(wholeBuffers - 1 - i)
		}
	}
	for i := range chunks {
		r.fill.Put(uint64(i * u.ChunkSize()))
	}
	r.fill.Submit()
	r.wake()
	return r
}

// ready reports whether there is something to take.
func (r *receiver) ready() bool { return r.rx.Ready(1) > 0 }

// take leases frames into dst and returns how many.
func (r *receiver) take(dst []link.Frame) int {
	n, bytes, used, back := 0, 0, 0, 0
	ready := r.rx.Ready(len(dst))
	for n < len(dst) && used < ready {
		d := r.rx.Get(used)
		parts := 1
		if d.Options&OptionContinued != 0 {
			if parts = r.parts(used, ready); parts == 0 {
				break // the rest is not there yet
			}
		}
		f := &dst[n]
		switch {
		case parts > 1 && len(r.free) == 0:
			ready = used // later, when a buffer is given back
			continue
		case parts > 1:
			r.join(f, used, parts)
			back += parts
		default:
			*f = link.Frame{Data: r.umem.Bytes(d.Addr, int(d.Len)), Token: r.chunkOf(d.Addr)}
			if f.Data == nil {
				r.counters.rxBad.Add(1)
			}
		}
		used += parts
		if f.Data != nil {
			bytes += len(f.Data)
			n++
		}
	}
	if used > 0 {
		r.rx.Release(used)
	}
	if back > 0 {
		r.fill.Submit()
		r.wake()
	}
	addTo(&r.counters.rxFrames, n)
	addTo(&r.counters.rxBytes, bytes)
	return n
}

// chunkOf returns the address of the chunk that addr is in.
func (r *receiver) chunkOf(addr uint64) uint64 { return addr &^ uint64(r.umem.ChunkSize()-1) }

// parts returns how many of the ready descriptors from first on are of one frame, or 0 if its last one is
// not among them.
func (r *receiver) parts(first, ready int) int {
	for i := first; i < ready || i < r.rx.Ready(i+1); i++ {
		if r.rx.Get(i).Options&OptionContinued == 0 {
			return i + 1 - first
		}
	}
	return 0
}

// join copies a frame of several chunks together and gives the chunks back. A frame that is too
// long gets no Data.
func (r *receiver) join(f *link.Frame, first, parts int) {
	b := r.free[len(r.free)-1]
	whole := r.whole[int(b)*r.size : (int(b)+1)*r.size]
	n, cut := 0, false
	for i := first; i < first+parts; i++ {
		d := r.rx.Get(i)
		part := r.umem.Bytes(d.Addr, int(d.Len))
		cut = cut || part == nil || len(part) > len(whole)-n
		n += copy(whole[n:], part)
		if part != nil {
			r.fill.Put(r.chunkOf(d.Addr))
		}
	}
	if cut {
		r.counters.rxTruncated.Add(1)
		*f = link.Frame{}
		return
	}
	r.free = r.free[:len(r.free)-1]
	*f = link.Frame{Data: whole[:n:n], Token: tokenWhole | uint64(b)}
}

// giveBack takes leased frames back.
func (r *receiver) giveBack(fs []link.Frame) {
	back := false
	for i := range fs {
		if t := fs[i].Token; t&tokenWhole != 0 {
			r.free = append(r.free, uint32(t))
		} else {
			r.fill.Put(t)
			back = true
		}
		fs[i] = link.Frame{}
	}
	if back {
		r.fill.Submit()
		r.wake()
	}
}

package link

import (
	"fmt"
	"net"
	"sync/atomic"

	"github.com/go-roce/roce/clock"
)

// memQueue is the queue of a memory device. Every buffer belongs to the device that
// sends from it; what travels is its number. A received frame is the sender's
// buffer itself, which Release sends home, so no byte is copied between devices
// and no ring can overflow: each has a slot for each buffer.
type memQueue struct {
	number int
	frame  int    // bytes of a buffer
	pool   []byte // the buffers
	clk    clock.Clock

	free []uint32 // a stack: the buffer used last is the one still in cache
	at   []uint8  // where each buffer is: 0 here or leased here, else the port it was sent to

	peers    atomic.Pointer[[]*memPeer] // by port number - 1; grows, never shrinks
	next     int                        // the peer whose frames Recv looks at first
	needRoom atomic.Bool                // Alloc had none, and Wait has not yet told that there is some
	park     parker
	closed   atomic.Bool
	counters counters
}

// memPeer is one end's view of a port it is wired to.
type memPeer struct {
	queue   *memQueue
	number  int
	out, in *memWire
	flushed uint32 // out.frames.tail at the last Flush
	gone    bool   // closed, and our buffers taken back from it
}

func newMemQueue(number int, o MemOptions) *memQueue {
	q := &memQueue{
		number: number,
		frame:  o.MTU + ethernetLen,
		clk:    o.Clock,
		free:   make([]uint32, o.Depth),
		at:     make([]uint8, o.Depth),
	}
	q.pool = make([]byte, q.frame*o.Depth)
	for i := range q.free {
		q.free[i] = uint32(o.Depth - 1 - i)
	}
	q.peers.Store(&[]*memPeer{})
	q.park.init()
	return q
}

// join adds a peer. The switch's mutex is held: its ports are joined one after the other.
func (q *memQueue) join(p *memPeer) {
	old := *q.peers.Load()
	peers := append(old[:len(old):len(old)], p)
	q.peers.Store(&peers)
}

func (q *memQueue) buffer(i uint32) []byte {
	at := int(i) * q.frame
	return q.pool[at : at+q.frame : at+q.frame]
}

// memToken marks a leased buffer: whose it is, and its number there.
func memToken(port int, buffer uint32) uint64 { return uint64(port)<<32 | uint64(buffer) }

func (q *memQueue) Recv(dst []Frame) (int, error) {
	if q.closed.Load() {
		return 0, q.errClosed()
	}
	peers := *q.peers.Load()
	n, bytes, merged := 0, 0, 0
	for i := 0; i < len(peers) && n < len(dst); i++ {
		p := peers[(q.next+i)%len(peers)]
		in := p.in.frames
		for k := in.waiting(); k > 0 && n < len(dst); k-- {
			s := in.pop()
			dst[n] = Frame{
				Data:    p.queue.buffer(s.buffer)[:s.length],
				Segment: int(s.segment),
				Token:   memToken(p.number, s.buffer),
			}
			bytes += int(s.length)
			if s.segment != 0 {
				merged++
			}
			n++
		}
	}
	if n == 0 {
		return 0, nil
	}
	q.next = (q.next + 1) % len(peers)
	q.counters.rxFrames.Add(uint64(n))
	q.counters.rxBytes.Add(uint64(bytes))
	addTo(&q.counters.rxMerged, uint64(merged))
	return n, nil
}

func (q *memQueue) Release(fs []Frame) {
	peers := *q.peers.Load()
	for i := 0; i < len(fs); {
		p := peers[fs[i].Token>>32-1]
		for ; i < len(fs) && fs[i].Token>>32 == uint64(p.number); i++ {
			p.in.empties.push(memSlot{buffer: uint32(fs[i].Token)})
			fs[i] = Frame{}
		}
		p.in.empties.publish()
		if p.queue.needRoom.Load() {
			p.queue.park.unpark()
		}
	}
}

func (q *memQueue) Alloc(dst []Frame) int {
	if q.closed.Load() {
		return 0
	}
	q.collect()
	n := min(len(dst), len(q.free))
	for i := range dst[:n] {
		b := q.free[len(q.free)-1-i]
		dst[i] = Frame{Data: q.buffer(b), Token: memToken(q.number, b)}
	}
	q.free = q.free[:len(q.free)-n]
	q.wantRoom(n == 0 && len(dst) > 0)
	return n
}

func (q *memQueue) wantRoom(want bool) {
	if want != q.needRoom.Load() {
		q.needRoom.Store(want)
	}
}

// collect takes home the buffers that peers have emptied, and all from those that closed.
func (q *memQueue) collect() {
	for _, p := range *q.peers.Load() {
		if p.gone {
			continue
		}
		closed := p.queue.closed.Load()
		for k := p.out.empties.waiting(); k > 0; k-- {
			q.takeHome(p.out.empties.pop().buffer)
		}
		if !closed {
			continue
		}
		p.gone = true
		for b, at := range q.at {
			if int(at) == p.number {
				q.takeHome(uint32(b))
			}
		}
	}
}

func (q *memQueue) takeHome(b uint32) {
	q.at[b] = 0
	q.free = append(q.free, b)
}

func (q *memQueue) Submit(fs []Frame) {
	peers := *q.peers.Load()
	var last *memPeer // the peer with frames pushed but not published
	sent, bytes, merged, lost := 0, 0, 0, 0
	for i := range fs {
		f := &fs[i]
		b := uint32(f.Token)
		p := q.peerOf(peers, f.Data)
		switch {
		case len(f.Data) == 0:
			q.free = append(q.free, b)
		case p == nil || p.queue.closed.Load():
			lost++
			q.free = append(q.free, b)
		default:
			if last != nil && last != p {
				last.out.frames.publish()
			}
			last = p
			p.out.frames.push(memSlot{buffer: b, length: uint32(len(f.Data)), segment: uint32(f.Segment)})
			q.at[b] = uint8(p.number)
			sent++
			bytes += len(f.Data)
			if f.Segment != 0 {
				merged++
			}
		}
		*f = Frame{}
	}
	if last != nil {
		last.out.frames.publish()
	}
	addTo(&q.counters.txFrames, uint64(sent))
	addTo(&q.counters.txBytes, uint64(bytes))
	addTo(&q.counters.txMerged, uint64(merged))
	addTo(&q.counters.txErrors, uint64(lost))
}

// peerOf returns the peer whose hardware address frame is for, or nil.
func (q *memQueue) peerOf(peers []*memPeer, frame []byte) *memPeer {
	if len(frame) < ethernetLen {
		return nil
	}
	n := int(frame[5])
	if n == 0 || n > len(peers) || [6]byte(frame) != memMAC(n) {
		return nil
	}
	return peers[n-1]
}

func (q *memQueue) Flush() error {
	for _, p := range *q.peers.Load() {
		if p.queue.park.parked.Load() && p.out.frames.tail != p.flushed {
			p.queue.park.unpark()
		}
		p.flushed = p.out.frames.tail
	}
	return nil
}

func (q *memQueue) Wait(deadline clock.Time) error {
	if q.closed.Load() {
		return q.errClosed()
	}
	q.park.prepare()
	if q.ready() {
		q.park.cancel()
	} else {
		q.park.sleep(q.clk, deadline)
	}
	q.wantRoom(false) // told, or no longer of interest
	if q.closed.Load() {
		return q.errClosed()
	}
	return nil
}

// ready reports whether there is something to receive, or room that Alloc missed.
func (q *memQueue) ready() bool {
	room := q.needRoom.Load()
	for _, p := range *q.peers.Load() {
		if p.in.frames.waiting() > 0 {
			return true
		}
		if room && !p.gone && (p.out.empties.waiting() > 0 || p.queue.closed.Load()) {
			return true
		}
	}
	return q.closed.Load() || room && len(q.free) > 0
}

func (q *memQueue) Wake() { q.park.wake() }

func (q *memQueue) Stats() Stats { return q.counters.stats() }

// Close ends the queue. Peers that wait for their buffers get them back.
func (q *memQueue) Close() error {
	if q.closed.Swap(true) {
		return nil
	}
	for _, p := range *q.peers.Load() {
		p.queue.park.unpark()
	}
	return nil
}

func (q *memQueue) errClosed() error {
	return fmt.Errorf("mem%d is closed: %w", q.number, net.ErrClosed)
}

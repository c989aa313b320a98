package link

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	sendBatch = 64   // frames a system call
	sendParts = 1024 // parts of frames a system call; the kernel's bound for one frame (UIO_MAXIOV)
	// fullRetry is how long to leave a full queue discipline alone: unlike a full
	// socket, nothing tells when it has room again.
	fullRetry = 100 * time.Microsecond
)

// sender sends frames from leased buffers and keeps, in their order, those that the
// kernel has no room for now.
type sender struct {
	fd     int
	frame  int    // bytes of the longest frame
	super  int    // bytes of the longest super-frame; 0: the socket has no PACKET_VNET_HDR
	uncut  bool   // the kernel takes super-frames after all: none was refused
	room   int    // before each buffer, for a struct virtio_net_hdr
	stride int    // from buffer to buffer
	pool   []byte // the buffers
	free   []uint32
	piece  []byte // a packet cut off here

	msgs   []unix.Mmsghdr
	parts  []unix.Iovec
	lens   [sendBatch]int
	nMsgs  int
	nParts int

	kept     []keptFrame // a ring of len(pool)/frame
	keptHead int
	keptLen  int
	full     unix.Errno // why frames are kept: EAGAIN the socket is full, else what comes after it

	counters *counters
}

// keptFrame is a frame, whole in its buffer, that waits for room.
type keptFrame struct {
	buffer  uint32
	length  int
	segment int
	cut     int // packets of a super-frame sent one by one already
}

// newSender makes a sender with depth buffers, for frames of up to frame bytes and super-frames of up
// to super, 0 for a socket without PACKET_VNET_HDR.
func newSender(fd, frame, super, depth int, c *counters) *sender {
	s := &sender{
		fd: fd, frame: frame, super: super, uncut: super > 0, counters: c,
		free:  make([]uint32, depth),
		kept:  make([]keptFrame, depth),
		msgs:  make([]unix.Mmsghdr, sendBatch),
		parts: make([]unix.Iovec, sendParts),
	}
	if super > 0 {
		s.room = vnetRoom
	}
	s.stride = s.room + max(frame, super)
	s.pool = make([]byte, s.stride*depth)
	for i := range s.free {
		s.free[i] = uint32(depth - 1 - i)
	}
	return s
}

func (s *sender) buffer(b uint32) []byte {
	from, to := int(b)*s.stride+s.room, int(b+1)*s.stride
	return s.pool[from:to:to]
}

// vnet returns the room for the struct virtio_net_hdr directly before a buffer.
func (s *sender) vnet(b uint32) []byte {
	at := int(b)*s.stride + s.room
	return s.pool[at-vnetLen : at : at]
}

// lease takes buffers, the one used last first: it is still in cache.
func (s *sender) lease(dst []Frame) int {
	n := min(len(dst), len(s.free))
	for i := range dst[:n] {
		b := s.free[len(s.free)-1-i]
		dst[i] = Frame{Data: s.buffer(b), Token: uint64(b)}
	}
	s.free = s.free[:len(s.free)-n]
	return n
}

// submit sends the frames, or keeps them behind those kept already.
func (s *sender) submit(fs []Frame) {
	s.retry()
	first := 0 // of the frames in the present batch
	for i := range fs {
		f := &fs[i]
		switch {
		case len(f.Data) == 0:
			// Given back below, unsent.
		case frameLen(f) > s.longest(f):
			f.Data = f.Data[:0]
			s.counters.txErrors.Add(1)
		case s.keptLen > 0: // so the batch is empty
			s.keep(f)
		default:
			if len(f.Gather)+1 >= sendParts {
				s.flatten(f)
			}
			if s.nMsgs == sendBatch || s.nParts+1+len(f.Gather) > sendParts {
				s.sendOrKeep(fs[first:i])
				first = i
				if s.keptLen > 0 {
					s.keep(f)
					continue
				}
			}
			if f.Segment > 0 && !s.uncut {
				s.sendOrKeep(fs[first:i])
				first = i + 1
				s.keep(f)
				s.retry()
				continue
			}
			s.add(f)
		}
	}
	s.sendOrKeep(fs[first:])
	for i := range fs {
		if fs[i].Token != tokenKept {
			s.free = append(s.free, uint32(fs[i].Token))
		}
		fs[i] = Frame{}
	}
}

// tokenKept marks a frame of submit whose buffer is with the kept ones.
const tokenKept = ^uint64(0)

func frameLen(f *Frame) int {
	n := len(f.Data)
	for _, g := range f.Gather {
		n += len(g)
	}
	return n
}

// longest returns how long a frame like f may be.
func (s *sender) longest(f *Frame) int {
	if f.Segment > 0 {
		return s.super
	}
	return s.frame
}

// add puts a frame into the batch as it is, parts and all.
func (s *sender) add(f *Frame) {
	first := s.nParts
	data := f.Data
	if s.super > 0 {
		b := uint32(f.Token)
		v := s.vnet(b)
		if l, ok := findUDP(f.Data); ok && f.Segment > 0 && frameLen(f)-l.payload > f.Segment {
			putVnetSegments(v, l, f.Data, frameLen(f), f.Segment)
			addTo(&s.counters.txMerged, 1)
		} else {
			putVnet(v)
		}
		from := int(b)*s.stride + s.room - vnetLen
		data = s.pool[from : from+vnetLen+len(f.Data)]
	}
	s.part(data)
	for _, g := range f.Gather {
		if len(g) > 0 {
			s.part(g)
		}
	}
	s.lens[s.nMsgs] = frameLen(f)
	h := &s.msgs[s.nMsgs].Hdr
	h.Iov = &s.parts[first]
	h.SetIovlen(s.nParts - first)
	s.nMsgs++
}

func (s *sender) part(b []byte) {
	p := &s.parts[s.nParts]
	p.Base = &b[0]
	p.SetLen(len(b))
	s.nParts++
}

// sendOrKeep sends the batch, if there is one: it is the not empty ones of fs. It
// keeps those that found no room.
func (s *sender) sendOrKeep(fs []Frame) {
	if s.nMsgs == 0 {
		return
	}
	done := s.send()
	for i := range fs {
		switch f := &fs[i]; {
		case len(f.Data) == 0:
		case done > 0:
			done--
		default:
			s.keep(f)
		}
	}
}

// send gives the batch to the kernel and empties it. It returns how many frames are
// dealt with: sent, or refused for good. If that is not all, s.full says why.
func (s *sender) send() int {
	n, bytes, refused, downs := 0, 0, 0, 0
	s.full = 0
	for n < s.nMsgs && s.full == 0 {
		k, errno := sendmmsg(s.fd, s.msgs[n:s.nMsgs])
		for i := range k {
			bytes += s.lens[n+i]
		}
		n += k
		switch errno {
		case 0, unix.EINTR:
		case unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM:
			s.full = errno
		case unix.EINVAL:
			if !s.uncut {
				refused++
				n++
				break
			}
			// A kernel that does not cut super-frames.
			s.uncut = false
			s.full = errno
		case unix.ENETDOWN:
			// The first may be about a time now over: the kernel tells each
			// socket once. The second means down, for all of the batch.
			if downs++; downs > 1 {
				refused += s.nMsgs - n
				n = s.nMsgs
			}
		default: // EMSGSIZE: longer than the MTU; ENXIO: the interface is gone
			refused++
			n++
		}
	}
	clear(s.parts[:s.nParts]) // the memory is the caller's again
	s.nMsgs, s.nParts = 0, 0
	addTo(&s.counters.txFrames, uint64(n-refused))
	addTo(&s.counters.txBytes, uint64(bytes))
	addTo(&s.counters.txErrors, uint64(refused))
	return n
}

// flatten copies the frame's parts behind its Data, which is the beginning of its buffer.
func (s *sender) flatten(f *Frame) {
	buf := s.buffer(uint32(f.Token))
	n := len(f.Data)
	for _, g := range f.Gather {
		n += copy(buf[n:], g)
	}
	f.Data, f.Gather = buf[:n], nil
}

// keep queues the frame, its parts copied together.
func (s *sender) keep(f *Frame) {
	s.flatten(f)
	s.kept[(s.keptHead+s.keptLen)%len(s.kept)] = keptFrame{buffer: uint32(f.Token), length: len(f.Data), segment: f.Segment}
	s.keptLen++
	f.Token = tokenKept
	s.counters.txKept.Add(1)
}

// retry sends what it can of the kept frames.
func (s *sender) retry() {
	for s.keptLen > 0 {
		n := 0
		for n < min(s.keptLen, sendBatch) {
			k := &s.kept[(s.keptHead+n)%len(s.kept)]
			if k.segment > 0 && !s.uncut {
				break
			}
			f := Frame{Data: s.buffer(k.buffer)[:k.length], Segment: k.segment, Token: uint64(k.buffer)}
			s.add(&f)
			n++
		}
		done := 0
		if n > 0 {
			done = s.send()
		} else if s.sendCut(&s.kept[s.keptHead]) {
			done = 1
		}
		for range done {
			s.free = append(s.free, s.kept[s.keptHead].buffer)
			s.keptHead = (s.keptHead + 1) % len(s.kept)
			s.keptLen--
		}
		if s.full == unix.EINVAL {
			continue
		}
		if s.full != 0 {
			return
		}
	}
}

// sendCut sends the packets of a super-frame one by one, for a kernel that does not cut it. It reports false when
// there is no room for the rest.
func (s *sender) sendCut(k *keptFrame) bool {
	frame := s.buffer(k.buffer)[:k.length]
	l, ok := findUDP(frame)
	if !ok {
		addTo(&s.counters.txErrors, 1)
		s.full = 0
		return true
	}
	for n := l.segments(frame, k.segment); k.cut < n; k.cut++ {
		s.piece = append(s.piece[:0], make([]byte, vnetLen)...)
		s.piece = l.appendSegment(s.piece, frame, k.segment, k.cut)
		s.part(s.piece)
		s.lens[0] = len(s.piece) - vnetLen
		h := &s.msgs[0].Hdr
		h.Iov = &s.parts[0]
		h.SetIovlen(1)
		s.nMsgs = 1
		if s.send() == 0 {
			return false
		}
	}
	return true
}

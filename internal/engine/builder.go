package engine

import (
	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/link"
	"github.com/go-roce/roce/memreg"
	"github.com/go-roce/roce/transport"
)

const (
	// noteRetransmission marks frames that were sent before, for a tap.
	noteRetransmission = "retransmission"
	// copyBelow is the payload up to which a copy is cheaper than a gather list.
	copyBelow = 512
	// chunkLen bounds the bytes between two payloads of a super-frame: pad and ICRC of one packet and
	// the headers of the next.
	chunkLen = 3 + bth.ICRCLen + bth.MaxHeaderLen
)

// builder makes frames of packets. Over links that take super-frames, packets of one queue pair follow each other
// in one as long as they are of one size; one that is shorter is the last.
//
// The payload is copied into the frame or left where it is (gather); a frame holds packets of one kind.
type builder struct {
	gather   bool
	segments int // packets a frame may hold
	icrc     bth.ICRC

	// Each frame of the batch has its part of arena, for what lies between payloads or, in short buffers of gather links, for a copied
	// payload; and a gather list. Both last until the frame is submitted.
	arena [txBatch][]byte
	lists [txBatch][][]byte

	// The frame being filled.
	frame  *link.Frame // nil: none
	slot   int
	encap  *bth.Encap
	copied bool
	closed bool // the last packet was a shorter one
	n      int  // packets in it
	size   int  // of the first, BTH to ICRC
	head   int  // its headers, where the frame's buffer holds no more
	total  int  // of all
	chunk  int  // where in the arena the bytes begin that are not in the list yet
}

func (b *builder) init(c *link.Caps) {
	b.gather = c.Gather
	b.segments = max(c.MaxSegments, 1)
}

// ibLen returns the length of a packet from BTH to ICRC.
func ibLen(out *transport.Out) int {
	info, _ := out.Opcode.Info()
	return info.HeaderLen + out.Length + int(out.Pad) + bth.ICRCLen
}

// copies reports whether the payload goes into the frame.
func (b *builder) copies(out *transport.Out) bool {
	return !b.gather || out.Copy || out.Length <= copyBelow
}

// fits reports whether a packet of the same queue pair can follow in the frame being filled.
func (b *builder) fits(out *transport.Out) bool {
	if b.frame == nil || b.closed || b.n == b.segments || b.copies(out) != b.copied {
		return false
	}
	n := ibLen(out)
	return n <= b.size && b.encap.Len()+b.total+n+bth.MaxHeaderLen <= len(b.frame.Data)
}

// begin starts to fill f, the frame in slot slot of the batch, with a packet.
func (b *builder) begin(f *link.Frame, slot int, e *bth.Encap, out *transport.Out) {
	f.Segment, f.Note, f.Gather = 0, "", nil
	b.frame, b.slot, b.encap = f, slot, e
	b.copied, b.closed = b.copies(out), false
	b.n, b.size, b.total, b.chunk = 0, ibLen(out), 0, 0
	b.lists[slot] = b.lists[slot][:0]
	if b.copied && e.Len()+b.size > len(f.Data) {
		b.addAside(out)
		return
	}
	b.add(out)
}

// add appends a packet.
func (b *builder) add(out *transport.Out) {
	if out.Retransmit {
		b.frame.Note = noteRetransmission
	}
	n := ibLen(out)
	if b.copied {
		b.addCopy(out, n)
	} else {
		b.addGather(out, n)
	}
	b.closed = n < b.size
	b.total += n
	b.n++
}

// addCopy puts all of a packet of n bytes into the frame's buffer.
func (b *builder) addCopy(out *transport.Out, n int) {
	from := b.encap.Len() + b.total
	ib := b.frame.Data[from : from+n]
	head := len(out.AppendTo(b.frame.Data[from:from:len(b.frame.Data)]))
	end := n - bth.ICRCLen
	clear(ib[head+copyPayload(ib[head:], out.Payload) : end])
	bth.PutICRC(ib[end:], b.icrc.StartPacket(b.encap, n, uint16(b.n), ib[:end]))
}

// addGather leaves the payload of a packet of n bytes where it is. The headers of the first packet go into the frame's
// buffer, all else between payloads into the arena: what follows in the buffer may be overwritten by the link.
func (b *builder) addGather(out *transport.Out, n int) {
	var head []byte
	if b.n == 0 {
		at := b.encap.Len()
		head = out.AppendTo(b.frame.Data[at:at:len(b.frame.Data)])
		b.head = len(head)
		b.room()
	} else {
		a := b.arena[b.slot]
		a = out.AppendTo(a)
		head = a[len(b.arena[b.slot]):]
		b.arena[b.slot] = a
		b.list(a[b.chunk:])
		b.chunk = len(a)
	}
	crc := b.icrc.StartPacket(b.encap, n, uint16(b.n), head)
	for _, p := range out.Payload {
		crc = bth.UpdateICRC(crc, p)
		b.list(p)
	}
	a := b.arena[b.slot]
	at := len(a)
	a = a[:at+int(out.Pad)+bth.ICRCLen]
	tail := a[at:]
	clear(tail[:out.Pad])
	bth.PutICRC(tail[out.Pad:], bth.UpdateICRC(crc, tail[:out.Pad]))
	b.arena[b.slot] = a
}

// addAside is addCopy for a frame whose buffer is too short: all behind the headers goes to the arena. Nothing can follow.
func (b *builder) addAside(out *transport.Out) {
	if out.Retransmit {
		b.frame.Note = noteRetransmission
	}
	at := b.encap.Len()
	head := out.AppendTo(b.frame.Data[at:at:len(b.frame.Data)])
	rest := b.size - len(head)
	if cap(b.arena[b.slot]) < rest {
		b.arena[b.slot] = make([]byte, 0, bth.MaxPacketLen)
	}
	a := b.arena[b.slot][:rest]
	end := rest - bth.ICRCLen
	clear(a[copyPayload(a, out.Payload):end])
	crc := bth.UpdateICRC(b.icrc.StartPacket(b.encap, b.size, 0, head), a[:end])
	bth.PutICRC(a[end:], crc)
	b.arena[b.slot] = a
	b.head = len(head)
	b.copied, b.closed = false, true
	b.total, b.n = b.size, 1
}

// room makes the arena's part for the frame empty, and large enough.
func (b *builder) room() {
	if cap(b.arena[b.slot]) < b.segments*chunkLen {
		b.arena[b.slot] = make([]byte, 0, b.segments*chunkLen)
	}
	b.arena[b.slot] = b.arena[b.slot][:0]
}

func (b *builder) list(p []byte) {
	if len(p) > 0 {
		b.lists[b.slot] = append(b.lists[b.slot], p)
	}
}

// finish completes the frame being filled, if there is one.
func (b *builder) finish() {
	f := b.frame
	if f == nil {
		return
	}
	b.frame = nil
	at := b.encap.Put(f.Data, b.total, 0)
	if b.copied {
		f.Data = f.Data[:at+b.total]
	} else {
		f.Data = f.Data[:at+b.head]
		b.list(b.arena[b.slot][b.chunk:])
		f.Gather = b.lists[b.slot]
	}
	if b.n > 1 {
		f.Segment = b.size
	}
}

// release forgets what the frames in the slots from from to to held, which are submitted, so that no memory is kept alive.
func (b *builder) release(from, to int) {
	for i := from; i < to; i++ {
		clear(b.lists[i])
	}
}

// copyPayload copies the parts of a payload to b and returns how many bytes there were.
func copyPayload(b []byte, parts [][]byte) int {
	n := 0
	for _, p := range parts {
		memreg.Copy(b[n:], p)
		n += len(p)
	}
	return n
}

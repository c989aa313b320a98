package engine

import (
	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/link"
	"github.com/go-roce/roce/memreg"
	"github.com/go-roce/roce/transport"
)

const (
	// txBatch is how many frames are leased and submitted at a time.
	txBatch = 64
	// quantum is how many packets a queue pair sends in its turn.
	quantum = 16
)

// transmitter is the state of the way out: a batch of leased frames, of which those
// from submitted to used are filled and those from used to leased are empty.
type transmitter struct {
	gather bool
	icrc   bth.ICRC

	frames                  [txBatch]link.Frame
	outs                    [txBatch]transport.Out // the packet in each; its Payload may be the frame's Gather
	submitted, used, leased int
	// kick: something was submitted and not yet flushed.
	kick bool
	// arena has room for a whole packet for each frame, for gather links whose own buffers are short.
	arena []byte
}

// leftover says why a queue pair's turn ended.
type leftover uint8

const (
	allSent leftover = iota
	hasMore          // its quantum is used up
	noRoom           // the link has no buffer
)

// transmit sends what q has, within its quantum.
//
// A frame's Gather list is good until q is called again with anything that may free or
// change what it sends; no call but PollTransmit comes between here and flush.
func (l *Loop) transmit(now clock.Time, q *QP) leftover {
	for range quantum {
		i, ok := l.slot()
		if !ok {
			return noRoom
		}
		out := &l.tx.outs[i]
		if !q.tr.PollTransmit(now, out) {
			if q.tr.State() == transport.StateErr {
				// It found local memory missing, and flushes.
				l.deliver(q)
			}
			return allSent
		}
		l.fill(q, &l.tx.frames[i], out, i)
		l.tx.used++
		l.moved++
	}
	return hasMore
}

// slot returns the index of an empty leased frame, submitting the batch to get one if need be.
func (l *Loop) slot() (int, bool) {
	t := &l.tx
	if t.used == t.leased {
		l.submit()
		t.submitted, t.used = 0, 0
		t.leased = l.queue.Alloc(t.frames[:])
	}
	return t.used, t.used < t.leased
}

// submit gives the filled frames to the link. What they acknowledge has been delivered: publish first.
func (l *Loop) submit() {
	t := &l.tx
	if t.submitted < t.used {
		l.queue.Submit(t.frames[t.submitted:t.used])
		for i := t.submitted; i < t.used; i++ {
			clear(t.outs[i].Payload) // keeps no memory alive
		}
		t.submitted = t.used
		t.kick = true
	}
}

// flush submits what is filled and gives the turn's one kick. Empty frames stay leased
// for the next turn.
func (l *Loop) flush() {
	t := &l.tx
	l.submit()
	if t.kick {
		t.kick = false
		// What cannot be sent the link counts.
		_ = l.queue.Flush()
	}
}

// fill makes the frame of a packet. Here consecutive packets of one queue pair and one size
// will go into one super-frame, on links that take them.
func (l *Loop) fill(q *QP, f *link.Frame, out *transport.Out, slot int) {
	t := &l.tx
	info, _ := out.Opcode.Info()
	head := q.encap.Len() + info.HeaderLen
	ibLen := info.HeaderLen + out.Length + int(out.Pad) + bth.ICRCLen
	whole := q.encap.Len() + ibLen

	out.AppendTo(f.Data[:q.encap.Put(f.Data, ibLen, 0)])
	f.Segment, f.Note, f.Gather = 0, "", nil
	if out.Retransmit {
		f.Note = noteRetransmission
	}
	switch {
	case !t.gather || whole <= len(f.Data) && (out.Copy || whole <= copyBelow):
		f.Data = f.Data[:whole]
		t.fillWhole(f.Data, q.encap.L3(), head, out)
	case out.Copy:
		f.Data, f.Gather = t.fillCopied(f.Data, q.encap.L3(), head, out, slot)
	default:
		f.Data, f.Gather = t.fillGathered(f.Data, q.encap.L3(), head, out)
	}
}

const (
	// noteRetransmission marks frames that were sent before, for a tap.
	noteRetransmission = "retransmission"
	// copyBelow is the length of a frame up to which a copy is cheaper than a gather list.
	copyBelow = 512
)

// fillWhole puts payload, pad and ICRC into the frame itself, b, behind its head.
func (t *transmitter) fillWhole(b []byte, l3, head int, out *transport.Out) {
	n := copyPayload(b[head:], out.Payload)
	end := len(b) - bth.ICRCLen
	clear(b[head+n : end])
	bth.PutICRC(b[end:], t.icrc.Start(b[l3:end]))
}

// fillCopied is fillWhole for a frame whose buffer is too short: all behind the head goes to
// the arena.
func (t *transmitter) fillCopied(data []byte, l3, head int, out *transport.Out, slot int) ([]byte, [][]byte) {
	end := out.Length + int(out.Pad)
	b := t.room(slot)[:end+bth.ICRCLen]
	n := copyPayload(b, out.Payload)
	clear(b[n:end])
	bth.PutICRC(b[end:], bth.UpdateICRC(t.icrc.Start(data[l3:head]), b[:end]))
	out.Payload = append(out.Payload[:0], b)
	return data[:head], out.Payload
}

// fillGathered leaves the payload where it is. Pad and ICRC follow the head in the
// frame's buffer, which has room for them, but not in its Data.
func (t *transmitter) fillGathered(data []byte, l3, head int, out *transport.Out) ([]byte, [][]byte) {
	crc := t.icrc.Start(data[l3:head])
	for _, b := range out.Payload {
		crc = bth.UpdateICRC(crc, b)
	}
	pad := int(out.Pad)
	tail := data[head : head+pad+bth.ICRCLen]
	clear(tail[:pad])
	bth.PutICRC(tail[pad:], bth.UpdateICRC(crc, tail[:pad]))
	out.Payload = append(out.Payload, tail)
	return data[:head], out.Payload
}

// room returns a buffer of the arena for the payload of a slot's frame.
func (t *transmitter) room(slot int) []byte {
	const size = bth.MaxPathMTU + bth.ICRCLen
	if t.arena == nil {
		t.arena = make([]byte, txBatch*size)
	}
	return t.arena[slot*size : (slot+1)*size]
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

package perftest

import (
	"errors"
	"time"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/cmd/rocectl/internal/measure"
)

// sender is the send queue of one queue pair in a bandwidth test.
type sender struct {
	qp               *roce.QP
	wrs              [batch]roce.SendWR
	sges             [batch][1]roce.SGE
	posted, finished uint64
	unsignaled       uint32 // messages posted since the last that asked for a completion
	offset           int    // of the next message in the peer's buffer
}

// bandwidth posts as much as fits into the send queues, until all is sent, received or the time is up.
func (t *traffic) bandwidth(r *measure.Result) error {
	p := &t.Params
	w := window{duration: p.Duration, peakOver: uint64(p.TxDepth)}
	total := p.Iterations * uint64(p.QPs)
	moved := &t.received
	var senders []sender
	if t.sends() {
		moved = &t.finished
		senders = make([]sender, p.QPs)
		for i := range senders {
			t.prepare(&senders[i], i)
		}
		t.onSent = func(i int, messages uint32) { senders[i].finished += uint64(messages) }
	}
	w.begin()
	defer t.limit(p.Duration)()
	for {
		for i := range senders {
			if err := t.fill(&senders[i], i); err != nil {
				return err
			}
		}
		n, err := t.reap()
		if err != nil {
			return err
		}
		for i := range t.recvs {
			if err := t.repost(i); err != nil {
				return err
			}
		}
		now, over := w.tick(*moved)
		if p.Duration != 0 {
			t.done.Store(uint64(now.Milliseconds()))
		} else {
			t.done.Store(*moved)
			over = (!t.sends() || t.finished == total) && (!t.receives() || t.received == total)
		}
		if over {
			w.result(r, t.size)
			return t.linger()
		}
		if n == 0 {
			if err := t.idle(); err != nil && !errors.Is(err, errTimeIsUp) {
				return err
			}
		}
	}
}

// linger goes on receiving at the server of a SEND test whose time is up, until the client says that its own is up
// too: what it sends until then would find no receive.
func (t *traffic) linger() error {
	if t.Params.Duration == 0 || !t.receives() || t.Exchange.client {
		return nil
	}
	for !t.Exchange.conn.Waiting() {
		if _, err := t.reap(); err != nil {
			return err
		}
		for i := range t.recvs {
			if err := t.repost(i); err != nil {
				return err
			}
		}
		if t.whole.Err() != nil {
			return t.ended(t.whole.Err())
		}
		time.Sleep(nap)
	}
	return nil
}

// prepare makes the work requests of queue pair i.
func (t *traffic) prepare(s *sender, i int) {
	p, peer := &t.Params, &t.theirs[i]
	s.qp = t.qps[i]
	for j := range s.wrs {
		s.sges[j][0] = t.mr.SGE(t.local(i), t.size)
		s.wrs[j] = t.request(peer)
		s.wrs[j].SGL = s.sges[j][:]
		if p.Test.Verb <= Write && t.size <= p.Inline {
			s.wrs[j].SGL, s.wrs[j].Inline = nil, t.mr.Bytes()[t.local(i):][:t.size]
			s.wrs[j].Flags |= roce.Inline
		}
	}
}

// request is the work request of the test, without what it sends.
func (t *traffic) request(peer *Key) roce.SendWR {
	wr := roce.SendWR{RemoteAddr: peer.VAddr, RKey: roce.Key(peer.RKey)}
	switch t.Params.Test.Verb {
	case Send:
		wr.Opcode = roce.WRSend
	case Write:
		wr.Opcode = roce.WRWrite
	case Read:
		wr.Opcode = roce.WRRead
	case Atomic:
		// perftest adds 1, or replaces 1 by 0.
		wr.Opcode, wr.CompareAdd = roce.WRFetchAdd, 1
		if t.Params.CompareSwap {
			wr.Opcode = roce.WRCompareSwap
		}
	}
	return wr
}

// fill posts what the send queue of queue pair i has room for.
func (t *traffic) fill(s *sender, i int) error {
	p := &t.Params
	for {
		n := min(uint64(p.TxDepth)-(s.posted-s.finished), batch)
		if p.Duration == 0 {
			n = min(n, p.Iterations-s.posted)
		}
		if n == 0 {
			return nil
		}
		moderation := uint32(p.moderation(t.size))
		for j := range s.wrs[:n] {
			wr := &s.wrs[j]
			wr.RemoteAddr = t.theirs[i].VAddr + uint64(s.offset)
			s.offset = t.next(s.offset)
			s.unsignaled++
			last := p.Duration == 0 && s.posted+uint64(j)+1 == p.Iterations
			wr.Flags &^= roce.Signaled
			if s.unsignaled >= moderation || last {
				wr.Flags |= roce.Signaled
				wr.ID = sendID(i, s.unsignaled)
				s.unsignaled = 0
			}
		}
		took, err := s.qp.PostSend(s.wrs[:n]...)
		s.posted += uint64(took)
		if err != nil {
			return err
		}
	}
}

// next is where in the peer's buffer the message after the one at offset goes: small ones cycle through it by cache
// lines, large ones all go to its beginning.
func (t *traffic) next(offset int) int {
	if t.size > t.agreed.cycleBuffer/2 {
		return 0
	}
	step := (t.size + t.agreed.cacheLine - 1) / t.agreed.cacheLine * t.agreed.cacheLine
	if offset += step; offset+step > t.agreed.cycleBuffer {
		return 0
	}
	return offset
}

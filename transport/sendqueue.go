package transport

import (
	"sync/atomic"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/memreg"
)

// sendWQE is a posted send work request and how far it has come.
type sendWQE struct {
	id               uint64
	remoteAddr       uint64
	compareAdd, swap uint64
	length           uint32 // of the message, in bytes
	rkey             memreg.Key
	imm              uint32 // or the key to invalidate
	ssn              uint32 // send sequence number, counted against credits
	first            bth.PSN
	npkts            uint32 // PSNs the message takes
	done             uint32 // answer packets received, always from the front
	op               WROpcode
	flags            SendFlags
	nsge             uint8
	started          bool
	inParts          bool // READ: part of it was asked for again
	status           Status
}

// answered reports whether the request completes by a response of its own
// rather than by an acknowledgement.
func (w *sendWQE) answered() bool {
	return w.op == WRRead || w.op == WRCompareSwap || w.op == WRFetchAdd
}

// end returns the PSN after the message's last.
func (w *sendWQE) end() bth.PSN { return w.first.Add(w.npkts) }

// sendQueue is the ring of posted send work requests. One goroutine at a time
// may post while another drives the queue pair: tail is written by the former
// and head by the latter, and a slot between them belongs to the latter.
type sendQueue struct {
	head, tail atomic.Uint32
	depth      uint32
	mask       uint32
	sgePerWQE  uint32
	inlineMax  uint32
	wqes       []sendWQE // the rest is made at the first post
	sges       []SGE
	data       []byte
}

func (s *sendQueue) init(depth, sge, inline int) {
	s.depth = uint32(depth)
	s.mask = ringMask(depth)
	s.sgePerWQE = uint32(max(sge, 1))
	s.inlineMax = uint32(inline)
}

// ringMask returns the index mask of a ring with room for n.
func ringMask(n int) uint32 {
	size := uint32(1)
	for size < uint32(n) {
		size <<= 1
	}
	return size - 1
}

func (s *sendQueue) at(i uint32) *sendWQE { return &s.wqes[i&s.mask] }

func (s *sendQueue) sgl(i uint32) []SGE {
	at := (i & s.mask) * s.sgePerWQE
	return s.sges[at : at+uint32(s.at(i).nsge)]
}

func (s *sendQueue) inline(i uint32) []byte {
	at := (i & s.mask) * s.inlineMax
	return s.data[at : at+s.at(i).length]
}

// post copies wr into the next slot and publishes it. The caller has checked
// the request and that there is room.
func (s *sendQueue) post(wr *SendWR, length uint32, flags SendFlags) {
	if s.wqes == nil {
		n := s.mask + 1
		s.wqes = make([]sendWQE, n)
		s.sges = make([]SGE, n*s.sgePerWQE)
		s.data = make([]byte, n*s.inlineMax)
	}
	i := s.tail.Load()
	w := s.at(i)
	*w = sendWQE{
		id:         wr.ID,
		remoteAddr: wr.RemoteAddr,
		compareAdd: wr.CompareAdd,
		swap:       wr.Swap,
		length:     length,
		rkey:       wr.RKey,
		imm:        wr.Imm,
		op:         wr.Opcode,
		flags:      flags,
		nsge:       uint8(len(wr.SGL)),
	}
	if wr.Opcode == WRSendInv {
		w.imm = uint32(wr.InvKey)
	}
	copy(s.sgl(i), wr.SGL)
	if flags&Inline != 0 {
		copy(s.inline(i), wr.Inline)
	}
	s.tail.Store(i + 1)
}

func (s *sendQueue) full() bool { return s.tail.Load()-s.head.Load() >= s.depth }

// PostSend queues wr. Besides the goroutine that drives the queue pair one other
// at a time may call it; it does not touch anything else of the queue pair, so
// the driver must be told to look. The error is ErrQueueFull or a *PostError.
func (q *QP) PostSend(wr *SendWR) error {
	length, reason := q.checkSend(wr)
	if reason != "" {
		return &PostError{QPN: q.cfg.QPN, Queue: "send", Reason: reason}
	}
	if q.sq.full() {
		return ErrQueueFull
	}
	flags := wr.Flags
	if q.cfg.SignalAll {
		flags |= Signaled
	}
	q.sq.post(wr, length, flags)
	return nil
}

// checkSend returns the message length, or why wr cannot be sent on this queue pair.
func (q *QP) checkSend(wr *SendWR) (length uint32, reason string) {
	switch q.State() {
	case StateReset, StateInit, StateRTR:
		return 0, "it is in state " + q.State().String() + ", sending needs RTS: connect it first"
	}
	if q.sq.depth == 0 {
		return 0, "it was made without a send queue"
	}
	atomic := false
	switch wr.Opcode {
	case WRSend, WRSendImm, WRSendInv, WRWrite, WRWriteImm:
	case WRRead, WRCompareSwap, WRFetchAdd:
		if q.attr.MaxRdAtomic == 0 {
			return 0, "its MAX_QP_RD_ATOMIC is 0, so a READ or atomic could never be sent"
		}
		if wr.Flags&Inline != 0 {
			return 0, "a READ or atomic has no data to send inline"
		}
		atomic = wr.Opcode != WRRead
	default:
		return 0, "an RC queue pair does not know this opcode"
	}
	if wr.Flags&Inline != 0 {
		switch {
		case len(wr.SGL) > 0:
			return 0, "inline data and a gather list exclude each other"
		case len(wr.Inline) > int(q.sq.inlineMax):
			return 0, "its inline data is longer than the queue pair's MaxInline"
		}
		return uint32(len(wr.Inline)), ""
	}
	if len(wr.SGL) > int(q.sq.sgePerWQE) {
		return 0, "its gather list has more elements than the queue pair's SendSGE"
	}
	total := sglLength(wr.SGL)
	switch {
	case total > MaxMessage:
		return 0, "a message is at most 2 GiB long"
	case atomic && total != 8:
		return 0, "an atomic needs exactly 8 bytes for the original value"
	}
	return uint32(total), ""
}

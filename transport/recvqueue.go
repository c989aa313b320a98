package transport

import "sync/atomic"

// recvWQE is a posted receive and, once used, what came in.
type recvWQE struct {
	id      uint64
	length  uint32 // room in the scatter list, saturating
	byteLen uint32
	imm     uint32 // or the invalidated key
	op      WCOpcode
	flags   WCFlags
	nsge    uint8
	se      bool
	status  Status
}

// recvQueue is the ring of posted receives, shared like sendQueue. Slots from
// head to cur are used and wait to be polled.
type recvQueue struct {
	head, tail atomic.Uint32
	cur        uint32
	depth      uint32
	mask       uint32
	sgePerWQE  uint32
	wqes       []recvWQE
	sges       []SGE
}

func (r *recvQueue) init(depth, sge int) {
	r.depth = uint32(depth)
	r.mask = ringMask(depth)
	r.sgePerWQE = uint32(max(sge, 1))
}

func (r *recvQueue) at(i uint32) *recvWQE { return &r.wqes[i&r.mask] }

func (r *recvQueue) sgl(i uint32) []SGE {
	at := (i & r.mask) * r.sgePerWQE
	return r.sges[at : at+uint32(r.at(i).nsge)]
}

// available returns how many posted receives nothing has arrived for.
func (r *recvQueue) available() int { return int(r.tail.Load() - r.cur) }

func (r *recvQueue) post(wr *RecvWR, length uint64) {
	if r.wqes == nil {
		n := r.mask + 1
		r.wqes = make([]recvWQE, n)
		r.sges = make([]SGE, n*r.sgePerWQE)
	}
	i := r.tail.Load()
	*r.at(i) = recvWQE{
		id:     wr.ID,
		length: uint32(min(length, MaxMessage)),
		nsge:   uint8(len(wr.SGL)),
	}
	copy(r.sgl(i), wr.SGL)
	r.tail.Store(i + 1)
}

// PostRecv queues wr, under the same rule as PostSend. It is allowed from INIT
// on; in ERR the request completes with WR_FLUSH_ERR.
func (q *QP) PostRecv(wr *RecvWR) error {
	refuse := func(reason string) error {
		return &PostError{QPN: q.cfg.QPN, Queue: "receive", Reason: reason}
	}
	switch {
	case q.State() == StateReset:
		return refuse("it is in state RESET, receiving needs INIT: connect it first")
	case q.rq.depth == 0:
		return refuse("it was made without a receive queue")
	case len(wr.SGL) > int(q.rq.sgePerWQE):
		return refuse("its scatter list has more elements than the queue pair's RecvSGE")
	}
	if q.rq.tail.Load()-q.rq.head.Load() >= q.rq.depth {
		return ErrQueueFull
	}
	q.rq.post(wr, sglLength(wr.SGL))
	return nil
}

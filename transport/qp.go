package transport

import (
	"fmt"
	"math/bits"
	"sync/atomic"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
)

// QP is a queue pair as a value: it does nothing by itself and reads no clock.
// A driver calls it and does what it says.
//
// Mutators change it: PostSend, PostRecv, Modify, HandlePacket, HandleTimeout.
// Polls take out what it wants done: PollCompletion, PollTransmit, PollEvent,
// NextTimeout.
//
// After any mutator, before anyone sleeps, drain the polls — completions first,
// so that what is acknowledged has been delivered — then read NextTimeout.
// PollTransmit can end the queue pair, when memory it needs is registered no more;
// completions are there to be drained then.
//
// One goroutine at a time drives a QP. PostSend and PostRecv may be called by
// one other goroutine each meanwhile, but not beside Modify.
type QP struct {
	cfg   Config
	state atomic.Uint32 // State; posting goroutines read it
	attr  Attr

	sq   sendQueue
	rq   recvQueue
	req  requester
	resp responder

	events uint32 // bit n: Event n is pending
	// burst counts packets sent in a row for one role, so that neither the
	// responses nor the requests of a busy queue pair starve the other.
	burst     uint8
	answering bool
	ctr       Counters
}

// New makes a queue pair in RESET.
func New(cfg Config) (*QP, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	q := &QP{cfg: cfg}
	q.sq.init(cfg.SendDepth, cfg.SendSGE, cfg.MaxInline)
	q.rq.init(cfg.RecvDepth, cfg.RecvSGE)
	q.req.reset(&q.cfg)
	q.resp.nakAt = clock.Never
	return q, nil
}

// QPN returns the queue pair's number.
func (q *QP) QPN() bth.QPN { return q.cfg.QPN }

// State returns the present state. Any goroutine may ask.
func (q *QP) State() State { return State(q.state.Load()) }

// Query fills a with the present attributes; its Mask is not meaningful.
func (q *QP) Query(a *Attr) {
	*a = q.attr
	a.Mask = 0
	a.State = q.State()
	a.CurState = a.State
}

// Counters returns the queue pair's counters, which live as long as it does.
// Only the driving goroutine may read them.
func (q *QP) Counters() *Counters { return &q.ctr }

// String tells number, state and peer.
func (q *QP) String() string {
	s := fmt.Sprintf("QP 0x%06x (%v)", uint32(q.cfg.QPN), q.State())
	if q.attr.AV.Dst.IsValid() {
		s += fmt.Sprintf(" to %v QP 0x%06x", q.attr.AV.Dst, uint32(q.attr.DestQPN))
	}
	return s
}

// HandlePacket takes a packet addressed to the queue pair, ICRC and P_Key
// checked. It does not keep p or its payload. It returns why the packet was
// dropped, for counting, or DropNone; it never fails, for whatever a peer sends.
func (q *QP) HandlePacket(now clock.Time, p *bth.Packet) bth.Drop {
	switch q.State() {
	case StateReset, StateInit, StateErr:
		return bth.DropQPState
	}
	if p.Src != q.attr.AV.Dst {
		return bth.DropSource
	}
	if p.Dst != q.attr.AV.Src {
		return bth.DropNotOurs
	}
	if p.Flags.Any(bth.Congestion) {
		q.ctr.CNPsReceived++
		q.req.window.notified()
		return bth.DropNone
	}
	if p.Opcode.Service() != bth.RC {
		return bth.DropQPType
	}
	q.ctr.RxPackets++
	q.ctr.RxBytes += uint64(len(p.Payload))
	if p.ECN == bth.CongestionExperienced {
		q.ctr.ECNMarked++
	}
	if p.Flags.Any(bth.Response) {
		return q.handleResponse(now, p)
	}
	return q.handleRequest(now, p)
}

// burstLimit is how many packets one role may send in a row while the other waits.
const burstLimit = 16

// PollTransmit fills out with the next packet to send and reports whether there
// was one. The packet counts as sent: ask only with room to send it.
func (q *QP) PollTransmit(now clock.Time, out *Out) bool {
	if q.burst >= burstLimit {
		q.answering, q.burst = !q.answering, 0
	}
	for range 2 {
		if q.answering && q.nextResponse(out) || !q.answering && q.nextRequest(now, out) {
			q.burst++
			q.ctr.TxPackets++
			q.ctr.TxBytes += uint64(out.Length)
			return true
		}
		q.answering, q.burst = !q.answering, 0
	}
	q.answering = true
	return false
}

// PollEvent returns the next asynchronous event, or EventNone.
func (q *QP) PollEvent() Event {
	if q.events == 0 {
		return EventNone
	}
	e := Event(bits.TrailingZeros32(q.events))
	q.events &^= 1 << e
	return e
}

func (q *QP) raise(e Event) { q.events |= 1 << e }

package transport

import (
	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/memreg"
)

// responder executes the peer's requests (IBA 9.7).
type responder struct {
	epsn bth.PSN // PSN expected next
	msn  uint32  // messages completed, 24 bits
	// quiet: a NAK for epsn is out. Until epsn arrives, what is ahead of it is
	// dropped without another (IBA 9.7.5.1.1).
	quiet bool
	// afterRNR: that NAK was an RNR NAK.
	afterRNR bool
	// heard: COMM_EST was raised.
	heard bool

	in     message // what the packets since the last First belong to
	offset uint32  // bytes of it that arrived
	reth   bth.RETH

	replay  replayStore
	answers answerQueue

	held    holdQueue // requests from behind a gap
	reports gapReports
	nakAt   clock.Time // when the reorder window of the gap ends
}

// message is the kind of message a responder is in the middle of.
type message uint8

const (
	between message = iota
	inSend
	inWrite
)

// verdict is what executing a request packet came to.
type verdict uint8

const (
	executed verdict = iota
	notReady         // no receive posted: RNR NAK, nothing changed
	invalidRequest
	accessError
	operationError
)

func (q *QP) startResponder() {
	a := &q.attr
	q.resp = responder{epsn: a.RQPSN, nakAt: clock.Never}
	q.resp.resize(a.MaxDestRdAtomic)
}

// resize lets the peer have n READs and atomics outstanding, rounded up to a power of
// two as rdma_rxe rounds the depth its requester uses.
func (r *responder) resize(n uint8) {
	depth := 0
	if n > 0 {
		depth = int(ringMask(int(n))) + 1
	}
	r.replay.resize(depth)
	r.answers.resize(depth)
}

// handleRequest takes a request packet.
func (q *QP) handleRequest(now clock.Time, p *bth.Packet) bth.Drop {
	r := &q.resp
	if q.State() == StateRTR && !r.heard {
		r.heard = true
		q.raise(EventCommEst)
	}
	switch ahead := p.PSN.Diff(r.epsn); {
	case ahead > 0:
		return q.handleAhead(now, p)
	case ahead < 0:
		q.ctr.DuplicateRequests++
		return q.handleDuplicate(p)
	}
	// The NAK for this PSN, if it has not left yet, has lost its meaning.
	r.answers.dropNAK()
	switch {
	case q.accept(p):
		if len(r.held.list) > 0 {
			q.takeHeld(now)
		} else {
			r.nakAt = clock.Never
		}
	case r.afterRNR:
		return bth.DropRNR
	}
	return bth.DropNone
}

// accept executes the request that is expected next and queues the answer. It reports
// whether it was executed.
func (q *QP) accept(p *bth.Packet) bool {
	r := &q.resp
	switch q.execute(p) {
	case executed:
		r.quiet, r.afterRNR = false, false
		if p.AckReq && !p.Flags.Any(bth.Read|bth.Atomic) {
			r.answers.ack(p.PSN)
		}
		return true
	case notReady:
		r.quiet, r.afterRNR = true, true
		r.nakAt = clock.Never
		q.ctr.RNRNAKsSent++
		r.answers.add(answer{kind: answerNAK, psn: p.PSN, npkts: 1, syndrome: bth.RNRNAK(q.attr.MinRNRTimer)})
	case invalidRequest:
		if w := q.receiveInUse(); w != nil && w.status == StatusSuccess {
			w.status = StatusRemInvReqErr
		}
		q.refuse(bth.NAKInvalidRequest, p.PSN, EventQPReqErr)
	case accessError:
		q.refuse(bth.NAKRemoteAccess, p.PSN, EventAccessErr)
	case operationError:
		q.refuse(bth.NAKRemoteOperation, p.PSN, EventQPFatal)
	}
	return false
}

// nak queues a NAK.
func (q *QP) nak(s bth.Syndrome, psn bth.PSN) {
	q.ctr.NAKsSent++
	q.resp.answers.add(answer{kind: answerNAK, psn: psn, npkts: 1, syndrome: s})
}

// refuse NAKs a request for good: the queue pair goes to ERR and still sends
// what it owes, the NAK last.
func (q *QP) refuse(s bth.Syndrome, psn bth.PSN, e Event) {
	q.resp.answers.cutFrom(psn)
	q.nak(s, psn)
	q.raise(e)
	owed := q.resp.answers
	q.toError()
	q.resp.answers = owed
}

// execute carries out the packet that was expected next, and moves on behind it.
// The order of checks is IBA's (9.7.4.1): sequence, permission, length,
// resources, key, then the operation.
func (q *QP) execute(p *bth.Packet) verdict {
	r := &q.resp
	f := p.Flags
	kind := between
	switch {
	case f.Any(bth.Send):
		kind = inSend
	case f.Any(bth.Write):
		kind = inWrite
	}
	if starts := f.Any(bth.Starts); starts != (r.in == between) || !starts && kind != r.in {
		return invalidRequest
	}
	switch {
	case kind == inSend:
		return q.executeSend(p)
	case kind == inWrite:
		return q.executeWrite(p)
	case f.Any(bth.Read):
		return q.executeRead(p)
	case f.Any(bth.Atomic):
		return q.executeAtomic(p)
	}
	return invalidRequest // FLUSH, ATOMIC WRITE
}

// lengthFits checks the payload against the packet's place in its message.
func (q *QP) lengthFits(p *bth.Packet) bool {
	n, mtu := len(p.Payload), q.attr.PathMTU
	switch {
	case p.Flags.Any(bth.First | bth.Middle):
		return n == mtu
	case p.Flags.Any(bth.Last):
		return n >= 1 && n <= mtu
	}
	return n <= mtu
}

// advance moves on behind a SEND or WRITE packet.
func (q *QP) advance(p *bth.Packet, kind message) {
	r := &q.resp
	r.epsn = p.PSN.Next()
	if p.Flags.Any(bth.Ends) {
		r.in, r.offset = between, 0
		q.countMessage()
		return
	}
	r.in = kind
	r.offset += uint32(len(p.Payload))
}

func (q *QP) countMessage() { q.resp.msn = (q.resp.msn + 1) & 0xFFFFFF }

func (q *QP) executeSend(p *bth.Packet) verdict {
	r := &q.resp
	if !q.lengthFits(p) || uint64(r.offset)+uint64(len(p.Payload)) > MaxMessage {
		return invalidRequest
	}
	if q.rq.available() == 0 {
		return notReady // only a First or Only can find none
	}
	w := q.rq.at(q.rq.cur)
	if uint64(r.offset)+uint64(len(p.Payload)) > uint64(w.length) {
		return q.failReceive(StatusLocLenErr, invalidRequest)
	}
	if q.scatter(q.rq.sgl(q.rq.cur), r.offset, p.Payload) != memreg.FaultNone {
		return q.failReceive(StatusLocProtErr, operationError)
	}
	if p.Flags.Any(bth.Ends) {
		if p.Flags.Any(bth.Inv) {
			if q.cfg.Table.Invalidate(memreg.Key(p.Inv), q.cfg.PD) != memreg.FaultNone {
				return q.failReceive(StatusRemInvReqErr, accessError)
			}
		}
		q.completeReceive(p, WCRecv, r.offset+uint32(len(p.Payload)))
	}
	q.advance(p, inSend)
	return executed
}

// failReceive gives the receive in use the status it ends with.
func (q *QP) failReceive(s Status, v verdict) verdict {
	q.rq.at(q.rq.cur).status = s
	return v
}

// receiveInUse returns the receive that a SEND has begun to fill, or nil.
func (q *QP) receiveInUse() *recvWQE {
	if q.resp.in != inSend {
		return nil
	}
	return q.rq.at(q.rq.cur)
}

// completeReceive takes the receive in use as filled with n bytes.
func (q *QP) completeReceive(p *bth.Packet, op WCOpcode, n uint32) {
	w := q.rq.at(q.rq.cur)
	w.op = op
	w.byteLen = n
	w.se = p.SE
	switch {
	case p.Flags.Any(bth.Imm):
		w.flags |= WCWithImm
		w.imm = p.Imm
	case p.Flags.Any(bth.Inv):
		w.flags |= WCWithInv
		w.imm = p.Inv
	}
	q.rq.cur++
}

func (q *QP) executeWrite(p *bth.Packet) verdict {
	r := &q.resp
	if q.attr.Access&memreg.RemoteWrite == 0 {
		return invalidRequest
	}
	reth := r.reth
	if p.Flags.Any(bth.HasRETH) {
		reth = p.RETH
	}
	if !q.lengthFits(p) || reth.Length > MaxMessage {
		return invalidRequest
	}
	after := uint64(r.offset) + uint64(len(p.Payload))
	if ends := p.Flags.Any(bth.Ends); ends && after != uint64(reth.Length) || !ends && after >= uint64(reth.Length) {
		return invalidRequest
	}
	if p.Flags.Any(bth.Imm) && q.rq.available() == 0 {
		return notReady
	}
	t := q.cfg.Table
	if p.Flags.Any(bth.HasRETH) {
		// The whole range at once, so that a message that must fail leaves memory untouched.
		if _, fault := t.Slice(memreg.Key(reth.RKey), q.cfg.PD, memreg.RemoteWrite, reth.VA, uint64(reth.Length)); fault != memreg.FaultNone {
			return accessError
		}
	}
	dst, fault := t.Slice(memreg.Key(reth.RKey), q.cfg.PD, memreg.RemoteWrite, reth.VA+uint64(r.offset), uint64(len(p.Payload)))
	if fault != memreg.FaultNone {
		return accessError
	}
	memreg.Copy(dst, p.Payload)
	r.reth = reth
	if p.Flags.Any(bth.Imm) {
		q.completeReceive(p, WCRecvImm, reth.Length)
	}
	q.advance(p, inWrite)
	return executed
}

// executeRead accepts a READ request. A peer with more READs and atomics outstanding
// than MAX_DEST_RD_ATOMIC is refused (IBA 9.7.4.1.5).
func (q *QP) executeRead(p *bth.Packet) verdict {
	r := &q.resp
	if q.attr.Access&memreg.RemoteRead == 0 || p.RETH.Length > MaxMessage || r.answers.full() {
		return invalidRequest
	}
	if _, fault := q.cfg.Table.Slice(memreg.Key(p.RETH.RKey), q.cfg.PD, memreg.RemoteRead, p.RETH.VA, uint64(p.RETH.Length)); fault != memreg.FaultNone {
		return accessError
	}
	n := q.packets(p.RETH.Length)
	r.replay.remember(resource{kind: resourceRead, psn: p.PSN, npkts: n, reth: p.RETH})
	r.answers.add(answer{kind: answerRead, psn: p.PSN, npkts: n, reth: p.RETH})
	r.epsn = p.PSN.Add(n)
	q.countMessage()
	return executed
}

func (q *QP) executeAtomic(p *bth.Packet) verdict {
	r := &q.resp
	if q.attr.Access&memreg.RemoteAtomic == 0 || r.answers.full() {
		return invalidRequest
	}
	e := &p.AtomicETH
	var original uint64
	var fault memreg.Fault
	if p.Opcode == bth.RCCompareSwap {
		original, fault = q.cfg.Table.CompareSwap(memreg.Key(e.RKey), q.cfg.PD, e.VA, e.Compare, e.SwapAdd)
	} else {
		original, fault = q.cfg.Table.FetchAdd(memreg.Key(e.RKey), q.cfg.PD, e.VA, e.SwapAdd)
	}
	switch fault {
	case memreg.FaultNone:
	case memreg.FaultAlign:
		return invalidRequest
	default:
		return accessError
	}
	r.replay.remember(resource{kind: resourceAtomic, psn: p.PSN, npkts: 1, original: original})
	r.answers.add(answer{kind: answerAtomic, psn: p.PSN, npkts: 1, original: original})
	r.epsn = p.PSN.Next()
	q.countMessage()
	return executed
}

// handleDuplicate answers a request that was executed before (IBA 9.7.5.1.2).
func (q *QP) handleDuplicate(p *bth.Packet) bth.Drop {
	r := &q.resp
	switch {
	case p.Flags.Any(bth.Read):
		return q.repeatRead(p)
	case p.Flags.Any(bth.Atomic):
		e := r.replay.find(p.PSN)
		if e == nil || e.kind != resourceAtomic {
			return bth.DropForgotten
		}
		if !r.answers.again(answer{kind: answerAtomic, psn: p.PSN, npkts: 1, original: e.original}) {
			return bth.DropForgotten
		}
		return bth.DropNone
	case p.Flags.Any(bth.Send | bth.Write):
		// Acknowledge up to now, but not across a READ or atomic behind it: its own
		// response must come first, or the peer takes it for lost.
		last := r.epsn.Prev()
		if next, ok := r.replay.firstAfter(p.PSN, r.epsn); ok {
			last = next.Prev()
		}
		r.answers.ack(last)
		return bth.DropNone
	}
	return bth.DropForgotten
}

// repeatRead executes a READ again, for all or part of what it asked for the first time.
func (q *QP) repeatRead(p *bth.Packet) bth.Drop {
	e := q.resp.replay.find(p.PSN)
	if e == nil || e.kind != resourceRead {
		return bth.DropForgotten
	}
	n := q.packets(p.RETH.Length)
	if dist(e.psn, p.PSN)+n > e.npkts || !covers(&e.reth, &p.RETH) {
		return bth.DropForgotten
	}
	if _, fault := q.cfg.Table.Slice(memreg.Key(p.RETH.RKey), q.cfg.PD, memreg.RemoteRead, p.RETH.VA, uint64(p.RETH.Length)); fault != memreg.FaultNone {
		q.refuse(bth.NAKRemoteAccess, p.PSN, EventAccessErr)
		return bth.DropNone
	}
	if !q.resp.answers.again(answer{kind: answerRead, psn: p.PSN, npkts: n, reth: p.RETH}) {
		return bth.DropForgotten
	}
	return bth.DropNone
}

// covers reports whether all that part asks for is in what whole asked for. Of a part
// of length 0 neither key nor address counts.
func covers(whole, part *bth.RETH) bool {
	if part.Length == 0 {
		return true
	}
	off := part.VA - whole.VA // huge when part begins before whole
	return part.RKey == whole.RKey && off <= uint64(whole.Length) && uint64(part.Length) <= uint64(whole.Length)-off
}

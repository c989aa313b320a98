package transport

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/memreg"
)

// transition is a row of the table of legal state changes: the attributes that
// must and may be given (IBA 11.2.5.2, as ib_modify_qp_is_ok of Linux has it).
type transition struct {
	required, optional AttrMask
}

const attrRetry = AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrMaxRdAtomic

// transitionsRC lists the legal changes of an RC queue pair. Those to RESET and
// ERR are legal from everywhere and take no attribute.
var transitionsRC = map[[2]State]transition{
	{StateReset, StateInit}: {required: AttrPKeyIndex | AttrPort | AttrAccess},
	{StateInit, StateInit}:  {optional: AttrPKeyIndex | AttrPort | AttrAccess},
	{StateInit, StateRTR}: {
		required: AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN | AttrMaxDestRdAtomic | AttrMinRNRTimer,
		optional: AttrAltPath | AttrAccess | AttrPKeyIndex,
	},
	{StateRTR, StateRTS}: {
		required: attrRetry | AttrSQPSN,
		optional: AttrCurState | AttrAltPath | AttrAccess | AttrMinRNRTimer | AttrPathMigState,
	},
	{StateRTS, StateRTS}: {optional: AttrCurState | AttrAccess | AttrAltPath | AttrPathMigState | AttrMinRNRTimer},
	{StateRTS, StateSQD}: {optional: AttrEnSQDNotify},
	{StateSQD, StateRTS}: {optional: AttrCurState | AttrAltPath | AttrAccess | AttrMinRNRTimer | AttrPathMigState},
	{StateSQD, StateSQD}: {
		optional: AttrPort | AttrAV | attrRetry | AttrMaxDestRdAtomic | AttrAltPath | AttrAccess | AttrPKeyIndex |
			AttrMinRNRTimer | AttrPathMigState,
	},
}

// unsupported are attributes that are legal in places but that this endpoint does not have.
const unsupported = AttrAltPath | AttrPathMigState

// Modify changes state and attributes (ibv_modify_qp). It must not run beside
// PostSend or PostRecv. The error is a *ModifyError that names the transition and
// the attribute at fault; then nothing has changed.
func (q *QP) Modify(now clock.Time, a *Attr) error {
	from, to := q.State(), q.State()
	if a.Mask&AttrState != 0 {
		to = a.State
	}
	if err := q.checkModify(from, to, a); err != nil {
		return err
	}
	q.apply(a)
	switch {
	case to == StateReset:
		q.toReset()
		return nil
	case to == StateErr:
		if from != StateErr { // where a NAK may still be owed
			q.toError()
		}
		return nil
	case from == StateInit && to == StateRTR:
		q.startResponder()
	case from == StateRTR && to == StateRTS:
		q.startRequester()
	case to == StateSQD && from == StateRTS:
		q.req.drained = a.Mask&AttrEnSQDNotify != 0 && a.EnSQDNotify
	case to == StateSQD:
		q.modifyRunning(now, a)
	case from == StateSQD && to == StateRTS:
		q.req.drained = false
	}
	q.state.Store(uint32(to))
	if to == StateSQD {
		q.noteDrained()
	}
	return nil
}

// ModifyError says which change of state was refused, over which attribute and why.
type ModifyError struct {
	QPN       bth.QPN
	From, To  State
	Attribute AttrMask // 0 when the transition itself is illegal
	Reason    string
}

// Error is a sentence.
func (e *ModifyError) Error() string {
	s := fmt.Sprintf("QP 0x%06x cannot go from %v to %v: ", uint32(e.QPN), e.From, e.To)
	if e.Attribute != 0 {
		s += e.Attribute.String() + " "
	}
	return s + e.Reason
}

func (q *QP) checkModify(from, to State, a *Attr) error {
	refuse := func(at AttrMask, format string, args ...any) error {
		return &ModifyError{QPN: q.cfg.QPN, From: from, To: to, Attribute: at, Reason: fmt.Sprintf(format, args...)}
	}
	given := a.Mask &^ AttrState
	row, ok := transitionsRC[[2]State{from, to}]
	if !ok && to != StateReset && to != StateErr {
		return refuse(0, "an RC queue pair has no such transition")
	}
	if missing := row.required &^ given; missing != 0 {
		return refuse(missing, "must be given")
	}
	if extra := given &^ (row.required | row.optional); extra != 0 {
		return refuse(extra, "cannot be given here")
	}
	if no := given & unsupported; no != 0 {
		return refuse(no, "is not supported by this endpoint")
	}
	if given&AttrCurState != 0 && a.CurState != from {
		return refuse(AttrCurState, "says %v, but the present state is %v", a.CurState, from)
	}
	for _, c := range q.valueChecks(a) {
		if given&c.attr != 0 && c.bad {
			return refuse(c.attr, "%s", c.reason)
		}
	}
	return nil
}

type valueCheck struct {
	attr   AttrMask
	bad    bool
	reason string
}

func (q *QP) valueChecks(a *Attr) []valueCheck {
	const remote = memreg.RemoteWrite | memreg.RemoteRead | memreg.RemoteAtomic
	over := func(attr AttrMask, v, limit uint32) valueCheck {
		return valueCheck{attr, v > limit, fmt.Sprintf("is %d, at most %d is possible", v, limit)}
	}
	return []valueCheck{
		{AttrPKeyIndex, a.PKeyIndex != 0, fmt.Sprintf("is %d, the table has only index 0", a.PKeyIndex)},
		{AttrPort, a.Port != 1, fmt.Sprintf("is %d, there is only port 1", a.Port)},
		{AttrAccess, a.Access&^(remote|memreg.LocalWrite) != 0, "may hold REMOTE_WRITE, REMOTE_READ and REMOTE_ATOMIC"},
		{AttrAV, !a.AV.Src.IsValid() || !a.AV.Dst.IsValid(), "needs the addresses of both ends"},
		{AttrAV, a.AV.Src.Unmap().Is4() != a.AV.Dst.Unmap().Is4(),
			fmt.Sprintf("joins %v and %v: an IPv4 and an IPv6 address cannot talk to each other", a.AV.Src, a.AV.Dst)},
		{AttrAV, a.AV.FlowLabel > 0xFFFFF, fmt.Sprintf("has flow label 0x%x, which has more than 20 bits", a.AV.FlowLabel)},
		{AttrPathMTU, !bth.ValidPathMTU(a.PathMTU), fmt.Sprintf("is %d, none of 256, 512, 1024, 2048, 4096", a.PathMTU)},
		{AttrPathMTU, a.PathMTU > q.cfg.maxPathMTU(),
			fmt.Sprintf("is %d, the link carries at most %d: raise the interface's MTU or lower the path MTU", a.PathMTU, q.cfg.maxPathMTU())},
		over(AttrTimeout, uint32(a.Timeout), 31),
		over(AttrRetryCnt, uint32(a.RetryCnt), 7),
		over(AttrRNRRetry, uint32(a.RNRRetry), 7),
		over(AttrMinRNRTimer, uint32(a.MinRNRTimer), 31),
		over(AttrRQPSN, uint32(a.RQPSN), 0xFFFFFF),
		over(AttrSQPSN, uint32(a.SQPSN), 0xFFFFFF),
		over(AttrDestQPN, uint32(a.DestQPN), uint32(bth.MaxQPN)),
		over(AttrMaxRdAtomic, uint32(a.MaxRdAtomic), MaxRdAtomic),
		{AttrMaxRdAtomic, a.MaxRdAtomic == 0 && q.awaitsResponse(), "is 0, but a READ or atomic is queued"},
		over(AttrMaxDestRdAtomic, uint32(a.MaxDestRdAtomic), MaxRdAtomic),
	}
}

// modifyRunning lets attributes changed in SQD act on what is in progress.
func (q *QP) modifyRunning(now clock.Time, a *Attr) {
	if a.Mask&AttrMaxDestRdAtomic != 0 {
		q.resp.resize(a.MaxDestRdAtomic)
	}
	if a.Mask&AttrTimeout != 0 {
		q.restartTimers(now)
	}
}

// awaitsResponse reports whether the send queue holds a READ or atomic that is not complete.
func (q *QP) awaitsResponse() bool {
	for i := q.req.compl; i != q.sq.tail.Load(); i++ {
		if q.sq.at(i).answered() {
			return true
		}
	}
	return false
}

// apply stores the attributes that a.Mask names.
func (q *QP) apply(a *Attr) {
	t := &q.attr
	for _, f := range []struct {
		attr AttrMask
		set  func()
	}{
		{AttrAccess, func() { t.Access = a.Access }},
		{AttrPKeyIndex, func() { t.PKeyIndex = a.PKeyIndex }},
		{AttrPort, func() { t.Port = a.Port }},
		{AttrAV, func() {
			t.AV = a.AV
			t.AV.Src = a.AV.Src.Unmap().WithZone("")
			t.AV.Dst = a.AV.Dst.Unmap().WithZone("")
		}},
		{AttrPathMTU, func() { t.PathMTU = a.PathMTU }},
		{AttrTimeout, func() { t.Timeout = a.Timeout }},
		{AttrRetryCnt, func() { t.RetryCnt, q.req.retriesLeft = a.RetryCnt, a.RetryCnt }},
		{AttrRNRRetry, func() { t.RNRRetry, q.req.rnrLeft = a.RNRRetry, a.RNRRetry }},
		{AttrRQPSN, func() { t.RQPSN = a.RQPSN }},
		{AttrSQPSN, func() { t.SQPSN = a.SQPSN }},
		{AttrMaxRdAtomic, func() { t.MaxRdAtomic = a.MaxRdAtomic }},
		{AttrMaxDestRdAtomic, func() { t.MaxDestRdAtomic = a.MaxDestRdAtomic }},
		{AttrMinRNRTimer, func() { t.MinRNRTimer = a.MinRNRTimer }},
		{AttrDestQPN, func() { t.DestQPN = a.DestQPN }},
	} {
		if a.Mask&f.attr != 0 {
			f.set()
		}
	}
}

// toReset forgets everything: queued work, the connection, what is owed.
func (q *QP) toReset() {
	q.state.Store(uint32(StateReset))
	q.attr = Attr{}
	q.sq.head.Store(q.sq.tail.Load())
	q.rq.head.Store(q.rq.tail.Load())
	q.rq.cur = q.rq.tail.Load()
	q.req.reset(&q.cfg)
	q.req.cur, q.req.compl = q.sq.tail.Load(), q.sq.tail.Load()
	q.dropHeld()
	q.resp = responder{nakAt: clock.Never}
	q.events = 0
}

// toError stops everything; PollCompletion then flushes what is queued.
func (q *QP) toError() {
	q.state.Store(uint32(StateErr))
	q.req.ackDeadline, q.req.rnrUntil, q.req.probe.at = clock.Never, clock.Never, clock.Never
	q.req.losses = nil
	q.dropHeld()
	q.resp.nakAt = clock.Never
	q.req.rnrWait, q.req.drained = false, false
	q.resp.answers.clear()
	q.resp.reports = gapReports{}
}

var attrNames = [...]string{
	"STATE", "CUR_STATE", "EN_SQD_ASYNC_NOTIFY", "ACCESS_FLAGS", "PKEY_INDEX", "PORT", "QKEY", "AV", "PATH_MTU",
	"TIMEOUT", "RETRY_CNT", "RNR_RETRY", "RQ_PSN", "MAX_QP_RD_ATOMIC", "ALT_PATH", "MIN_RNR_TIMER", "SQ_PSN",
	"MAX_DEST_RD_ATOMIC", "PATH_MIG_STATE", "CAP", "DEST_QPN",
}

// String lists the attributes by their verbs names without the IBV_QP_ prefix.
func (m AttrMask) String() string {
	var names []string
	for ; m != 0; m &= m - 1 {
		if i := bits.TrailingZeros32(uint32(m)); i < len(attrNames) {
			names = append(names, attrNames[i])
		} else {
			names = append(names, fmt.Sprintf("bit %d", i))
		}
	}
	return strings.Join(names, ", ")
}

package roce

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/internal/engine"
	"github.com/go-roce/roce/transport"
)

// QPConfig describes a queue pair to [PD.CreateQP].
type QPConfig struct {
	// Type is RC, also when zero; no other is implemented yet.
	Type Type
	// SendCQ and RecvCQ get the completions of sends and receives; they may be the
	// same. A queue of depth 0 needs none.
	SendCQ, RecvCQ *CQ
	// SendDepth and RecvDepth are the work requests each queue holds, up to MaxDepth. Zero
	// means that the queue takes none.
	SendDepth, RecvDepth int
	// SendSGE and RecvSGE are the elements a gather or scatter list may have; 0 means 1.
	SendSGE, RecvSGE int
	// MaxInline is the bytes that a send with Inline may carry.
	MaxInline int
	// SignalAll makes every send Signaled.
	SignalAll bool
	// Access is what Init and Connect let the peer do: RemoteWrite, RemoteRead,
	// RemoteAtomic. Zero allows SENDs alone. The memory region must allow it as well.
	Access Access
}

// QP is a queue pair.
type QP struct {
	dev *Device
	qp  *engine.QP
	cfg QPConfig
	psn PSN

	mu     sync.Mutex // held while the state changes
	path   path       // the way to the peer
	reason string     // why this end moved it to ERR, a sentence
}

// Endpoint is what a peer must know of a queue pair to connect to it.
type Endpoint struct {
	Addr netip.Addr
	QPN  QPN
	PSN  PSN
}

// QPN returns the queue pair's number.
func (q *QP) QPN() QPN { return q.qp.QPN() }

// PSN returns the random PSN of the first request that Connect will make it send.
func (q *QP) PSN() PSN { return q.psn }

// Local returns what the peer must be told. Addr is Config.Addr or else the best local
// address, and the zero Addr when there is none; use Device.ChooseGID when the peer's address is known.
func (q *QP) Local() Endpoint {
	e := Endpoint{QPN: q.QPN(), PSN: q.psn}
	if c, err := q.dev.ChooseGID(netip.Addr{}); err == nil {
		e.Addr = c.Addr
	}
	return e
}

// State returns the present state.
func (q *QP) State() State { return q.qp.State() }

// PostSend queues send work requests in order and returns how many it took. When that is
// not all of them the error says why the next one was refused; ErrQueueFull means to poll
// completions first. The work requests and their lists may be reused at once, the
// memory they name after the completion.
func (q *QP) PostSend(wrs ...SendWR) (n int, err error) {
	n, err = q.qp.PostSend(wrs)
	return n, q.postError("post send", err)
}

// PostRecv queues receive work requests, as PostSend does. It is allowed from INIT on.
func (q *QP) PostRecv(wrs ...RecvWR) (n int, err error) {
	n, err = q.qp.PostRecv(wrs)
	return n, q.postError("post receive", err)
}

func (q *QP) postError(op string, err error) error {
	if err == nil || errors.Is(err, ErrQueueFull) {
		return err
	}
	return q.opError(op, err)
}

// opError wraps err, and adds to ErrClosed why the device closed.
func (q *QP) opError(op string, err error) error {
	if errors.Is(err, ErrClosed) && q.dev.isClosed() {
		err = q.dev.errClosed()
	}
	return opError(op, q.QPN(), err)
}

// Modify changes state and attributes by the rules of ibv_modify_qp. An AV is
// resolved to hardware addresses on the way, for which ctx bounds the wait; without Src, its source is
// chosen as ChooseGID does. The error names the attribute and the transition; then nothing
// has changed.
func (q *QP) Modify(ctx context.Context, a *Attr) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.opError("modify", q.modify(ctx, a))
}

// modify is Modify with the mutex held.
func (q *QP) modify(ctx context.Context, a *Attr) error {
	if a.Mask&AttrAV == 0 {
		return q.apply(ctx, a, nil)
	}
	resolved := *a
	dest := a.DestQPN
	if a.Mask&AttrDestQPN == 0 {
		dest = q.path.dest
	}
	p, err := q.dev.resolve(ctx, q.QPN(), dest, &resolved.AV)
	if err != nil {
		return err
	}
	return q.apply(ctx, &resolved, p)
}

func (q *QP) apply(ctx context.Context, a *Attr, p *path) error {
	var encap *bth.Encap
	if p != nil {
		encap = &p.encap
	}
	if err := q.qp.Modify(ctx, a, encap); err != nil {
		return err
	}
	if p != nil {
		q.path = *p
	}
	if a.Mask&AttrState != 0 && a.State == StateReset {
		q.path, q.reason = path{}, ""
	}
	return nil
}

// Query returns the present attributes.
func (q *QP) Query(ctx context.Context) (Attr, error) {
	var a Attr
	err := q.qp.Inspect(ctx, func(t *transport.QP) { t.Query(&a) })
	return a, q.opError("query", err)
}

// Counters returns the queue pair's counters, also after Close.
func (q *QP) Counters(ctx context.Context) (Counters, error) {
	var c Counters
	err := q.qp.Inspect(ctx, func(t *transport.QP) { c = *t.Counters() })
	return c, q.opError("read the counters of", err)
}

// Close destroys the queue pair. What is posted completes with WR_FLUSH_ERR: its completions
// are in the completion queues and may be polled, or not.
func (q *QP) Close() error {
	if err := q.qp.Destroy(context.Background()); err != nil {
		return q.opError("close", err)
	}
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	delete(q.dev.qps, q.QPN())
	return nil
}

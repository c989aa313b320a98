package roce

import (
	"context"
	"net/netip"
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
	// Access is what Connect lets the peer do: RemoteWrite, RemoteRead, RemoteAtomic. Zero
	// allows SENDs alone. The memory region must allow it as well.
	Access Access
}

// QP is a queue pair.
type QP struct {
	dev *Device
}

// Endpoint is what a peer must know of a queue pair to connect to it.
type Endpoint struct {
	Addr netip.Addr
	QPN  QPN
	PSN  PSN
}

// QPN returns the queue pair's number.
func (q *QP) QPN() QPN { panic("not built yet") }

// PSN returns the random PSN of the first request that Connect will make it send.
func (q *QP) PSN() PSN { panic("not built yet") }

// Local returns what the peer must be told. Addr is Config.Addr or else the best local
// address; use Device.ChooseGID when there are several and the peer's is known.
func (q *QP) Local() Endpoint { panic("not built yet") }

// State returns the present state.
func (q *QP) State() State { panic("not built yet") }

// PostSend queues send work requests in order and returns how many it took. When that is
// not all of them the error says why the next one was refused; ErrQueueFull means to poll
// completions first. The work requests and their lists may be reused at once, the
// memory they name after the completion.
func (q *QP) PostSend(wrs ...SendWR) (n int, err error) { panic("not built yet") }

// PostRecv queues receive work requests, as PostSend does.
func (q *QP) PostRecv(wrs ...RecvWR) (n int, err error) { panic("not built yet") }

// Modify changes state and attributes by the rules of ibv_modify_qp. An AV is
// resolved to hardware addresses on the way, for which ctx bounds the wait. The error
// names the attribute and the transition; then nothing has changed.
func (q *QP) Modify(ctx context.Context, a *Attr) error { panic("not built yet") }

// Query returns the present attributes.
func (q *QP) Query(ctx context.Context) (Attr, error) { panic("not built yet") }

// Counters returns the queue pair's counters.
func (q *QP) Counters(ctx context.Context) (Counters, error) { panic("not built yet") }

// Close destroys the queue pair. What is queued completes with WR_FLUSH_ERR.
func (q *QP) Close() error { panic("not built yet") }

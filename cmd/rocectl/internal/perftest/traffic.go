package perftest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/cmd/rocectl/internal/fault"
	"github.com/go-roce/roce/cmd/rocectl/internal/measure"
	"github.com/go-roce/roce/cmd/rocectl/internal/spin"
)

// grace is how long a run may go on after the peer hung up: its last messages can be here without having been looked at.
const grace = time.Second

// silence is how long no packet may come while the test runs, or only such as ask to wait.
const silence = 30 * time.Second

// batch is how many work requests are posted, and completions polled, at a time.
const batch = 64

// traffic is one run with messages of one size.
type traffic struct {
	*Session
	size   int
	manual bool
	// whole is the run's context: it ends with the caller's, or some time after the peer hung up. ctx ends at the run's
	// time limit as well.
	whole, ctx context.Context
	cancel     context.CancelCauseFunc
	idling     spin.Spin

	comps [batch]roce.Completion
	recvs []recvState // by queue pair, in SEND tests
	// finished counts messages that are sent, received those that came.
	finished, received uint64
	onSent             func(queuePair int, messages uint32)
}

// recvState is the receive queue of one queue pair: every receive of it is alike.
type recvState struct {
	wrs    [batch]roce.RecvWR
	sge    [1]roce.SGE
	posted uint64
	due    int // receives to post
}

// errTimeIsUp ends waits when the duration of -D is over.
var errTimeIsUp = errors.New("the time is up")

func newTraffic(ctx context.Context, s *Session, size int) *traffic {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-s.Exchange.conn.Gone():
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(grace):
			cancel(s.Exchange.conn.HungUp("while the test was running"))
		case <-ctx.Done():
		}
	}()
	go fault.OnSilence(ctx, s.Device, silence, func(notReady bool) {
		what := "no packet came"
		if notReady {
			what = "nothing but RNR NAKs came, since no receive is posted there,"
		}
		cancel(fmt.Errorf("%s from %v for %v: has the program there got all it waits for? Give both ends the same options", what, s.theirs[0].GID, silence))
	})
	return &traffic{Session: s, size: size, manual: s.Device.Info().Manual, idling: spin.Spin{Limit: s.spinFor}, whole: ctx, ctx: ctx, cancel: cancel}
}

// limit makes waits end after d, if that is not 0, and returns what undoes it.
func (t *traffic) limit(d time.Duration) (undo func()) {
	if d == 0 {
		return func() {}
	}
	var cancel context.CancelFunc
	t.ctx, cancel = context.WithTimeoutCause(t.whole, d, errTimeIsUp)
	return func() {
		cancel()
		t.ctx = t.whole
	}
}

func (t *traffic) close() { t.cancel(nil) }

// run makes the run and fills in r.
func (t *traffic) run(r *measure.Result) error {
	p := &t.Params
	switch {
	case !p.Test.Latency:
		return t.bandwidth(r)
	case p.Test.Verb == Write:
		return t.latencyOfWrites(r)
	case p.Test.Verb == Send:
		return t.latencyOfSends(r)
	}
	return t.latencyOfRequests(r)
}

// receives says whether SENDs come in.
func (t *traffic) receives() bool {
	p := &t.Params
	return p.Test.Verb == Send && (p.Both || p.Test.Latency || !t.Exchange.client)
}

// sends says whether this end posts requests.
func (t *traffic) sends() bool { return t.Exchange.client || t.Params.Both || t.Params.Test.pingPong() }

// postReceives fills the receive queues before the peer may send.
func (t *traffic) postReceives() error {
	if !t.receives() {
		return nil
	}
	t.recvs = make([]recvState, len(t.qps))
	for i := range t.recvs {
		s := &t.recvs[i]
		s.sge[0] = t.mr.SGE(t.remote(i), t.size)
		for j := range s.wrs {
			s.wrs[j] = roce.RecvWR{ID: uint64(i), SGL: s.sge[:]}
		}
		s.due = t.Params.RxDepth
		if err := t.repost(i); err != nil {
			return err
		}
	}
	return nil
}

// repost posts the receives that are due at queue pair i.
func (t *traffic) repost(i int) error {
	s := &t.recvs[i]
	if t.Params.Duration == 0 {
		// What the peer will not use would be left over for the next size.
		s.due = int(min(uint64(s.due), t.Params.Iterations-s.posted))
	}
	for s.due > 0 {
		n, err := t.qps[i].PostRecv(s.wrs[:min(s.due, batch)]...)
		s.posted += uint64(n)
		s.due -= n
		if err != nil {
			return err
		}
	}
	return nil
}

// Completions of sends carry in their ID which queue pair they are of and how many messages they stand for.
func sendID(queuePair int, messages uint32) uint64 { return uint64(queuePair)<<32 | uint64(messages) }

// reap polls completions once and accounts for them. It returns how many there were.
func (t *traffic) reap() (int, error) {
	n := t.cq.Poll(t.comps[:])
	if n > 0 {
		t.idling.Reset()
	}
	for i := range t.comps[:n] {
		c := &t.comps[i]
		if c.Status != roce.StatusSuccess {
			return 0, t.failed(t.comps[i:n])
		}
		if c.Recv {
			t.received++
			t.recvs[c.ID].due++
			continue
		}
		messages := uint32(c.ID)
		t.finished += uint64(messages)
		if t.onSent != nil {
			t.onSent(int(c.ID>>32), messages)
		}
	}
	return n, nil
}

// failed explains a completion with an error, the first of batch.
func (t *traffic) failed(batch []roce.Completion) error {
	err := fault.Explain(t.cq, batch, func(n roce.QPN) *roce.QP {
		if i := slices.IndexFunc(t.qps, func(q *roce.QP) bool { return q.QPN() == n }); i >= 0 {
			return t.qps[i]
		}
		return nil
	})
	select {
	case <-t.Exchange.conn.Gone():
		return fmt.Errorf("%w; the peer's program has ended: see what it said there", err)
	default:
		return err
	}
}

// idle is called after a turn in which there was nothing to do. Who drives the device himself polls on for a while.
func (t *traffic) idle() error {
	if t.manual && !t.idling.Idle() {
		return nil
	}
	t.idling.Reset()
	if err := t.cq.Wait(t.ctx); err != nil {
		return t.ended(err)
	}
	return nil
}

// ended says why the run cannot go on.
func (t *traffic) ended(err error) error {
	switch cause := context.Cause(t.ctx); {
	case cause == nil:
		return err
	case errors.Is(cause, context.Canceled):
		return errors.New("interrupted while the test was running")
	default:
		return cause
	}
}

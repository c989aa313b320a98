package roce

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-roce/roce/transport"
)

// WorkError is a completion that is no success, explained.
type WorkError struct {
	Completion Completion
	// Text is the explanation: the status by name and number, the queue pair and its
	// peer, what happened, how long it was tried, and what to do.
	Text string
}

// Error returns the explanation.
func (e *WorkError) Error() string { return e.Text }

// Unwrap returns the status as a transport.StatusError.
func (e *WorkError) Unwrap() error { return e.Completion.Status.Err() }

// Explain returns nil for the completion of a success and otherwise a *WorkError that says what
// happened to the work request. c is a completion of this queue pair, which may be closed.
func (q *QP) Explain(c Completion) error {
	if c.Status == StatusSuccess {
		return nil
	}
	var a Attr
	var ctr Counters
	// The context never ends, so this does not fail.
	_ = q.qp.Inspect(context.Background(), func(t *transport.QP) {
		t.Query(&a)
		ctr = *t.Counters()
	})
	q.mu.Lock()
	reason := q.reason
	q.mu.Unlock()
	who := fmt.Sprintf("QP 0x%06x", uint32(q.QPN()))
	if a.AV.Dst.IsValid() {
		who += fmt.Sprintf(" to %v QP 0x%06x", a.AV.Dst, uint32(a.DestQPN))
	}
	return &WorkError{
		Completion: c,
		Text:       fmt.Sprintf("%v (%d): %s: %s", c.Status, uint8(c.Status), who, explain(c, &a, &ctr, reason)),
	}
}

// explain says what a status means on a queue pair with these attributes and counters.
func explain(c Completion, a *Attr, ctr *Counters, reason string) string {
	switch c.Status {
	case StatusRetryExcErr:
		return explainRetry(a, ctr)
	case StatusRNRRetryExc:
		return fmt.Sprintf("the peer had no receive posted for the message, %d times in a row: post receives there before sending, or connect with an RNR retry count of 7, which never gives up", int(a.RNRRetry)+1)
	case StatusRemAccessErr:
		return "the peer refused the remote key, address or length: they must be those of one region of the peer's, in the protection domain of its queue pair, and both region and queue pair must allow the operation"
	case StatusRemInvReqErr:
		return fmt.Sprintf("the peer refused the request as invalid: the message is longer than the receive posted for it, its queue pair does not allow the operation or so many READs and atomics, or its path MTU is not %d as here", a.PathMTU)
	case StatusRemOpErr:
		return "the peer accepted the request but failed to carry it out: look for the error at the peer"
	case StatusLocLenErr:
		return "the peer's message is longer than the receive posted for it: post larger receives"
	case StatusLocProtErr:
		return "a gather or scatter element is not inside a region of the queue pair's protection domain, or the region does not allow local writing that the operation needs"
	case StatusBadRespErr:
		return fmt.Sprintf("the peer's response does not fit the request: most likely its path MTU is not %d as here", a.PathMTU)
	case StatusWRFlushErr:
		if reason != "" {
			return "not carried out: " + reason
		}
		return "not carried out, because the queue pair went to ERR or was closed before; the first completion with another status, of either queue or at the peer, tells why"
	}
	_, meaning, _ := strings.Cut(c.Status.Err().Error(), ": ")
	return meaning
}

// explainRetry tells how long was tried, and whether the peer was ever heard.
func explainRetry(a *Attr, ctr *Counters) string {
	text := fmt.Sprintf("no answer after %d transmissions", int(a.RetryCnt)+1)
	if worst := transport.RetryTime(a.Timeout, a.RetryCnt); worst > 0 {
		text = fmt.Sprintf("no answer for %s (%d transmissions, ACK timeout %s)",
			roundTime(worst), int(a.RetryCnt)+1, roundTime(transport.AckTimeout(a.Timeout)))
	}
	if ctr.RxPackets == 0 {
		return text + "; nothing was ever received from the peer: most likely a firewall drops UDP port 4791, or the peer's queue pair has another number or is not connected to this one"
	}
	return text + fmt.Sprintf("; %d packets came before, so the way is open: the peer or its queue pair went away, or it refuses these packets without saying so", ctr.RxPackets)
}

// roundTime gives a duration three digits.
func roundTime(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

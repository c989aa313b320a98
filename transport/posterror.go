package transport

import (
	"errors"
	"fmt"

	"github.com/go-roce/roce/bth"
)

// ErrQueueFull says that a queue holds as many work requests as it has slots.
// Poll completions and post again.
var ErrQueueFull = errors.New("the queue is full: poll completions, then post again")

// PostError says why a work request was refused when posted. Nothing was queued.
type PostError struct {
	QPN    bth.QPN
	Queue  string // "send" or "receive"
	Reason string
}

// Error is a sentence.
func (e *PostError) Error() string {
	return fmt.Sprintf("QP 0x%06x refused a %s work request: %s", uint32(e.QPN), e.Queue, e.Reason)
}

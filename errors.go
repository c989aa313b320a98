package roce

import (
	"errors"
	"fmt"
	"net"

	"github.com/go-roce/roce/transport"
)

var (
	// ErrQueueFull says that a queue holds as many work requests as it has slots.
	ErrQueueFull = transport.ErrQueueFull
	// ErrCQTooSmall says that a completion queue has not enough room left for a queue pair.
	ErrCQTooSmall = errors.New("the completion queue is too small")
	// ErrClosed says that the device or object was closed.
	ErrClosed = net.ErrClosed
)

// OpError is the error of an operation of this package.
type OpError struct {
	// Op is what was tried, e.g. "connect".
	Op string
	// QPN is the queue pair concerned, 0 when none is.
	QPN QPN
	Err error
}

// Error is a sentence.
func (e *OpError) Error() string {
	if e.QPN != 0 {
		return fmt.Sprintf("roce: %s QP 0x%06x: %v", e.Op, uint32(e.QPN), e.Err)
	}
	return fmt.Sprintf("roce: %s: %v", e.Op, e.Err)
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

package roce

import (
	"errors"
	"fmt"
	"net"

	"github.com/go-roce/roce/internal/engine"
	"github.com/go-roce/roce/transport"
)

var (
	// ErrQueueFull says that a queue holds as many work requests as it has slots.
	ErrQueueFull = transport.ErrQueueFull
	// ErrCQTooSmall says that a completion queue has not enough room left for a queue pair.
	ErrCQTooSmall = engine.ErrCQTooSmall
	// ErrClosed says that the device or object was closed.
	ErrClosed = net.ErrClosed
)

// OpError is the error of an operation of this package. Only ErrQueueFull is returned bare, for it is no
// fault and frequent.
type OpError struct {
	// Op is what was tried, e.g. "connect".
	Op string
	// QPN is the queue pair concerned, 0 when none is.
	QPN QPN
	Err error
}

// Error is a sentence.
func (e *OpError) Error() string {
	var post *transport.PostError
	var modify *transport.ModifyError
	if e.QPN == 0 || errors.As(e.Err, &post) || errors.As(e.Err, &modify) {
		// The cause says itself which queue pair it is about.
		return fmt.Sprintf("roce: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("roce: %s QP 0x%06x: %v", e.Op, uint32(e.QPN), e.Err)
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// opError wraps err unless it is nil.
func opError(op string, qpn QPN, err error) error {
	if err == nil {
		return nil
	}
	return &OpError{Op: op, QPN: qpn, Err: err}
}

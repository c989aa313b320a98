package roce

// WorkError is a completion that is not a success, explained.
type WorkError struct {
	Completion Completion
	// Text is the explanation: the status by name and number, the queue pair and its
	// peer, what happened, how long it was tried, and what to do.
	Text string
}

// Error returns the explanation.
func (e *WorkError) Error() string { return e.Text }

// Unwrap returns the status as an error, for errors.As.
func (e *WorkError) Unwrap() error { return e.Completion.Status.Err() }

// Explain returns nil for a success and otherwise a *WorkError that says what happened to the work
// request.
func (q *QP) Explain(c Completion) error { panic("not built yet") }

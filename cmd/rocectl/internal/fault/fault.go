// Package fault notices what goes wrong in a run, and finds the completion that says why a queue pair failed.
package fault

import (
	"time"

	"github.com/go-roce/roce"
)

// patience is how long to look: everything completes at once when a queue pair fails.
const patience = 200 * time.Millisecond

// Explain says why a work request failed. batch is what was polled from cq, from the completion with an error on. One
// that was merely flushed says nothing: the flushed receives of a queue pair can come before the send that failed, so
// it is looked for. qp finds a queue pair by its number.
func Explain(cq *roce.CQ, batch []roce.Completion, qp func(roce.QPN) *roce.QP) error {
	first := batch[0]
	var more [64]roce.Completion
	for end := time.Now().Add(patience); ; {
		for i := range batch {
			if c := &batch[i]; c.Status != roce.StatusWRFlushErr && c.Status != roce.StatusSuccess {
				return explain(c, qp)
			}
		}
		if time.Now().After(end) {
			return explain(&first, qp)
		}
		n := cq.Poll(more[:])
		if batch = more[:n]; n == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

func explain(c *roce.Completion, qp func(roce.QPN) *roce.QP) error {
	if q := qp(c.QPN); q != nil {
		return q.Explain(*c)
	}
	return c.Status.Err()
}

package roce_test

import (
	"testing"

	"github.com/go-roce/roce/link"
	"github.com/go-roce/roce/test/exercise"
)

type options = exercise.Options

// newPair returns two connected ends on a wire in memory.
func newPair(t testing.TB, o options) (a, b *exercise.End) {
	t.Helper()
	la, lb := link.NewMemPair(link.MemOptions{Clock: o.Device.Clock})
	a, b = exercise.New(t, la, o), exercise.New(t, lb, o)
	exercise.Join(t, a, b, o)
	return a, b
}

//go:build linux

package netns

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-roce/roce/link"
)

// openInterface opens eth0 of the namespace as a link of some kind does.
func (h *host) openInterface(qpns link.QPNRange) (i *link.Interface, err error) {
	h.t.Helper()
	h.in(func() { i, err = link.OpenInterface("eth0", "test", qpns) })
	if err == nil {
		h.t.Cleanup(func() { _ = i.Close() })
	}
	return i, err
}

// Pitfall 66: two links never hold the same queue pair numbers, whether they asked for a range or took a free
// one, and the error names who has them.
func TestInterface_QueuePairNumbersHaveOneOwner(t *testing.T) {
	h := newLab(t, 1500).a
	me := fmt.Sprintf("(process %d) has ", os.Getpid())
	mine := link.QPNRange{First: 0x20000, Count: 0x18000}
	first, err := h.openInterface(mine)
	h.must(err)
	if first.QPNs() != mine {
		t.Errorf("asked for %v, got %v", mine, first.QPNs())
	}
	for _, taken := range []link.QPNRange{mine, link.AllQPNs, {First: 0x37FFF, Count: 1}, {First: 2, Count: 0x20000}} {
		if _, err := h.openInterface(taken); err == nil || !strings.Contains(err.Error(), me+mine.String()) {
			t.Errorf("opened with %v: %v", taken, err)
		}
	}
	beside, err := h.openInterface(link.QPNRange{First: 0x38000, Count: 0x8000})
	h.must(err)
	for range 252 { // of 256 slots of 2^16 numbers two are taken
		i, err := h.openInterface(link.QPNRange{})
		h.must(err)
		for _, o := range []*link.Interface{first, beside} {
			if a, b := i.QPNs(), o.QPNs(); a.First < b.End() && b.First < a.End() {
				t.Fatalf("%v and %v have one owner each", a, b)
			}
		}
	}
	for _, unfit := range []link.QPNRange{{First: 1, Count: 5}, {First: 0xFFFFFE, Count: 2}, {First: 0xFFFFFFFF, Count: 0xFFFFFFFF}} {
		if _, err := h.openInterface(unfit); err == nil || !strings.Contains(err.Error(), "a range lies within") {
			t.Errorf("opened with %+v: %v", unfit, err)
		}
	}
}

// A link that has all numbers has the interface for itself; when it is closed others may come.
func TestInterface_AllQueuePairNumbersLeaveNoneForOthers(t *testing.T) {
	h := newLab(t, 1500).a
	all, err := h.openInterface(link.AllQPNs)
	h.must(err)
	if _, err := h.openInterface(link.QPNRange{}); err == nil || !strings.Contains(err.Error(), "no queue pair numbers are free") || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("opened beside it: %v", err)
	}
	h.must(all.Close())
	if _, err := h.openInterface(link.QPNRange{}); err != nil {
		t.Error(err)
	}
}

package bth_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/go-roce/roce/bth"
)

// TestDrop_Names holds every reason to a counter name of its own in snake case and a
// sentence of its own.
func TestDrop_Names(t *testing.T) {
	snake := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	seen := map[string]bth.Drop{}
	n := 0
	for d := range bth.Drops() {
		n++
		name, sentence := d.String(), d.Error()
		if !snake.MatchString(name) || strings.HasPrefix(name, "drop_") {
			t.Errorf("counter name %q is not snake case", name)
		}
		if !strings.HasPrefix(sentence, "bth: ") || len(strings.Fields(sentence)) < 4 || strings.HasSuffix(sentence, ".") {
			t.Errorf("%s: %q is not a sentence of an error", name, sentence)
		}
		for _, text := range []string{name, sentence} {
			if other, dup := seen[text]; dup {
				t.Errorf("reasons %d and %d are both %q", uint8(d), uint8(other), text)
			}
			seen[text] = d
		}
	}
	frame, endpoint := int(bth.DropICRC), int(bth.NumDrops-bth.DropUnknownQP)
	if n != frame+endpoint {
		t.Errorf("%d reasons have names, want %d of frames and %d of endpoints", n, frame, endpoint)
	}
}

func TestDrop_Unnamed(t *testing.T) {
	for _, d := range []bth.Drop{20, bth.NumDrops, 255} {
		if got := d.String(); !strings.HasPrefix(got, "drop_") {
			t.Errorf("reason %d is called %q", uint8(d), got)
		}
		if got := d.Error(); !strings.Contains(got, "unknown reason") {
			t.Errorf("reason %d says %q", uint8(d), got)
		}
	}
	if got := bth.DropNone.String(); got != "none" {
		t.Errorf("no drop is called %q", got)
	}
}

func TestDrops_Stops(t *testing.T) {
	for d := range bth.Drops() {
		if d != bth.DropNotRoCE {
			t.Errorf("the first reason is %v", d)
		}
		break
	}
}

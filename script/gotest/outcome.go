package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// outcome is how a test ended in one run.
type outcome struct {
	Result string // pass, fail or skip
	Test   string // package and test
	Reason string // of a skip
}

// writeOutcomes writes a line of three fields, parted by tabs, for each outcome.
func writeOutcomes(w io.Writer, outcomes []outcome) error {
	b := bufio.NewWriter(w)
	for _, o := range outcomes {
		fmt.Fprintf(b, "%s\t%s\t%s\n", o.Result, o.Test, o.Reason)
	}
	return b.Flush()
}

// readOutcomes reads what writeOutcomes wrote, any number of times over.
func readOutcomes(r io.Reader) ([]outcome, error) {
	var outcomes []outcome
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), "\t", 3)
		if len(fields) != 3 {
			return nil, fmt.Errorf("not an outcome: %q", lines.Text())
		}
		outcomes = append(outcomes, outcome{fields[0], fields[1], fields[2]})
	}
	return outcomes, lines.Err()
}

// summarize counts each test once over all runs: failed when one run failed it,
// else passed when one passed it, else skipped. It names the skipped. The error is
// for failed tests, for none at all, and, if strict, for skipped ones.
func summarize(w io.Writer, outcomes []outcome, strict bool) error {
	rank := map[string]int{"skip": 1, "pass": 2, "fail": 3}
	final := map[string]outcome{}
	for _, o := range outcomes {
		if rank[o.Result] > rank[final[o.Test].Result] {
			final[o.Test] = o
		}
	}
	count := map[string]int{}
	for _, test := range slices.Sorted(maps.Keys(final)) {
		o := final[test]
		count[o.Result]++
		if o.Result == "skip" {
			fmt.Fprintf(w, "skipped %s: %s\n", o.Test, o.Reason)
		}
	}
	fmt.Fprintf(w, "tests: %d passed, %d failed, %d skipped\n", count["pass"], count["fail"], count["skip"])
	switch {
	case count["fail"] > 0:
		return fmt.Errorf("%d tests failed", count["fail"])
	case len(final) == 0:
		return fmt.Errorf("no test ran")
	case strict && count["skip"] > 0:
		return fmt.Errorf("%d tests were skipped by every run, and nothing should be missing here", count["skip"])
	}
	return nil
}

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// event is a line of `go test -json`, as `go doc test2json` describes it.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
	FailedBuild                               string
}

// subject is a test, or with an empty Test a package, as events name it.
type subject struct{ Package, Test string }

// report reads the events of one run of go test and writes them to w for people.
// It returns the outcome of every test that ended.
func report(w io.Writer, events io.Reader) ([]outcome, error) {
	var (
		outcomes []outcome
		output   = map[subject]*bytes.Buffer{} // of tests that have not ended
		passed   = map[string]int{}            // tests, by package
	)
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(w, lines.Text()) // go test itself speaks plainly when it cannot begin
			continue
		}
		s := subject{e.Package, e.Test}
		switch e.Action {
		case "build-output":
			fmt.Fprint(w, e.Output)
		case "output":
			if output[s] == nil {
				output[s] = new(bytes.Buffer)
			}
			output[s].WriteString(e.Output)
		case "pass", "fail", "skip":
			text := output[s]
			delete(output, s)
			if e.Test == "" {
				endPackage(w, e, text, passed[e.Package], output)
				continue
			}
			o := outcome{Result: e.Action, Test: e.Package + "." + e.Test}
			switch e.Action {
			case "pass":
				passed[e.Package]++
			case "skip":
				o.Reason = skipReason(text)
			case "fail":
				fmt.Fprintf(w, "FAIL %s %s\n%s", e.Package, e.Test, indent(text))
			}
			outcomes = append(outcomes, o)
		}
	}
	return outcomes, lines.Err()
}

// endPackage writes the line of a package that ended. Of one that failed it also
// writes what its unfinished tests printed: a panic or a timeout ends no test.
func endPackage(w io.Writer, e event, text *bytes.Buffer, passed int, output map[subject]*bytes.Buffer) {
	switch {
	case e.FailedBuild != "":
		fmt.Fprintf(w, "FAIL %s does not compile\n", e.Package)
	case e.Action == "fail":
		for s, unfinished := range output {
			if s.Package == e.Package {
				fmt.Fprintf(w, "FAIL %s %s did not end\n%s", s.Package, s.Test, indent(unfinished))
				delete(output, s)
			}
		}
		fmt.Fprintf(w, "FAIL %s %.1f s\n%s", e.Package, e.Elapsed, indent(text))
	case e.Action == "pass":
		fmt.Fprintf(w, "ok   %s %.1f s, %d tests\n", e.Package, e.Elapsed, passed)
	}
}

// skipReason takes what t.Skip was told out of a test's output: the text behind
// the "file_test.go:12: " of its last log line.
func skipReason(output *bytes.Buffer) string {
	if output == nil {
		return ""
	}
	reason := ""
	for line := range strings.Lines(output.String()) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		if _, said, found := strings.Cut(line, ": "); found {
			line = said
		}
		reason = line
	}
	return reason
}

// indent sets output off from the lines of the report.
func indent(output *bytes.Buffer) string {
	if output == nil {
		return ""
	}
	var b strings.Builder
	for line := range strings.Lines(output.String()) {
		b.WriteString("     " + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}

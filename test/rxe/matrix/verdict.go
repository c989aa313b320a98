package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// A report is what rocectl --json prints for perf and pingpong, as far as it is judged. Counters are pointers: one that
// is absent is a fault, not a zero.
type report struct {
	Size        int      `json:"size"`
	Iterations  int      `json:"iters"`
	QPs         int      `json:"qps"`
	MTU         int      `json:"mtu"`
	Bytes       int64    `json:"bytes"`
	Seconds     float64  `json:"seconds"`
	GbitPerS    float64  `json:"gbit_per_s"`
	Latency     *latency `json:"latency_us"`
	Retransmits *int64   `json:"retransmits"`
	NAKs        *int64   `json:"naks_received"`
	RNRNAKs     *int64   `json:"rnr_naks_received"`
	Timeouts    *int64   `json:"timeouts"`
	ICRCErrors  *int64   `json:"icrc_errors"`
}

type latency struct {
	Min, P50, P99, P999, Max, Mean float64
}

func parseReport(stdout string) (*report, error) {
	dec := json.NewDecoder(strings.NewReader(stdout))
	var r report
	if err := dec.Decode(&r); err != nil {
		return nil, fmt.Errorf("our --json is not an object: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("our --json has more than one object")
	}
	return &r, nil
}

// judge compares a report with what the cell asked for.
func (r *report) judge(c *Cell) error {
	var wrong, again []string
	want := func(name string, got, want any) {
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s %v, want %v", name, got, want))
		}
	}
	want("size", r.Size, c.Size)
	want("iters", r.Iterations, c.Iterations)
	want("qps", r.QPs, c.QPs)
	want("mtu", r.MTU, c.MTU)
	measures := c.Role == "client" || tools[c.Tool].active == "both" || c.Both
	if measures {
		want("bytes", r.Bytes, c.bytes())
		if r.Seconds <= 0 {
			wrong = append(wrong, fmt.Sprintf("seconds %v", r.Seconds))
		} else if rate := float64(r.Bytes) * 8 / r.Seconds / 1e9; !tools[c.Tool].latency && math.Abs(rate-r.GbitPerS) > 0.01*rate+1e-6 {
			wrong = append(wrong, fmt.Sprintf("gbit_per_s %v, but %d bytes in %v s are %.6f", r.GbitPerS, r.Bytes, r.Seconds, rate))
		}
	}
	if tools[c.Tool].latency && measures {
		if l := r.Latency; l == nil {
			wrong = append(wrong, "no latency_us")
		} else if !(0 < l.Min && l.Min <= l.P50 && l.P50 <= l.P99 && l.P99 <= l.P999 && l.P999 <= l.Max && l.Min <= l.Mean && l.Mean <= l.Max) {
			wrong = append(wrong, fmt.Sprintf("latency_us out of order: %+v", *l))
		}
	}
	for _, counter := range []struct {
		name  string
		value *int64
		into  *[]string
		link  bool // zero on a clean link; on the others only to be present
	}{
		{"retransmits", r.Retransmits, &again, true}, {"naks_received", r.NAKs, &again, true},
		{"rnr_naks_received", r.RNRNAKs, &wrong, true}, {"timeouts", r.Timeouts, &again, true},
		{"icrc_errors", r.ICRCErrors, &wrong, false},
	} {
		switch {
		case counter.value == nil:
			wrong = append(wrong, "no "+counter.name)
		case *counter.value != 0 && (c.Link == "clean" || !counter.link):
			*counter.into = append(*counter.into, fmt.Sprintf("%s %d, want 0", counter.name, *counter.value))
		}
	}
	if wrong != nil {
		return errors.New("ours reports " + strings.Join(append(wrong, again...), "; "))
	}
	if again != nil {
		return &resentError{"ours reports " + strings.Join(again, "; ")}
	}
	return nil
}

// A resentError is about nothing but packets that our end sent again on a clean link: a fault, unless the machine stood
// still so long that a timer had to run out.
type resentError struct{ text string }

func (e *resentError) Error() string { return e.text }

// bytes is the payload that the cell's measured iterations move.
func (c *Cell) bytes() int64 {
	n := int64(c.Size) * int64(c.Iterations) * int64(c.QPs)
	if c.Both || c.Tool == "ibv_rc_pingpong" {
		n *= 2
	}
	return n
}

var (
	perftestLine = regexp.MustCompile(`(?m)^ *(\d+) +(\d+) +\d+\.\d+`)
	pingpongLine = regexp.MustCompile(`(?m)^(\d+) bytes in [\d.]+ seconds`)
)

// judgeOriginal looks for the result line of an original program: it ended well only if it measured what was asked.
func judgeOriginal(c *Cell, server bool, stdout string) error {
	if server && tools[c.Tool].active == "client" && !c.Both {
		return nil // has nothing to measure, and prints what its peer sent or nothing
	}
	if c.Tool == "ibv_rc_pingpong" {
		m := pingpongLine.FindStringSubmatch(stdout)
		if m == nil || m[1] != strconv.FormatInt(c.bytes(), 10) {
			return fmt.Errorf("%s does not say that it moved %d bytes", c.Tool, c.bytes())
		}
		return nil
	}
	m := perftestLine.FindStringSubmatch(stdout)
	if m == nil || m[1] != strconv.Itoa(c.Size) || m[2] != strconv.Itoa(c.Iterations*c.QPs) {
		return fmt.Errorf("%s does not say that it ran %d iterations of %d bytes", c.Tool, c.Iterations*c.QPs, c.Size)
	}
	return nil
}

// judgeWords checks that a program which failed said why in one sentence, as people can use it.
func judgeWords(stderr string) error {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	switch {
	case lines[0] == "":
		return errors.New("ours failed without a word")
	case strings.Contains(stderr, "goroutine "):
		return fmt.Errorf("ours failed with a stack trace: %s", lines[0])
	case len(lines) > 1:
		return fmt.Errorf("ours failed with %d lines, want one sentence: %s", len(lines), lines[0])
	}
	return nil
}

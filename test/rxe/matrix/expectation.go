package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// An expectation says what one end of a verbs cell must see. In cells.tsv it is written
//
//	send=REM_ACCESS_ERR,WR_FLUSH_ERR*3;recv=WR_FLUSH_ERR*2;region=untouched
//
// where send and recv are the statuses of the completions in the order of their posting, STATUS*N is a status N times,
// A|B allows either, and the other names are lines "NAME VALUE" that the program prints. What is not named may be
// anything.
type expectation []wanted

type wanted struct {
	name   string
	values [][]string // one list of allowed values a completion or line
}

func parseExpectation(text string) (expectation, error) {
	var e expectation
	if text == "" {
		return nil, nil
	}
	for term := range strings.SplitSeq(text, ";") {
		name, list, ok := strings.Cut(term, "=")
		if !ok {
			return nil, fmt.Errorf("expectation %q has no =", term)
		}
		w := wanted{name: name}
		if list == "" { // nothing at all
			e = append(e, w)
			continue
		}
		for item := range strings.SplitSeq(list, ",") {
			item, count, repeated := strings.Cut(item, "*")
			times := 1
			if repeated {
				var err error
				if times, err = strconv.Atoi(count); err != nil {
					return nil, fmt.Errorf("expectation %q: %q is not a number", term, count)
				}
			}
			for range times {
				w.values = append(w.values, strings.Split(item, "|"))
			}
		}
		e = append(e, w)
	}
	return e, nil
}

// check compares the lines a program of ../verbs printed with the expectation.
func (e expectation) check(stdout string) error {
	seen := observe(stdout)
	for _, w := range e {
		got := seen[w.name]
		if !slices.EqualFunc(got, w.values, func(got string, allowed []string) bool { return slices.Contains(allowed, got) }) {
			text := fmt.Sprintf("%s is %s, want %s", w.name, compact(got), w)
			if w.name == "retransmits" {
				return &resentError{text}
			}
			return errors.New(text)
		}
	}
	return nil
}

// observe collects the values under each name: "send" and "recv" from lines "wc send ID STATUS", others from "NAME VALUE".
func observe(stdout string) map[string][]string {
	seen := make(map[string][]string)
	for line := range strings.Lines(stdout) {
		switch f := strings.Fields(line); {
		case len(f) == 4 && f[0] == "wc":
			seen[f[1]] = append(seen[f[1]], f[3])
		case len(f) == 2:
			seen[f[0]] = append(seen[f[0]], f[1])
		}
	}
	return seen
}

func (w wanted) String() string {
	items := make([]string, len(w.values))
	for i, allowed := range w.values {
		items[i] = strings.Join(allowed, "|")
	}
	return compact(items)
}

// compact writes repeated values as cells.tsv does.
func compact(items []string) string {
	if len(items) == 0 {
		return "nothing"
	}
	var out []string
	for i := 0; i < len(items); {
		n := 1
		for i+n < len(items) && items[i+n] == items[i] {
			n++
		}
		if item := items[i]; n > 1 {
			out = append(out, fmt.Sprintf("%s*%d", item, n))
		} else {
			out = append(out, item)
		}
		i += n
	}
	return strings.Join(out, ",")
}

// judgeExplanations wants every status with which our end saw something fail said in words on stderr too. A flushed
// request did not fail itself.
func judgeExplanations(stdout, stderr string) error {
	seen := observe(stdout)
	for _, status := range slices.Concat(seen["send"], seen["recv"]) {
		if status != "SUCCESS" && status != "WR_FLUSH_ERR" && !strings.Contains(stderr, status) {
			return fmt.Errorf("ours does not explain %s", status)
		}
	}
	return nil
}

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// A result is the outcome of one cell, one line of results.tsv: outcome, cell, seconds, reason.
type result struct {
	outcome string // "pass" or "fail"
	id      string
	took    time.Duration
	reason  string
}

func (r result) String() string {
	return fmt.Sprintf("%s\t%s\t%.1f\t%s", r.outcome, r.id, r.took.Seconds(), r.reason)
}

// results is the file that lets a broken run be resumed: a line is on the disk before the next cell starts.
type results struct {
	file   *os.File
	passed map[string]bool
}

// openResults opens the file; with resume it first reads which cells passed in an earlier run, otherwise it starts over.
func openResults(name string, resume bool) (*results, error) {
	r := &results{passed: make(map[string]bool)}
	if resume {
		old, err := os.Open(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err == nil {
			defer old.Close()
			lines := bufio.NewScanner(old)
			for lines.Scan() {
				if f := strings.Split(lines.Text(), "\t"); len(f) == 4 {
					r.passed[f[1]] = f[0] == "pass" // the last line of a cell counts
				}
			}
			if err := lines.Err(); err != nil {
				return nil, err
			}
		}
	} else if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var err error
	if r.file, err = os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err == nil && resume {
		_, err = r.file.WriteString("\n") // what came last may have been cut off
	}
	return r, err
}

func (r *results) add(one result) error {
	if _, err := fmt.Fprintln(r.file, one); err != nil {
		return err
	}
	return r.file.Sync()
}

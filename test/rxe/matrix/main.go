package main

import (
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

//go:generate go run . -generate cells.tsv

//go:embed cells.tsv
var committed []byte

// A matrix is one call of the runner.
type matrix struct {
	bed      *bed
	bin      string // directory of rocectl and the programs of ../verbs
	out      string // results.tsv and failed/
	scratch  string
	limit    time.Duration // a cell
	baseline bool
	keep     bool // artefacts of cells that passed as well
}

// Exit statuses.
const (
	passed = 0 // every selected cell
	failed = 1
	usage  = 2
)

func main() {
	status, err := mainWithin(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
	}
	os.Exit(status)
}

func mainWithin(args []string, stdout io.Writer) (status int, err error) {
	flags := flag.NewFlagSet("matrix", flag.ContinueOnError)
	var m matrix
	set := flags.String("set", "cover", "selection of cells: cover, kernels or full")
	pattern := flags.String("run", "", "of these only the cells whose names match this regular expression")
	list := flags.Bool("list", false, "print the selected cells and end")
	generate := flags.String("generate", "", "write the cells to this file and end")
	resume := flags.Bool("resume", false, "skip the cells that passed according to results.tsv")
	within := flags.Duration("within", time.Hour, "start no cell after this time; the rest counts as failed")
	flags.StringVar(&m.bin, "bin", ".", "directory of rocectl, verbs-ours and verbs-rxe")
	flags.StringVar(&m.out, "out", "out", "directory for results.tsv and the artefacts of failed cells")
	flags.DurationVar(&m.limit, "limit", time.Minute, "time limit of one cell")
	flags.BoolVar(&m.baseline, "baseline", false, "rxe at both ends, original programs only; changes the routing rules of the machine")
	flags.BoolVar(&m.keep, "keep", false, "keep outputs and packets of passed cells too")
	if err := flags.Parse(args); err != nil {
		return usage, nil //nolint:nilerr // flag has said why
	}
	if *generate != "" {
		var b bytes.Buffer
		writeCells(&b, generateCells())
		return passed, os.WriteFile(*generate, b.Bytes(), 0o644)
	}
	cells, err := selectCells(*set, *pattern)
	if err != nil {
		return usage, err
	}
	if *list {
		writeCells(stdout, cells)
		return passed, nil
	}
	return m.run(cells, *resume, time.Now().Add(*within), stdout)
}

func selectCells(set, pattern string) ([]Cell, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	all, err := ReadCells(bytes.NewReader(committed))
	if err != nil {
		return nil, fmt.Errorf("cells.tsv: %w", err)
	}
	var cells []Cell
	for _, c := range all {
		if c.In(set) && re.MatchString(c.ID) {
			cells = append(cells, c)
		}
	}
	if len(cells) == 0 {
		return nil, fmt.Errorf("no cell of the set %q matches %q", set, pattern)
	}
	return cells, nil
}

func writeCells(w io.Writer, cells []Cell) {
	fmt.Fprintln(w, header)
	for i := range cells {
		fmt.Fprintln(w, cells[i].String())
	}
}

// run runs the cells in order and prints one line each, then a summary.
func (m *matrix) run(cells []Cell, resume bool, end time.Time, stdout io.Writer) (status int, err error) {
	if err := os.MkdirAll(m.out, 0o755); err != nil {
		return failed, err
	}
	done, err := openResults(filepath.Join(m.out, "results.tsv"), resume)
	if err != nil {
		return failed, err
	}
	defer done.file.Close()
	if m.scratch, err = os.MkdirTemp("", "rxe-matrix."); err != nil {
		return failed, err
	}
	defer os.RemoveAll(m.scratch)
	m.bed, err = makeBed(m.baseline)
	defer func() { err = errors.Join(err, m.bed.tearDown()) }()
	if err != nil {
		return failed, fmt.Errorf("cannot prepare the interfaces: %w", err)
	}

	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	tally := make(map[string]int)
	for i := range cells {
		c := &cells[i]
		if done.passed[c.ID] {
			tally["passed before"]++
			continue
		}
		select {
		case <-interrupted:
			end = time.Time{}
		default:
		}
		if time.Now().After(end) {
			tally["not run"]++
			continue
		}
		r, err := m.try(c, 20000+i%40000)
		if err != nil {
			return failed, err
		}
		if err := done.add(r); err != nil {
			return failed, err
		}
		tally[r.outcome]++
		fmt.Fprintf(stdout, "%s %s %.1f %s\n", r.outcome, r.id, r.took.Seconds(), r.reason)
	}
	fmt.Fprintf(stdout, "%d cells: %d passed, %d passed before, %d failed, %d not run\n",
		len(cells), tally["pass"], tally["passed before"], tally["fail"], tally["not run"])
	if tally["fail"]+tally["not run"] > 0 {
		return failed, nil
	}
	return passed, nil
}

// try runs one cell, again where something else than our end is shown to have spoilt it, and saves what it left behind if it failed.
func (m *matrix) try(c *Cell, port int) (r result, err error) {
	began := time.Now()
	r = result{outcome: "pass", id: c.ID}
	var t *trial
	for attempt := 1; ; attempt++ {
		watch := watchStalls()
		t, err = m.runCell(c, port)
		stood := watch.end()
		fmt.Fprintf(&t.log, "the machine stood still for at most %v\n", stood.Round(time.Millisecond))
		if err == nil || attempt == attempts {
			break
		}
		excuse := t.excuse(err, stood)
		if excuse == "" {
			break
		}
		r.reason += fmt.Sprintf("attempt %d: %s (%s); ", attempt, oneLine(err), excuse)
	}
	r.took = time.Since(began)
	dir := filepath.Join(m.out, "failed", c.ID)
	if err := os.RemoveAll(dir); err != nil {
		return r, err
	}
	if err != nil {
		r.outcome, r.reason = "fail", r.reason+oneLine(err)
	} else if m.keep {
		dir = filepath.Join(m.out, "kept", c.ID)
	} else {
		return r, os.RemoveAll(t.pcap)
	}
	if err := t.save(dir); err != nil {
		return r, err
	}
	return r, os.RemoveAll(t.pcap)
}

// oneLine is an error as a field of results.tsv.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

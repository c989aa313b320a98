// Gotest runs `go test` and tells what counts: a line a package, the whole output
// of what failed, and the name and reason of every test that was skipped.
//
//	gotest [go test flags and packages]
//	gotest -summary FILE [-strict]
//
// When the environment names a file in ROCE_TEST_OUTCOMES, outcomes are appended
// to it. -summary reads such a file, which several runs may have written (with
// and without -race, say), and counts each test once: a test that one run
// skipped and another passed has passed. With -strict, a test that every run
// skipped is a failure.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
)

// outcomesVariable names the file that outcomes are appended to.
const outcomesVariable = "ROCE_TEST_OUTCOMES"

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
}

func run(stdout io.Writer, args []string) error {
	if len(args) >= 2 && args[0] == "-summary" {
		return summarizeFile(stdout, args[1], slices.Contains(args[2:], "-strict"))
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	stream, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	outcomes, readErr := report(stdout, stream)
	_, copyErr := io.Copy(io.Discard, stream) // go test must not block on a pipe nobody reads
	err = cmd.Wait()
	if path := os.Getenv(outcomesVariable); path != "" {
		err = errors.Join(err, appendOutcomes(path, outcomes))
	}
	return errors.Join(readErr, copyErr, err)
}

func summarizeFile(stdout io.Writer, path string, strict bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	outcomes, err := readOutcomes(f)
	if err != nil {
		return err
	}
	return summarize(stdout, outcomes, strict)
}

func appendOutcomes(path string, outcomes []outcome) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(writeOutcomes(f, outcomes), f.Close())
}

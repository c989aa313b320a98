//go:build linux

package netns

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// cliDir is where rocectl is built; it goes when all tests have run.
var cliDir string

func TestMain(m *testing.M) {
	status := m.Run()
	if cliDir != "" {
		_ = os.RemoveAll(cliDir)
	}
	os.Exit(status)
}

// buildCLI builds rocectl, once, where every user may run it.
var buildCLI = sync.OnceValues(func() (string, error) {
	var err error
	if cliDir, err = os.MkdirTemp("", "rocectl-test-"); err != nil {
		return "", err
	}
	if err := os.Chmod(cliDir, 0o755); err != nil {
		return "", err
	}
	program := filepath.Join(cliDir, "rocectl")
	if said, err := exec.Command("go", "build", "-o", program, "../../cmd/rocectl").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	return program, nil
})

// cli is rocectl running in a namespace.
type cli struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	ended          chan struct{}
}

// cliResult is what a command line came to.
type cliResult struct {
	t              *testing.T
	args           []string
	status         int
	stdout, stderr string
}

// startCLI starts rocectl in the namespace. It is killed when the test ends.
func (h *host) startCLI(t *testing.T, args ...string) *cli {
	t.Helper()
	return h.startCLIAs(t, nil, args...)
}

// startCLIAs is startCLI for another user.
func (h *host) startCLIAs(t *testing.T, user *syscall.Credential, args ...string) *cli {
	t.Helper()
	program, err := buildCLI()
	if err != nil {
		t.Fatal("building rocectl:", err)
	}
	c := &cli{t: t, cmd: exec.Command(program, args...), ended: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = &c.stdout, &c.stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	h.in(func() { err = c.cmd.Start() })
	if err != nil {
		t.Fatal("starting rocectl:", err)
	}
	go func() {
		_ = c.cmd.Wait() // the status is looked at in the end
		close(c.ended)
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // it has usually ended
		<-c.ended
	})
	return c
}

// runCLI runs rocectl in the namespace to its end.
func (h *host) runCLI(t *testing.T, args ...string) cliResult {
	t.Helper()
	return h.startCLI(t, args...).wait(60 * time.Second)
}

// wait waits for the end, which must come within limit.
func (c *cli) wait(limit time.Duration) cliResult {
	c.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(limit):
		_ = c.cmd.Process.Signal(syscall.SIGQUIT) // shows where it hangs
		<-c.ended
		c.t.Fatalf("%v did not end within %v: %s", c.cmd.Args[1:], limit, c.stderr.String())
	}
	return cliResult{c.t, c.cmd.Args[1:], c.cmd.ProcessState.ExitCode(), c.stdout.String(), c.stderr.String()}
}

// listen waits until it accepts TCP connections. Connecting would tell as well, but it serves only one client.
func (c *cli) listen() {
	c.t.Helper()
	suffix := fmt.Sprintf(":%04X", cliPort)
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		for _, table := range []string{"tcp", "tcp6"} {
			sockets, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", c.cmd.Process.Pid, table))
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(sockets)) {
				// sl local_address rem_address st ...; 0A is LISTEN
				if f := strings.Fields(line); len(f) > 3 && f[3] == "0A" && strings.HasSuffix(f[1], suffix) {
					return
				}
			}
		}
		select {
		case <-c.ended:
			c.t.Fatalf("%v ended before it listened: %s", c.cmd.Args[1:], c.stderr.String())
		default:
		}
	}
	c.t.Fatalf("%v does not listen", c.cmd.Args[1:])
}

// succeeded checks the status, and that nothing was said on stderr.
func (r cliResult) succeeded() cliResult {
	r.t.Helper()
	if r.status != 0 || r.stderr != "" {
		r.t.Fatalf("%v ended with status %d: %s", r.args, r.status, r.stderr)
	}
	return r
}

// failed checks that it failed as a command must: a status, one sentence that has all of want in it, nothing else.
func (r cliResult) failed(status int, want ...string) {
	r.t.Helper()
	if r.status != status {
		r.t.Errorf("%v ended with status %d, want %d: %s", r.args, r.status, status, r.stderr)
	}
	if strings.Count(r.stderr, "\n") != 1 || !strings.HasPrefix(r.stderr, "rocectl: ") || strings.Contains(r.stderr, "goroutine ") {
		r.t.Errorf("%v did not say one sentence: %q", r.args, r.stderr)
	}
	for _, w := range want {
		if !strings.Contains(r.stderr, w) {
			r.t.Errorf("%v said %q, without %q", r.args, r.stderr, w)
		}
	}
}

// object decodes the one JSON object that stdout must be.
func (r cliResult) object(to any) {
	r.t.Helper()
	d := json.NewDecoder(strings.NewReader(r.stdout))
	if err := d.Decode(to); err != nil {
		r.t.Fatalf("%v printed no JSON object: %v: %q", r.args, err, r.stdout)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		r.t.Errorf("%v printed more than one object: %q", r.args, r.stdout)
	}
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A process is one program of a cell, in a process group of its own so that nothing it starts outlives the cell.
type process struct {
	args           []string
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	ended          chan struct{} // closed once err is set
	err            error
}

// startProcess starts a program; its end is waited for in the background.
func startProcess(args []string) (*process, error) {
	p := &process{args: args, cmd: exec.Command(args[0], args[1:]...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// wait reports whether the process ended by itself before the deadline.
func (p *process) wait(deadline time.Time) bool {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

// done reports whether the process has ended.
func (p *process) done() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// kill ends the process group at once and waits for it.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// dump ends a Go program that hangs so that it prints the stacks of its goroutines to stderr.
func (p *process) dump() {
	p.signal(syscall.SIGQUIT)
	p.wait(time.Now().Add(3 * time.Second))
	p.kill()
}

// interrupt ends a program that tidies up when asked to.
func (p *process) interrupt() {
	p.signal(syscall.SIGINT)
	p.wait(time.Now().Add(2 * time.Second))
	p.kill()
}

func (p *process) signal(s syscall.Signal) {
	if !p.done() { // or its number may be somebody else's
		_ = syscall.Kill(-p.cmd.Process.Pid, s)
	}
}

// status is the exit status of a process that has ended, or -1 where a signal ended it.
func (p *process) status() int { return p.cmd.ProcessState.ExitCode() }

// listen waits until the process, or what it became by exec, accepts TCP connections on port. Connecting would tell as
// well, but the programs serve one client, and the probe would be it.
func (p *process) listen(port int, deadline time.Time) error {
	for time.Now().Before(deadline) {
		for _, table := range []string{"tcp", "tcp6"} {
			sockets, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", p.cmd.Process.Pid, table))
			if err == nil && listening(string(sockets), port) {
				return nil
			}
		}
		if p.wait(time.Now().Add(10 * time.Millisecond)) {
			return errors.New("ended before it listened")
		}
	}
	return fmt.Errorf("did not listen on TCP port %d", port)
}

// listening searches a table of /proc/net/tcp for a socket in state LISTEN (0A) at port.
func listening(table string, port int) bool {
	suffix := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(table) {
		f := strings.Fields(line) // sl local_address rem_address st ...
		if len(f) > 3 && f[3] == "0A" && strings.HasSuffix(f[1], suffix) {
			return true
		}
	}
	return false
}

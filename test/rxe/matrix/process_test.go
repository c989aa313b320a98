package main

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

func TestProcessIsKilledWithWhatItStarted(t *testing.T) {
	p, err := startProcess([]string{"sh", "-c", "sleep 60 & echo $!; wait"})
	if err != nil {
		t.Fatal(err)
	}
	if p.wait(time.Now().Add(200 * time.Millisecond)) {
		t.Fatal("ended by itself")
	}
	began := time.Now()
	p.kill()
	if took := time.Since(began); took > 10*time.Second || !p.done() || p.status() != -1 {
		t.Errorf("kill took %v; done %v, status %d", took, p.done(), p.status())
	}
	// The pipe that the grandchild held is closed, so it is gone: otherwise Wait would have run into its delay.
	if p.err == nil || strings.Contains(p.err.Error(), "WaitDelay") {
		t.Errorf("wait: %v", p.err)
	}
}

func TestProcessStatus(t *testing.T) {
	p, err := startProcess([]string{"sh", "-c", "echo out; echo err >&2; exit 3"})
	if err != nil {
		t.Fatal(err)
	}
	if !p.wait(time.Now().Add(10 * time.Second)) {
		t.Fatal("did not end")
	}
	if p.status() != 3 || p.stdout.String() != "out\n" || p.stderr.String() != "err\n" {
		t.Errorf("status %d, %q, %q", p.status(), p.stdout.String(), p.stderr.String())
	}
	if err := p.listen(1, time.Now().Add(time.Second)); err == nil {
		t.Error("a process that has ended listens")
	}
}

func TestListening(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	table, err := os.ReadFile("/proc/self/net/tcp")
	if err != nil {
		t.Skip("needs Linux's /proc")
	}
	port := l.Addr().(*net.TCPAddr).Port
	if !listening(string(table), port) {
		t.Errorf("port %d is not found in\n%s", port, table)
	}
	const connected = "  sl  local_address rem_address   st\n   0: 0100007F:4E20 0100007F:4E21 01 0\n"
	if listening(connected, 0x4e20) {
		t.Error("a connection counts as a listener")
	}
}

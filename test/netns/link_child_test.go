//go:build linux

package netns

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/go-roce/roce/link"
)

// childEnv in the environment makes this test binary do one thing, named by its value, and
// no tests: what a test needs another process for.
const childEnv = "ROCE_NETNS_CHILD"

func init() {
	role := os.Getenv(childEnv)
	if role == "" {
		return
	}
	if err := runChild(role); err != nil {
		fmt.Println("failed:", err)
	}
	os.Exit(0)
}

func runChild(role string) error {
	var say string
	switch role {
	case "listen": // another program on the port
		c, err := net.ListenPacket("udp4", ":4791")
		if err != nil {
			return err
		}
		defer c.Close()
		say = "listening"
	case "share": // another program that is ready to share the port
		lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
			return errors.Join(c.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
			}), err)
		}}
		c, err := lc.ListenPacket(context.Background(), "udp6", "[::]:4791")
		if err != nil {
			return err
		}
		defer c.Close()
		say = "listening"
	case "open": // another process of this library
		l, err := link.OpenRaw(context.Background(), "eth0", link.Options{})
		if err != nil {
			return err
		}
		defer l.Close()
		say = fmt.Sprintf("%d %d", l.QPNs().First, l.QPNs().Count)
	}
	fmt.Println(say)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // until the test lets go
	return nil
}

// child runs a role in the namespace and returns what it has to say once it is ready. It
// runs until stop is called or the test ends, however that ends: it reads until its input does.
func (h *host) child(role string) (says string, stop func()) {
	h.t.Helper()
	path, err := os.Executable()
	h.must(err)
	return h.run(exec.Command(path), role)
}

// childOfAnotherUser is child for an unprivileged user who has CAP_NET_RAW.
func (h *host) childOfAnotherUser(role string) (says string, stop func()) {
	h.t.Helper()
	cmd := exec.Command("/proc/self/exe") // the user may not be able to walk to the file
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential:  &syscall.Credential{Uid: 65534, Gid: 65534},
		AmbientCaps: []uintptr{unix.CAP_NET_RAW},
	}
	return h.run(cmd, role)
}

func (h *host) run(cmd *exec.Cmd, role string) (says string, stop func()) {
	h.t.Helper()
	cmd.Env = append(os.Environ(), childEnv+"="+role)
	in, err := cmd.StdinPipe()
	h.must(err)
	out, err := cmd.StdoutPipe()
	h.must(err)
	h.in(func() { err = cmd.Start() })
	h.must(err)
	stop = func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	h.t.Cleanup(stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.HasPrefix(line, "failed") {
		h.t.Fatalf("child %s: %v %s", role, err, line)
	}
	return strings.TrimSpace(line), stop
}

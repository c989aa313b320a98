//go:build linux

package netns

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/go-roce/roce/link"
)

const interrupt = syscall.SIGINT

func readLines(name string) []string {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// nobody is a user without privilege.
var nobody = &syscall.Credential{Uid: 65534, Gid: 65534, NoSetGroups: true}

// commands that open a device, as server and as client.
var cliDeviceCommands = [][]string{
	{"perf", "write-bw"}, {"perf", "send-lat"}, {"pingpong", "rc"},
	{"perf", "write-bw", "10.77.0.2"}, {"perf", "send-lat", "10.77.0.2"}, {"pingpong", "rc", "10.77.0.2"},
}

// nothingLeft checks that UDP port 4791 is free again, and TCP port 18515 too.
func (h *host) nothingLeft(t *testing.T) {
	t.Helper()
	h.in(func() {
		if owner, err := link.PortOwner(); err != nil || owner != "free" {
			t.Errorf("UDP port 4791 is %s, %v", owner, err)
		}
		if l, err := net.Listen("tcp", fmt.Sprintf(":%d", cliPort)); err != nil {
			t.Errorf("TCP port %d: %v", cliPort, err)
		} else {
			l.Close()
		}
	})
}

func TestCLI_MissingInterface(t *testing.T) {
	l := newLab(t, 1500)
	for _, args := range cliDeviceCommands {
		l.a.runCLI(t, append([]string{"-d", "nosuch0"}, args...)...).failed(1, "there is no interface nosuch0")
	}
	l.a.runCLI(t, "info", "nosuch0").failed(1, `there is no interface "nosuch0"`)
	l.a.runCLI(t, "dump", "-i", "nosuch0").failed(1, `there is no interface "nosuch0"`)
	l.a.nothingLeft(t)
}

func TestCLI_InterfaceDown(t *testing.T) {
	l := newLab(t, 1500)
	l.a.must(l.a.nl.LinkSetDown(l.a.iface("eth0")))
	for _, args := range cliDeviceCommands {
		l.a.runCLI(t, append([]string{"-d", "eth0"}, args...)...).failed(1, "interface eth0 is down: bring it up with `ip link set eth0 up`")
	}
	l.a.runCLI(t, "perf", "write-bw").failed(1, "no interface is up and has an address")
	l.a.runCLI(t, "perf", "write-bw", "10.77.0.2").failed(1, "no route leads to 10.77.0.2")
	l.a.runCLI(t, "dump", "-i", "eth0").failed(1, "the interface eth0 is down: ip link set eth0 up")
	if r := l.a.runCLI(t, "info", "eth0").succeeded(); !strings.Contains(r.stdout, "raw  does not work: interface eth0 is down") {
		t.Errorf("info says\n%s", r.stdout)
	}
	l.a.nothingLeft(t)
}

func TestCLI_NoPrivilege(t *testing.T) {
	l := newLab(t, 1500)
	run := func(args ...string) cliResult { return l.a.startCLIAs(t, nobody, args...).wait(20 * time.Second) }
	for _, args := range cliDeviceCommands {
		run(append([]string{"-d", "eth0"}, args...)...).failed(1, "CAP_NET_RAW")
	}
	run("dump", "-i", "eth0").failed(1, "needs CAP_NET_RAW")
	run("lab", "up").failed(1, "the lab needs root")
	if r := run("info", "eth0").succeeded(); !strings.Contains(r.stdout, "raw  does not work: ") || !strings.Contains(r.stdout, "CAP_NET_RAW") {
		t.Errorf("info says\n%s", r.stdout)
	}
	l.a.nothingLeft(t)
}

func TestCLI_Port4791Taken(t *testing.T) {
	l := newLab(t, 1500)
	_, stop := l.a.child("listen")
	for _, args := range cliDeviceCommands {
		l.a.runCLI(t, append([]string{"-d", "eth0"}, args...)...).failed(1, "UDP port 4791", "is held by", "process")
	}
	var info struct {
		Port string `json:"port_4791"`
	}
	l.a.runCLI(t, "--json", "info").succeeded().object(&info)
	if !strings.Contains(info.Port, "held by ") {
		t.Errorf("info says port 4791 is %q", info.Port)
	}
	stop()
	l.a.nothingLeft(t)
}

func TestCLI_UnreachablePeer(t *testing.T) {
	l := newLab(t, 1500)
	for _, args := range [][]string{{"perf", "write-bw"}, {"pingpong", "rc"}} {
		run := func(host string) cliResult { return l.a.runCLI(t, append(args, host)...) }
		run("10.77.0.2").failed(1, "nothing listens at 10.77.0.2:18515")
		run("10.77.0.99").failed(1, "cannot connect to 10.77.0.99:18515")
		run("192.0.2.1").failed(1, "no route leads to 192.0.2.1")
		run("10.77.0.1").failed(1, "10.77.0.1 is an address of this machine itself")
		run("no-such-host.invalid").failed(1, `no address is known for the host name "no-such-host.invalid"`)
	}
	l.a.nothingLeft(t)
}

// scripted is a server in a namespace that says its lines to one client after hearing something, and hangs up.
func (h *host) scripted(t *testing.T, lines ...string) {
	t.Helper()
	var (
		l   net.Listener
		err error
	)
	h.in(func() {
		l, err = new(net.ListenConfig).Listen(context.Background(), "tcp4", fmt.Sprintf(":%d", cliPort))
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer l.Close()
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for _, line := range append(lines, "") {
			if _, err := c.Read(make([]byte, 512)); err != nil {
				return
			}
			_, _ = c.Write([]byte(line))
		}
	}()
	t.Cleanup(func() { l.Close() })
}

func TestCLI_PeerHangsUpInTheExchange(t *testing.T) {
	const version = "6.06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	l := newLab(t, 1500)
	for _, c := range []struct {
		says []string
		args []string
		want string
	}{
		{nil, []string{"perf", "write-bw"}, "hung up while its version was expected; the last it sent was nothing"},
		{[]string{version, "\x00\x00\x10\x00"}, []string{"perf", "send-lat"}, "hung up while its cache line size was expected; the last it sent was its cycle buffer size"},
		{[]string{"5.31\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"}, []string{"perf", "write-bw"}, "version skew: the peer speaks version 5.31"},
		{nil, []string{"pingpong", "rc"}, "hung up while its address was expected; the last it sent was nothing"},
		// Where the peer says it is, nobody answers: the way to it is looked for in vain.
		{
			[]string{"0000:000049:833290:00000000000000000000ffff0a4d0063\x00"}, []string{"pingpong", "rc"},
			"10.77.0.99",
		},
	} {
		l.b.scripted(t, c.says...)
		l.a.runCLI(t, append(c.args, "10.77.0.2")...).failed(1, c.want)
		time.Sleep(10 * time.Millisecond) // the script's port is free again
	}
	l.a.nothingLeft(t)
}

func TestCLI_PeerKilledInTheMiddle(t *testing.T) {
	l := newLab(t, 9000)
	for _, test := range []string{"write-bw", "send-bw", "read-bw", "write-lat", "send-lat", "read-lat"} {
		for _, killServer := range []bool{true, false} {
			t.Run(fmt.Sprint(test, " server ", killServer), func(t *testing.T) {
				s := l.b.startCLI(t, "perf", test, "-n", "100000000")
				s.listen()
				c := l.a.startCLI(t, "perf", test, "-n", "100000000", "10.77.0.2")
				time.Sleep(400 * time.Millisecond)
				victim, survivor := s, c
				if !killServer {
					victim, survivor = c, s
				}
				_ = victim.cmd.Process.Kill()
				r := survivor.wait(10 * time.Second)
				r.failed(1)
				if !strings.Contains(r.stderr, "hung up") && !strings.Contains(r.stderr, "RETRY_EXC_ERR") {
					t.Errorf("it said %q", r.stderr)
				}
				<-victim.ended
			})
		}
	}
	l.a.nothingLeft(t)
	l.b.nothingLeft(t)
}

// Once pingpong's exchange is over nothing but silence tells of a peer's death.
func TestCLI_PingpongPeerKilled(t *testing.T) {
	l := newLab(t, 9000)
	for _, killServer := range []bool{true, false} {
		s := l.b.startCLI(t, "pingpong", "rc", "-n", "100000000")
		s.listen()
		c := l.a.startCLI(t, "pingpong", "rc", "-n", "100000000", "10.77.0.2")
		time.Sleep(400 * time.Millisecond)
		victim, survivor := s, c
		if !killServer {
			victim, survivor = c, s
		}
		_ = victim.cmd.Process.Kill()
		r := survivor.wait(15 * time.Second)
		r.failed(1)
		if !strings.Contains(r.stderr, "no packet came from") && !strings.Contains(r.stderr, "RETRY_EXC_ERR") {
			t.Errorf("it said %q", r.stderr)
		}
		<-victim.ended
	}
}

func TestCLI_SignalsEndItInOrder(t *testing.T) {
	l := newLab(t, 1500)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		for _, args := range [][]string{{"perf", "write-bw"}, {"pingpong", "rc"}} {
			s := l.a.startCLI(t, args...)
			s.listen()
			_ = s.cmd.Process.Signal(sig)
			s.wait(5*time.Second).failed(1, "interrupted while waiting for a client")
		}
		for _, test := range []string{"write-bw", "send-lat"} {
			s := l.b.startCLI(t, "perf", test, "-n", "100000000")
			s.listen()
			c := l.a.startCLI(t, "perf", test, "-n", "100000000", "10.77.0.2")
			time.Sleep(300 * time.Millisecond)
			_ = c.cmd.Process.Signal(sig)
			c.wait(5*time.Second).failed(1, "interrupted while the test was running")
			s.wait(10 * time.Second).failed(1)
		}
	}
	l.a.nothingLeft(t)
	l.b.nothingLeft(t)
}

func TestCLI_BusyTCPPort(t *testing.T) {
	l := newLab(t, 1500)
	s := l.a.startCLI(t, "perf", "write-bw")
	s.listen()
	l.a.runCLI(t, "perf", "write-bw").failed(1, "TCP port 18515 is taken by another program")
	_ = s.cmd.Process.Signal(interrupt)
	s.wait(5 * time.Second)
	l.a.nothingLeft(t)
}

func TestCLI_UnfitChoices(t *testing.T) {
	l := newLab(t, 1500)
	l.a.runCLI(t, "pingpong", "rc", "-g", "9").failed(1, "has no GID with index -g 9")
	l.a.runCLI(t, "pingpong", "rc", "-g", "10.77.0.9").failed(1, "does not have the GID -g 10.77.0.9")
	l.a.runCLI(t, "pingpong", "rc", "-g", "gid").failed(2, `"gid" is neither an index nor an IP address`)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"perf", "write-bw", "-m", "4096"}, "-m 4096 does not fit the interface's MTU, which carries at most 1024"},
		{[]string{"pingpong", "rc", "-m", "2048"}, "-m 2048 does not fit the interface's MTU, which carries at most 1024"},
	} {
		l.b.scripted(t)
		l.a.runCLI(t, append(c.args, "10.77.0.2")...).failed(1, c.want)
		time.Sleep(10 * time.Millisecond)
	}
	l.b.scripted(t, "6.06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "\x00\x00\x10\x00", "\x00\x00\x00\x40", "3\x00")
	l.a.runCLI(t, "perf", "write-bw", "-x", "9", "10.77.0.2").failed(1, "has no GID with index -x 9")
	// A second interface: a server must be told which.
	second := netlink.NewLinkAttrs()
	second.Name = "eth1"
	l.a.must(l.a.nl.LinkAdd(&netlink.Veth{LinkAttrs: second, PeerName: "eth2"}))
	l.a.addAddr("eth1", "10.88.0.1/24")
	l.a.must(l.a.nl.LinkSetUp(l.a.iface("eth1")))
	l.a.runCLI(t, "perf", "write-bw").failed(1, "there are several interfaces: choose one of eth0, eth1 with -d")
	l.a.nothingLeft(t)
}

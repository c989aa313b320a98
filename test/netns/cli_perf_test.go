//go:build linux

package netns

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const cliPort = 18515

// cliReport is what perf and pingpong print with --json. Counters are pointers: one that is absent is a fault.
type cliReport struct {
	Test, Link, Mode string
	Size, QPs, MTU   int
	Iterations       uint64 `json:"iters"`
	Bytes            uint64
	Seconds          float64
	GbitPerS         float64 `json:"gbit_per_s"`
	Latency          *struct {
		Min, P50, P99, P999, Max, Mean float64
	} `json:"latency_us"`
	Retransmits *uint64
	NAKs        *uint64 `json:"naks_received"`
	RNRNAKs     *uint64 `json:"rnr_naks_received"`
	Timeouts    *uint64
	ICRCErrors  *uint64 `json:"icrc_errors"`
}

// clean checks that nothing went wrong on the wire.
func (r *cliReport) clean(t *testing.T) {
	t.Helper()
	for name, v := range map[string]*uint64{
		"retransmits": r.Retransmits, "naks_received": r.NAKs, "rnr_naks_received": r.RNRNAKs, "timeouts": r.Timeouts, "icrc_errors": r.ICRCErrors,
	} {
		if v == nil || *v != 0 {
			t.Errorf("%s: %s is %v on a clean link", r.Test, name, v)
		}
	}
}

// perfBetween runs a test between the two hosts and returns both reports.
func (l *lab) perfBetween(t *testing.T, args ...string) (client, server cliReport) {
	t.Helper()
	args = append([]string{"--json"}, args...)
	s := l.b.startCLI(t, args...)
	s.listen()
	c := l.a.runCLI(t, append(args, l.b.v4().String())...).succeeded()
	c.object(&client)
	s.wait(20 * time.Second).succeeded().object(&server)
	return client, server
}

// Every test between two processes on a wire, with the sizes, path MTUs and options of the rxe matrix. Neither is told
// its interface: the client takes the one that leads to the server, the server the only one.
func TestCLI_Perf(t *testing.T) {
	l := newLab(t, 9000)
	for _, c := range []string{
		"write-bw", "write-bw -s 1 -m 256", "write-bw -s 1025 -m 1024", "write-bw -s 1048576 -n 20 -m 4096", "write-bw -q 4 -b -m 1024 -n 50",
		"write-bw --ipv6 -s 5000", "write-bw -I 64 -s 64 -Q 1", "write-bw --tclass 104 -u 16",
		"send-bw", "send-bw -s 1025 -t 64 -r 200", "send-bw -q 4 -b -m 1024 -n 50", "send-bw --ipv6 -s 1 -t 1",
		"read-bw", "read-bw -s 1048576 -n 20 -o 1", "read-bw -q 4 -b -m 1024 -n 50", "read-bw --ipv6 -m 256 -s 5000 -n 50",
		"atomic-bw", "atomic-bw -A CMP_AND_SWAP -q 4 -b -n 50", "atomic-bw --ipv6 -o 1",
		"write-lat -n 300", "write-lat -s 65536 -n 20", "send-lat -n 300", "send-lat --ipv6 -s 1025 -n 20", "read-lat -n 50", "read-lat -s 65536 -n 20",
		"atomic-lat -n 50", "atomic-lat -A CMP_AND_SWAP --ipv6 -n 50",
	} {
		t.Run(c, func(t *testing.T) {
			args := append([]string{"perf"}, strings.Fields(c)...)
			client, server := l.perfBetween(t, args...)
			name := args[1]
			size := intFlag(args, "-s", map[bool]int{true: 2, false: 65536}[strings.HasSuffix(name, "-lat")])
			if strings.HasPrefix(name, "atomic") {
				size = 8
			}
			iterations := intFlag(args, "-n", map[bool]int{true: 5000, false: 1000}[name == "write-bw"])
			qps := intFlag(args, "-q", 1)
			want := uint64(size * iterations * qps)
			if slices.Contains(args, "-b") {
				want *= 2
			}
			for _, r := range []cliReport{client, server} {
				if r.Test != name || r.Link != "raw" || r.Size != size || r.Iterations != uint64(iterations) || r.QPs != qps || r.MTU != intFlag(args, "-m", 4096) {
					t.Errorf("%+v", r)
				}
				r.clean(t)
			}
			measure := []cliReport{client}
			if name != "read-lat" && name != "atomic-lat" {
				measure = append(measure, server)
			}
			for _, r := range measure {
				if r.Bytes != want || r.Seconds <= 0 || r.GbitPerS <= 0 {
					t.Errorf("%d bytes in %v s, want %d: %+v", r.Bytes, r.Seconds, want, r)
				}
				if (r.Latency != nil) != strings.HasSuffix(name, "-lat") {
					t.Errorf("latency %v", r.Latency)
				}
			}
		})
	}
}

func intFlag(args []string, flag string, otherwise int) int {
	if i := slices.Index(args, flag); i >= 0 {
		n, _ := strconv.Atoi(args[i+1])
		return n
	}
	return otherwise
}

func TestCLI_PerfAllSizesAndDuration(t *testing.T) {
	l := newLab(t, 9000)
	var all struct{ Runs []cliReport }
	s := l.b.startCLI(t, "perf", "send-bw", "-a", "-n", "5")
	s.listen()
	l.a.runCLI(t, "--json", "perf", "send-bw", "-a", "-n", "5", "10.77.0.2").succeeded().object(&all)
	if r := s.wait(20 * time.Second).succeeded(); strings.Count(r.stdout, "\n 8388608 ") != 1 || len(all.Runs) != 23 || all.Runs[22].Size != 8<<20 {
		t.Errorf("%d sizes; the server printed\n%s", len(all.Runs), r.stdout)
	}
	client, _ := l.perfBetween(t, "perf", "write-bw", "-D", "2", "-s", "4096")
	if client.Seconds < 0.9 || client.Seconds > 1.1 || client.Bytes != client.Iterations*4096 || client.Iterations == 0 {
		t.Errorf("%+v", client)
	}
}

func TestCLI_Pingpong(t *testing.T) {
	l := newLab(t, 9000)
	for _, c := range []struct{ server, client string }{
		{"-n 50", "-n 50"}, {"-n 20 -s 1", "-n 20 -s 1"}, {"-n 20 -s 1025 -m 256", "-n 20 -s 1025 -m 256"}, {"-n 5 -s 1048576 -m 4096", "-n 5 -s 1048576 -m 4096"},
		{"-n 20 -g fd77::2", "-n 20 -g fd77::1"}, {"-n 20", "-n 20 -g 1"}, {"-n 20 -r 1", "-n 20 -r 1"},
	} {
		t.Run(c.client, func(t *testing.T) {
			args := append([]string{"--json", "-d", "eth0", "pingpong", "rc"}, strings.Fields(c.server)...)
			s := l.b.startCLI(t, args...)
			s.listen()
			var client, server cliReport
			l.a.runCLI(t, append(append([]string{"--json", "-d", "eth0", "pingpong", "rc"}, strings.Fields(c.client)...), "10.77.0.2")...).succeeded().object(&client)
			s.wait(20 * time.Second).succeeded().object(&server)
			size, n := intFlag(args, "-s", 4096), intFlag(args, "-n", 0)
			for _, r := range []cliReport{client, server} {
				if r.Bytes != uint64(2*size*n) || r.Seconds <= 0 || r.MTU != intFlag(args, "-m", 1024) {
					t.Errorf("%+v", r)
				}
				r.clean(t)
			}
		})
	}
}

// The capture of --pcap shows the run, and dump finds nothing wrong with it.
func TestCLI_PcapAndImpair(t *testing.T) {
	l := newLab(t, 9000)
	pcap := filepath.Join(t.TempDir(), "run.pcapng")
	s := l.b.startCLI(t, "--json", "perf", "write-bw", "-s", "4096", "-n", "2000")
	s.listen()
	var client cliReport
	l.a.runCLI(t, "--json", "--pcap", pcap, "--impair", "loss=2%,dup=1%,reorder=1%,seed=3", "perf", "write-bw", "-s", "4096", "-n", "2000", "10.77.0.2").
		succeeded().object(&client)
	s.wait(20 * time.Second).succeeded()
	if client.Bytes != 4096*2000 || client.Retransmits == nil || *client.Retransmits == 0 {
		t.Errorf("%+v", client)
	}
	var seen struct {
		Packets uint64
		Bad     uint64 `json:"icrc_bad"`
		Opcodes map[string]uint64
		Flows   []struct {
			Retransmits uint64
		}
	}
	l.a.runCLI(t, "--json", "dump", "--strict", "-r", pcap).succeeded().object(&seen)
	if seen.Packets < 2000 || seen.Bad != 0 || seen.Opcodes["RC_RDMA_WRITE_ONLY"] < 1900 || seen.Flows[0].Retransmits == 0 {
		t.Errorf("%+v", seen)
	}
}

func TestCLI_DumpWatchesAnInterface(t *testing.T) {
	l := newLab(t, 1500)
	w := l.a.startCLI(t, "--json", "dump", "-i", "eth0", "--strict")
	waitForPacketSocket(t, w)
	client, _ := l.perfBetween(t, "perf", "send-bw", "-s", "100", "-n", "40", "-m", "1024")
	if client.Bytes != 4000 {
		t.Errorf("%+v", client)
	}
	time.Sleep(100 * time.Millisecond) // what was captured is read
	_ = w.cmd.Process.Signal(interrupt)
	var seen struct{ Opcodes map[string]uint64 }
	w.wait(5 * time.Second).succeeded().object(&seen)
	if seen.Opcodes["RC_SEND_ONLY"] != 40 || seen.Opcodes["RC_ACKNOWLEDGE"] == 0 {
		t.Errorf("%+v", seen)
	}
}

// waitForPacketSocket waits until the process has one: only then does it see packets.
func waitForPacketSocket(t *testing.T, c *cli) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if lines := procNet(c, "packet"); len(lines) > 1 {
			return
		}
	}
	t.Fatal("no packet socket")
}

func procNet(c *cli, table string) []string {
	return readLines(fmt.Sprintf("/proc/%d/net/%s", c.cmd.Process.Pid, table))
}

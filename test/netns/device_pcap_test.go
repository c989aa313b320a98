//go:build linux

package netns

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/test/exercise"
)

// capture carries out all operations both ways over real interfaces and returns the capture of one
// end, and how many packets it has.
func capture(t *testing.T, family func(netip.Addr) bool) (name string, frames int) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "all.pcapng")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lab := newLab(t, 1500)
	o := allOperations()
	o.Family = family
	o.Tweak = func(r *roce.Remote) { r.PathMTU = 256 }
	captured := o
	captured.Device.Pcap = f
	a := exercise.On(t, lab.a.openDevice("eth0", &captured.Device), captured)
	b := exercise.On(t, lab.b.openDevice("eth0", &o.Device), o)
	exercise.Join(t, a, b, o)
	exercise.Operations(t, a, b, 256)
	exercise.Operations(t, b, a, 256)
	exercise.Clean(t, a, b)
	c := a.Dev.Counters().QPs
	if err := a.Dev.Close(); err != nil {
		t.Fatal(err)
	}
	return name, int(c.RxPackets + c.TxPackets)
}

// judge runs another program over a capture, or skips the test if it is not installed.
func judge(t *testing.T, program string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed", program)
	}
	cmd := exec.Command(program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, &errs)
	}
	return out.String()
}

// heuristics of tshark that take payloads for upper protocols, and then find them malformed.
var heuristics = []string{"rpcrdma_infiniband", "eth_over_ib", "iser_infiniband", "smb_direct_infiniband"}

// tshark reads every packet of ours as what it is, all opcodes of RC, and finds none malformed.
func TestDevice_PacketsBeforeTshark(t *testing.T) {
	for name, family := range map[string]func(netip.Addr) bool{"IPv4": netip.Addr.Is4, "IPv6": isGlobal6} {
		t.Run(name, func(t *testing.T) {
			file, frames := capture(t, family)
			args := []string{"-r", file, "-T", "fields", "-e", "_ws.malformed", "-e", "infiniband.bth.opcode"}
			for _, h := range heuristics {
				args = append(args, "--disable-heuristic", h)
			}
			lines := strings.Split(strings.TrimSuffix(judge(t, "tshark", args...), "\n"), "\n")
			if len(lines) != frames {
				t.Errorf("tshark sees %d frames, %d passed", len(lines), frames)
			}
			seen := map[bth.Opcode]int{}
			for i, line := range lines {
				fields := strings.Split(line, "\t")
				opcode, err := strconv.ParseUint(fields[1], 10, 8)
				if fields[0] != "" || err != nil {
					t.Fatalf("frame %d: tshark says %q", i+1, line)
				}
				seen[bth.Opcode(opcode)]++
			}
			for o := bth.RCSendFirst; o <= bth.RCSendOnlyInvalidate; o++ {
				if _, named := o.Info(); named && seen[o] == 0 {
					t.Errorf("there is no %v in the capture", o)
				}
			}
		})
	}
}

// scapy computes the same ICRC for every packet.
func TestDevice_PacketsBeforeScapy(t *testing.T) {
	file, frames := capture(t, netip.Addr.Is4)
	const python = "/usr/bin/python3" // the one Debian installs scapy for
	if err := exec.Command(python, "-c", "import scapy.contrib.roce").Run(); err != nil {
		t.Skip("scapy is not installed")
	}
	if got, want := judge(t, python, "testdata/icrc.py", file), fmt.Sprintf("%d 0\n", frames); got != want {
		t.Errorf("packets and differing ICRCs are %q, want %q", got, want)
	}
}

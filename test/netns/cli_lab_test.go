//go:build linux

package netns

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The lab's namespaces have fixed names, so the test gives them a /run of its own: one shell in a mount namespace.
func TestCLI_Lab(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	program, err := buildCLI()
	if err != nil {
		t.Fatal("building rocectl:", err)
	}
	const script = `
mount -t tmpfs lab /run
say() { echo "== $*"; "$@"; echo "-- $?"; }
say "$R" lab status
say "$R" lab down
say "$R" lab up --mtu 1000
say "$R" lab exec a -- true
say "$R" --json lab up --mtu 4200
say "$R" lab up --mtu 4200
say "$R" lab exec a -- sh -c 'ls /sys/class/net; exit 7'
say "$R" lab exec a no-such-program
for to in 10.77.0.2 fd77::2; do
  "$R" lab exec b -- "$R" --json perf write-bw > /run/server &
  for i in $(seq 200); do "$R" lab exec b -- grep -q ':4853 .* 0A ' /proc/net/tcp6 /proc/net/tcp && break; sleep 0.05; done
  say "$R" lab exec a -- "$R" perf write-bw -n 20 $to
  wait
done
say "$R" lab exec a -- ip link delete roce0
say "$R" --json lab status
say "$R" lab up
say "$R" --json lab down
ls /run/netns
`
	cmd := exec.Command("unshare", "--mount", "--", "sh", "-c", script)
	cmd.Env = append(os.Environ(), "R="+program)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// Each command's output and status, in order.
	said := strings.Split(string(out), "== ")[1:]
	for i, want := range []struct{ output, status string }{
		{"There is no lab: rocectl lab up", "0"},
		{"There was no lab.", "0"},
		{"rocectl: the MTU 1000 must be 1280", "1"},
		{"rocectl: the lab is not up: rocectl lab up", "1"},
		{`{"up":true,`, "0"},
		{"The lab was up already:", "0"},
		{"lo\nroce0\n", "7"},
		{"rocectl: cannot run no-such-program: executable file not found in $PATH", "1"},
		{"GID: 10.77.0.2", "0"},
		{"GID: fd77::2", "0"},
		{"", "0"},
		{`"problem":"roce-a has no interface roce0"`, "0"},
		{"The lab is up:\n  a: namespace roce-a, interface roce0, MTU 9000", "0"},
		{`{"up":false}`, "0"},
	} {
		if i >= len(said) {
			t.Fatalf("only %d commands of %q", len(said), out)
		}
		output, status, _ := strings.Cut(said[i], "-- ")
		if j := strings.LastIndex(said[i], "\n-- "); j >= 0 {
			output, status = said[i][:j+1], said[i][j+4:]
		}
		status, rest, _ := strings.Cut(status, "\n")
		if !strings.Contains(output, want.output) || status != want.status {
			t.Errorf("%q\nended with %s, want %s and %q", output, status, want.status, want.output)
		}
		if i == 13 && strings.TrimSpace(rest) != "" {
			t.Errorf("namespaces are left: %q", rest)
		}
	}
	var state struct {
		Sides []struct {
			MTU       int
			Addresses []string
		}
	}
	line := said[4][strings.Index(said[4], "{"):]
	if err := json.Unmarshal([]byte(line[:strings.Index(line, "\n")]), &state); err != nil {
		t.Fatal(err)
	}
	if len(state.Sides) != 2 || state.Sides[0].MTU != 4200 || state.Sides[1].MTU != 4200 {
		t.Errorf("%+v", state)
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
)

// result is what a command line came to.
type result struct {
	status         int
	stdout, stderr string
}

func rocectl(t *testing.T, args ...string) result {
	t.Helper()
	return rocectlIn(t.Context(), args...)
}

func rocectlIn(ctx context.Context, args ...string) result {
	var stdout, stderr bytes.Buffer
	status := run(ctx, args, &stdout, &stderr)
	return result{status, stdout.String(), stderr.String()}
}

// fails checks that a command line failed in one sentence, with an object on stdout if that was asked for.
func (r result) fails(t *testing.T, status int, want string) {
	t.Helper()
	if r.status != status || !strings.Contains(r.stderr, want) {
		t.Errorf("status %d, stderr %q; want status %d, %q", r.status, r.stderr, status, want)
	}
	if strings.Count(r.stderr, "\n") != 1 || !strings.HasPrefix(r.stderr, "rocectl: ") || strings.Contains(r.stderr, "goroutine") {
		t.Errorf("stderr is not one sentence: %q", r.stderr)
	}
}

// object is the one JSON object that stdout must be.
func (r result) object(t *testing.T) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(r.stdout))
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatalf("stdout is no JSON object: %v: %q", err, r.stdout)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Errorf("there is more than one object: %q", r.stdout)
	}
	return m
}

// Nonsense on the command line ends with status 2 and one sentence, whatever the command; with --json the sentence is
// in the object, too.
func TestUsage_NonsenseIsNamed(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"frobnicate", `there is no command "frobnicate"`},
		{"--frobnicate", "unknown flag: --frobnicate"},
		{"demo --link raw", "the demo has both ends in one process"},
		{"demo --link wire", `--link "wire" is none of auto, xdp, raw, udp, mem`},
		{"demo extra", "one argument too many"},
		{"demo --impair lots", "--impair"},
		{"info eth0 eth1", "one argument too many"},
		{"lab", "needs a subcommand"},
		{"lab sideways", `there is no rocectl lab "sideways"`},
		{"lab exec", "takes a or b, then -- and a command"},
		{"lab exec c -- true", "takes a or b, then -- and a command"},
		{"lab exec a --", "takes a or b, then -- and a command"},
		{"lab up --mtu many", "invalid argument"},
		{"pingpong", "needs a subcommand"},
		{"pingpong xrc", `there is no rocectl pingpong "xrc"`},
		{"pingpong uc", "pingpong uc needs unreliable connections, which are not available in this version"},
		{"pingpong ud -p 1 host", "pingpong ud needs unreliable datagrams, which are not available in this version"},
		{"pingpong srq", "pingpong srq needs shared receive queues, which are not available in this version"},
		{"pingpong rc -m 1000", "-m 1000 is none of 256, 512, 1024, 2048, 4096"},
		{"pingpong rc -s 0", "-s 0 must be"},
		{"pingpong rc -n 0", "-n must be at least 1"},
		{"pingpong rc -r 0", "-r 0 must be"},
		{"pingpong rc -p 0", "-p 0 must be 1 to 65535"},
		{"pingpong rc --link mem", "--link mem joins devices of one process"},
		{"pingpong rc --link udp", "--link udp is not available in this version"},
		{"pingpong rc a b", "one argument too many"},
		{"perf", "needs a subcommand"},
		{"perf send", `there is no rocectl perf "send"`},
		{"perf write-bw --link xdp", "--link xdp is not available in this version"},
		{"perf write-bw --impair loss=2", "--impair"},
		{"perf write-bw a b", "one argument too many"},
		{"perf write-bw -c UC", "-c UC is not available in this version"},
		{"perf write-bw -c UD", "-c UD is not available in this version"},
		{"perf write-bw -c XRC", `-c "XRC" is none of RC, UC, UD`},
		{"perf write-bw -R", "-R needs the RDMA connection manager"},
		{"perf write-bw -T 5", "use --tclass"},
		{"perf write-bw -n 4", "-n 4 must be at least 5"},
		{"perf write-bw -n -4", "invalid argument"},
		{"perf write-bw -s 0", "-s 0 must be"},
		{"perf write-bw -s 2000000000", "-s 2000000000 must be"},
		{"perf write-bw -m 9000", "-m 9000 is none of"},
		{"perf write-bw -q 0", "-q 0 must be"},
		{"perf write-bw -t 0", "-t 0 must be"},
		{"perf write-bw -Q -1", "-Q -1 must be"},
		{"perf write-bw -I 100000", "-I 100000 must be"},
		{"perf write-bw -u 32", "-u 32 must be 0 to 31"},
		{"perf write-bw --tclass 256", "--tclass 256 must be 0 to 255"},
		{"perf write-bw -p 65536", "-p 65536 must be 1 to 65535"},
		{"perf write-bw -D -1", "-D must be positive"},
		{"perf write-bw -a -D 1", "cannot be combined with -D"},
		{"perf write-bw -r 5", "unknown shorthand flag: 'r'"}, // as ib_write_bw
		{"perf send-bw -r 0", "-r 0 must be"},
		{"perf read-bw -o 0", "-o 0 must be"},
		{"perf read-bw -o 129", "-o 129 must be"},
		{"perf atomic-bw -A SWAP", `-A "SWAP" is neither CMP_AND_SWAP nor FETCH_AND_ADD`},
		{"perf atomic-bw -s 8", "unknown shorthand flag: 's'"},
		{"perf write-lat -q 2", "unknown shorthand flag: 'q'"},
		{"perf write-lat -b", "unknown shorthand flag: 'b'"},
		{"dump", "needs either a capture file, -r FILE, or an interface, -i INTERFACE"},
		{"dump -r a -i b", "needs either a capture file"},
		{"dump file", "one argument too many"},
		{"dump -c few", "invalid argument"},
		{"version 2", "one argument too many"},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := strings.Fields(c.args)
			r := rocectl(t, args...)
			r.fails(t, exitUsage, c.want)
			if r.stdout != "" {
				t.Errorf("stdout %q", r.stdout)
			}
			r = rocectl(t, append([]string{"--json"}, args...)...)
			r.fails(t, exitUsage, c.want)
			if m := r.object(t); len(m) != 1 || !strings.Contains(m["error"].(string), c.want) {
				t.Errorf("object %v", m)
			}
		})
	}
}

func TestUsage_HelpNamesEveryCommand(t *testing.T) {
	r := rocectl(t, "help")
	for _, want := range []string{"demo", "info", "lab", "pingpong", "perf", "dump", "version", "completion", "--dev", "--link", "--json", "--pcap", "--impair", "--verbose"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %s in\n%s", want, r.stdout)
		}
	}
	if r := rocectl(t); r.status != exitDone || !strings.Contains(r.stdout, "Available Commands") {
		t.Errorf("without arguments: %+v", r)
	}
	// The only global shorthand is -d: the commands' own must stay theirs.
	if shorthands := strings.Count(rocectl(t, "version", "--help").stdout, "\n  -"); shorthands != 2 { // -d and -h
		t.Errorf("%d shorthands", shorthands)
	}
}

func TestCompletion_ForEveryShell(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if r := rocectl(t, "completion", shell); r.status != exitDone || !strings.Contains(r.stdout, "rocectl") {
			t.Errorf("%s: status %d, %d bytes", shell, r.status, len(r.stdout))
		}
	}
}

func TestVersion(t *testing.T) {
	if r := rocectl(t, "version"); r.status != exitDone || !strings.HasPrefix(r.stdout, "rocectl ") {
		t.Errorf("%+v", r)
	}
	m := rocectl(t, "version", "--json").object(t)
	for _, name := range []string{"version", "go", "os", "arch"} {
		if m[name] == "" || m[name] == nil {
			t.Errorf("no %s in %v", name, m)
		}
	}
}

// Flags that the fixed command line promises, of every test they make sense for.
func TestPerf_TakesPerftestsFlags(t *testing.T) {
	all := []string{"-n", "-D", "-m", "-p", "-u", "-x", "-R", "-c", "-F", "-T", "--tclass", "--ipv6", "--ipv6-addr"}
	for test, own := range map[string][]string{
		"write-bw":   {"-s", "-a", "-q", "-b", "-t", "-Q", "-I", "--report_gbits"},
		"send-bw":    {"-s", "-a", "-q", "-b", "-t", "-Q", "-I", "-r", "--report_gbits"},
		"read-bw":    {"-s", "-a", "-q", "-b", "-t", "-Q", "-o", "--report_gbits"},
		"atomic-bw":  {"-A", "-q", "-b", "-t", "-Q", "-o", "--report_gbits"},
		"write-lat":  {"-s", "-a", "-I"},
		"send-lat":   {"-s", "-a", "-I", "-r"},
		"read-lat":   {"-s", "-a", "-o"},
		"atomic-lat": {"-A", "-o"},
	} {
		help := rocectl(t, "perf", test, "--help").stdout
		words := strings.FieldsFunc(help, func(r rune) bool { return r == ' ' || r == ',' || r == '\n' })
		for _, flag := range slices.Concat(all, own) {
			if !slices.Contains(words, flag) {
				t.Errorf("perf %s has no %s", test, flag)
			}
		}
	}
}

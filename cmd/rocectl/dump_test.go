package main

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const captures = "../../bth/testdata"

// Every capture decodes; with --strict the exit status says whether a wrong ICRC is among the packets.
func TestDump_StrictIsTheVerdictOnEveryCapture(t *testing.T) {
	f, err := os.Open(filepath.Join(captures, "counts.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		var name string
		var frames, packets, bad float64
		if _, err := fmt.Sscan(lines.Text(), &name, &frames, &packets, &bad); err != nil {
			t.Fatal(err)
		}
		n++
		file := filepath.Join(captures, "captures", name+".pcap")
		r := rocectl(t, "dump", "-r", file, "--strict", "--json")
		if bad == 0 {
			if r.status != exitDone || r.stderr != "" {
				t.Errorf("%s: status %d, %q", name, r.status, r.stderr)
			}
		} else {
			r.fails(t, exitFailed, fmt.Sprintf("%.0f of %.0f packets have a wrong ICRC", bad, packets))
		}
		m := r.object(t)
		if m["packets"] != packets || m["icrc_bad"] != bad || m["icrc_good"] != packets-bad {
			t.Errorf("%s: %v packets, %v good, %v bad", name, m["packets"], m["icrc_good"], m["icrc_bad"])
		}
		sum := 0.0
		for _, v := range m["opcodes"].(map[string]any) {
			sum += v.(float64)
		}
		if sum != packets {
			t.Errorf("%s: %v opcodes", name, sum)
		}
		if r := rocectl(t, "dump", "-r", file); r.status != exitDone || !strings.Contains(r.stdout, fmt.Sprintf("%.0f RoCEv2 packets, %.0f with a wrong ICRC", packets, bad)) {
			t.Errorf("%s without --strict: status %d", name, r.status)
		}
	}
	if n < 120 {
		t.Errorf("only %d captures", n)
	}
}

// Scripts elsewhere depend on these names.
func TestDump_JSONHasTheFixedNames(t *testing.T) {
	m := rocectl(t, "dump", "--json", "-r", filepath.Join(captures, "captures", "rc_rnr.pcap")).object(t)
	if got, want := slices.Sorted(maps.Keys(m)), []string{"flows", "icrc_bad", "icrc_good", "opcodes", "packets"}; !slices.Equal(got, want) {
		t.Errorf("names %v, want %v", got, want)
	}
	flow := m["flows"].([]any)[1].(map[string]any)
	want := map[string]any{
		"src": "10.7.0.2", "dst": "10.7.0.1", "dest_qp": 39.0, "packets": 13.0, "bytes": 0.0, "retransmits": 0.0, "naks": 0.0, "rnr_naks": 9.0,
	}
	if !maps.Equal(flow, want) {
		t.Errorf("flow %v, want %v", flow, want)
	}
	if ops := m["opcodes"].(map[string]any); ops["RC_SEND_ONLY"] != 10.0 || ops["RC_ACKNOWLEDGE"] != 13.0 || len(ops) != 4 {
		t.Errorf("opcodes %v", ops)
	}
	empty := rocectl(t, "dump", "--json", "-r", filepath.Join(captures, "captures", "cm_rej_nolisten.pcap"), "-c", "0").object(t)
	if _, ok := empty["flows"].([]any); !ok {
		t.Errorf("flows of %v", empty)
	}
}

func TestDump_Text(t *testing.T) {
	r := rocectl(t, "dump", "-r", filepath.Join(captures, "captures", "rc_rnr_exceeded.pcap"))
	want, err := os.ReadFile("testdata/rc_rnr_exceeded.txt")
	if err != nil {
		t.Fatal(err)
	}
	if r.stdout != string(want) {
		t.Errorf("it printed\n%s\nwant\n%s", r.stdout, want)
	}
}

func TestDump_WritesWhatItRead(t *testing.T) {
	copied := filepath.Join(t.TempDir(), "copy.pcapng")
	in := filepath.Join(captures, "captures", "pt_send_bw.pcap")
	if r := rocectl(t, "dump", "-r", in, "-w", copied); r.status != exitDone {
		t.Fatalf("%+v", r)
	}
	first, second := rocectl(t, "dump", "-r", in, "--json"), rocectl(t, "dump", "-r", copied, "--json", "--strict")
	if first.stdout != second.stdout || second.status != exitDone {
		t.Errorf("the copy is\n%s\nwant\n%s", second.stdout, first.stdout)
	}
}

func TestDump_CountEndsIt(t *testing.T) {
	if m := rocectl(t, "dump", "-r", filepath.Join(captures, "captures", "rc_send.pcap"), "-c", "7", "--json").object(t); m["packets"] != 7.0 {
		t.Errorf("%v packets", m["packets"])
	}
}

func TestDump_BadInputIsNamed(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no capture at all"), 0o644); err != nil {
		t.Fatal(err)
	}
	good := filepath.Join(captures, "captures", "rc_send.pcap")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-r", filepath.Join(dir, "absent")}, "no such file or directory"},
		{[]string{"-r", text}, "is no capture file"},
		{[]string{"-r", dir}, "is no capture file"},
		{[]string{"-i", "nosuch0"}, `there is no interface "nosuch0"`},
		{[]string{"-d", "nosuch0"}, `there is no interface "nosuch0"`},
		{[]string{"-r", good, "-w", filepath.Join(dir, "no", "such", "directory")}, "cannot write the capture"},
	} {
		r := rocectl(t, append([]string{"dump", "--json"}, c.args...)...)
		r.fails(t, exitFailed, c.want)
		if m := r.object(t); !strings.Contains(fmt.Sprint(m["error"]), c.want) {
			t.Errorf("%v: %v", c.args, m)
		}
	}
}

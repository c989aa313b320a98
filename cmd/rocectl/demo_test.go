package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDemo_ShowsEveryOperationVerified(t *testing.T) {
	pcap := filepath.Join(t.TempDir(), "demo.pcapng")
	m := rocectl(t, "demo", "--json", "--pcap", pcap).object(t)
	parts := m["parts"].([]any)
	if len(parts) != 2 {
		t.Fatalf("%d parts", len(parts))
	}
	for i, impair := range []string{"", "loss=1%"} {
		part := parts[i].(map[string]any)
		if part["impair"] != impair {
			t.Errorf("part %d is with %q", i, part["impair"])
		}
		ops := part["operations"].([]any)
		if len(ops) != 7 {
			t.Errorf("%d operations", len(ops))
		}
		for _, o := range ops {
			o := o.(map[string]any)
			if o["verified_bytes"].(float64) < 8 || o["gbit_per_s"].(float64) <= 0 || o["latency_us"].(map[string]any)["p50"].(float64) <= 0 {
				t.Errorf("%v", o)
			}
		}
		// On a clean wire nothing is sent twice; where packets are lost they must be.
		if again := part["retransmits"].(float64); (again > 0) != (impair != "") {
			t.Errorf("with %q %v packets were sent again", impair, again)
		}
	}
	if info, err := os.Stat(pcap); err != nil || info.Size() < 1<<20 {
		t.Errorf("the capture: %v, %v", info, err)
	}
}

func TestDemo_Table(t *testing.T) {
	r := rocectl(t, "demo")
	for _, want := range []string{
		"a clean wire", "a wire with loss=1%", "SEND ", "SEND with immediate ", "RDMA WRITE ", "RDMA WRITE with immediate ", "RDMA READ ",
		"COMPARE AND SWAP ", "FETCH AND ADD ", "bytes verified",
	} {
		if r.status != exitDone || !strings.Contains(r.stdout, want) {
			t.Errorf("status %d, no %q in\n%s", r.status, want, r.stdout)
		}
	}
	if r.stderr != "" {
		t.Errorf("stderr %q", r.stderr)
	}
}

func TestDemo_InterruptEndsIt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	rocectlIn(ctx, "demo").fails(t, exitFailed, "interrupted")
}

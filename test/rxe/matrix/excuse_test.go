package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

var testPeer = end{v4: netip.MustParseAddr("10.78.0.1"), v6: netip.MustParseAddr("fd78::1")}

// rxe-restart.pcapng is six frames of a WRITE with immediate of 1 MiB by rdma_rxe of Linux 6.1, as they came.
func TestRxeRestart(t *testing.T) {
	const file = "testdata/rxe-restart.pcapng"
	if psn, yes := restartedWrongly(file, &testPeer); !yes || psn != 11011730 {
		t.Errorf("PSN %d, %v; want 11011730", psn, yes)
	}
	// What our end sends is never an excuse.
	other := end{v4: netip.MustParseAddr("10.78.0.2")}
	if _, yes := restartedWrongly(file, &other); yes {
		t.Error("a packet of the other end's counts")
	}
	if _, yes := restartedWrongly("testdata/none", &testPeer); yes {
		t.Error("no packets, and yet an excuse")
	}
}

// A cell is run again only if all that is wrong is what a standstill of the machine accounts for.
func TestOnlyResent(t *testing.T) {
	again := judgeText(&writeCell, strings.Replace(writeReport, `"retransmits":0`, `"retransmits":1`, 1))
	other := judgeText(&writeCell, strings.Replace(writeReport, `"size":1025`, `"size":1`, 1))
	both := judgeText(&writeCell, strings.NewReplacer(`"retransmits":0`, `"retransmits":1`, `"size":1025`, `"size":1`).Replace(writeReport))
	script, err := parseExpectation("data=right;retransmits=0")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		err  error
		want bool
	}{
		{again, true}, {errors.Join(nil, again), true}, {other, false}, {both, false}, {errors.Join(again, other), false},
		{errors.Join(fmt.Errorf("ours: %w", script.check("data right\nretransmits 2\n")), nil), true},
		{script.check("data wrong\nretransmits 2\n"), false},
	} {
		if got := onlyResent(test.err); got != test.want {
			t.Errorf("%v: %v, want %v", test.err, got, test.want)
		}
	}
}

// said makes a process that has printed something and ended with a status.
func said(t *testing.T, text string, status int) *process {
	t.Helper()
	p, err := startProcess([]string{"sh", "-c", fmt.Sprintf("echo '%s'; exit %d", text, status)})
	if err != nil {
		t.Fatal(err)
	}
	if !p.wait(time.Now().Add(10 * time.Second)) {
		t.Fatal("did not end")
	}
	return p
}

func TestExcuses(t *testing.T) {
	resent := &resentError{"ours reports retransmits 1, want 0"}
	failed := errors.New("ours exited with 1")
	well, out := said(t, "done", 0), said(t, "RETRY_EXC_ERR (12)", 1)
	pingpong := Cell{Tool: "ibv_rc_pingpong", Link: "loss"}
	clean, killed, write := writeCell, writeCell, writeCell
	killed.Op, write.Link = "killed-peer", "loss"
	for _, test := range []struct {
		name       string
		cell       *Cell
		ours, peer *process
		err        error
		stood      time.Duration
		excused    bool
	}{
		{"sent again, and the machine ran on", &clean, well, well, resent, stallLimit / 2, false},
		{"sent again, and the machine stood still", &clean, well, well, resent, 2 * stallLimit, true},
		{"failed, and the machine stood still", &clean, well, well, failed, 2 * retriesTake, false},
		{"out of retries, and the machine stood still for less", &clean, out, well, failed, retriesTake / 2, false},
		{"out of retries, and the machine stood still", &clean, out, well, failed, 2 * retriesTake, true},
		{"out of retries because the peer was killed", &killed, out, well, failed, 2 * retriesTake, false},
		{"pingpong out of retries after the peer had all", &pingpong, out, well, failed, 0, true},
		{"pingpong out of retries, the peer too", &pingpong, out, out, failed, 0, false},
		{"a write out of retries over a lossy link", &write, out, well, failed, 0, false},
	} {
		trial := &trial{cell: test.cell, bed: &bed{peer: testPeer}, ours: test.ours, peer: test.peer, pcap: "testdata/none"}
		if excuse := trial.excuse(test.err, test.stood); (excuse != "") != test.excused {
			t.Errorf("%s: excuse %q", test.name, excuse)
		}
	}
}

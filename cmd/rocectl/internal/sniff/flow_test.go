package sniff

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The marks of captures whose course is known, packet by packet ("." for none).
func TestAnalyzer_MarksWhatHappened(t *testing.T) {
	const (
		ok  = ""
		rtx = "retransmission"
		dup = "duplicate ack"
	)
	times := func(n int, marks ...string) []string { return slices.Repeat(marks, n) }
	for _, c := range []struct {
		capture string
		marks   []string
	}{
		{"rc_read", times(29, ok)},
		// READs before the path MTU is known, then a response lost and the READ resumed in its middle.
		{"rc_loss_read", slices.Concat(times(26, ok), []string{rtx, rtx, rtx, ok})},
		{"rc_rnr", slices.Concat([]string{ok}, times(9, "RNR NAK", rtx), times(3, ok), []string{rtx, rtx, ok, dup, dup})},
		{"rc_bad_rkey_write", []string{ok, ok, ok, "NAK"}},
		{"rc_psn_wrap_write", slices.Concat(times(5, ok), times(5, rtx), []string{ok}, times(5, dup), times(2, ok))},
		{"k612_bad_rkey_read", []string{ok, "NAK"}},
		{"ud_send", times(6, ok)},
	} {
		t.Run(c.capture, func(t *testing.T) {
			_, lines := analyze(t, filepath.Join(bthTestdata, "captures", c.capture+".pcap"))
			var marks []string
			for _, l := range lines {
				_, m, _ := strings.Cut(l, " [")
				marks = append(marks, strings.TrimSuffix(m, "]"))
			}
			if !slices.Equal(marks, c.marks) {
				t.Errorf("marks are\n%q, want\n%q", marks, c.marks)
			}
		})
	}
}

func TestAnalyzer_NothingIsMarkedWhereNothingWasLost(t *testing.T) {
	for _, name := range []string{
		"rc_ack_every_65", "rc_mixed_batch", "rc_read_depth4", "rc_atomic_depth", "rc_writeimm", "vlan", "uc_write", "pt_write_bw_bidir", "cm_rping_ipv6",
	} {
		sum, lines := analyze(t, filepath.Join(bthTestdata, "captures", name+".pcap"))
		for _, l := range lines {
			if strings.Contains(l, "[") {
				t.Errorf("%s: %s", name, l)
			}
		}
		for _, f := range sum.Flows {
			if f.Retransmits+f.NAKs+f.RNRNAKs != 0 {
				t.Errorf("%s: %+v", name, *f)
			}
		}
	}
}

func TestAnalyzer_FindsPacketsThatWereNotSeen(t *testing.T) {
	_, lines := analyze(t, filepath.Join(bthTestdata, "captures", "uc_loss.pcap"))
	gaps := 0
	for _, l := range lines {
		if strings.HasSuffix(l, "[gap]") {
			gaps++
		}
	}
	if gaps == 0 {
		t.Error("UC with 20 % loss shows no gap")
	}
}

package main

import (
	"fmt"
	"strings"
	"testing"
)

var writeCell = Cell{ID: "w", Tool: "ib_write_bw", Role: "client", Size: 1025, MTU: 1024, QPs: 4, Iterations: 20, Link: "clean"}

// writeReport is what rocectl should say of writeCell: 82000 bytes.
const writeReport = `{"test":"write-bw","link":"raw","mode":"RC","size":1025,"iters":20,"qps":4,"mtu":1024,"bytes":82000,` +
	`"seconds":0.001,"gbit_per_s":0.656,"mmsg_per_s":0.08,"retransmits":0,"naks_received":0,"rnr_naks_received":0,"timeouts":0,"icrc_errors":0}`

func judgeText(c *Cell, text string) error {
	r, err := parseReport(text)
	if err != nil {
		return err
	}
	return r.judge(c)
}

func TestReportIsJudged(t *testing.T) {
	lossy, server := writeCell, writeCell
	lossy.Link, server.Role = "loss", "server"
	latency := Cell{Tool: "ib_read_lat", Role: "client", Size: 1, MTU: 256, QPs: 1, Iterations: 20, Link: "clean"}
	latencyReport := `{"size":1,"iters":20,"qps":1,"mtu":256,"bytes":20,"seconds":0.1,"latency_us":{"min":1,"p50":2,"p99":3,"p999":3,` +
		`"max":4,"mean":2.5},"retransmits":0,"naks_received":0,"rnr_naks_received":0,"timeouts":0,"icrc_errors":0}`
	for _, test := range []struct {
		name     string
		cell     *Cell
		text     string
		old, new string
		wrong    string // in the error; "" for none
	}{
		{"as asked", &writeCell, writeReport, "", "", ""},
		{"another size", &writeCell, writeReport, `"size":1025`, `"size":1024`, "size"},
		{"fewer bytes", &writeCell, writeReport, `82000`, `81999`, "bytes"},
		{"fewer iterations", &writeCell, writeReport, `"iters":20`, `"iters":19`, "iters"},
		{"a rate that is not bytes over seconds", &writeCell, writeReport, "0.656", "0.082", "gbit_per_s"},
		{"a retransmission on a clean link", &writeCell, writeReport, `"retransmits":0`, `"retransmits":1`, "retransmits"},
		{"a retransmission on a lossy link", &lossy, writeReport, `"retransmits":0`, `"retransmits":1`, ""},
		{"a bad ICRC on a lossy link", &lossy, writeReport, `"icrc_errors":0`, `"icrc_errors":1`, "icrc_errors"},
		{"no counter", &lossy, writeReport, `"timeouts":0,`, ``, "timeouts"},
		{"a server that measures nothing", &server, writeReport, `"bytes":82000`, `"bytes":0`, ""},
		{"two objects", &writeCell, writeReport, `"icrc_errors":0}`, `"icrc_errors":0} {}`, "more than one"},
		{"no object", &writeCell, "done\n", "", "", "not an object"},
		{"latencies", &latency, latencyReport, "", "", ""},
		{"a percentile below the minimum", &latency, latencyReport, `"p50":2`, `"p50":0.5`, "order"},
		{"no latencies", &latency, latencyReport, `latency_us`, `latency`, "latency_us"},
	} {
		text := strings.Replace(test.text, test.old, test.new, 1)
		switch err := judgeText(test.cell, text); {
		case test.wrong == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)):
			t.Errorf("%s: %v, want something about %s", test.name, err, test.wrong)
		}
	}
}

func TestOriginalIsJudged(t *testing.T) {
	bandwidth := " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n 1025       80               12.16              12.16  \t\t   0.000012\n"
	latency := " 1       5          56.75          166.41       93.28    \t       93.28       \t36.00  \t\t166.41  \t\t166.41 \n"
	pingpong := "2621440 bytes in 0.07 seconds = 304.47 Mbit/sec\n20 iters in 0.07 seconds = 3443.95 usec/iter\n"
	lat := Cell{Tool: "ib_write_lat", Size: 1, QPs: 1, Iterations: 5}
	pp := Cell{Tool: "ibv_rc_pingpong", Size: 65536, QPs: 1, Iterations: 20}
	both := writeCell
	both.Both = true
	for i, test := range []struct {
		cell   *Cell
		server bool
		stdout string
		right  bool
	}{
		{&writeCell, false, bandwidth, true},
		{&writeCell, false, strings.Replace(bandwidth, " 80 ", " 79 ", 1), false},
		{&writeCell, false, "", false},
		{&writeCell, true, "", true},
		{&both, true, "", false},
		{&lat, true, latency, true},
		{&lat, true, "", false},
		{&pp, true, pingpong, true},
		{&pp, false, strings.Replace(pingpong, "2621440", "1310720", 1), false},
	} {
		if err := judgeOriginal(test.cell, test.server, test.stdout); (err == nil) != test.right {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestWordsAreOneSentence(t *testing.T) {
	for stderr, right := range map[string]bool{
		"rocectl: the peer did not answer for 4.3 s\n": true,
		"":                                      false,
		"panic: no\n\ngoroutine 1 [running]:\n": false,
		"one\ntwo\n":                            false,
	} {
		if err := judgeWords(stderr); (err == nil) != right {
			t.Errorf("%q: %v", stderr, err)
		}
	}
}

func TestExpectation(t *testing.T) {
	const seen = "wc send 0 REM_ACCESS_ERR\nwc recv 0 WR_FLUSH_ERR\nwc send 1 WR_FLUSH_ERR\nwc recv 1 WR_FLUSH_ERR\nregion untouched\n"
	for text, right := range map[string]bool{
		"":                                     true,
		"send=REM_ACCESS_ERR,WR_FLUSH_ERR":     true,
		"send=WR_FLUSH_ERR,REM_ACCESS_ERR":     false,
		"send=REM_ACCESS_ERR":                  false,
		"send=REM_ACCESS_ERR,WR_FLUSH_ERR*2":   false,
		"recv=WR_FLUSH_ERR*2;region=untouched": true,
		"recv=WR_FLUSH_ERR*2;region=changed":   false,
		"recv=":                                false,
		"send=REM_INV_REQ_ERR|REM_ACCESS_ERR,WR_FLUSH_ERR": true,
		"event=QP_ACCESS_ERR":                              false,
		"event=":                                           true,
	} {
		e, err := parseExpectation(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.check(seen); (err == nil) != right {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"send", "send=A*many"} {
		if _, err := parseExpectation(text); err == nil {
			t.Errorf("%q parses", text)
		}
	}
}

func TestFailuresMustBeExplained(t *testing.T) {
	const seen = "wc send 0 REM_ACCESS_ERR\nwc send 1 WR_FLUSH_ERR\n"
	if err := judgeExplanations(seen, "REM_ACCESS_ERR (10): the peer refused the key\n"); err != nil {
		t.Error(err)
	}
	if judgeExplanations(seen, "something failed\n") == nil {
		t.Error("no error for a status without an explanation")
	}
}

func TestBytesOfACell(t *testing.T) {
	for want, c := range map[int64]Cell{
		82000:   writeCell,
		164000:  {Tool: "ib_write_bw", Size: 1025, QPs: 4, Iterations: 20, Both: true},
		2621440: {Tool: "ibv_rc_pingpong", Size: 65536, QPs: 1, Iterations: 20},
	} {
		if got := c.bytes(); got != want {
			t.Errorf("%s: %d, want %d", fmt.Sprint(c.Tool, c.Size), got, want)
		}
	}
}

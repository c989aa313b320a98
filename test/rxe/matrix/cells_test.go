package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func committedCells(t *testing.T) []Cell {
	t.Helper()
	cells, err := ReadCells(bytes.NewReader(committed))
	if err != nil {
		t.Fatal(err)
	}
	return cells
}

func TestCommittedCellsAreTheGeneratedOnes(t *testing.T) {
	var want bytes.Buffer
	writeCells(&want, generateCells())
	if !bytes.Equal(committed, want.Bytes()) {
		t.Error("cells.tsv is not what generate.go writes; run go generate")
	}
}

// The matrix is whole when it has a cell for everything that was promised, however the generator goes about it.
func TestMatrixIsWhole(t *testing.T) {
	have := make(map[string]bool)
	for _, c := range committedCells(t) {
		have[fmt.Sprint(c.Tool, c.Role, c.Op, c.Size, c.MTU, c.Family, c.QPs, c.Both, c.Link)] = true
	}
	want := func(tool, role, op string, size, mtu, family, qps int, both bool, link string) {
		t.Helper()
		if key := fmt.Sprint(tool, role, op, size, mtu, family, qps, both, link); !have[key] {
			t.Errorf("no cell for %s", key)
		}
	}
	for _, role := range []string{"client", "server"} {
		for _, family := range []int{4, 6} {
			for _, mtu := range []int{256, 1024, 4096} {
				for _, size := range []int{1, 1025, 64 << 10, 1 << 20} {
					for _, tool := range strings.Fields("ibv_rc_pingpong ib_send_bw ib_write_bw ib_read_bw ib_send_lat ib_write_lat ib_read_lat") {
						want(tool, role, "", size, mtu, family, 1, false, "clean")
						if mtu == 1024 && strings.HasSuffix(tool, "_bw") {
							want(tool, role, "", size, mtu, family, 4, false, "clean")
							want(tool, role, "", size, mtu, family, 1, true, "clean")
						}
					}
				}
				for _, op := range []string{"FETCH_AND_ADD", "CMP_AND_SWAP"} {
					want("ib_atomic_bw", role, op, 8, mtu, family, 1, false, "clean")
					want("ib_atomic_lat", role, op, 8, mtu, family, 1, false, "clean")
					if mtu == 1024 {
						want("ib_atomic_bw", role, op, 8, mtu, family, 4, false, "clean")
						want("ib_atomic_bw", role, op, 8, mtu, family, 1, true, "clean")
					}
				}
			}
		}
		for _, link := range []string{"loss", "reorder", "duplicate"} {
			for _, tool := range strings.Fields("ibv_rc_pingpong ib_send_bw ib_write_bw ib_read_bw") {
				want(tool, role, "", 64<<10, 1024, 4, 1, false, link)
			}
			want("ib_atomic_bw", role, "FETCH_AND_ADD", 8, 1024, 4, 1, false, link)
			want("ib_atomic_bw", role, "CMP_AND_SWAP", 8, 1024, 4, 1, false, link)
		}
	}
	scripted := make(map[string]bool)
	for _, c := range committedCells(t) {
		scripted[c.Role+" "+c.Op] = true
	}
	for _, role := range []string{"client", "server"} {
		for _, op := range strings.Fields("rkey-write rkey-read rkey-fadd rkey-cas bounds-write bounds-read bounds-fadd " +
			"no-region-access-write no-region-access-read no-region-access-cas no-qp-access-write rnr-send rnr-late-send " +
			"small small-fragments mtu-above-write mtu-below-write mtu-above-read mtu-below-read killed-peer killed-ours " +
			"verify-send verify-send-imm verify-write verify-write-imm verify-read verify-fadd verify-cas") {
			if !scripted[role+" "+op] {
				t.Errorf("no cell for %s as %s", op, role)
			}
		}
	}
}

// The covering selection runs every tool in both roles with every value of every parameter, and every pair of values of
// size, path MTU and family somewhere.
func TestCoveringSelection(t *testing.T) {
	have := make(map[string]bool)
	for _, c := range committedCells(t) {
		if !c.In("cover") {
			continue
		}
		who := c.Tool + " " + c.Role
		size, mtu, family := fmt.Sprint("size ", c.Size), fmt.Sprint("mtu ", c.MTU), fmt.Sprint("family ", c.Family)
		for _, v := range []string{size, mtu, family, fmt.Sprint("qps ", c.QPs), fmt.Sprint("both ", c.Both), "link " + c.Link, "op " + c.Op} {
			have[who+" "+v] = true
		}
		have[size+" "+mtu], have[size+" "+family], have[mtu+" "+family] = true, true, true
	}
	want := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			if !have[key] {
				t.Errorf("nothing covers %s", key)
			}
		}
	}
	for _, role := range []string{"client", "server"} {
		for _, tool := range strings.Fields("ibv_rc_pingpong ib_send_bw ib_write_bw ib_read_bw ib_send_lat ib_write_lat ib_read_lat") {
			who := tool + " " + role
			for _, v := range strings.Fields("1 1025 65536 1048576") {
				want(who + " size " + v)
			}
			want(who+" mtu 256", who+" mtu 1024", who+" mtu 4096", who+" family 4", who+" family 6")
			if tool != "ibv_rc_pingpong" && strings.HasSuffix(tool, "_bw") {
				want(who+" qps 4", who+" both true", who+" link loss", who+" link reorder", who+" link duplicate")
			}
		}
		for _, tool := range []string{"ib_atomic_bw", "ib_atomic_lat"} {
			want(tool+" "+role+" op FETCH_AND_ADD", tool+" "+role+" op CMP_AND_SWAP", tool+" "+role+" family 4", tool+" "+role+" family 6")
		}
	}
	for _, size := range strings.Fields("1 1025 65536 1048576") {
		want("size "+size+" mtu 256", "size "+size+" mtu 1024", "size "+size+" mtu 4096", "size "+size+" family 4", "size "+size+" family 6")
	}
	for _, mtu := range strings.Fields("256 1024 4096") {
		want("mtu "+mtu+" family 4", "mtu "+mtu+" family 6")
	}
}

func TestReadCellsRefuses(t *testing.T) {
	good := "a\t-\tib_read_bw\tclient\t1\t256\t4\t1\t-\t-\t5\tclean\t-\t-"
	for name, line := range map[string]string{
		"a missing field":   strings.TrimSuffix(good, "\t-"),
		"an unknown tool":   strings.Replace(good, "ib_read_bw", "ib_rd_bw", 1),
		"an unknown role":   strings.Replace(good, "client", "both", 1),
		"no number":         strings.Replace(good, "256", "many", 1),
		"no family":         strings.Replace(good, "\t4\t", "\t5\t", 1),
		"an unknown link":   strings.Replace(good, "clean", "muddy", 1),
		"an unknown script": strings.Replace(good, "ib_read_bw\tclient", "verbs\tclient", 1),
		"no expectation":    strings.TrimSuffix(good, "-") + "send",
		"the same id twice": good + "\n" + good,
	} {
		if _, err := ReadCells(strings.NewReader(header + "\n" + line + "\n")); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if cells, err := ReadCells(strings.NewReader(header + "\n# remark\n\n" + good + "\n")); err != nil || len(cells) != 1 {
		t.Errorf("good line: %d cells, %v", len(cells), err)
	}
}

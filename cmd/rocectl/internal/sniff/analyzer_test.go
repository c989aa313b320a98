package sniff

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-roce/roce/bth"
)

const bthTestdata = "../../../../bth/testdata"

func analyze(t *testing.T, name string) (*Summary, []string) {
	t.Helper()
	s, err := OpenFile(name)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a := NewAnalyzer()
	var lines []string
	for {
		frame, at, err := s.Next()
		if errors.Is(err, io.EOF) {
			return a.Summary(), lines
		}
		if err != nil {
			t.Fatal(err)
		}
		if o := a.Frame(at, frame); o != nil {
			lines = append(lines, o.String())
		}
	}
}

// counts.tsv is what the people who took the captures counted in them, with tcpdump and an ICRC checker of their own.
func TestAnalyzer_CountsWhatTheCapturesHold(t *testing.T) {
	f, err := os.Open(filepath.Join(bthTestdata, "counts.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	seen := 0
	for lines.Scan() {
		var name string
		var frames, roce, bad uint64
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		if _, err := fmt.Sscan(lines.Text(), &name, &frames, &roce, &bad); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		seen++
		t.Run(name, func(t *testing.T) {
			sum, lines := analyze(t, filepath.Join(bthTestdata, "captures", name+".pcap"))
			if sum.Packets != roce || sum.ICRCBad != bad || sum.ICRCGood != roce-bad || uint64(len(lines)) != roce {
				t.Errorf("%d packets, %d good, %d bad, %d lines; want %d packets, %d bad", sum.Packets, sum.ICRCGood, sum.ICRCBad, len(lines), roce, bad)
			}
			if sum.Other != frames-roce || len(sum.Odd) != 0 {
				t.Errorf("%d other frames, want %d; %v that are none by their headers", sum.Other, frames-roce, sum.Odd)
			}
		})
	}
	if captures, err := filepath.Glob(filepath.Join(bthTestdata, "captures", "*.pcap")); err != nil || len(captures) != seen {
		t.Errorf("%d captures in the table, %d there (%v)", seen, len(captures), err)
	}
}

func TestAnalyzer_CountsOpcodesAsTsharkDoes(t *testing.T) {
	tables, err := filepath.Glob(filepath.Join(bthTestdata, "tshark", "*.tsv"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("no tables of tshark's: %v", err)
	}
	for _, table := range tables {
		name := strings.TrimSuffix(filepath.Base(table), ".tsv")
		if name == "opcodes" {
			continue // the names tshark gives them
		}
		t.Run(name, func(t *testing.T) {
			sum, _ := analyze(t, filepath.Join(bthTestdata, "captures", name+".pcap"))
			if want := tsharkOpcodes(t, table); !maps.Equal(sum.Opcodes, want) {
				t.Errorf("opcodes are\n%v, tshark counts\n%v", sum.Opcodes, want)
			}
		})
	}
}

func tsharkOpcodes(t *testing.T, name string) map[string]uint64 {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma = '\t'
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := -1
	for i, name := range rows[0] {
		if name == "infiniband.bth.opcode" {
			column = i
		}
	}
	counts := make(map[string]uint64)
	for _, row := range rows[1:] {
		if row[column] == "" {
			continue // not RoCEv2
		}
		v, err := strconv.ParseUint(row[column], 0, 8)
		if err != nil {
			t.Fatal(err)
		}
		counts[bth.Opcode(v).String()]++
	}
	return counts
}

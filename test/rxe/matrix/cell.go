package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A Cell is one line of cells.tsv. The zero value of a field that a tool does not have is written "-".
type Cell struct {
	ID         string
	Sets       []string // named selections it belongs to; every cell is in the full matrix
	Tool       string   // rc_pingpong, one of perftest's ib_*, or verbs (the pair of ../verbs)
	Role       string   // ours: "client" or "server"; of a verbs cell the client is the requester
	Size       int      // message bytes
	MTU        int      // path MTU, bytes
	Family     int      // 4 or 6, the family of the GIDs
	QPs        int      // perftest -q
	Both       bool     // perftest -b: both ends send
	Op         string   // perftest -A, or the script of a verbs cell
	Iterations int
	Link       string // what netem does to both directions: a name of impairments
	// What a verbs cell must see at either end, see parseExpectation; empty in other cells.
	Requester, Responder string
}

const header = "id\tsets\ttool\trole\tsize\tmtu\tfamily\tqps\tboth\top\titerations\tlink\trequester\tresponder"

// In reports whether c belongs to the selection called set.
func (c *Cell) In(set string) bool {
	for _, s := range c.Sets {
		if s == set {
			return true
		}
	}
	return set == "full"
}

func (c *Cell) String() string {
	both := "-"
	if c.Both {
		both = "both"
	}
	return strings.Join([]string{
		c.ID, orDash(strings.Join(c.Sets, ",")), c.Tool, c.Role, strconv.Itoa(c.Size), strconv.Itoa(c.MTU),
		strconv.Itoa(c.Family), strconv.Itoa(c.QPs), both, orDash(c.Op), strconv.Itoa(c.Iterations), c.Link,
		orDash(c.Requester), orDash(c.Responder),
	}, "\t")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// ReadCells reads the format of cells.tsv: a header, then one cell a line; lines that begin with # are remarks.
func ReadCells(r io.Reader) ([]Cell, error) {
	var cells []Cell
	seen := make(map[string]bool)
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == header || line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		c, err := parseCell(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if seen[c.ID] {
			return nil, fmt.Errorf("line %d: a second cell called %s", n, c.ID)
		}
		seen[c.ID] = true
		cells = append(cells, c)
	}
	return cells, lines.Err()
}

func parseCell(line string) (Cell, error) {
	fields := strings.Split(line, "\t")
	if want := strings.Count(header, "\t") + 1; len(fields) != want {
		return Cell{}, fmt.Errorf("%d fields, want %d", len(fields), want)
	}
	for i, f := range fields {
		if f == "-" {
			fields[i] = ""
		}
	}
	c := Cell{
		ID: fields[0], Tool: fields[2], Role: fields[3], Both: fields[8] == "both", Op: fields[9], Link: fields[11],
		Requester: fields[12], Responder: fields[13],
	}
	if fields[1] != "" {
		c.Sets = strings.Split(fields[1], ",")
	}
	for _, n := range []struct {
		field int
		to    *int
	}{{4, &c.Size}, {5, &c.MTU}, {6, &c.Family}, {7, &c.QPs}, {10, &c.Iterations}} {
		v, err := strconv.Atoi(fields[n.field])
		if err != nil {
			return Cell{}, fmt.Errorf("%s: %q is not a number", c.ID, fields[n.field])
		}
		*n.to = v
	}
	return c, c.check()
}

// check refuses what the runner could not run, so that a slip in the file is found before the machine boots.
func (c *Cell) check() error {
	if _, ok := tools[c.Tool]; !ok {
		return fmt.Errorf("%s: no tool called %q", c.ID, c.Tool)
	}
	if c.Role != "client" && c.Role != "server" {
		return fmt.Errorf("%s: role %q is neither client nor server", c.ID, c.Role)
	}
	if c.Family != 4 && c.Family != 6 {
		return fmt.Errorf("%s: family %d is neither 4 nor 6", c.ID, c.Family)
	}
	if _, ok := impairments[c.Link]; !ok {
		return fmt.Errorf("%s: no link called %q", c.ID, c.Link)
	}
	if c.Tool == verbsTool && scripts[c.Op] == nil {
		return fmt.Errorf("%s: no script called %q", c.ID, c.Op)
	}
	for _, e := range []string{c.Requester, c.Responder} {
		if _, err := parseExpectation(e); err != nil {
			return fmt.Errorf("%s: %w", c.ID, err)
		}
	}
	return nil
}

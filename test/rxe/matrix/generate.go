package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// generateCells writes the matrix out. The order is that of the run: what is basic comes first.
func generateCells() []Cell {
	var cells []Cell
	cells = append(cells, cleanCells()...)
	cells = append(cells, manyCells()...)
	cells = append(cells, impairedCells()...)
	cells = append(cells, scriptCells()...)
	for i := range cells {
		cells[i].ID = cells[i].name()
	}
	return cells
}

var (
	sizes    = []int{1, 1025, 65536, 1048576}
	mtus     = []int{256, 1024, 4096}
	families = []int{4, 6}
	roles    = []string{"server", "client"}
	sized    = []string{"ibv_rc_pingpong", "ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_send_lat", "ib_write_lat", "ib_read_lat"}
	atomic   = []string{"ib_atomic_bw", "ib_atomic_lat"}
	atomics  = []string{"FETCH_AND_ADD", "CMP_AND_SWAP"}
)

// iterations is few for much: what one cell moves must pass an emulated machine in a second or two.
func iterations(size int) int {
	switch {
	case size > 100_000:
		return 5
	case size > 10_000:
		return 10
	}
	return 20
}

// name builds a cell's name from what distinguishes it.
func (c *Cell) name() string {
	name := fmt.Sprintf("%s.%s", c.Tool, c.Role)
	if c.Op != "" {
		name += "." + c.Op
	}
	name += fmt.Sprintf(".%d.m%d.v%d", c.Size, c.MTU, c.Family)
	if c.QPs > 1 {
		name += fmt.Sprintf(".q%d", c.QPs)
	}
	if c.Both {
		name += ".b"
	}
	if c.Link != "clean" {
		name += "." + c.Link
	}
	return name
}

// cleanCells are every tool, role, size, path MTU and family. The covering selection takes one path MTU and family for
// each tool, role and size, in turn, so that every pair of values meets; TestCoveringSelection holds it to that.
func cleanCells() []Cell {
	var cells []Cell
	for t, tool := range sized {
		for r, role := range roles {
			for s, size := range sizes {
				for m, mtu := range mtus {
					for f, family := range families {
						c := Cell{Tool: tool, Role: role, Size: size, MTU: mtu, Family: family, QPs: 1,
							Iterations: iterations(size), Link: "clean"}
						if m == (s+t+2*r)%len(mtus) && f == (s/2+t+r)%len(families) {
							c.Sets = append(c.Sets, "cover")
						}
						if mtu == 1024 && family == 4 && (tool == "ibv_rc_pingpong" || tool[len(tool)-3:] == "_bw") {
							c.Sets = append(c.Sets, "kernels")
						}
						cells = append(cells, c)
					}
				}
			}
		}
	}
	for t, tool := range atomic {
		for o, op := range atomics {
			for r, role := range roles {
				for m, mtu := range mtus {
					for f, family := range families {
						c := Cell{Tool: tool, Role: role, Size: 8, MTU: mtu, Family: family, QPs: 1, Op: op,
							Iterations: 20, Link: "clean"}
						if m == (t+o+r)%len(mtus) && f == (o+r)%len(families) {
							c.Sets = append(c.Sets, "cover")
						}
						if mtu == 1024 && family == 4 && tool == "ib_atomic_bw" {
							c.Sets = append(c.Sets, "kernels")
						}
						cells = append(cells, c)
					}
				}
			}
		}
	}
	return cells
}

// manyCells are the bandwidth tests with four queue pairs, and in both directions at once.
func manyCells() []Cell {
	var cells []Cell
	add := func(c Cell, covers bool) {
		c.Link, c.MTU = "clean", 1024
		if covers {
			c.Sets = []string{"cover"}
		}
		cells = append(cells, c)
	}
	for t, tool := range []string{"ib_send_bw", "ib_write_bw", "ib_read_bw"} {
		for r, role := range roles {
			for s, size := range sizes {
				for f, family := range families {
					c := Cell{Tool: tool, Role: role, Size: size, Family: family, Iterations: iterations(size)}
					c.QPs, c.Both = 4, false
					add(c, s == (t+r)%len(sizes) && f == r)
					c.QPs, c.Both = 1, true
					add(c, s == (t+r+2)%len(sizes) && f == 1-r)
				}
			}
		}
	}
	for _, op := range atomics {
		for r, role := range roles {
			for f, family := range families {
				c := Cell{Tool: "ib_atomic_bw", Role: role, Op: op, Size: 8, Family: family, Iterations: 20}
				c.QPs, c.Both = 4, false
				add(c, f == r)
				c.QPs, c.Both = 1, true
				add(c, f == 1-r)
			}
		}
	}
	return cells
}

// impairedCells run over loss, reordering and duplication, with enough packets that some of it happens.
func impairedCells() []Cell {
	var cells []Cell
	for _, link := range []string{"loss", "reorder", "duplicate"} {
		for _, role := range roles {
			for _, c := range []Cell{
				{Tool: "ibv_rc_pingpong", Size: 65536, Iterations: 10},
				{Tool: "ib_send_bw", Size: 65536, Iterations: 10},
				{Tool: "ib_write_bw", Size: 65536, Iterations: 10},
				{Tool: "ib_read_bw", Size: 65536, Iterations: 10},
				{Tool: "ib_atomic_bw", Size: 8, Op: "FETCH_AND_ADD", Iterations: 200},
				{Tool: "ib_atomic_bw", Size: 8, Op: "CMP_AND_SWAP", Iterations: 200},
			} {
				c.Role, c.MTU, c.Family, c.QPs, c.Link = role, 1024, 4, 1, link
				if c.Op != "CMP_AND_SWAP" {
					c.Sets = []string{"cover"}
				}
				cells = append(cells, c)
			}
		}
	}
	return cells
}

// scriptCells are the cells of ../verbs: both ends take either role in each error, and every operation is verified.
func scriptCells() []Cell {
	var cells []Cell
	roleOf := func(r int) (string, bool) { return roles[r], roles[r] == "client" } // the client is the requester
	for n, name := range slices.Sorted(maps.Keys(scripts)) {
		s := scripts[name]
		if strings.HasPrefix(name, "verify-") {
			continue
		}
		for r := range roles {
			role, rxeResponds := roleOf(r)
			sees := s.sees
			if rxeResponds && s.rxeResponds != nil {
				sees = *s.rxeResponds
			}
			c := Cell{Tool: verbsTool, Role: role, Op: name, Size: s.size, MTU: s.mtu, Family: families[(n+r)%2], QPs: 1,
				Iterations: s.count, Link: "clean", Requester: sees.requester, Responder: sees.responder}
			if op := name[strings.LastIndex(name, "-")+1:]; op != "cas" && op != "imm" {
				c.Sets = []string{"cover"}
			}
			cells = append(cells, c)
		}
	}
	for o, op := range []string{"send", "send-imm", "write", "write-imm", "read", "fadd", "cas"} {
		for r := range roles {
			role, _ := roleOf(r)
			add := func(size, count, mtu, family int, link string, covers bool) {
				_, sees := verified(op, size, count)
				if link == "clean" { // nor does anything have to be sent again, at our end
					if role == "client" {
						sees.requester += ";retransmits=0"
					} else {
						sees.responder += ";retransmits=0"
					}
				}
				c := Cell{Tool: verbsTool, Role: role, Op: "verify-" + op, Size: size, MTU: mtu, Family: family, QPs: 1,
					Iterations: count, Link: link, Requester: sees.requester, Responder: sees.responder}
				if covers {
					c.Sets = []string{"cover"}
				}
				cells = append(cells, c)
			}
			if op == "fadd" || op == "cas" {
				for f, family := range families {
					add(8, 20, 1024, family, "clean", f == r)
				}
				for _, link := range []string{"loss", "reorder", "duplicate"} {
					add(8, 200, 1024, 4, link, op == "fadd" && r == 0)
				}
				continue
			}
			for s, size := range sizes {
				for m, mtu := range mtus {
					f := (s + m + o + r) % 2
					add(size, iterations(size), mtu, families[f], "clean", s == (o+r)%len(sizes) && m == (o+2*r)%len(mtus))
				}
			}
			for l, link := range []string{"loss", "reorder", "duplicate"} {
				add(65536, 10, 1024, families[(l+r)%2], link, !strings.HasSuffix(op, "-imm") && l == (o/2+r)%3)
			}
		}
	}
	for _, tool := range []string{"ibv_rc_pingpong", "ib_send_bw", "ib_write_bw", "ib_read_bw"} {
		for _, role := range roles {
			cells = append(cells, Cell{Sets: []string{"cover"}, Tool: tool, Role: role, Op: "killed-peer", Size: 4096, MTU: 1024,
				Family: 4, QPs: 1, Iterations: 1_000_000, Link: "clean"})
		}
	}
	return cells
}

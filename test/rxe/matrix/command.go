package main

import (
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
)

// A tool is a test program that exists twice: the original, and ours that speaks its exchange.
type tool struct {
	ours    []string // subcommand of rocectl
	sized   bool     // takes -s; perftest's atomic tests have one size
	latency bool     // reports a latency instead of a bandwidth
	// active says at which end requests are posted and measured: at "client", or at "both".
	active string
}

// tools is keyed by the original program's name.
var tools = map[string]tool{
	"ibv_rc_pingpong": {ours: []string{"pingpong", "rc"}, sized: true, active: "both"},
	"ib_send_bw":      {ours: []string{"perf", "send-bw"}, sized: true, active: "client"},
	"ib_write_bw":     {ours: []string{"perf", "write-bw"}, sized: true, active: "client"},
	"ib_read_bw":      {ours: []string{"perf", "read-bw"}, sized: true, active: "client"},
	"ib_atomic_bw":    {ours: []string{"perf", "atomic-bw"}, active: "client"},
	"ib_send_lat":     {ours: []string{"perf", "send-lat"}, sized: true, latency: true, active: "both"},
	"ib_write_lat":    {ours: []string{"perf", "write-lat"}, sized: true, latency: true, active: "both"},
	"ib_read_lat":     {ours: []string{"perf", "read-lat"}, sized: true, latency: true, active: "client"},
	"ib_atomic_lat":   {ours: []string{"perf", "atomic-lat"}, latency: true, active: "client"},
	verbsTool:         {sized: true, active: "client"},
}

// verbsTool is the pair of programs in ../verbs: one on libibverbs in C, one on this library in Go.
const verbsTool = "verbs"

// An end is one side of the veth pair.
type end struct {
	netns  string // "" is the runner's own
	iface  string
	device string // rxe device; "" where this library drives the interface itself
	v4, v6 netip.Addr
	gid    map[int]int // family to GID index, where device is set
}

// A run is what one end of a cell is told beside the cell itself.
type run struct {
	cell *Cell
	at   *end
	port int
	host string // address of the server's TCP exchange; "" makes this end the server
	bin  string // directory of our programs
	pcap string // where ours writes its packets; "" for none
}

// original is the command line of the program we did not write, on an rxe device.
func (r run) original() []string {
	c := r.cell
	port, gid := strconv.Itoa(r.port), strconv.Itoa(r.at.gid[c.Family])
	var args []string
	switch c.Tool {
	case verbsTool:
		args = append([]string{filepath.Join(r.bin, "verbs-rxe"), "-d", r.at.device, "-g", gid}, r.script()...)
	case "ibv_rc_pingpong":
		args = []string{c.Tool, "-d", r.at.device, "-g", gid, "-p", port, "-s", strconv.Itoa(c.Size),
			"-m", strconv.Itoa(c.MTU), "-n", strconv.Itoa(c.Iterations)}
	default:
		// -F: the emulated CPU's clock is nobody's business.
		args = append([]string{c.Tool, "-d", r.at.device, "-x", gid, "-F"}, r.perftest()...)
	}
	return r.within(args)
}

// ours is the command line of this project's counterpart, on a plain interface.
func (r run) ours() []string {
	c := r.cell
	if c.Tool == verbsTool {
		args := []string{filepath.Join(r.bin, "verbs-ours"), "-d", r.at.iface, "-family", strconv.Itoa(c.Family)}
		if r.pcap != "" {
			args = append(args, "-pcap", r.pcap)
		}
		if c.Link == "clean" {
			args = append(args, "-probe=false")
		}
		return r.within(append(args, r.script()...))
	}
	args := []string{filepath.Join(r.bin, "rocectl"), "-d", r.at.iface, "--link", "raw", "--json"}
	if c.Link == "clean" {
		args = append(args, "--probe", "0") // emulated, rxe is silent for longer than a loss would explain
	}
	if r.pcap != "" {
		args = append(args, "--pcap", r.pcap)
	}
	args = append(args, tools[c.Tool].ours...)
	if c.Tool == "ibv_rc_pingpong" {
		args = append(args, "-p", strconv.Itoa(r.port), "-s", strconv.Itoa(c.Size), "-m", strconv.Itoa(c.MTU),
			"-n", strconv.Itoa(c.Iterations))
		if c.Family == 6 {
			args = append(args, "-g", r.at.v6.String())
		}
		return r.within(args)
	}
	if c.Family == 6 {
		args = append(args, "--ipv6")
	}
	return r.within(append(args, r.perftest()...))
}

// perftest is what either side's perftest program is told alike.
func (r run) perftest() []string {
	c := r.cell
	args := []string{"-p", strconv.Itoa(r.port), "-m", strconv.Itoa(c.MTU), "-n", strconv.Itoa(c.Iterations)}
	if tools[c.Tool].sized {
		args = append(args, "-s", strconv.Itoa(c.Size))
	} else {
		args = append(args, "-A", c.Op)
	}
	if c.Link == "clean" && c.Size*c.QPs >= 64<<10 {
		// Emulated, what takes many packets takes longer than the default ACK timeout of 67 ms. rxe would ask again and again
		// for what is on its way, and for some cells never end, against another rxe as well.
		args = append(args, "-u", "18") // 1.07 s
	}
	if c.QPs > 1 {
		args = append(args, "-q", strconv.Itoa(c.QPs))
	}
	if c.Both {
		args = append(args, "-b")
	}
	return args
}

// script is what the programs of ../verbs are told, whoever's they are.
func (r run) script() []string {
	c := r.cell
	s := scripts[c.Op]
	args := append([]string{"-p", strconv.Itoa(r.port), "--size", strconv.Itoa(c.Size), "--mtu", strconv.Itoa(c.MTU),
		"--count", strconv.Itoa(c.Iterations)}, s.both...)
	switch {
	case r.host != "":
		return append(args, s.requester...)
	case strings.HasPrefix(c.Op, "verify-"):
		responder, _ := verified(strings.TrimPrefix(c.Op, "verify-"), c.Size, c.Iterations)
		return append(args, responder...)
	}
	return append(args, s.responder...)
}

// within completes a command line with the server's address and the namespace it runs in.
func (r run) within(args []string) []string {
	if r.host != "" {
		args = append(args, r.host)
	}
	return r.at.inside(args)
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A bed is the pair of interfaces that cells run over, and the rxe device at one of them or both.
//
// Before Linux 7 rdma_rxe works in the initial network namespace only, so the peer stays there and ours gets a
// namespace, which also keeps the two users of UDP port 4791 apart.
type bed struct {
	peer, ours end
	undo       [][]string
}

// impairments are what netem does to the frames that leave either interface. Reordering needs a delay to overtake.
var impairments = map[string][]string{
	"clean":     nil,
	"loss":      {"loss", "1%"},
	"reorder":   {"delay", "1ms", "reorder", "1%"},
	"duplicate": {"duplicate", "1%"},
}

// linkMTU leaves room for a path MTU of 4096 and is what operators of RoCE networks set.
const linkMTU = "9000"

// makeBed makes the interfaces and the rxe device, or two of them with baseline. The caller must tear it down, also
// after an error.
func makeBed(baseline bool) (*bed, error) {
	b := &bed{
		peer: end{iface: "rocepeer", device: "rxe_peer", v4: netip.MustParseAddr("10.78.0.1"), v6: netip.MustParseAddr("fd78::1")},
		ours: end{iface: "roceours", netns: "roce_matrix", v4: netip.MustParseAddr("10.78.0.2"), v6: netip.MustParseAddr("fd78::2")},
	}
	if baseline {
		b.ours.netns, b.ours.device = "", "rxe_ours"
	}
	if err := command("modprobe", "-a", "veth", "rdma_rxe", "ib_uverbs"); err != nil {
		return b, err
	}
	if err := b.deepenBacklog(); err != nil {
		return b, err
	}
	if b.ours.netns != "" { // before the pair, which must be taken back first
		if err := b.does([]string{"ip", "netns", "add", b.ours.netns}, []string{"ip", "netns", "del", b.ours.netns}); err != nil {
			return b, err
		}
	}
	if err := b.does([]string{"ip", "link", "add", b.peer.iface, "type", "veth", "peer", "name", b.ours.iface},
		[]string{"ip", "link", "del", b.peer.iface}); err != nil {
		return b, err
	}
	if b.ours.netns != "" {
		if err := command("ip", "link", "set", b.ours.iface, "netns", b.ours.netns); err != nil {
			return b, err
		}
	}
	for _, e := range []*end{&b.peer, &b.ours} {
		for _, args := range [][]string{
			{"link", "set", "lo", "up"},
			{"link", "set", e.iface, "mtu", linkMTU, "up"},
			{"addr", "add", e.v4.String() + "/24", "dev", e.iface},
			{"addr", "add", e.v6.String() + "/64", "dev", e.iface, "nodad"}, // detection of duplicates takes a second
		} {
			if err := e.ip(args...); err != nil {
				return b, err
			}
		}
	}
	for i, e := range []*end{&b.peer, &b.ours} {
		if err := e.keepOrder(i); err != nil {
			return b, err
		}
	}
	if err := b.settle(); err != nil {
		return b, err
	}
	if baseline {
		if err := b.throughTheVeth(); err != nil {
			return b, err
		}
	}
	for _, e := range []*end{&b.peer, &b.ours} {
		if e.device == "" {
			continue
		}
		if err := b.does([]string{"rdma", "link", "add", e.device, "type", "rxe", "netdev", e.iface},
			[]string{"rdma", "link", "del", e.device}); err != nil {
			return b, err
		}
		if err := e.findGIDs(); err != nil {
			return b, err
		}
	}
	return b, nil
}

// does runs a command and remembers the one that takes it back.
func (b *bed) does(args, back []string) error {
	if err := command(args...); err != nil {
		return err
	}
	b.undo = append(b.undo, back)
	return nil
}

// settle waits until the link-local addresses are no longer tentative: cells should not see addresses come.
func (b *bed) settle() error {
	for _, e := range []*end{&b.peer, &b.ours} {
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			args := e.inside([]string{"ip", "-6", "addr", "show", "dev", e.iface, "tentative"})
			tentative, err := exec.Command(args[0], args[1:]...).Output()
			if err != nil {
				return fmt.Errorf("%s: %w", strings.Join(args, " "), err)
			}
			if len(tentative) == 0 {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("%s has an address that stays tentative: %s", e.iface, tentative)
			}
		}
	}
	return nil
}

// keepOrder has all packets for an end taken up by one processor. Otherwise that is whichever sent them, and of a sender
// that the scheduler moves the later packets may overtake the earlier.
func (e *end) keepOrder(cpu int) error {
	mask := strconv.FormatInt(1<<(cpu%runtime.NumCPU()), 16)
	file := "/sys/class/net/" + e.iface + "/queues/rx-0/rps_cpus"
	return command(e.inside([]string{"sh", "-c", "echo " + mask + " >" + file})...)
}

// deepenBacklog makes a clean link clean: READ responses come in bursts of thousands of packets, and what a processor has
// not taken up when its backlog is full is dropped.
func (b *bed) deepenBacklog() error {
	const file = "/proc/sys/net/core/netdev_max_backlog"
	before, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return b.does([]string{"sysctl", "-qw", "net.core.netdev_max_backlog=100000"},
		[]string{"sysctl", "-qw", "net.core.netdev_max_backlog=" + strings.TrimSpace(string(before))})
}

// backlogDrops is how many packets all processors have dropped because their backlog was full.
func backlogDrops() int64 {
	text, err := os.ReadFile("/proc/net/softnet_stat") // a line a processor: packets, dropped, ... in hex
	if err != nil {
		return 0
	}
	var sum int64
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 {
			n, _ := strconv.ParseInt(f[1], 16, 64)
			sum += n
		}
	}
	return sum
}

// tearDown takes back what makeBed did, the last first.
func (b *bed) tearDown() error {
	var errs []error
	for _, args := range slices.Backward(b.undo) {
		errs = append(errs, command(args...))
	}
	return errors.Join(errs...)
}

// throughTheVeth makes the kernel send between two of its own addresses over the wire between them instead of round
// the corner: each end's traffic is routed by its source, and what comes in by its interface. It changes the order of
// the routing rules, which only a machine that is thrown away afterwards should suffer.
func (b *bed) throughTheVeth() error {
	for i, from := range []*end{&b.peer, &b.ours} {
		to := []*end{&b.ours, &b.peer}[i]
		if err := command("sysctl", "-qw", "net.ipv4.conf."+from.iface+".accept_local=1"); err != nil {
			return err
		}
		in, out := strconv.Itoa(101+i), strconv.Itoa(111+i)
		for _, a := range []struct {
			family      string
			local, peer netip.Addr
		}{{"-4", from.v4, to.v4}, {"-6", from.v6, to.v6}} {
			for _, args := range [][]string{
				{"rule", "add", "pref", in, "iif", from.iface, "lookup", in},
				{"route", "add", "local", a.local.String(), "dev", from.iface, "table", in},
				{"rule", "add", "pref", out, "from", a.local.String(), "lookup", out},
				{"route", "add", a.peer.String(), "dev", from.iface, "table", out},
			} {
				if err := command(append([]string{"ip", a.family}, args...)...); err != nil {
					return err
				}
			}
		}
	}
	for _, family := range []string{"-4", "-6"} { // the addresses' own table comes last
		if err := command("ip", family, "rule", "add", "pref", "200", "lookup", "local"); err != nil {
			return err
		}
		if err := command("ip", family, "rule", "del", "pref", "0"); err != nil {
			return err
		}
	}
	return nil
}

// impair sets what netem does in both directions.
func (b *bed) impair(link string) error {
	for _, e := range []*end{&b.peer, &b.ours} {
		args := []string{"tc", "qdisc", "replace", "dev", e.iface, "root", "netem", "limit", "20000"}
		if spec := impairments[link]; spec != nil {
			args = append(args, spec...)
		} else {
			args = []string{"tc", "qdisc", "replace", "dev", e.iface, "root", "noqueue"} // as veth comes
		}
		if err := command(e.inside(args)...); err != nil {
			return err
		}
	}
	return nil
}

// findGIDs looks up the indices of the end's two addresses; the kernel adds them a moment after the device.
func (e *end) findGIDs() error {
	dir := filepath.Join("/sys/class/infiniband", e.device, "ports/1/gids")
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		e.gid = make(map[int]int)
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			index, err := strconv.Atoi(entry.Name())
			if err != nil {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
			if err != nil {
				continue // an entry without a GID cannot be read
			}
			switch gid, _ := netip.ParseAddr(strings.TrimSpace(string(text))); gid.Unmap() {
			case e.v4:
				e.gid[4] = index
			case e.v6:
				e.gid[6] = index
			}
		}
		if len(e.gid) == 2 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s has no GIDs for %v and %v", e.device, e.v4, e.v6)
		}
	}
}

// counters reads rxe's own counters of one device, and the kernel's of packets dropped on the way.
func (e *end) counters() map[string]int64 {
	dir := filepath.Join("/sys/class/infiniband", e.device, "ports/1/hw_counters")
	all := map[string]int64{"backlog_drops": backlogDrops()}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return all
	}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			continue
		}
		if v, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && entry.Name() != "lifespan" {
			all[entry.Name()] = v
		}
	}
	return all
}

// inside completes a command line so that it runs in the end's namespace.
func (e *end) inside(args []string) []string {
	if e.netns == "" {
		return args
	}
	return append([]string{"ip", "netns", "exec", e.netns}, args...)
}

func (e *end) ip(args ...string) error {
	return command(e.inside(append([]string{"ip"}, args...))...)
}

// command runs a program that should say nothing; its words are the error's.
func command(args ...string) error {
	var said bytes.Buffer
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return nil
}

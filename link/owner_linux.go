package link

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// portOwner is a UDP socket bound to port 4791 in this network namespace.
type portOwner struct {
	addr    netip.Addr
	inode   string
	pid     int    // of the process that has it open; 0 when none can be seen
	program string // its name; "" when none can be seen
	ours    bool   // the process runs this library: it has claimed queue pair numbers
}

// portOwners lists the owners of the port. The thread's own view of /proc is used:
// its network namespace need not be the process's.
func portOwners() ([]portOwner, error) {
	var owners []portOwner
	for _, file := range []string{"udp", "udp6"} {
		text, err := os.ReadFile("/proc/thread-self/net/" + file)
		if errors.Is(err, fs.ErrNotExist) { // no IPv6
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("looking for the owner of UDP port 4791: %w", err)
		}
		owners = append(owners, parseSocketTable(string(text))...)
	}
	if len(owners) == 0 {
		return nil, nil
	}
	text, err := os.ReadFile("/proc/thread-self/net/unix")
	if err != nil {
		return nil, fmt.Errorf("looking for other users of this library: %w", err)
	}
	claims := map[string]bool{}
	for _, c := range parseClaims(string(text), 0) {
		claims[c.inode] = true
	}
	findPrograms(owners, claims)
	return owners, nil
}

// parseSocketTable returns the sockets of /proc/net/udp or udp6 that are bound to port 4791.
func parseSocketTable(table string) []portOwner {
	var owners []portOwner
	for line := range strings.Lines(table) {
		// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode ...
		f := strings.Fields(line)
		if len(f) < 10 {
			continue
		}
		host, port, ok := strings.Cut(f[1], ":")
		if p, err := strconv.ParseUint(port, 16, 16); !ok || err != nil || p != rocePort {
			continue
		}
		b, err := hex.DecodeString(host)
		if err != nil || len(b)%4 != 0 {
			continue
		}
		// Words of four bytes are printed as numbers of the machine's byte order.
		for w := range slices.Chunk(b, 4) {
			if littleEndian {
				slices.Reverse(w)
			}
		}
		if a, ok := netip.AddrFromSlice(b); ok {
			owners = append(owners, portOwner{addr: a.Unmap(), inode: f[9]})
		}
	}
	return owners
}

// littleEndian is the machine's byte order.
var littleEndian = bigEndian(1) != 1

// findPrograms fills in which process has each owner's socket open, as far as /proc shows it, and whether
// it has made one of the claims, given by their inodes.
func findPrograms(owners []portOwner, claims map[string]bool) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/fd")
	for _, dir := range dirs {
		var has []int // of owners
		ours := false
		fds, _ := os.ReadDir(dir)
		for _, fd := range fds {
			to, err := os.Readlink(filepath.Join(dir, fd.Name()))
			if err != nil {
				continue
			}
			inode, ok := strings.CutPrefix(strings.TrimSuffix(to, "]"), "socket:[")
			if !ok {
				continue
			}
			ours = ours || claims[inode]
			for i := range owners {
				if owners[i].inode == inode {
					has = append(has, i)
				}
			}
		}
		for _, i := range has {
			process := filepath.Dir(dir)
			owners[i].pid, _ = strconv.Atoi(filepath.Base(process))
			owners[i].ours = owners[i].ours || ours
			name, _ := os.ReadFile(filepath.Join(process, "comm"))
			owners[i].program = cmp.Or(strings.TrimSpace(string(name)), "a program")
		}
	}
}

// name tells who it is.
func (o portOwner) name() string {
	switch {
	case o.program != "":
		return fmt.Sprintf("%s (process %d)", o.program, o.pid)
	case softRoCELoaded():
		return "the kernel's Soft-RoCE (rdma_rxe)"
	}
	return "a socket of the kernel or of a process that cannot be seen from here"
}

// conflict is the error of finding the port in foreign hands.
func (o portOwner) conflict(iface, kind string) error {
	remedy := "stop it"
	if o.program == "" && softRoCELoaded() {
		// Deleting its devices alone is not enough: it keeps the port as long as it is loaded.
		remedy = "unload it with `modprobe -r rdma_rxe`"
	}
	return fmt.Errorf("UDP port 4791 at %v is held by %s, so the %s link on %s cannot have it: %s, or use another network namespace", o.addr, o.name(), kind, iface, remedy)
}

// softRoCELoaded reports whether the kernel's own RoCEv2 endpoint is loaded.
func softRoCELoaded() bool {
	_, err := os.Stat("/sys/module/rdma_rxe")
	return err == nil
}

package link

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// qpnClaim is a process's claim to a range of queue pair numbers on an interface.
//
// The claim is an abstract unix socket's name, "@go-roce/qpn/<interface index>/<first>+<count>".
// It behaves as a lock file would, but its scope is exactly the network
// namespace, as it should be and is not for files (containers that share an interface
// need not share a directory); it ends with the process however that ends; and it
// leaves nothing behind that another user could not open.
//
// Two claims to the same range exclude each other by their name. Ranges may also overlap, so whoever
// made a claim looks for others afterwards: of two, at least the later sees the other.
type qpnClaim struct {
	fd   int
	qpns QPNRange
}

const (
	// qpnSlots is how many ranges the 2^24 numbers are cut into.
	qpnSlots    = 256
	qpnsPerSlot = 1 << 24 / qpnSlots
	// claimPrefix begins the names of all claims of this library.
	claimPrefix = "go-roce/qpn/"
)

// claimQPNs claims the range want on an interface; with a zero Count one that nobody has. It begins
// looking for that at a random place, so that a process started anew seldom gets
// packets meant for the one before it.
func claimQPNs(ifindex int, want QPNRange) (*qpnClaim, error) {
	if want.Count != 0 {
		if want.First < AllQPNs.First || want.Count > AllQPNs.Count || want.End() > AllQPNs.End() {
			return nil, fmt.Errorf("queue pair numbers %d and the %d after it: a range lies within %v", want.First, want.Count-1, AllQPNs)
		}
		c, owner, err := tryClaim(ifindex, want)
		if err == nil && c == nil {
			err = fmt.Errorf("queue pair numbers %v are not free on this interface: %s: stop it, or give both ranges that do not overlap", want, owner)
		}
		return c, err
	}
	others, err := otherClaims(ifindex, 0)
	if err != nil {
		return nil, err
	}
	first := rand.Uint32N(qpnSlots)
	for i := range uint32(qpnSlots) {
		r := slotQPNs((first + i) % qpnSlots)
		if slices.ContainsFunc(others, func(o claimOf) bool { return o.qpns.overlaps(r) }) {
			continue
		}
		if c, _, err := tryClaim(ifindex, r); err != nil || c != nil {
			return c, err
		}
	}
	owner := "processes just started have them"
	if len(others) > 0 {
		owner = fmt.Sprintf("%s has %v", others[0].owner(), others[0].qpns)
	}
	return nil, fmt.Errorf("no queue pair numbers are free on this interface: %s: stop it, or give it a range", owner)
}

// slotQPNs returns a slot's range.
func slotQPNs(slot uint32) QPNRange {
	first := max(slot*qpnsPerSlot, AllQPNs.First)
	return QPNRange{First: first, Count: min((slot+1)*qpnsPerSlot, AllQPNs.End()) - first}
}

// tryClaim claims a range. It returns nil, and who has numbers of it, if somebody does.
func tryClaim(ifindex int, r QPNRange) (_ *qpnClaim, owner string, err error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, "", fmt.Errorf("opening a socket to claim queue pair numbers: %w", err)
	}
	c := &qpnClaim{fd, r}
	defer func() {
		if err != nil || owner != "" {
			_ = c.close()
		}
	}()
	bound := unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("@%s%d/%d+%d", claimPrefix, ifindex, r.First, r.Count)})
	if bound != nil && !errors.Is(bound, unix.EADDRINUSE) {
		return nil, "", fmt.Errorf("claiming queue pair numbers: %w", bound)
	}
	var self unix.Stat_t
	if err := unix.Fstat(fd, &self); err != nil {
		return nil, "", fmt.Errorf("claiming queue pair numbers: %w", err)
	}
	others, err := otherClaims(ifindex, self.Ino)
	if err != nil {
		return nil, "", err
	}
	for _, o := range others {
		if o.qpns.overlaps(r) {
			return nil, fmt.Sprintf("%s has %v", o.owner(), o.qpns), nil
		}
	}
	if bound != nil {
		return nil, "a process that is about to end has them", nil
	}
	return c, "", nil
}

// claimOf is a claim that somebody made.
type claimOf struct {
	inode string
	qpns  QPNRange
}

// owner names the process whose claim it is.
func (c claimOf) owner() string {
	owners := []portOwner{{inode: c.inode}}
	findPrograms(owners, nil)
	if owners[0].program == "" {
		return "a process that cannot be seen from here"
	}
	return owners[0].name()
}

// otherClaims returns the claims on an interface beside the one with the given inode.
func otherClaims(ifindex int, but uint64) ([]claimOf, error) {
	text, err := os.ReadFile("/proc/thread-self/net/unix")
	if err != nil {
		return nil, fmt.Errorf("looking for other users of the interface: %w", err)
	}
	self := strconv.FormatUint(but, 10)
	return slices.DeleteFunc(parseClaims(string(text), ifindex), func(c claimOf) bool { return c.inode == self }), nil
}

// parseClaims returns the claims in /proc/net/unix on an interface, or with index 0 on all.
func parseClaims(table string, ifindex int) []claimOf {
	var claims []claimOf
	for line := range strings.Lines(table) {
		// Num RefCount Protocol Flags Type St Inode Path
		f := strings.Fields(line)
		if len(f) != 8 {
			continue
		}
		name, ok := strings.CutPrefix(f[7], "@"+claimPrefix)
		if !ok {
			continue
		}
		var index int
		c := claimOf{inode: f[6]}
		if _, err := fmt.Sscanf(name, "%d/%d+%d", &index, &c.qpns.First, &c.qpns.Count); err == nil && (ifindex == 0 || index == ifindex) {
			claims = append(claims, c)
		}
	}
	return claims
}

func (c *qpnClaim) close() error { return unix.Close(c.fd) }

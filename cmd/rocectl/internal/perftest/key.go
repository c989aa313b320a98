package perftest

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/go-roce/roce/bth"
)

// Sizes of key messages. RoCE always has GIDs, so both ends send the first.
const (
	keyLen           = 108
	keyLenWithoutGID = 59
)

// Key tells the peer of one queue pair: where it is, and which memory may be written, read or counted in.
type Key struct {
	// OutReads is how many READs and atomics this end answers at a time.
	OutReads int
	QPN      bth.QPN
	PSN      bth.PSN // of this end's first request
	RKey     uint32  // 0 in SEND tests
	VAddr    uint64
	// GID is the IP address; IPv4 is sent as ::ffff:a.b.c.d.
	GID netip.Addr
}

// encode returns lid, out_reads, qpn, psn, rkey, vaddr, the 16 bytes of the GID and srqn, all in hexadecimal.
func (k *Key) encode() []byte {
	b := fmt.Appendf(make([]byte, 0, keyLen), "%04x:%04x:%06x:%06x:%08x:%016x:", 0, k.OutReads, uint32(k.QPN), uint32(k.PSN), k.RKey, k.VAddr)
	for _, g := range k.GID.As16() {
		b = fmt.Appendf(b, "%02x:", g)
	}
	return append(fmt.Appendf(b, "%08x:", 0), 0)
}

func parseKey(b []byte) (Key, error) {
	text, isText := bytes.CutSuffix(b, []byte{0})
	fields := strings.Split(strings.TrimSuffix(string(text), ":"), ":")
	const first, gid, last = 6, 16, 1
	if !isText || len(fields) != first+gid+last {
		return Key{}, fmt.Errorf("%q is not perftest's key message of %d bytes", b, keyLen)
	}
	var k Key
	var raw [16]byte
	field := func(i, bits int) uint64 {
		v, err := strconv.ParseUint(fields[i], 16, bits)
		if err != nil {
			isText = false
		}
		return v
	}
	field(0, 16) // the LID has no meaning on Ethernet
	k.OutReads = int(field(1, 16))
	k.QPN = bth.QPN(field(2, 24))
	k.PSN = bth.PSN(field(3, 24))
	k.RKey = uint32(field(4, 32))
	k.VAddr = field(5, 64)
	for i := range raw {
		raw[i] = byte(field(first+i, 8))
	}
	field(first+gid, 32) // the shared receive queue's number
	if !isText {
		return Key{}, fmt.Errorf("%q is not perftest's key message: a field is no number of its width", b)
	}
	k.GID = netip.AddrFrom16(raw).Unmap()
	if k.GID.IsUnspecified() {
		return Key{}, errors.New("the peer's key has no GID: choose one there with -x")
	}
	return k, nil
}

// withoutGID recognises the shorter key of a peer on InfiniBand, after which it would wait for ever.
func withoutGID(b []byte) bool {
	return len(b) == keyLenWithoutGID && b[keyLenWithoutGID-1] == 0 && bytes.Count(b, []byte{':'}) == 6
}

// sameFamily says whether packets can go between the two GIDs.
func sameFamily(own, peer netip.Addr) error {
	if own.Is4() == peer.Is4() {
		return nil
	}
	return fmt.Errorf("this end's GID %v and the peer's %v are of different IP versions, so no packet can go between them: give --ipv6 at both ends, or at neither",
		own, peer)
}

package pingpong

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/go-roce/roce/bth"
)

// Destination is where one end's queue pair is.
type Destination struct {
	QPN bth.QPN
	PSN bth.PSN // of its first request
	// GID is the IP address; IPv4 is sent as ::ffff:a.b.c.d.
	GID netip.Addr
}

// destinationLen is the length of the message: lid, qpn, psn and GID in hexadecimal, and NUL.
const destinationLen = 52

func (d *Destination) encode() []byte {
	gid := d.GID.As16()
	return fmt.Appendf(make([]byte, 0, destinationLen), "%04x:%06x:%06x:%s\x00", 0, uint32(d.QPN), uint32(d.PSN), hex.EncodeToString(gid[:]))
}

func parseDestination(b []byte) (Destination, error) {
	bad := fmt.Errorf("%q is not ibv_rc_pingpong's address message: is the same program at the other end?", b)
	text, ok := bytes.CutSuffix(b, []byte{0})
	fields := strings.Split(string(text), ":")
	if !ok || len(fields) != 4 {
		return Destination{}, bad
	}
	qpn, err1 := strconv.ParseUint(fields[1], 16, 24)
	psn, err2 := strconv.ParseUint(fields[2], 16, 24)
	gid, err3 := hex.DecodeString(fields[3])
	if err1 != nil || err2 != nil || err3 != nil || len(gid) != 16 {
		return Destination{}, bad
	}
	d := Destination{QPN: bth.QPN(qpn), PSN: bth.PSN(psn), GID: netip.AddrFrom16([16]byte(gid)).Unmap()}
	if d.GID.IsUnspecified() {
		return Destination{}, fmt.Errorf("the peer sent no GID, as over InfiniBand: choose a RoCE v2 GID there with -g")
	}
	return d, nil
}

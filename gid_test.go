package roce_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/link"
)

func addrs(s ...string) (list []netip.Addr) {
	for _, a := range s {
		list = append(list, netip.MustParseAddr(a))
	}
	return list
}

// Pitfall 48: the GID is chosen by rule, the choice and the refusals can be shown.
func TestChooseGID(t *testing.T) {
	for _, tc := range []struct {
		local   []netip.Addr
		peer    string // "" none known
		want    string
		refused string // what is said of the first refused
	}{
		{addrs("10.0.0.1"), "10.0.0.2", "10.0.0.1", ""},
		{addrs("10.0.0.1"), "::ffff:10.0.0.2", "10.0.0.1", ""},
		{addrs("fd00::1", "10.0.0.1"), "10.0.0.2", "10.0.0.1", "fd00::1: the peer's address is IPv4"},
		{addrs("10.0.0.1", "fe80::1", "fd00::1"), "fd00::2", "fd00::1", "10.0.0.1: the peer's address is IPv6"},
		{addrs("fd00::1", "fe80::1"), "fe80::2", "fe80::1", "fd00::1: it is not link-local and the peer's address is"},
		{addrs("fe80::1", "fd00::1"), "fd00::2", "fd00::1", "fe80::1: it is link-local and the peer's address is not"},
		{addrs("fe80::1"), "fd00::2", "fe80::1", ""},
		{addrs("10.0.0.1", "10.0.0.3"), "10.0.0.2", "10.0.0.1", "10.0.0.3: one as good comes before it"},
		{addrs("fd00::1", "10.0.0.1"), "", "fd00::1", "10.0.0.1: a better one comes before it"},
	} {
		var peer netip.Addr
		if tc.peer != "" {
			peer = netip.MustParseAddr(tc.peer)
		}
		c, err := roce.ChooseGID(tc.local, peer)
		if err != nil || c.Addr.String() != tc.want || tc.local[c.Index] != c.Addr {
			t.Errorf("from %v to %q: %v, %v, want %s", tc.local, tc.peer, c, err, tc.want)
			continue
		}
		if len(c.Refused) != len(tc.local)-1 || tc.refused != "" && !slices.Contains(c.Refused, tc.refused) {
			t.Errorf("from %v to %q: refused %q, want %q among them", tc.local, tc.peer, c.Refused, tc.refused)
		}
		if c.Reason == "" || !strings.Contains(c.String(), tc.want) {
			t.Errorf("the choice says %q", c)
		}
	}
}

// Without a usable GID it says so there, with the addresses there are.
func TestChooseGID_NoneUsable(t *testing.T) {
	for _, tc := range []struct {
		local []netip.Addr
		peer  string
		says  string
	}{
		{nil, "10.0.0.2", "no IPv4 or IPv6 address"},
		{addrs("fd00::1"), "10.0.0.2", "give the interface an IPv4 address"},
		{addrs("10.0.0.1"), "fd00::2", "[10.0.0.1]"},
	} {
		if c, err := roce.ChooseGID(tc.local, netip.MustParseAddr(tc.peer)); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("from %v to %s: %v, %v; it should say %q", tc.local, tc.peer, c, err, tc.says)
		}
	}
}

func TestDevice_UsesTheAddressAskedFor(t *testing.T) {
	l, _ := link.NewMemPair(link.MemOptions{})
	dev, err := roce.OpenLink(t.Context(), l, &roce.Config{Addr: netip.MustParseAddr("fd77::1")})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if c, err := dev.ChooseGID(netip.MustParseAddr("fd77::2")); err != nil || c.Index != 1 {
		t.Errorf("%v, %v", c, err)
	}
	if c, err := dev.ChooseGID(netip.MustParseAddr("10.77.0.2")); err == nil {
		t.Errorf("an IPv6 address was chosen for an IPv4 peer: %v", c)
	}
	cq, err := dev.CreateCQ(1)
	if err != nil {
		t.Fatal(err)
	}
	qp, err := dev.AllocPD().CreateQP(roce.QPConfig{SendCQ: cq, SendDepth: 1})
	if err != nil {
		t.Fatal(err)
	}
	if l := qp.Local(); l.Addr != netip.MustParseAddr("fd77::1") || l.QPN != qp.QPN() || l.PSN != qp.PSN() {
		t.Errorf("the peer is told %+v", l)
	}
}

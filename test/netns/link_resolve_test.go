//go:build linux

package netns

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/go-roce/roce/link"
)

// linkLocal returns the link's fe80:: address once it may be used.
func linkLocal(t *testing.T, l link.Link) netip.Addr {
	t.Helper()
	var found netip.Addr
	eventually(t, "there is a link-local address", func() bool {
		for _, a := range l.Addrs() {
			if a.Is6() && a.IsLinkLocalUnicast() {
				found = a
			}
		}
		return found.IsValid()
	})
	return found
}

func TestRaw_Resolve(t *testing.T) {
	lab := newLab(t, 4200)
	l, there := lab.a.open(link.Options{}), lab.b.open(link.Options{})
	near, far := linkLocal(t, l), linkLocal(t, there)
	lab.a.addAddr("eth0", "10.99.0.1/24")
	eventually(t, "the link sees the new address", func() bool { return strings.Contains(fmt.Sprint(l.Addrs()), "10.99.0.1") })
	mac, dst := lab.a.mac(), lab.b.mac()
	for _, tc := range []struct {
		src, to string
		want    netip.Addr // source
	}{
		{"", "10.77.0.2", lab.a.v4()},
		{"", "10.77.0.2", lab.a.v4()}, // known by now
		{"", "::ffff:10.77.0.2", lab.a.v4()},
		{"10.99.0.1", "10.77.0.2", netip.MustParseAddr("10.99.0.1")},
		{"", "fd77::2", lab.a.v6()},
		{"", far.String(), near},
		{"", far.String() + "%eth0", near},
		{near.String() + "%eth0", far.String(), near},
	} {
		var src netip.Addr
		if tc.src != "" {
			src = netip.MustParseAddr(tc.src)
		}
		got, err := l.Resolve(t.Context(), src, netip.MustParseAddr(tc.to))
		want := link.Route{SrcMAC: mac, DstMAC: dst, Src: tc.want, MTU: 4200}
		if err != nil || got != want {
			t.Errorf("%s to %s: %+v, %v, want %+v", tc.src, tc.to, got, err, want)
		}
	}
}

func TestRaw_ResolveSaysWhatIsMissing(t *testing.T) {
	lab := newLab(t, 1500)
	a := lab.a
	second := netlink.NewLinkAttrs()
	second.Name = "eth1"
	a.must(a.nl.LinkAdd(&netlink.Veth{LinkAttrs: second, PeerName: "eth2"}))
	a.must(a.nl.LinkSetUp(a.iface("eth1")))
	a.must(a.nl.LinkSetUp(a.iface("eth2")))
	a.addAddr("eth1", "10.88.0.1/24")
	l := a.open(link.Options{})
	a.sysctl("net/ipv6/conf/eth0/accept_dad", "1")
	tentative, err := netlink.ParseAddr("fd77::99/64")
	a.must(err)
	a.must(a.nl.AddrAdd(a.iface("eth0"), tentative))
	lookups := []struct {
		src, to string
		words   []string
	}{
		{"", "10.77.0.1", []string{"eth0's own address", "rocectl lab"}},
		{"", "10.88.0.1", []string{"address of this host"}},
		{"", "10.88.0.7", []string{"by interface eth1, not by eth0", "ip route add"}},
		{"", "198.51.100.1", []string{"no route to 198.51.100.1"}},
		{"", "2001:db8::1", []string{"no route to 2001:db8::1"}},
		{"", "10.77.0.255", []string{"broadcast"}},
		{"", "255.255.255.255", []string{"not the address of one peer"}},
		{"", "224.0.0.5", []string{"not the address of one peer"}},
		{"", "ff02::1", []string{"not the address of one peer"}},
		{"", "fe80::1%eth1", []string{"on interface eth1", "open the other"}},
		{"10.77.0.9", "10.77.0.2", []string{"10.77.0.9 is not an address of interface eth0", "10.77.0.1"}},
		{"fd77::1", "10.77.0.2", []string{"one IP version"}},
		{"", "10.77.0.77", []string{"10.77.0.77 did not answer ARP on eth0"}},
		{"", "fd77::77", []string{"fd77::77 did not answer neighbour solicitation on eth0"}},
	}
	eventually(t, "the link sees the tentative address", func() bool {
		_, err := l.Resolve(t.Context(), netip.MustParseAddr("fd77::99"), lab.b.v6())
		return err != nil && strings.Contains(err.Error(), "fd77::99 (tentative")
	})
	a.must(a.nl.RouteAdd(&netlink.Route{Dst: prefix("10.66.0.0/16"), Gw: netIP("10.77.0.88"), LinkIndex: a.iface("eth0").Attrs().Index}))
	lookups = append(lookups, struct {
		src, to string
		words   []string
	}{"", "10.66.1.2", []string{"10.77.0.88, the gateway to 10.66.1.2, did not answer"}})
	for _, tc := range lookups {
		var src netip.Addr
		if tc.src != "" {
			src = netip.MustParseAddr(tc.src)
		}
		start := time.Now()
		_, err := l.Resolve(t.Context(), src, netip.MustParseAddr(tc.to))
		if err == nil {
			t.Errorf("%s to %s was resolved", tc.src, tc.to)
			continue
		}
		for _, w := range tc.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s to %s: %q says nothing of %q", tc.src, tc.to, err, w)
			}
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("%s to %s: the error took %v", tc.src, tc.to, d)
		}
	}
	// The caller's patience ends the waiting as well.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err = l.Resolve(ctx, netip.Addr{}, netip.MustParseAddr("10.77.0.78"))
	if err == nil || ctx.Err() == nil || time.Since(start) > time.Second {
		t.Errorf("with 20 ms of patience: %v after %v", err, time.Since(start))
	}
}

func TestRaw_ResolveThroughAGateway(t *testing.T) {
	lab := newLab(t, 1500)
	a := lab.a
	l := a.open(link.Options{})
	index := a.iface("eth0").Attrs().Index
	a.must(a.nl.RouteAdd(&netlink.Route{Dst: prefix("10.66.0.0/16"), Gw: netIP("10.77.0.2"), LinkIndex: index, MTU: 1400}))
	a.must(a.nl.RouteAdd(&netlink.Route{Dst: prefix("2001:db8::/32"), Gw: netIP("fd77::2"), LinkIndex: index}))
	a.must(a.nl.RouteAdd(&netlink.Route{Dst: prefix("10.67.0.0/16"), Via: &netlink.Via{AddrFamily: netlink.FAMILY_V6, Addr: netIP("fd77::2")}, LinkIndex: index}))
	for _, tc := range []struct {
		to  string
		src netip.Addr
		mtu int
	}{
		{"10.66.1.2", a.v4(), 1400},
		{"2001:db8::5", a.v6(), 1500},
		{"10.67.1.2", a.v4(), 1500}, // RFC 5549: an IPv6 gateway to an IPv4 network
	} {
		got, err := l.Resolve(t.Context(), netip.Addr{}, netip.MustParseAddr(tc.to))
		want := link.Route{SrcMAC: a.mac(), DstMAC: lab.b.mac(), Src: tc.src, MTU: tc.mtu}
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", tc.to, got, err, want)
		}
	}
}

// Two interfaces in one network: the kernel prefers one, but the other is as good.
func TestRaw_ResolveBesideAPreferredInterface(t *testing.T) {
	lab := newLab(t, 1500)
	a := lab.a
	second := netlink.NewLinkAttrs()
	second.Name = "eth1"
	a.must(a.nl.LinkAdd(&netlink.Veth{LinkAttrs: second, PeerName: "eth2"}))
	a.must(a.nl.LinkSetUp(a.iface("eth2")))
	a.must(a.nl.LinkSetUp(a.iface("eth1")))
	a.addAddr("eth1", "10.77.0.101/24")
	// A longer prefix makes eth1 the preferred one for the peer.
	a.must(a.nl.RouteAdd(&netlink.Route{Dst: prefix("10.77.0.0/25"), LinkIndex: a.iface("eth1").Attrs().Index, Scope: netlink.SCOPE_LINK}))
	l := a.open(link.Options{})
	got, err := l.Resolve(t.Context(), netip.Addr{}, lab.b.v4())
	want := link.Route{SrcMAC: a.mac(), DstMAC: lab.b.mac(), Src: a.v4(), MTU: 1500}
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

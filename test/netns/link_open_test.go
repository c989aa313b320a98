//go:build linux

package netns

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/go-roce/roce/link"
)

// fails checks that opening fails with a sentence that has all the words.
func fails(t *testing.T, h *host, iface string, words ...string) {
	t.Helper()
	_, err := h.tryOpen(iface, link.Options{})
	if err == nil {
		t.Errorf("the link on %s opened", iface)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error %q says nothing of %q", err, w)
		}
	}
}

func TestOpenRaw_SaysWhatIsWrongWithTheInterface(t *testing.T) {
	lab := newLab(t, 1500)
	a := lab.a
	fails(t, a, "eth7", "no interface eth7", "eth0, lo")
	fails(t, a, "lo", "loopback", "memory link")

	a.in(func() {
		a.must(netlink.LinkAdd(&netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "tun0"}, Mode: netlink.TUNTAP_MODE_TUN}))
	})
	fails(t, a, "tun0", "not an Ethernet interface")

	a.must(a.nl.LinkSetMTU(a.iface("eth0"), 300))
	fails(t, a, "eth0", "MTU 300", "needs 336")
	a.must(a.nl.LinkSetMTU(a.iface("eth0"), 1500))

	a.must(a.nl.LinkSetDown(a.iface("eth0")))
	fails(t, a, "eth0", "eth0 is down", "ip link set eth0 up")
	a.must(a.nl.LinkSetUp(a.iface("eth0")))

	addrs, err := a.nl.AddrList(a.iface("eth0"), netlink.FAMILY_ALL)
	a.must(err)
	for _, ad := range addrs {
		a.must(a.nl.AddrDel(a.iface("eth0"), &ad))
	}
	fails(t, a, "eth0", "eth0 has no address", "ip addr add")
	a.sysctl("net/ipv6/conf/eth0/accept_dad", "1")
	tentative, err := netlink.ParseAddr("fd77::1/64")
	a.must(err)
	a.must(a.nl.AddrAdd(a.iface("eth0"), tentative))
	fails(t, a, "eth0", "no address of interface eth0 is usable yet", "fd77::1 (tentative")
	eventually(t, "the link opens when the kernel has checked the address", func() bool {
		_, err := a.tryOpen("eth0", link.Options{})
		return err == nil
	})
}

func TestOpenRaw_SaysThatPrivilegeIsMissing(t *testing.T) {
	lab := newLab(t, 1500)
	var err error
	lab.a.in(func() {
		// Only this thread loses the capability, and the thread ends with in.
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if e := unix.Capset(&hdr, &none[0]); e != nil {
			t.Fatal(e)
		}
		runtime.KeepAlive(none)
		_, err = link.OpenRaw(t.Context(), "eth0", link.Options{})
	})
	if err == nil || !strings.Contains(err.Error(), "CAP_NET_RAW") || !strings.Contains(err.Error(), "setcap") {
		t.Errorf("error %v", err)
	}
}

func TestOpenRaw_CapNetRawIsEnough(t *testing.T) {
	lab := newLab(t, 1500)
	var l link.Link
	var err error
	lab.a.in(func() {
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		caps := [2]unix.CapUserData{{Effective: 1 << unix.CAP_NET_RAW, Permitted: 1 << unix.CAP_NET_RAW}}
		if e := unix.Capset(&hdr, &caps[0]); e != nil {
			t.Fatal(e)
		}
		l, err = link.OpenRaw(t.Context(), "eth0", link.Options{})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Resolve(t.Context(), netip.Addr{}, lab.b.v4()); err != nil {
		t.Error(err)
	}
}

func TestRaw_AddrsBestFirst(t *testing.T) {
	lab := newLab(t, 1500)
	a := lab.a
	a.addAddr("eth0", "169.254.1.1/16")
	a.addAddr("eth0", "10.99.0.1/24")
	eventually(t, "the link-local address is usable", func() bool {
		l, err := a.tryOpen("eth0", link.Options{})
		a.must(err)
		got := fmt.Sprint(l.Addrs())
		return strings.HasPrefix(got, "[10.77.0.1 10.99.0.1 fd77::1 169.254.1.1 fe80::") && !strings.Contains(got, "%")
	})
}

func TestOpenRaw_NamesAnotherOwnerOfThePort(t *testing.T) {
	lab := newLab(t, 1500)
	for _, role := range []string{"listen", "share"} {
		_, stop := lab.a.child(role)
		fails(t, lab.a, "eth0", "UDP port 4791", "held by netns.test (process ", "stop it")
		stop()
	}
	// A kernel socket, as rdma_rxe has one; its owner cannot be seen.
	vxlan := netlink.LinkAttrs{Name: "vx0"}
	if err := lab.a.nl.LinkAdd(&netlink.Vxlan{LinkAttrs: vxlan, VxlanId: 5, Port: 4791, VtepDevIndex: lab.a.iface("eth0").Attrs().Index}); err != nil {
		t.Logf("no vxlan on this kernel, so no kernel socket to test with: %v", err)
	} else {
		lab.a.must(lab.a.nl.LinkSetUp(lab.a.iface("vx0")))
		fails(t, lab.a, "eth0", "UDP port 4791", "a socket of the kernel")
		lab.a.must(lab.a.nl.LinkDel(lab.a.iface("vx0")))
	}
	// On another address of the host it is in nobody's way.
	lab.a.addAddr("lo", "192.0.2.1/32")
	lab.a.in(func() {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
			t.Fatal(err)
		}
		if err := unix.Bind(fd, &unix.SockaddrInet4{Port: 4791, Addr: [4]byte{192, 0, 2, 1}}); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := lab.a.tryOpen("eth0", link.Options{}); err != nil {
		t.Error(err)
	}
}

func TestRaw_ProcessesShareTheInterface(t *testing.T) {
	lab := newLab(t, 1500)
	type qpns struct{ first, count uint32 }
	var taken []qpns
	add := func(q qpns) {
		t.Helper()
		if q.count < 60000 || q.first < 2 || q.first+q.count > 0xFFFFFF {
			t.Errorf("range of %d from %#x", q.count, q.first)
		}
		for _, other := range taken {
			if q.first < other.first+other.count && other.first < q.first+q.count {
				t.Errorf("ranges %v and %v overlap", q, other)
			}
		}
		taken = append(taken, q)
	}
	for range 5 { // five processes, and five links of this one
		says, _ := lab.a.child("open")
		var q qpns
		if _, err := fmt.Sscan(says, &q.first, &q.count); err != nil {
			t.Fatalf("the other process says %q", says)
		}
		add(q)
		l := lab.a.open(link.Options{})
		add(qpns{l.QPNs().First, l.QPNs().Count})
	}
	// Each hears everything and picks its own.
	b := lab.b.open(link.Options{})
	l := lab.a.open(link.Options{})
	send(t, b, between(lab.b, lab.a, false).frame(pattern(40, 1)))
	if len(receive(t, l, 1, time.Second)) != 1 {
		t.Error("a link beside ten others hears nothing")
	}
}

// The kernel lets only one user share a port.
func TestOpenRaw_NamesAnotherUsersLink(t *testing.T) {
	lab := newLab(t, 1500)
	_, stop := lab.a.childOfAnotherUser("open")
	fails(t, lab.a, "eth0", "UDP port 4791 is held by exe (process ", "of another user", "run both as the same user")
	stop()
	if _, err := lab.a.tryOpen("eth0", link.Options{}); err != nil {
		t.Error(err)
	}
}

func TestRaw_WorksWithoutIPv6(t *testing.T) {
	lab := newLab(t, 1500)
	for _, h := range []*host{lab.a, lab.b} {
		h.sysctl("net/ipv6/conf/all/disable_ipv6", "1")
	}
	a, b := lab.a.open(link.Options{}), lab.b.open(link.Options{})
	if got := fmt.Sprint(a.Addrs()); got != "[10.77.0.1]" {
		t.Errorf("addresses %s", got)
	}
	route, err := a.Resolve(t.Context(), netip.Addr{}, lab.b.v4())
	if err != nil || route.DstMAC != lab.b.mac() {
		t.Fatalf("%+v, %v", route, err)
	}
	send(t, a, between(lab.a, lab.b, false).frame(pattern(40, 1)))
	if len(receive(t, b, 1, time.Second)) != 1 {
		t.Error("nothing came")
	}
	if _, err := a.Resolve(t.Context(), netip.Addr{}, lab.b.v6()); err == nil || !strings.Contains(err.Error(), "no IPv6 address") {
		t.Errorf("resolving an IPv6 address: %v", err)
	}
}

func TestRaw_InfoAndCaps(t *testing.T) {
	l := newLab(t, 4200).a.open(link.Options{SingleFrames: true})
	if got, want := fmt.Sprintf("%+v", l.Info()), "{Kind:raw Mode:AF_PACKET, single frames Interface:eth0 Reasons:[]}"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := l.Caps(), (link.Caps{MTU: 4200, MaxSegments: 1, Gather: true}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

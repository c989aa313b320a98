//go:build linux

package netns

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/link"
)

func prefix(s string) *net.IPNet {
	_, n, err := net.ParseCIDR(s)
	if err != nil {
		panic(err)
	}
	return n
}

func netIP(s string) net.IP { return net.ParseIP(s) }

// event waits for an event of the kind, passing over others.
func event(t *testing.T, l link.Link, kind link.EventKind, what string) link.Event {
	t.Helper()
	for timeout := time.After(5 * time.Second); ; {
		select {
		case e := <-l.Events():
			if e.Kind == kind {
				return e
			}
		case <-timeout:
			t.Fatalf("no event after 5 s: %s", what)
		}
	}
}

func TestRaw_SurvivesDownAndUp(t *testing.T) {
	lab := newLab(t, 1500)
	a, b := lab.a.open(link.Options{}), lab.b.open(link.Options{})
	frame := between(lab.a, lab.b, false).frame(pattern(40, 1))
	back := between(lab.b, lab.a, false).frame(pattern(40, 1))
	for round := range 3 {
		send(t, a, frame)
		send(t, b, back)
		if len(receive(t, b, 1, time.Second)) != 1 || len(receive(t, a, 1, time.Second)) != 1 {
			t.Fatalf("round %d: nothing comes", round)
		}
		lab.a.must(lab.a.nl.LinkSetDown(lab.a.iface("eth0")))
		event(t, a, link.EventDown, "the interface went down")
		event(t, b, link.EventDown, "the peer's carrier went")
		before := a.Queues()[0].Stats()
		send(t, a, frame, frame) // lost, as on a cut wire
		if s := a.Queues()[0].Stats(); s.TxErrors != before.TxErrors+2 {
			t.Errorf("round %d: %d frames counted as refused, want 2", round, s.TxErrors-before.TxErrors)
		}
		// Waiting on an interface that is down must not spin.
		q := a.Queues()[0]
		waits := 0
		for end := clock.System().Now().Add(50 * time.Millisecond); clock.System().Now().Before(end); waits++ {
			if _, err := q.Recv(make([]link.Frame, 1)); err != nil {
				t.Fatal(err)
			}
			if err := q.Wait(end); err != nil {
				t.Fatal(err)
			}
		}
		if waits > 5 {
			t.Errorf("round %d: Wait returned %d times in 50 ms", round, waits)
		}
		lab.a.must(lab.a.nl.LinkSetUp(lab.a.iface("eth0")))
		event(t, a, link.EventUp, "the interface is up again")
		event(t, b, link.EventUp, "the peer's carrier is back")
	}
}

func TestRaw_EndsWhenTheInterfaceIsRemoved(t *testing.T) {
	lab := newLab(t, 1500)
	a := lab.a.open(link.Options{})
	q := a.Queues()[0]
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := q.Recv(make([]link.Frame, 1)); err != nil {
				ended <- err
				return
			}
			_ = q.Wait(clock.Never)
		}
	}()
	lab.a.must(lab.a.nl.LinkDel(lab.a.iface("eth0")))
	select {
	case err := <-ended:
		if !strings.Contains(err.Error(), "interface eth0 was removed") {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the queue did not end within 5 s")
	}
	event(t, a, link.EventDown, "the interface is gone")
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

func TestRaw_TellsOfTheMTU(t *testing.T) {
	lab := newLab(t, 4200)
	a, b := lab.a.open(link.Options{}), lab.b.open(link.Options{})
	lab.a.must(lab.a.nl.LinkSetMTU(lab.a.iface("eth0"), 1500))
	if e := event(t, a, link.EventMTU, "the MTU was lowered"); e.MTU != 1500 || a.Caps().MTU != 1500 {
		t.Errorf("event %+v, caps %+v", e, a.Caps())
	}
	// What is longer now is refused with a count, not silently.
	send(t, a, between(lab.a, lab.b, false).frame(pattern(4000, 1)))
	if s := a.Queues()[0].Stats(); s.TxErrors != 1 {
		t.Errorf("counted %+v", s)
	}
	if len(receive(t, b, 1, 20*time.Millisecond)) != 0 {
		t.Error("a frame longer than the MTU went out")
	}
	// The buffers are as long as the MTU was at opening.
	lab.a.must(lab.a.nl.LinkSetMTU(lab.a.iface("eth0"), 9000))
	if e := event(t, a, link.EventMTU, "the MTU was raised"); e.MTU != 9000 || a.Caps().MTU != 4200 {
		t.Errorf("event %+v, caps %+v", e, a.Caps())
	}
}

func TestRaw_TellsOfAddresses(t *testing.T) {
	lab := newLab(t, 1500)
	a := lab.a.open(link.Options{})
	has := func(s string) bool {
		for _, x := range a.Addrs() {
			if x == netip.MustParseAddr(s) {
				return true
			}
		}
		return false
	}
	lab.a.addAddr("eth0", "10.99.0.1/24")
	for !has("10.99.0.1") {
		event(t, a, link.EventAddrs, "an address was added")
	}
	gone, err := netlink.ParseAddr("10.77.0.1/24")
	lab.a.must(err)
	lab.a.must(lab.a.nl.AddrDel(lab.a.iface("eth0"), gone))
	for has("10.77.0.1") {
		event(t, a, link.EventAddrs, "an address was removed")
	}
}

// A peer fails over to another adapter: same address, other hardware address.
func TestRaw_FollowsANeighbour(t *testing.T) {
	lab := newLab(t, 1500)
	a := lab.a.open(link.Options{})
	index := lab.a.iface("eth0").Attrs().Index
	lab.a.must(lab.a.nl.RouteAdd(&netlink.Route{Dst: prefix("10.66.0.0/16"), Gw: netIP("10.77.0.2"), LinkIndex: index}))
	behind := netip.MustParseAddr("10.66.1.2")
	for _, dst := range []netip.Addr{lab.b.v4(), lab.b.v6(), behind} {
		if r, err := a.Resolve(t.Context(), netip.Addr{}, dst); err != nil || r.DstMAC != lab.b.mac() {
			t.Fatalf("%v: %+v, %v", dst, r, err)
		}
	}
	moved := [6]byte{2, 0x55, 0x55, 0x55, 0x55, 1}
	b := lab.b
	b.must(b.nl.LinkSetDown(b.iface("eth0")))
	b.must(b.nl.LinkSetHardwareAddr(b.iface("eth0"), hardware(moved)))
	b.must(b.nl.LinkSetUp(b.iface("eth0")))
	b.addAddr("eth0", "fd77::2/64") // IPv6 addresses go when an interface goes down
	// It speaks up, as a host does that took over an address.
	b.in(func() {
		for _, to := range []string{"10.77.0.1:9", "[fd77::1]:9"} {
			c, err := net.Dial("udp", to)
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = c.Write([]byte("hello"))
			_ = c.Close()
		}
	})
	want := map[netip.Addr]bool{lab.b.v4(): true, lab.b.v6(): true, behind: true}
	for len(want) > 0 {
		e := event(t, a, link.EventNeighbor, "the hardware address changed")
		if e.MAC != moved || !want[e.Addr] {
			t.Fatalf("event %+v", e)
		}
		delete(want, e.Addr)
	}
	if r, err := a.Resolve(t.Context(), netip.Addr{}, lab.b.v4()); err != nil || r.DstMAC != moved {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRaw_VLANInterface(t *testing.T) {
	lab := newLab(t, 4200)
	for _, h := range []*host{lab.a, lab.b} {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.ParentIndex = "eth0.5", h.iface("eth0").Attrs().Index
		if err := h.nl.LinkAdd(&netlink.Vlan{LinkAttrs: attrs, VlanId: 5}); err != nil {
			t.Skipf("this kernel has no VLAN interfaces: %v", err)
		}
		h.addAddr("eth0.5", netip.AddrFrom4([4]byte{10, 5, 0, byte(h.n)}).String()+"/24")
		h.must(h.nl.LinkSetUp(h.iface("eth0.5")))
	}
	base, err := lab.b.tryOpen("eth0", link.Options{})
	lab.b.must(err)
	a, err := lab.a.tryOpen("eth0.5", link.Options{})
	lab.a.must(err)
	b, err := lab.b.tryOpen("eth0.5", link.Options{})
	lab.b.must(err)
	route, err := a.Resolve(t.Context(), netip.Addr{}, netip.MustParseAddr("10.5.0.2"))
	if err != nil || route.DstMAC != lab.b.mac() || route.Src != netip.MustParseAddr("10.5.0.1") {
		t.Fatalf("%+v, %v", route, err)
	}
	head := header{dst: route.DstMAC, src: route.SrcMAC, from: route.Src, to: netip.MustParseAddr("10.5.0.2")}
	frame := head.frame(pattern(4100, 1))
	send(t, a, frame)
	got := receive(t, b, 1, time.Second)
	if len(got) != 1 || string(got[0]) != string(frame) {
		t.Fatalf("%d frames came, or changed", len(got))
	}
	if len(receive(t, base, 1, 50*time.Millisecond)) != 0 {
		t.Error("the interface below heard the VLAN's frame")
	}
	send(t, base, between(lab.b, lab.a, false).frame(pattern(40, 1)))
	if len(receive(t, a, 1, 50*time.Millisecond)) != 0 {
		t.Error("the VLAN heard an untagged frame")
	}
}

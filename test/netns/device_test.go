//go:build linux

package netns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/test/exercise"
)

// openDevice opens a device on an interface of the namespace.
func (h *host) openDevice(iface string, cfg *roce.Config) *roce.Device {
	h.t.Helper()
	if cfg == nil {
		cfg = &roce.Config{}
	}
	exercise.Patient(cfg)
	var dev *roce.Device
	var err error
	h.in(func() { dev, err = roce.Open(context.Background(), iface, cfg) })
	h.must(err)
	return dev
}

// pair returns two connected ends on the interfaces of that name of a lab.
func (l *lab) pair(iface string, o exercise.Options) (a, b *exercise.End) {
	t := l.a.t
	t.Helper()
	a = exercise.On(t, l.a.openDevice(iface, &o.Device), o)
	b = exercise.On(t, l.b.openDevice(iface, &o.Device), o)
	if o.Family != nil {
		// A link-local address is not usable before it is known to be nobody else's.
		eventually(t, "both ends have an address of the family", func() bool {
			return slices.ContainsFunc(a.Dev.Addrs(), o.Family) && slices.ContainsFunc(b.Dev.Addrs(), o.Family)
		})
	}
	exercise.Join(t, a, b, o)
	return a, b
}

// allOperations are the options for exercise.Operations.
func allOperations() exercise.Options {
	return exercise.Options{QP: exercise.OperationsQP, Memory: exercise.OperationsMemory(4096)}
}

func isGlobal6(a netip.Addr) bool { return a.Is6() && !a.IsLinkLocalUnicast() }

// All operations over real interfaces, in both directions and ways to make progress, by
// every kind of address; nothing is sent twice or dropped.
func TestDevice_CarriesEveryOperation(t *testing.T) {
	for _, mtu := range []int{1500, 9000} {
		for _, family := range []struct {
			name string
			is   func(netip.Addr) bool
		}{
			{"IPv4", netip.Addr.Is4},
			{"IPv6", isGlobal6},
			{"link-local", netip.Addr.IsLinkLocalUnicast},
		} {
			for _, manual := range []bool{false, true} {
				t.Run(fmt.Sprintf("mtu=%d/%s/manual=%v", mtu, family.name, manual), func(t *testing.T) {
					o := allOperations()
					o.Device.Manual, o.Family = manual, family.is
					a, b := newLab(t, mtu).pair("eth0", o)
					pathMTU := a.Dev.PathMTU()
					if want := map[int]int{1500: 1024, 9000: 4096}[mtu]; pathMTU != want {
						t.Fatalf("MTU %d gives path MTU %d, want %d", mtu, pathMTU, want)
					}
					exercise.Operations(t, a, b, pathMTU)
					exercise.Operations(t, b, a, pathMTU)
					exercise.Clean(t, a, b)
				})
			}
		}
	}
}

func TestDevice_OnVLANInterfaces(t *testing.T) {
	lab := newLab(t, 1500)
	for _, h := range []*host{lab.a, lab.b} {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.ParentIndex = "eth0.10", h.iface("eth0").Attrs().Index
		err := h.nl.LinkAdd(&netlink.Vlan{LinkAttrs: attrs, VlanId: 10, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q})
		if errors.Is(err, unix.EOPNOTSUPP) {
			t.Skip("this kernel has no VLAN interfaces (module 8021q)")
		}
		h.must(err)
		h.addAddr("eth0.10", fmt.Sprintf("10.78.0.%d/24", h.n))
		h.must(h.nl.LinkSetUp(h.iface("eth0.10")))
	}
	o := allOperations()
	o.Family = netip.Addr.Is4
	a, b := lab.pair("eth0.10", o)
	exercise.Operations(t, a, b, a.Dev.PathMTU())
	exercise.Clean(t, a, b)
}

// Two devices on one interface, as two processes would have them: each gets its own packets, from
// a third that talks to both.
func TestDevice_SharesItsInterface(t *testing.T) {
	lab := newLab(t, 1500)
	o := allOperations()
	a := exercise.On(t, lab.a.openDevice("eth0", nil), o)
	b1 := exercise.On(t, lab.b.openDevice("eth0", nil), o)
	b2 := exercise.On(t, lab.b.openDevice("eth0", nil), o)
	first := *a
	exercise.Join(t, &first, b1, o)
	second := *a
	second.QP = a.NewQP(t, o.QP)
	exercise.Join(t, &second, b2, o)
	exercise.Operations(t, &first, b1, 1024)
	exercise.Operations(t, &second, b2, 1024)
	exercise.Operations(t, b1, &first, 1024)
	for _, e := range []*exercise.End{a, b1, b2} {
		if c := e.Dev.Counters(); c.QPs.Retransmits != 0 {
			t.Errorf("something was lost: %+v", c)
		}
	}
}

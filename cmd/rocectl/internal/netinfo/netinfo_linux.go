package netinfo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/link"
)

// Look reports on all interfaces, or only on the one with a name. Links are tried out: that needs their privilege, and
// takes UDP port 4791 for a moment.
func Look(ctx context.Context, only string) (*Report, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("cannot list the network interfaces: %w", err)
	}
	r := &Report{Interfaces: []Interface{}}
	if r.Port, err = link.PortOwner(); err != nil {
		return nil, err
	}
	var names []string
	for _, l := range links {
		a := l.Attrs()
		names = append(names, a.Name)
		if only == "" && a.Flags&net.FlagLoopback != 0 || only != "" && a.Name != only {
			continue
		}
		i := Interface{
			Name: a.Name, Driver: driver(a.Name), Up: a.Flags&net.FlagUp != 0, MAC: a.HardwareAddr.String(), MTU: a.MTU, PathMTU: bth.PathMTUFor(a.MTU),
			RxQueues: a.NumRxQueues, TxQueues: a.NumTxQueues, GIDs: []string{},
		}
		try(ctx, &i)
		r.Interfaces = append(r.Interfaces, i)
	}
	if only != "" && len(r.Interfaces) == 0 {
		return nil, fmt.Errorf("there is no interface %q: there are %s", only, strings.Join(names, ", "))
	}
	return r, nil
}

// try opens each link for a moment.
func try(ctx context.Context, i *Interface) {
	raw := Link{Kind: "raw"}
	l, err := link.OpenRaw(ctx, i.Name, link.Options{})
	if err != nil {
		raw.Reason = err.Error()
	} else {
		raw.Works, raw.Mode = true, l.Info().Mode
		for _, a := range l.Addrs() {
			i.GIDs = append(i.GIDs, a.String())
		}
		_ = l.Close() // nothing was sent
	}
	if !raw.Works {
		i.GIDs = addresses(i.Name)
	}
	i.Links = append([]Link{raw}, later()...)
}

// addresses are those of an interface whose links do not work, as the system lists them.
func addresses(name string) []string {
	list := []string{}
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return list
	}
	addrs, err := ifi.Addrs()
	if err != nil {
		return list
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			list = append(list, n.IP.String())
		}
	}
	return list
}

// driver asks by ethtool, which works in every network namespace, unlike /sys.
func driver(name string) string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	d, err := unix.IoctlGetEthtoolDrvinfo(fd, name)
	if err != nil {
		return "" // e.g. loopback has none
	}
	return unix.ByteSliceToString(d.Driver[:])
}

// RouteTo returns the interface that leads to a host, given by name or address.
func RouteTo(ctx context.Context, host string) (string, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return "", fmt.Errorf("no address is known for the host name %q", host)
	}
	var why error
	for _, a := range addrs {
		name, err := routeTo(a.Unmap())
		if err == nil {
			return name, nil
		}
		why = err
	}
	return "", why
}

func routeTo(a netip.Addr) (string, error) {
	if a.Zone() != "" {
		return a.Zone(), nil
	}
	routes, err := netlink.RouteGet(net.IP(a.AsSlice()))
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) || err == nil && len(routes) == 0 {
		return "", fmt.Errorf("no route leads to %v: add one, or choose the interface with -d", a)
	}
	if err != nil {
		return "", fmt.Errorf("cannot find the route to %v: %w: choose the interface with -d", a, err)
	}
	l, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return "", fmt.Errorf("cannot find the interface that leads to %v: %w: choose it with -d", a, err)
	}
	if l.Attrs().Flags&net.FlagLoopback != 0 {
		return "", fmt.Errorf("%v is an address of this machine itself, which packets for it never leave: run the two ends in two network namespaces (rocectl lab)", a)
	}
	return l.Attrs().Name, nil
}

// OnlyUsable returns the interface a server uses that is not told which: the only one that is up, carries Ethernet and
// has an address.
func OnlyUsable() (string, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return "", fmt.Errorf("cannot list the network interfaces: %w", err)
	}
	var usable []string
	for _, l := range links {
		a := l.Attrs()
		if a.Flags&net.FlagUp != 0 && a.Flags&net.FlagLoopback == 0 && len(a.HardwareAddr) == 6 && bth.PathMTUFor(a.MTU) > 0 && len(addresses(a.Name)) > 0 {
			usable = append(usable, a.Name)
		}
	}
	switch len(usable) {
	case 0:
		return "", errors.New("no interface is up and has an address: see \"rocectl info\"")
	case 1:
		return usable[0], nil
	}
	return "", fmt.Errorf("there are several interfaces: choose one of %s with -d", strings.Join(usable, ", "))
}

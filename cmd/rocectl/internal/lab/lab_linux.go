package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// namespaces is where ip-netns keeps names.
const namespaces = "/run/netns"

// errRoot is what to do about a missing privilege.
var errRoot = errors.New("the lab needs root, or CAP_NET_ADMIN and CAP_SYS_ADMIN: run it with sudo")

// Up makes the lab, or what is missing of it. made is false if all was there already, with that MTU.
func Up(mtu int) (made bool, err error) {
	if mtu < 1280 || mtu > 65535 {
		return false, fmt.Errorf("the MTU %d must be 1280, the least IPv6 works with, to 65535", mtu)
	}
	if s, err := Status(); err == nil && s.Up && s.Sides[0].MTU == mtu && s.Sides[1].MTU == mtu {
		return false, nil
	}
	if _, err := Down(); err != nil { // half a lab is not worth mending
		return false, err
	}
	if err := build(mtu); err != nil {
		_, _ = Down()
		return false, privilege(err)
	}
	return true, nil
}

func build(mtu int) error {
	var handles [2]netns.NsHandle
	for i := range Sides {
		h, err := create(Sides[i].Namespace)
		if err != nil {
			return fmt.Errorf("cannot make the namespace %s: %w", Sides[i].Namespace, err)
		}
		defer h.Close()
		handles[i] = h
	}
	veth := netlink.NewVeth(netlink.LinkAttrs{Name: Interface, MTU: mtu, Namespace: netlink.NsFd(handles[0])})
	veth.PeerName, veth.PeerNamespace = Interface, netlink.NsFd(handles[1])
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("cannot make the veth pair: %w", err)
	}
	for i := range Sides {
		if err := furnish(handles[i], &Sides[i], mtu); err != nil {
			return fmt.Errorf("cannot set up %s in %s: %w", Interface, Sides[i].Namespace, err)
		}
	}
	return nil
}

// create makes a named namespace and comes back to the present one.
func create(name string) (netns.NsHandle, error) {
	runtime.LockOSThread()
	here, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return 0, err
	}
	defer here.Close()
	h, err := netns.NewNamed(name) // changes the thread's namespace
	if e := netns.Set(here); e != nil {
		// The thread is in a wrong namespace; locked, it ends with its goroutine.
		return 0, errors.Join(err, e)
	}
	runtime.UnlockOSThread()
	return h, err
}

func furnish(ns netns.NsHandle, s *Side, mtu int) error {
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		return err
	}
	defer h.Close()
	lo, err := h.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := h.LinkSetUp(lo); err != nil {
		return err
	}
	link, err := h.LinkByName(Interface)
	if err != nil {
		return err
	}
	if err := h.LinkSetMTU(link, mtu); err != nil {
		return err
	}
	addrs := []*netlink.Addr{{IPNet: ipNet(s.IPv4.Addr().AsSlice(), s.IPv4.Bits(), 32)}}
	if ipv6() {
		// Without duplicate address detection, which takes a second.
		addrs = append(addrs, &netlink.Addr{IPNet: ipNet(s.IPv6.Addr().AsSlice(), s.IPv6.Bits(), 128), Flags: unix.IFA_F_NODAD})
	}
	for _, a := range addrs {
		if err := h.AddrAdd(link, a); err != nil {
			return fmt.Errorf("address %v: %w", a.IPNet, err)
		}
	}
	return h.LinkSetUp(link)
}

func ipNet(ip []byte, ones, bits int) *net.IPNet {
	return &net.IPNet{IP: ip, Mask: net.CIDRMask(ones, bits)}
}

// ipv6 says whether the kernel has IPv6 at all.
func ipv6() bool {
	_, err := os.Stat("/proc/net/if_inet6")
	return err == nil
}

// Down removes what there is of the lab. there is false if there was nothing.
func Down() (there bool, err error) {
	var errs []error
	for i := range Sides {
		name := Sides[i].Namespace
		h, err := netns.GetFromName(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err == nil:
			there = true
			errs = append(errs, removeLink(h))
			h.Close()
		default:
			// A file of that name that is no namespace: what a crash between two steps of making one leaves.
			there = true
			errs = append(errs, os.Remove(filepath.Join(namespaces, name)))
			continue
		}
		if err := netns.DeleteNamed(name); err != nil {
			errs = append(errs, fmt.Errorf("cannot remove the namespace %s: %w", name, err))
		}
	}
	return there, privilege(errors.Join(errs...))
}

// removeLink takes the veth pair away at once: with the namespace it would go only when the last process has left.
func removeLink(ns netns.NsHandle) error {
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		return err
	}
	defer h.Close()
	link, err := h.LinkByName(Interface)
	if err != nil {
		return nil // gone already, or never made
	}
	return h.LinkDel(link)
}

// Status looks at what there is of the lab.
func Status() (*State, error) {
	s := &State{Up: true}
	there := 0
	for i := range Sides {
		side, missing, err := look(&Sides[i])
		if errors.Is(err, fs.ErrNotExist) {
			s.Up = false
			continue
		}
		if err != nil {
			return nil, privilege(fmt.Errorf("cannot look into %s: %w", Sides[i].Namespace, err))
		}
		there++
		s.Sides = append(s.Sides, *side)
		if missing != "" && s.Problem == "" {
			s.Up, s.Problem = false, missing
		}
	}
	if there == 1 {
		s.Problem = "one of the two namespaces is missing"
	}
	return s, nil
}

func look(side *Side) (*SideState, string, error) {
	ns, err := netns.GetFromName(side.Namespace)
	if err != nil {
		return nil, "", err
	}
	defer ns.Close()
	s := &SideState{Name: side.Name, Namespace: side.Namespace, Interface: Interface, Addresses: []string{}}
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		return nil, "", err
	}
	defer h.Close()
	link, err := h.LinkByName(Interface)
	if err != nil {
		return s, fmt.Sprintf("%s has no interface %s", side.Namespace, Interface), nil
	}
	a := link.Attrs()
	s.MTU, s.MAC = a.MTU, a.HardwareAddr.String()
	addrs, err := h.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, "", err
	}
	for _, a := range addrs {
		s.Addresses = append(s.Addresses, a.IPNet.String())
	}
	switch {
	case a.Flags&net.FlagUp == 0:
		return s, fmt.Sprintf("%s is down in %s", Interface, side.Namespace), nil
	case !slices.Contains(s.Addresses, side.IPv4.String()):
		return s, fmt.Sprintf("%s has lost its address %v in %s", Interface, side.IPv4, side.Namespace), nil
	}
	return s, "", nil
}

// privilege says what to do about a missing one.
func privilege(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return errRoot
	}
	return err
}

//go:build linux

// Package netns tests links on real interfaces: veth pairs between network
// namespaces that each test makes for itself.
package netns

import (
	"context"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/go-roce/roce/link"
)

// lab is two namespaces, each with one end of a veth pair named eth0 and with addresses
// 10.77.0.1 and fd77::1, 10.77.0.2 and fd77::2.
type lab struct {
	a, b *host
}

// host is a namespace of a lab. Everything done in it is done through in.
type host struct {
	t  testing.TB
	ns netns.NsHandle
	nl *netlink.Handle
	n  int // 1 or 2: the last byte of its addresses
}

// labOptions are what is not the same in every lab.
type labOptions struct {
	mtu    int
	queues int // of each interface, both ways; 0 means 1
}

// newLab makes a lab, or skips the test for lack of privilege.
func newLab(t testing.TB, mtu int) *lab {
	t.Helper()
	return newLabOf(t, labOptions{mtu: mtu})
}

func newLabOf(t testing.TB, o labOptions) *lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	l := &lab{newHost(t, 1), newHost(t, 2)}
	for _, h := range []*host{l.a, l.b} {
		// Link-local addresses are usable at once; nothing happens a second or two later.
		h.sysctl("net/ipv6/conf/default/accept_dad", "0")
	}
	veth := netlink.NewLinkAttrs()
	veth.Name, veth.MTU, veth.Namespace = "eth0", o.mtu, netlink.NsFd(l.a.ns)
	if o.queues > 0 {
		veth.NumRxQueues, veth.NumTxQueues = o.queues, o.queues
	}
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: veth, PeerName: "eth0", PeerNamespace: netlink.NsFd(l.b.ns), PeerMTU: uint32(o.mtu)}); err != nil {
		t.Fatal("making a veth pair:", err)
	}
	for _, h := range []*host{l.a, l.b} {
		h.must(h.nl.LinkSetUp(h.iface("lo")))
		h.addAddr("eth0", h.v4().String()+"/24")
		h.addAddr("eth0", h.v6().String()+"/64")
		h.must(h.nl.LinkSetUp(h.iface("eth0")))
	}
	return l
}

func newHost(t testing.TB, n int) *host {
	t.Helper()
	h := &host{t: t, n: n}
	made := make(chan error)
	go func() {
		// The thread ends with the goroutine: nothing else ever runs in this namespace on it.
		runtime.LockOSThread()
		var err error
		if h.ns, err = netns.New(); err == nil {
			h.nl, err = netlink.NewHandle()
		}
		made <- err
	}()
	if err := <-made; err != nil {
		t.Fatal("making a network namespace:", err)
	}
	t.Cleanup(func() {
		h.nl.Close()
		_ = h.ns.Close()
	})
	return h
}

// in runs f on a thread in the namespace and waits for it. Child processes of f start in there, too.
func (h *host) in(f func()) {
	h.t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := netns.Set(h.ns)
		defer func() { done <- err }()
		if err == nil {
			f()
		}
	}()
	h.must(<-done)
}

func (h *host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatalf("host %d: %v", h.n, err)
	}
}

func (h *host) v4() netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 0, byte(h.n)}) }

func (h *host) v6() netip.Addr { return netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x77, 15: byte(h.n)}) }

func (h *host) iface(name string) netlink.Link {
	h.t.Helper()
	l, err := h.nl.LinkByName(name)
	h.must(err)
	return l
}

func (h *host) mac() [6]byte { return [6]byte(h.iface("eth0").Attrs().HardwareAddr) }

// addAddr adds an address that need not be checked for duplicates.
func (h *host) addAddr(iface, prefix string) {
	h.t.Helper()
	a, err := netlink.ParseAddr(prefix)
	h.must(err)
	if a.IP.To4() == nil {
		a.Flags = ifaFlagNoDAD
	}
	h.must(h.nl.AddrAdd(h.iface(iface), a))
}

// ifaFlagNoDAD is IFA_F_NODAD of linux/if_addr.h.
const ifaFlagNoDAD = 2

// sysctl sets a value under /proc/sys.
func (h *host) sysctl(name, value string) {
	h.t.Helper()
	h.in(func() {
		if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0); err != nil {
			h.t.Errorf("host %d: %v", h.n, err)
		}
	})
}

// tryOpen opens a raw link in the namespace.
func (h *host) tryOpen(iface string, o link.Options) (l link.Link, err error) {
	h.t.Helper()
	h.in(func() { l, err = link.OpenRaw(context.Background(), iface, o) })
	if err == nil {
		h.t.Cleanup(func() { _ = l.Close() })
	}
	return l, err
}

// open opens a raw link on eth0 of the namespace, to be closed when the test ends.
func (h *host) open(o link.Options) link.Link {
	h.t.Helper()
	l, err := h.tryOpen("eth0", o)
	h.must(err)
	return l
}

// eventually waits up to five seconds for something that must come true.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatal("still not after 5 s: " + what)
}

// hardware turns an address for package netlink.
func hardware(mac [6]byte) net.HardwareAddr { return mac[:] }

//go:build linux

package netns

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/link"
	"github.com/go-roce/roce/test/exercise"
)

// quiet are options of a device whose link is about to be disturbed.
func quiet() exercise.Options {
	return exercise.Options{
		Device: roce.Config{Logger: slog.New(slog.DiscardHandler)},
		Tweak:  func(r *roce.Remote) { r.Timeout = nil }, // what is lost is sent again soon
	}
}

// write makes a signaled WRITE of n bytes to the peer.
func write(a, b *exercise.End, n int) roce.SendWR {
	return roce.SendWR{Opcode: roce.WRWrite, SGL: []roce.SGE{a.MR.SGE(0, n)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.Key()}
}

// await reads events until one of the type comes.
func await(e *exercise.End, want roce.EventType) {
	for event := range e.Dev.Events() {
		if event.Type == want {
			return
		}
	}
}

// Pitfall 65: the interface goes down under a work request and comes back; it is carried out then.
func TestDevice_SurvivesAnInterfaceThatGoesDown(t *testing.T) {
	lab := newLab(t, 1500)
	a, b := lab.pair("eth0", quiet())
	a.Send(t, write(a, b, 5000))
	a.Succeed(t)
	lab.a.must(lab.a.nl.LinkSetDown(lab.a.iface("eth0")))
	await(a, roce.EventPortErr)
	a.Send(t, write(a, b, 5000))
	time.Sleep(100 * time.Millisecond)
	lab.a.must(lab.a.nl.LinkSetUp(lab.a.iface("eth0")))
	a.Succeed(t)
}

// Pitfall 65: the peer's hardware address changes, as in a fail-over.
func TestDevice_FollowsAPeerToOtherHardware(t *testing.T) {
	lab := newLab(t, 1500)
	a, b := lab.pair("eth0", quiet())
	a.Send(t, write(a, b, 5000))
	a.Succeed(t)
	mac := [6]byte{0x02, 0, 0, 0, 0x77, 0x02}
	lab.b.must(lab.b.nl.LinkSetHardwareAddr(lab.b.iface("eth0"), hardware(mac)))
	// The kernel of the peer would announce it; the other's learns it here.
	lab.a.must(lab.a.nl.NeighSet(&netlink.Neigh{LinkIndex: lab.a.iface("eth0").Attrs().Index, IP: lab.b.v4().AsSlice(), HardwareAddr: hardware(mac), State: netlink.NUD_REACHABLE}))
	a.Send(t, write(a, b, 5000))
	a.Succeed(t)
}

// Pitfall 65: the MTU is lowered under traffic.
func TestDevice_SaysWhenTheMTUGetsTooSmall(t *testing.T) {
	lab := newLab(t, 9000)
	a, b := lab.pair("eth0", quiet())
	a.Send(t, write(a, b, 50000))
	a.Succeed(t)
	a.Recv(t, 0, 8)
	lab.a.must(lab.a.nl.LinkSetMTU(lab.a.iface("eth0"), 1500))
	await(a, roce.EventPathMTU)
	c := a.Next(t)
	if err := a.QP.Explain(c); c.Status != roce.StatusWRFlushErr || !strings.Contains(err.Error(), "lowered to 1500") {
		t.Fatalf("the receive ended with %v", err)
	}
	if n := a.Dev.PathMTU(); n != 1024 {
		t.Fatalf("the path MTU is %d now", n)
	}
}

// Over real interfaces that lose, double and reorder, everything still arrives once.
func TestDevice_SurvivesABadLink(t *testing.T) {
	lab := newLab(t, 1500)
	o := allOperations()
	o.Device.Impair = link.Impairment{Loss: 0.01, Dup: 0.01, Reorder: 0.01, Seed: 3}
	o.Tweak = func(r *roce.Remote) { r.Timeout = new(uint8(12)) }
	a, b := lab.pair("eth0", o)
	exercise.Operations(t, a, b, 1024)
	exercise.Operations(t, b, a, 1024)
	if c := a.Dev.Counters(); c.Impaired.Lost == 0 || c.QPs.Retransmits == 0 {
		t.Errorf("the link was not bad: %+v", c)
	}
}

// Pitfall 42 on a real interface: open and connected devices use no CPU when there is nothing to do.
func TestDevice_UsesNoCPUWhenIdle(t *testing.T) {
	a, b := newLab(t, 1500).pair("eth0", quiet())
	a.Send(t, write(a, b, 5000))
	a.Succeed(t)
	waiting, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { _ = b.CQ.Wait(waiting) }()
	time.Sleep(300 * time.Millisecond) // the ACK timer, 201 ms, is lazy: it comes once in vain
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	const pause = time.Second
	before := used()
	time.Sleep(pause)
	if d := used() - before; d > pause/50 {
		t.Errorf("in %v of idleness the process used %v of CPU", pause, d)
	}
}

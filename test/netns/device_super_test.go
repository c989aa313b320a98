//go:build linux

package netns

import (
	"net/netip"
	"os/exec"
	"testing"

	"github.com/go-roce/roce/test/exercise"
)

// Super-frames arrive uncut where the interface passes them on, and cut by the kernel where
// its offloads are off. Either way all bytes are right and nothing is sent twice.
func TestDevice_SuperFrames(t *testing.T) {
	for name, family := range map[string]func(netip.Addr) bool{"IPv4": netip.Addr.Is4, "IPv6": isGlobal6} {
		for _, offloads := range []bool{true, false} {
			t.Run(name+map[bool]string{true: " uncut", false: " cut"}[offloads], func(t *testing.T) {
				lab := newLab(t, 9000)
				if !offloads {
					lab.a.noOffloads(t)
					lab.b.noOffloads(t)
				}
				o := allOperations()
				o.Family = family
				a, b := lab.pair("eth0", o)
				exercise.Operations(t, a, b, 4096)
				exercise.Operations(t, b, a, 4096)
				exercise.Clean(t, a, b)
				sent, received := a.Dev.Counters().Link, b.Dev.Counters().Link
				if sent.TxMerged == 0 || (received.RxMerged > 0) != offloads {
					t.Errorf("sent %+v, received %+v", sent, received)
				}
			})
		}
	}
}

// noOffloads makes the kernel cut what it sends and sum it by itself.
func (h *host) noOffloads(t *testing.T) {
	t.Helper()
	h.in(func() {
		cmd := exec.Command("ethtool", "-K", "eth0", "tso", "off", "gso", "off", "gro", "off", "tx", "off", "rx", "off", "sg", "off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
	})
}

// A lossy link loses packets of super-frames one by one.
func TestDevice_SuperFramesUnderLoss(t *testing.T) {
	lab := newLab(t, 9000)
	o := allOperations()
	o.Device.Impair.Loss, o.Device.Impair.Seed = 0.01, 3
	a, b := lab.pair("eth0", o)
	for range 5 {
		exercise.Operations(t, a, b, 4096)
	}
	if c := a.Dev.Counters(); c.Impaired.Lost == 0 || c.QPs.Retransmits == 0 {
		t.Errorf("lost %d, sent again %d", c.Impaired.Lost, c.QPs.Retransmits)
	}
}

package roce_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/test/exercise"
)

// Every operation, by every length that is a border of something, in both ways to
// make progress, over IPv4 and IPv6, in small and large packets.
func TestOperations_MoveTheRightBytes(t *testing.T) {
	for _, manual := range []bool{false, true} {
		for _, mtu := range []int{256, 1024, 4096} {
			for _, family := range []func(netip.Addr) bool{netip.Addr.Is4, netip.Addr.Is6} {
				ipv6 := family(netip.IPv6Unspecified())
				t.Run(fmt.Sprintf("manual=%v/mtu=%d/ipv6=%v", manual, mtu, ipv6), func(t *testing.T) {
					t.Parallel()
					a, b := newPair(t, options{
						Device: roce.Config{Manual: manual},
						QP:     exercise.OperationsQP,
						Memory: exercise.OperationsMemory(mtu),
						Family: family,
						Tweak:  func(r *roce.Remote) { r.PathMTU = mtu },
					})
					exercise.Operations(t, a, b, mtu)
					exercise.Clean(t, a, b)
				})
			}
		}
	}
}

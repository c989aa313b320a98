//go:build linux

package netns

import (
	"os/exec"
	"testing"
)

// addTokenBucket limits what leaves the interface to 20 Mbit/s behind a queue of 64 KiB.
func addTokenBucket(t *testing.T, iface string) {
	t.Helper()
	out, err := exec.Command("tc", "qdisc", "add", "dev", iface, "root", "tbf",
		"rate", "20mbit", "burst", "16kb", "limit", "64kb").CombinedOutput()
	if err != nil {
		t.Skipf("this kernel has no token bucket: %v: %s", err, out)
	}
}

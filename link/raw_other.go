//go:build !linux

package link

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// OpenRaw needs AF_PACKET sockets, which only Linux has.
func OpenRaw(_ context.Context, iface string, _ Options) (Link, error) {
	return nil, fmt.Errorf("the raw link cannot open %s: %s has no AF_PACKET sockets; use a memory link, or run on Linux: %w",
		iface, runtime.GOOS, errors.ErrUnsupported)
}

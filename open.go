package roce

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-roce/roce/link"
)

// Open opens a device on a network interface. A nil cfg means the defaults. The
// error says what is missing (interface, privilege, address, a free UDP port 4791) and
// what to do about it.
func Open(ctx context.Context, iface string, cfg *Config) (*Device, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	l, err := openInterface(ctx, iface, cfg)
	if err != nil {
		return nil, opError("open "+iface, 0, err)
	}
	return OpenLink(ctx, l, cfg)
}

// openInterface opens the link of the kind that cfg names.
func openInterface(ctx context.Context, iface string, cfg *Config) (link.Link, error) {
	switch cfg.Link {
	case "", "auto", "raw":
		return link.OpenRaw(ctx, iface, link.Options{Clock: cfg.clock()})
	case "mem":
		return nil, errors.New("a mem link joins devices of one process and has no interface: make it with link.NewMemPair or link.NewMemSwitch and give it to OpenLink")
	case "xdp", "udp":
		return nil, fmt.Errorf("link %s is not built yet: use auto or raw", cfg.Link)
	}
	return nil, fmt.Errorf("there is no link %q: use auto or raw", cfg.Link)
}

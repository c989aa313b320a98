package roce

import (
	"context"
	"fmt"
)

// Open opens a device on a network interface. A nil cfg means the defaults. The
// error says what is missing (interface, privilege, address, a free UDP port 4791) and
// what to do about it.
func Open(ctx context.Context, iface string, cfg *Config) (*Device, error) {
	return nil, opError("open "+iface, 0, fmt.Errorf("no link"))
}

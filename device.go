package roce

import (
	"context"
	"net/netip"

	"github.com/go-roce/roce/link"
)

// Device is an endpoint on a link: what verbs calls a context of an RDMA device.
type Device struct {
	link link.Link
	cfg  Config
}

// DeviceInfo describes an open device to people.
type DeviceInfo struct {
	link.Info
	// Addrs are the local addresses usable as GIDs, best first.
	Addrs []netip.Addr
	// LinkMTU is the longest IP packet of the link, PathMTU the largest path MTU that fits.
	LinkMTU, PathMTU int
	// QPNs are the queue pair numbers this process may use on the link.
	QPNs link.QPNRange
	// Manual says that the program drives the device.
	Manual bool
}

// Open opens a device on a network interface. A nil cfg means the defaults. The
// error says what is missing (interface, privilege, address, a free UDP port 4791) and
// what to do about it.
func Open(ctx context.Context, iface string, cfg *Config) (*Device, error) {
	panic("not built yet")
}

// OpenLink opens a device on a link. The device owns the link and closes it, also
// when OpenLink fails.
func OpenLink(ctx context.Context, l link.Link, cfg *Config) (*Device, error) {
	panic("not built yet")
}

// Info describes the device.
func (d *Device) Info() DeviceInfo { panic("not built yet") }

// Addrs returns the local addresses usable as GIDs, best first. They change with the interface.
func (d *Device) Addrs() []netip.Addr { return d.link.Addrs() }

// PathMTU returns the largest path MTU the link carries: 256, 512, 1024, 2048 or 4096.
func (d *Device) PathMTU() int { panic("not built yet") }

// ChooseGID chooses the local address to talk to peer from; see [ChooseGID].
func (d *Device) ChooseGID(peer netip.Addr) (GIDChoice, error) { panic("not built yet") }

// Progress drives a device that is Config.Manual: it does what there is to do, without
// waiting, and returns how many completions it delivered. On other devices it does nothing.
func (d *Device) Progress() int { panic("not built yet") }

// Events delivers asynchronous events of the device and its queue pairs. A slow
// reader loses the oldest ones. The channel is closed by Close.
func (d *Device) Events() <-chan Event { panic("not built yet") }

// Counters returns the counters of the device since it was opened. After Close they
// are what they were then.
func (d *Device) Counters() DeviceCounters { panic("not built yet") }

// Close destroys every queue pair, so that all work requests complete, and closes the
// link. Completions can still be polled afterwards.
func (d *Device) Close() error { panic("not built yet") }

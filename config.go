package roce

import (
	"io"
	"log/slog"
	"net/netip"
	"runtime"
	"time"

	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/link"
)

// Config says how a device works. A nil *Config and the zero Config mean the
// defaults that each field names.
type Config struct {
	// Link is the kind of link that Open makes: auto (default), raw, xdp, udp or
	// mem. OpenLink ignores it.
	Link string
	// Manual makes CQ.Poll, CQ.Wait and Device.Progress drive the device, instead of
	// a goroutine for each queue of the link. What is posted leaves with the next of
	// them, and peers are answered only by them.
	Manual bool
	// Spin is how long a device's goroutine keeps polling after it last had
	// something to do, before it sleeps. 0 means 50 us, or none where the program has
	// a single processor; negative means none.
	Spin time.Duration
	// Addr is the local address to use as GID. By default it is chosen for each
	// connection by the rule of ChooseGID.
	Addr netip.Addr
	// Pcap, if not nil, gets every frame sent and received as pcapng, with the reason
	// of each drop as a comment. Close flushes it and does not close it. To capture several devices in one file
	// tap their links by a link.Capture and use OpenLink.
	Pcap io.Writer
	// Impair is what goes wrong on purpose with packets sent. The capture has what is left of them.
	Impair link.Impairment
	// Window is the packets a queue pair keeps in flight; 0 means transport.DefaultWindow.
	Window int
	// Recovery is how losses are made good; nil means DefaultRecovery. Its Pool is the device's.
	Recovery *Recovery
	// Logger gets what happens to the link: it goes down, comes up, a neighbour moves,
	// the MTU changes. nil means slog.Default.
	Logger *slog.Logger
	// Clock is the clock the device lives by. nil means the machine's. With OpenLink it must be
	// the one the link was given.
	Clock clock.Clock
}

// DefaultRecovery probes after a millisecond of silence, keeps up to 512 packets behind a gap and
// sends again only what is missing where the peer makes that possible. The zero Recovery is plain go-back-N.
func DefaultRecovery() Recovery {
	return Recovery{Probe: time.Millisecond, Selective: true, Hold: 512}
}

const defaultSpin = 50 * time.Microsecond

func (c *Config) recovery() Recovery {
	if c.Recovery == nil {
		return DefaultRecovery()
	}
	return *c.Recovery
}

func (c *Config) spin() time.Duration {
	switch {
	case c.Spin < 0:
		return 0
	case c.Spin > 0:
		return c.Spin
	case runtime.GOMAXPROCS(0) == 1:
		return 0
	}
	return defaultSpin
}

func (c *Config) clock() clock.Clock {
	if c.Clock == nil {
		return clock.System()
	}
	return c.Clock
}

// wrap puts the capture and the impairment before l, in this order, so that the capture
// shows what the wire carries.
func (c *Config) wrap(l link.Link) (link.Link, *link.Impaired) {
	if c.Pcap != nil {
		l = link.NewTap(l, c.Pcap, c.clock())
	}
	if !c.Impair.Active() {
		return l, nil
	}
	i := link.NewImpaired(l, c.Impair, c.clock())
	return i, i
}

func (c *Config) logger() *slog.Logger {
	if c.Logger == nil {
		return slog.Default()
	}
	return c.Logger
}

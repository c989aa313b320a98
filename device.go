package roce

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/internal/engine"
	"github.com/go-roce/roce/link"
	"github.com/go-roce/roce/memreg"
	"github.com/go-roce/roce/transport"
)

// Device is an endpoint on a link: what verbs calls a context of an RDMA device.
type Device struct {
	link link.Link
	// impaired is the link too, if Config.Impair does anything, otherwise nil.
	impaired *link.Impaired
	cfg      Config
	log      *slog.Logger
	loops    []*engine.Loop
	events   eventQueue
	pds      atomic.Uint32

	regMu sync.Mutex // registers and deregisters
	table *memreg.Table

	mu       sync.Mutex
	qps      map[QPN]*QP
	made     int   // queue pairs, ever
	failure  error // why the link ended by itself
	shutdown sync.Once
	// flushed is closed when no completion will be added any more.
	flushed chan struct{}

	closing sync.Once
	closed  chan struct{} // closed at the end of Close
	stop    context.CancelFunc
	running sync.WaitGroup // loops and watcher
	err     error          // of Close
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

// OpenLink opens a device on a link. The device owns the link and closes it, also
// when OpenLink fails. A nil cfg means the defaults.
func OpenLink(_ context.Context, l link.Link, cfg *Config) (*Device, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	l, impaired := cfg.wrap(l)
	d, err := openLink(l, impaired, cfg)
	if err != nil {
		return nil, opError("open "+l.Info().Interface, 0, errors.Join(err, l.Close()))
	}
	return d, nil
}

func openLink(l link.Link, impaired *link.Impaired, cfg *Config) (*Device, error) {
	d := &Device{
		link:     l,
		impaired: impaired,
		cfg:      *cfg,
		events:   newEventQueue(),
		table:    memreg.NewTable(random32),
		qps:      map[QPN]*QP{},
		flushed:  make(chan struct{}),
		closed:   make(chan struct{}),
	}
	d.log = d.cfg.logger().With("interface", l.Info().Interface)
	queues := l.Queues()
	mtu := l.Caps().MTU
	switch {
	case bth.PathMTUFor(mtu) == 0:
		return nil, fmt.Errorf("its MTU %d is too small for the smallest path MTU, %d: raise it to 1500 or more", mtu, bth.MinPathMTU)
	case d.cfg.Manual && len(queues) > 1:
		return nil, fmt.Errorf("manual progress drives a single queue, but this link has %d: open it with one queue or leave out Manual", len(queues))
	}
	// Each loop gives out its own share of the queue pair numbers, so they name their loop.
	share := l.QPNs()
	share.Count /= uint32(len(queues))
	for i, q := range queues {
		d.loops = append(d.loops, engine.New(engine.Config{
			Queue:     q,
			Caps:      l.Caps(),
			Clock:     d.cfg.clock(),
			Index:     i,
			QPNs:      link.QPNRange{First: share.First + uint32(i)*share.Count, Count: share.Count},
			Random:    random32,
			Addrs:     l.Addrs(),
			Spin:      d.cfg.spin(),
			OnEvent:   d.qpEvent,
			OnFailure: func(err error) { go d.linkFailed(err) },
		}))
	}
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	d.running.Go(func() { d.watch(ctx) })
	if !d.cfg.Manual {
		for _, l := range d.loops {
			d.running.Go(l.Run)
		}
	}
	return d, nil
}

// Info describes the device.
func (d *Device) Info() DeviceInfo {
	return DeviceInfo{
		Info:    d.link.Info(),
		Addrs:   d.Addrs(),
		LinkMTU: d.link.Caps().MTU,
		PathMTU: d.PathMTU(),
		QPNs:    d.link.QPNs(),
		Manual:  d.cfg.Manual,
	}
}

// Addrs returns the local addresses usable as GIDs, best first. They change with the interface.
func (d *Device) Addrs() []netip.Addr { return d.link.Addrs() }

// PathMTU returns the largest path MTU the link carries: 256, 512, 1024, 2048 or 4096.
func (d *Device) PathMTU() int { return bth.PathMTUFor(d.link.Caps().MTU) }

// ChooseGID chooses the local address to talk to peer from: Config.Addr, or by the
// rule of the function [ChooseGID]. A zero peer is one that is not known yet.
func (d *Device) ChooseGID(peer netip.Addr) (GIDChoice, error) {
	local := d.Addrs()
	want := d.cfg.Addr
	if !want.IsValid() {
		return ChooseGID(local, peer)
	}
	for i, a := range local {
		if a != want {
			continue
		}
		if peer.IsValid() && peer.Unmap().Is4() != a.Is4() {
			return GIDChoice{}, fmt.Errorf("%v, the address asked for, cannot talk to %v: both must be IPv4 or both IPv6", want, peer)
		}
		return choose(local, i, "it was asked for", func(netip.Addr) string { return "another was asked for" }), nil
	}
	return GIDChoice{}, fmt.Errorf("%v, the address asked for, is not an address of %s, which has %v", want, d.link.Info().Interface, local)
}

// Progress drives a device that is Config.Manual: it does what there is to do, without
// waiting, and returns how many packets and completions it moved; 0 means there was nothing to
// do. It does nothing while another goroutine drives, and on other devices.
func (d *Device) Progress() int {
	if !d.cfg.Manual {
		return 0
	}
	return d.loops[0].Progress()
}

// Events delivers asynchronous events of the device and its queue pairs. A slow
// reader loses the oldest ones. The channel is closed by Close.
func (d *Device) Events() <-chan Event { return d.events.ch }

// Close destroys every queue pair, so that all work requests complete, and closes the
// link. Completions can still be polled afterwards.
func (d *Device) Close() error {
	d.closing.Do(func() {
		d.flush()
		d.stop()
		d.running.Wait()
		d.err = opError("close "+d.link.Info().Interface, 0, d.link.Close())
		d.events.close()
		close(d.closed)
	})
	<-d.closed
	return d.err
}

// flush ends all loops.
func (d *Device) flush() {
	d.shutdown.Do(func() {
		for _, l := range d.loops {
			l.Close()
		}
		close(d.flushed)
	})
}

// linkFailed ends a device whose link is gone. The program finds out by completions with
// WR_FLUSH_ERR, errors that wrap ErrClosed, and an event.
func (d *Device) linkFailed(err error) {
	d.mu.Lock()
	first := d.failure == nil
	d.failure = err
	d.mu.Unlock()
	d.flush()
	if first {
		d.log.Error("the link is gone, the device is closed", "error", err)
		d.events.push(Event{Type: EventFatal, Text: fmt.Sprintf("the link is gone and the device closed: %v", err)})
	}
}

// errClosed is ErrClosed with the reason, if the program did not close the device itself.
func (d *Device) errClosed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failure != nil {
		return fmt.Errorf("%w: %w", ErrClosed, d.failure)
	}
	return ErrClosed
}

func (d *Device) isClosed() bool {
	select {
	case <-d.flushed:
		return true
	default:
		return false
	}
}

// qpEvent passes an event of a queue pair on. It runs on a loop.
func (d *Device) qpEvent(q *engine.QP, e transport.Event) {
	of, ok := ofQP[e]
	if !ok {
		return
	}
	d.events.push(Event{Type: of.event, QPN: q.QPN(), Text: fmt.Sprintf("QP 0x%06x %s", uint32(q.QPN()), of.text)})
}

// grace waits until every loop has finished the turn it is in.
func (d *Device) grace() {
	for _, l := range d.loops {
		_ = l.Do(context.Background(), func(clock.Time) {})
	}
}

// random32 draws keys, queue pair numbers and PSNs, which nobody should guess.
func random32() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.NativeEndian.Uint32(b[:])
}

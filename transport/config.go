package transport

import (
	"fmt"
	"time"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/memreg"
)

// Type is the service of a queue pair, with the values of ibv_qp_type.
type Type uint8

// Queue pair types.
const (
	TypeRC Type = 2 // reliable connection
	TypeUC Type = 3 // unreliable connection
	TypeUD Type = 4 // unreliable datagram
)

// String returns the usual abbreviation.
func (t Type) String() string {
	switch t {
	case TypeRC:
		return "RC"
	case TypeUC:
		return "UC"
	case TypeUD:
		return "UD"
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// Limits of a queue pair.
const (
	// MaxDepth is the most work requests a queue holds.
	MaxDepth = 1 << 16
	// MaxInlineData is the most bytes a work request may carry inline.
	MaxInlineData = 1 << 12
	// MaxRdAtomic is the most READs and atomics outstanding in one direction, as in rdma_rxe.
	MaxRdAtomic = 128
	// DefaultWindow is the packets in flight when Config.Window is 0. It is what
	// rdma_rxe keeps in flight, so every peer is known to buffer that much.
	DefaultWindow = 128
	// MaxHold is the most packets a queue pair keeps behind a gap.
	MaxHold = 1 << 12
)

// Config describes a queue pair to New. The zero values mean what each field says.
type Config struct {
	Type Type
	QPN  bth.QPN
	// PD is the protection domain whose regions the queue pair reaches, in Table.
	PD    memreg.PD
	Table *memreg.Table
	// SendDepth and RecvDepth are the work requests each queue holds; 0 means the
	// queue takes none.
	SendDepth, RecvDepth int
	// SendSGE and RecvSGE are the elements a work request's list may have; 0 means 1.
	SendSGE, RecvSGE int
	// MaxInline is the bytes a work request may carry inline; 0 means none.
	MaxInline int
	// SignalAll makes every send work request signaled.
	SignalAll bool
	// MaxPathMTU is the largest path MTU the link carries; 0 means 4096.
	MaxPathMTU int
	// Window is the packets in flight; 0 means DefaultWindow.
	Window int
	// Credits makes the responder advertise end-to-end credits (IBA 9.7.7.2).
	// Off, it says it has none to give and relies on RNR NAKs, as rdma_rxe does.
	Credits bool
	// Recovery is what is done about losses beyond the specification's duties. Its
	// zero value is go-back-N, as rdma_rxe has it.
	Recovery Recovery
	// Congestion limits what is in flight below Window; nil means a window that shrinks
	// only when losses show a full queue.
	Congestion Congestion
}

// Recovery says how a queue pair makes losses good with peers of any make, none of which
// needs to know: on the wire it is the packets of the specification.
type Recovery struct {
	// Probe is the shortest time without progress after which the oldest request is sent
	// again to find out what has become of it, long before the ACK timeout; 0 means never. While
	// nothing has been lost it is 16 times as long, and where losses are frequent as short as round trips allow.
	Probe time.Duration
	// Selective sends only what is missing once the peer is seen to keep packets behind
	// a gap, and asks for missing parts of READ responses.
	Selective bool
	// Hold is how many packets behind a gap the responder keeps; 0 means none, as the
	// specification has it. Pool is where, and limits it for many queue pairs together.
	Hold int
	Pool *HoldPool
	// ReorderWindow is how long a gap may last before it is taken for a loss, for
	// networks that reorder; 0 means no time.
	ReorderWindow time.Duration
}

func (c *Config) validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("transport: cannot make QP 0x%06x: %s", uint32(c.QPN), fmt.Sprintf(format, args...))
	}
	switch {
	case c.Type != TypeRC:
		return bad("%v is not implemented, only RC", c.Type)
	case c.QPN <= bth.QPNGSI || c.QPN > bth.MaxQPN:
		return bad("queue pair numbers go from 2 to 0x%x", uint32(bth.MaxQPN))
	case c.Table == nil:
		return bad("Config.Table is nil")
	case c.SendDepth < 0 || c.SendDepth > MaxDepth || c.RecvDepth < 0 || c.RecvDepth > MaxDepth:
		return bad("queue depths %d and %d must be 0 to %d", c.SendDepth, c.RecvDepth, MaxDepth)
	case c.SendSGE < 0 || c.SendSGE > MaxSGE || c.RecvSGE < 0 || c.RecvSGE > MaxSGE:
		return bad("gather lists of %d and scatter lists of %d elements must have 1 to %d", c.SendSGE, c.RecvSGE, MaxSGE)
	case c.MaxInline < 0 || c.MaxInline > MaxInlineData:
		return bad("%d bytes of inline data must be 0 to %d", c.MaxInline, MaxInlineData)
	case c.MaxPathMTU != 0 && !bth.ValidPathMTU(c.MaxPathMTU):
		return bad("path MTU %d is none of 256, 512, 1024, 2048, 4096", c.MaxPathMTU)
	case c.Window < 0 || c.Window > bth.MaxPSNDistance-1:
		return bad("a window of %d packets must be 1 to %d", c.Window, bth.MaxPSNDistance-1)
	case c.Recovery.Hold < 0 || c.Recovery.Hold > MaxHold:
		return bad("%d packets held behind a gap must be 0 to %d", c.Recovery.Hold, MaxHold)
	case c.Recovery.Hold > 0 && c.Recovery.Pool == nil:
		return bad("packets are to be held behind a gap but Recovery.Pool is nil")
	case c.Recovery.Probe < 0 || c.Recovery.ReorderWindow < 0:
		return bad("a probe after %v and a reorder window of %v must not be negative", c.Recovery.Probe, c.Recovery.ReorderWindow)
	}
	return nil
}

func (c *Config) maxPathMTU() int {
	if c.MaxPathMTU == 0 {
		return 4096
	}
	return c.MaxPathMTU
}

func (c *Config) window() uint32 {
	if c.Window == 0 {
		return DefaultWindow
	}
	return uint32(c.Window)
}

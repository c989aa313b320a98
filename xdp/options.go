package xdp

import (
	"os"
	"time"

	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/link"
)

// CopyMode says whether frames may be copied between the driver and the UMEM.
type CopyMode uint8

const (
	CopyAuto   CopyMode = iota // zero-copy if the driver has it, else copy
	CopyAlways                 // copy
	CopyNever                  // zero-copy, or it is an error
)

// BusyPoll lets the program's calls drive the device instead of interrupts
// (Documentation/networking/napi.rst, "Busy polling"). It pays where a whole processor is spent on a
// queue, and needs napi_defer_hard_irqs and gro_flush_timeout of the interface set.
type BusyPoll struct {
	// Prefer switches it on (SO_PREFER_BUSY_POLL).
	Prefer bool
	// Time is how long a call polls when nothing is there; 0 means 20 us (SO_BUSY_POLL).
	Time time.Duration
	// Budget is how many frames a call takes in at most; 0 means 64 (SO_BUSY_POLL_BUDGET).
	Budget int
}

func (b BusyPoll) time() time.Duration {
	if b.Time == 0 {
		return 20 * time.Microsecond
	}
	return b.Time
}

func (b BusyPoll) budget() int {
	if b.Budget == 0 {
		return 64
	}
	return b.Budget
}

// Mode says where the XDP program runs.
type Mode uint8

const (
	ModeAuto    Mode = iota // in the driver if that has XDP, else generic
	ModeNative              // in the driver, or it is an error
	ModeGeneric             // in the kernel's network stack, which every interface can
)

// Options are the properties of an xdp link. The zero value means the defaults.
type Options struct {
	// Clock measures the deadlines of Wait. It must run as real time does; nil means [clock.System].
	Clock clock.Clock
	// Mode is where the XDP program runs.
	Mode Mode
	// Copy is how frames come from there into the program's memory.
	Copy CopyMode
	// Queues is how many receive queues of the interface to use, from the first on; 0 means all. Packets
	// that the interface puts into another queue are lost to the link.
	Queues int
	// Force replaces an XDP program of others on the interface.
	Force bool
	// QPNs are the queue pair numbers to use; with a zero Count all. With a range only packets to
	// these numbers are taken: the rest goes on to the kernel, where a rdma_rxe or another link may have them.
	QPNs link.QPNRange
	// Chunks is how many chunks of memory each queue has to receive into; 0 means 16384, or as many as the limit for
	// locked memory allows. A frame takes one, or as many as it needs.
	Chunks int
	// ChunkSize is 2048 or 4096 bytes; 0 means 4096, or a page if that is smaller.
	ChunkSize int
	// Depth is how many transmit buffers each queue has; 0 means 256.
	Depth int
	// BusyPoll has the link drive the device by looking for frames, instead of waiting for interrupts.
	BusyPoll BusyPoll
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Chunks == 0 {
		o.Chunks = 16384
	}
	if o.ChunkSize == 0 {
		o.ChunkSize = min(4096, os.Getpagesize())
	}
	if o.Depth == 0 {
		o.Depth = 256
	}
	if o.QPNs.Count == 0 {
		o.QPNs = link.AllQPNs
	}
	return o
}

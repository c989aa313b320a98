package xdp

import (
	"sync/atomic"

	"github.com/go-roce/roce/link"
)

// counters are what a queue counts itself. Its owner adds once a batch; anyone may read.
type counters struct {
	rxFrames, rxBytes, rxTruncated, rxBad atomic.Uint64
	txFrames, txBytes, txErrors, txKept   atomic.Uint64
}

// addTo adds n to c unless n is 0: the locked add is the dear part.
func addTo(c *atomic.Uint64, n int) {
	if n != 0 {
		c.Add(uint64(n))
	}
}

// stats puts the queue's own count and the kernel's together.
func (c *counters) stats(k *Statistics) link.Stats {
	return link.Stats{
		RxFrames: c.rxFrames.Load(), RxBytes: c.rxBytes.Load(),
		TxFrames: c.txFrames.Load(), TxBytes: c.txBytes.Load(),
		// An empty fill ring is no loss by itself: drivers look at it ahead of need.
		RxDropped:   k.RxDropped + k.RxRingFull + k.RxInvalid + c.rxBad.Load(),
		RxTruncated: c.rxTruncated.Load(),
		TxErrors:    c.txErrors.Load() + k.TxInvalid,
		TxKept:      c.txKept.Load(),
	}
}

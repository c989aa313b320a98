package link

import "sync/atomic"

// counters are a queue's Stats while it runs. Its owner adds once a batch; anyone may read.
type counters struct {
	rxFrames, rxBytes, txFrames, txBytes       atomic.Uint64
	rxDropped, rxMerged, txMerged, rxTruncated atomic.Uint64
	txErrors, txKept                           atomic.Uint64
}

// addTo adds n to c unless n is 0: the locked add is the dear part.
func addTo(c *atomic.Uint64, n uint64) {
	if n != 0 {
		c.Add(n)
	}
}

func (c *counters) stats() Stats {
	return Stats{
		RxFrames: c.rxFrames.Load(), RxBytes: c.rxBytes.Load(),
		TxFrames: c.txFrames.Load(), TxBytes: c.txBytes.Load(),
		RxDropped: c.rxDropped.Load(), RxTruncated: c.rxTruncated.Load(),
		RxMerged: c.rxMerged.Load(), TxMerged: c.txMerged.Load(),
		TxErrors: c.txErrors.Load(), TxKept: c.txKept.Load(),
	}
}

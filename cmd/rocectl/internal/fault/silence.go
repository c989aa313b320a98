package fault

import (
	"context"
	"time"

	"github.com/go-roce/roce"
)

// OnSilence calls silent when no packet has come for as long as limit, once, unless ctx ends before. A peer that has
// died, or that waits for something that is not going to happen, shows itself by that alone. RNR NAKs do not count: one
// that posts no receives any more answers for ever; notReady says that there were some.
func OnSilence(ctx context.Context, d *roce.Device, limit time.Duration, silent func(notReady bool)) {
	tick := time.NewTicker(min(time.Second, limit/4))
	defer tick.Stop()
	last, since := d.Counters().QPs, time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := d.Counters().QPs
		if now.RxPackets-now.RNRNAKsReceived != last.RxPackets-last.RNRNAKsReceived {
			last, since = now, time.Now()
		}
		if time.Since(since) >= limit {
			silent(now.RNRNAKsReceived != last.RNRNAKsReceived)
			return
		}
	}
}

package roce

import (
	"context"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/link"
)

// DeviceCounters are the counters of a device.
type DeviceCounters struct {
	// QPs sums the counters of all queue pairs, destroyed ones included.
	QPs Counters
	// Drops counts received packets that were not taken, by reason; reasons that
	// never occurred are left out. The names are those of bth.Drop.
	Drops map[string]uint64
	// Link sums the counters of the link's queues.
	Link link.Stats
	// Impaired is what Config.Impair did.
	Impaired link.ImpairedCounts
	// Turns counts how often the device looked for work, Sleeps how often it slept, Starved
	// how often a queue pair had to wait for a transmit buffer.
	Turns, Sleeps, Starved uint64
}

// Counters returns the counters of the device since it was opened. After Close they
// are what they were then.
func (d *Device) Counters() DeviceCounters {
	c := DeviceCounters{Drops: map[string]uint64{}}
	for _, l := range d.loops {
		loop, qps, queue, err := l.Snapshot(context.Background())
		if err != nil {
			continue // cannot be: the context never ends
		}
		for drop := range bth.Drops() {
			if n := loop.Drops[drop]; n > 0 {
				c.Drops[drop.String()] += n
			}
		}
		c.QPs.Add(&qps)
		c.Link = sumStats(c.Link, queue)
		c.Turns += loop.Turns
		c.Sleeps += loop.Sleeps
		c.Starved += loop.Starved
	}
	if d.impaired != nil {
		c.Impaired = d.impaired.Counts()
	}
	return c
}

func sumStats(a, b link.Stats) link.Stats {
	return link.Stats{
		RxFrames:    a.RxFrames + b.RxFrames,
		RxBytes:     a.RxBytes + b.RxBytes,
		TxFrames:    a.TxFrames + b.TxFrames,
		TxBytes:     a.TxBytes + b.TxBytes,
		RxDropped:   a.RxDropped + b.RxDropped,
		RxMerged:    a.RxMerged + b.RxMerged,
		TxMerged:    a.TxMerged + b.TxMerged,
		RxTruncated: a.RxTruncated + b.RxTruncated,
		TxErrors:    a.TxErrors + b.TxErrors,
		TxKept:      a.TxKept + b.TxKept,
	}
}

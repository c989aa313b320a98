package roce

import "github.com/go-roce/roce/link"

// DeviceCounters are the counters of a device.
type DeviceCounters struct {
	// QPs sums the counters of all queue pairs, destroyed ones included.
	QPs Counters
	// Drops counts received packets that were not taken, by reason; reasons that
	// never occurred are left out. See package bth for what the names mean.
	Drops map[string]uint64
	// Link are the counters of the link's queues.
	Link link.Stats
}

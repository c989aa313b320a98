package measure

import (
	"time"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/bth"
)

// Result is the outcome of one run, in the form that --json prints.
type Result struct {
	Test string `json:"test"`
	// Link is the kind of link, Mode how it ran and who drove it.
	Link string `json:"link"`
	Mode string `json:"mode"`
	Size int    `json:"size"` // bytes of a message
	// Iterations are messages of each queue pair in each direction.
	Iterations uint64 `json:"iters"`
	QPs        int    `json:"qps"`
	MTU        int    `json:"mtu"` // path MTU
	// Bytes and Seconds are the payload of the measured iterations and how long its sender took for them; with two
	// senders, the payload of both and the longer time. Both are 0 at an end that neither measured nor was told.
	Bytes    uint64   `json:"bytes"`
	Seconds  float64  `json:"seconds"`
	GbitPerS float64  `json:"gbit_per_s"`
	MmsgPerS float64  `json:"mmsg_per_s"`
	Latency  *Latency `json:"latency_us,omitempty"`
	Counters
	// Runs are the results by size of a test of all sizes. The fields above are then those of the last.
	Runs []Result `json:"runs,omitempty"`

	// PeakGbitPerS is the highest rate over a part of the run; 0 when it was not looked for.
	PeakGbitPerS float64 `json:"-"`
}

// Rate sets what follows from bytes of payload in messages that took a time.
func (r *Result) Rate(bytes, messages uint64, took time.Duration) {
	r.Bytes, r.Seconds = bytes, took.Seconds()
	if took > 0 {
		r.GbitPerS = Gbit(bytes, took)
		r.MmsgPerS = float64(messages) / took.Seconds() / 1e6
	}
}

// Gbit is a rate in 10^9 bits a second.
func Gbit(bytes uint64, took time.Duration) float64 {
	return float64(bytes) * 8 / took.Seconds() / 1e9
}

// MiB converts a rate in Gbit/s to MiB/s.
func MiB(gbit float64) float64 { return gbit * 1e9 / 8 / (1 << 20) }

// Counters say what went wrong on the wire, at this end, from the start of the run to its end.
type Counters struct {
	Retransmits uint64 `json:"retransmits"`
	NAKs        uint64 `json:"naks_received"`
	RNRNAKs     uint64 `json:"rnr_naks_received"`
	Timeouts    uint64 `json:"timeouts"`
	ICRCErrors  uint64 `json:"icrc_errors"`
}

// ReadCounters returns the device's counters since it was opened.
func ReadCounters(d *roce.Device) Counters {
	c := d.Counters()
	return Counters{
		Retransmits: c.QPs.Retransmits,
		NAKs:        c.QPs.NAKsReceived,
		RNRNAKs:     c.QPs.RNRNAKsReceived,
		Timeouts:    c.QPs.Timeouts,
		ICRCErrors:  c.Drops[bth.DropICRC.String()],
	}
}

// Since returns what was counted after before.
func (c Counters) Since(before Counters) Counters {
	return Counters{
		Retransmits: c.Retransmits - before.Retransmits,
		NAKs:        c.NAKs - before.NAKs,
		RNRNAKs:     c.RNRNAKs - before.RNRNAKs,
		Timeouts:    c.Timeouts - before.Timeouts,
		ICRCErrors:  c.ICRCErrors - before.ICRCErrors,
	}
}

// Plus returns the sums.
func (c Counters) Plus(d Counters) Counters {
	return Counters{
		Retransmits: c.Retransmits + d.Retransmits,
		NAKs:        c.NAKs + d.NAKs,
		RNRNAKs:     c.RNRNAKs + d.RNRNAKs,
		Timeouts:    c.Timeouts + d.Timeouts,
		ICRCErrors:  c.ICRCErrors + d.ICRCErrors,
	}
}

// Mode describes how a device runs.
func Mode(i roce.DeviceInfo) string {
	if i.Manual {
		return i.Mode + ", manual progress"
	}
	return i.Mode + ", background progress"
}

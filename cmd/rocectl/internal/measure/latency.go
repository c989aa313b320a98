package measure

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latency is a distribution of latencies in microseconds.
type Latency struct {
	Min    float64 `json:"min"`
	P50    float64 `json:"p50"`
	P99    float64 `json:"p99"`
	P999   float64 `json:"p999"`
	Max    float64 `json:"max"`
	Mean   float64 `json:"mean"`
	Stddev float64 `json:"-"`
	Count  uint64  `json:"-"`
}

// longest is the longest latency the distribution tells apart. A longer one still counts in maximum and mean.
const longest = 100 * time.Second

// Recorder collects latencies in bounded memory: the distribution to three digits, extremes and mean exactly.
type Recorder struct {
	hist     *hdrhistogram.Histogram
	n        uint64
	min, max time.Duration
	sum, sq  float64 // of nanoseconds and their squares
}

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder {
	return &Recorder{hist: hdrhistogram.New(1, int64(longest), 3), min: math.MaxInt64}
}

// Record adds a latency. It does not allocate.
func (r *Recorder) Record(d time.Duration) {
	r.n++
	r.min, r.max = min(r.min, d), max(r.max, d)
	f := float64(d)
	r.sum += f
	r.sq += f * f
	_ = r.hist.RecordValue(int64(min(max(d, 1), longest))) // in range by construction
}

// Empty reports whether nothing was recorded yet.
func (r *Recorder) Empty() bool { return r.n == 0 }

// Latency returns the distribution, every value divided by trips: 2 where a round trip was recorded and half is
// asked for. It returns nil if nothing was recorded.
func (r *Recorder) Latency(trips int) *Latency {
	if r.n == 0 {
		return nil
	}
	us := func(ns float64) float64 { return ns / float64(trips) / 1e3 }
	quantile := func(q float64) float64 {
		// The histogram rounds up within a bucket.
		return us(float64(min(max(r.hist.ValueAtQuantile(q), int64(r.min)), int64(r.max))))
	}
	mean := r.sum / float64(r.n)
	return &Latency{
		Min: us(float64(r.min)), P50: quantile(50), P99: quantile(99), P999: quantile(99.9), Max: us(float64(r.max)),
		Mean: us(mean), Stddev: us(math.Sqrt(max(0, r.sq/float64(r.n)-mean*mean))), Count: r.n,
	}
}

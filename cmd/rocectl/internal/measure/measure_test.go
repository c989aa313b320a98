package measure

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

func TestRecorder_DistributionOfWhatWasRecorded(t *testing.T) {
	r := NewRecorder()
	if !r.Empty() || r.Latency(1) != nil {
		t.Error("an empty recorder has a distribution")
	}
	for i := range 1000 {
		r.Record(time.Duration(i+1) * time.Microsecond)
	}
	near := func(name string, got, want float64) {
		if math.Abs(got-want) > want/500 { // three digits
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	l := r.Latency(1)
	near("min", l.Min, 1)
	near("p50", l.P50, 500)
	near("p99", l.P99, 990)
	near("p99.9", l.P999, 999)
	near("max", l.Max, 1000)
	near("mean", l.Mean, 500.5)
	near("stddev", l.Stddev, 288.675)
	if half := r.Latency(2); half.Max != l.Max/2 || half.Mean != l.Mean/2 || half.P99 != l.P99/2 {
		t.Errorf("half of %+v is %+v", *l, *half)
	}
}

func TestRecorder_OrderHoldsForAnyValues(t *testing.T) {
	for _, values := range [][]time.Duration{
		{0}, {1}, {7}, {1234567}, {1, 1, 1}, {3, 200 * time.Second}, {-5, 5}, {time.Hour, time.Hour}, {4099, 4100, 4101, 4103, 8191, 8193},
	} {
		r := NewRecorder()
		for _, v := range values {
			r.Record(v)
		}
		l := r.Latency(1)
		got := []float64{l.Min, l.P50, l.P99, l.P999, l.Max}
		if !slices.IsSorted(got) || l.Mean < l.Min || l.Mean > l.Max || l.Count != uint64(len(values)) {
			t.Errorf("%v: %+v", values, *l)
		}
		if l.Min != float64(slices.Min(values))/1e3 || l.Max != float64(slices.Max(values))/1e3 {
			t.Errorf("%v: extremes %v, %v", values, l.Min, l.Max)
		}
	}
}

func TestRecorder_DoesNotAllocate(t *testing.T) {
	r := NewRecorder()
	d := time.Duration(1)
	if n := testing.AllocsPerRun(1000, func() { d = d*3%7919 + 1; r.Record(d) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestResult_RatesAndUnits(t *testing.T) {
	var r Result
	r.Rate(1e9/8, 1000, time.Second)
	if r.GbitPerS != 1 || r.MmsgPerS != 0.001 || r.Seconds != 1 || r.Bytes != 125000000 {
		t.Errorf("%+v", r)
	}
	if got := MiB(1); math.Abs(got-119.2092895) > 1e-6 {
		t.Errorf("1 Gbit/s is %v MiB/s", got)
	}
	// A month at 400 Gbit/s.
	month := 30 * 24 * time.Hour
	r.Rate(uint64(400e9/8*month.Seconds()), 1<<40, month)
	if math.Abs(r.GbitPerS-400) > 0.001 {
		t.Errorf("%v Gbit/s", r.GbitPerS)
	}
}

// Scripts elsewhere depend on these names.
func TestResult_JSONHasTheFixedNames(t *testing.T) {
	b, err := json.Marshal(Result{Latency: &Latency{}})
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"test", "link", "mode", "size", "iters", "qps", "mtu", "bytes", "seconds", "gbit_per_s", "mmsg_per_s", "latency_us",
		"retransmits", "naks_received", "rnr_naks_received", "timeouts", "icrc_errors",
	}
	for _, name := range want {
		if _, ok := m[name]; !ok {
			t.Errorf("no %q in %s", name, b)
		}
	}
	if len(m) != len(want) {
		t.Errorf("%d names in %s, want %d", len(m), b, len(want))
	}
	for _, name := range []string{"min", "p50", "p99", "p999", "max", "mean"} {
		if _, ok := m["latency_us"].(map[string]any)[name]; !ok {
			t.Errorf("no latency_us.%s in %s", name, b)
		}
	}
	if len(m["latency_us"].(map[string]any)) != 6 {
		t.Errorf("more than six names in %v", m["latency_us"])
	}
}

func TestCounters_SumAndDifference(t *testing.T) {
	a, b := Counters{1, 2, 3, 4, 5}, Counters{10, 20, 30, 40, 50}
	if got := a.Plus(b); got != (Counters{11, 22, 33, 44, 55}) || got.Since(b) != a {
		t.Errorf("%+v", got)
	}
}

func TestBar_IsSilentWhereThereIsNoTerminal(t *testing.T) {
	var out bytes.Buffer
	var done atomic.Uint64
	b := Show(&out, "it", 10, &done)
	time.Sleep(quiet + 300*time.Millisecond)
	done.Store(10)
	b.Stop()
	b.Stop()
	if out.Len() > 0 {
		t.Errorf("it drew %q", out.String())
	}
}

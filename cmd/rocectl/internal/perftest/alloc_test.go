package perftest

import (
	"runtime"
	"testing"
	"time"
)

// A run of many more messages must not allocate more: what a run allocates is for setting it up.
func TestSession_LoopsDoNotAllocatePerMessage(t *testing.T) {
	if testing.Short() {
		t.Skip("moves some 10000 messages")
	}
	// On one processor the two ends take turns, and neither waits for a busy machine to let the other on.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, test := range Tests {
		t.Run(test.Name, func(t *testing.T) {
			mallocs := func(iterations uint64) uint64 {
				p := Defaults(test)
				p.Iterations, p.Size = iterations, 8
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				client, server := runBothSpinning(t, p, time.Second) // sleeping costs allocations, but nothing is hot then
				if client.err != nil || server.err != nil {
					t.Fatalf("client: %v; server: %v", client.err, server.err)
				}
				runtime.ReadMemStats(&after)
				return after.Mallocs - before.Mallocs
			}
			const few, many = 100, 3000
			mallocs(few) // whatever is made once
			a, b := mallocs(few), mallocs(many)
			// Timers and goroutines of the set-up come and go with its duration.
			if extra := int64(b) - int64(a); extra > (many-few)/10 {
				t.Errorf("%d more messages at each end cost %d more allocations", many-few, extra)
			}
		})
	}
}

package roce_test

import (
	"testing"
	"time"

	"github.com/go-roce/roce"
)

// Pitfall 42: with no completion, no packet and no timer the device sleeps in one piece.
func TestIdle_LoopDoesNotTurn(t *testing.T) {
	a, b := newPair(t, rig{dev: roce.Config{Spin: -1}})
	waiting := idleAfterTraffic(t, a, b)
	before := [2]roce.DeviceCounters{a.dev.Counters(), b.dev.Counters()}
	time.Sleep(300 * time.Millisecond)
	for i, e := range []*end{a, b} {
		c := e.dev.Counters()
		// The turn after either look at the counters, and the one that finds nothing then.
		if turns := c.Turns - before[i].Turns; turns > 4 {
			t.Errorf("an idle device turned %d times in 300 ms", turns)
		}
	}
	b.recv(t, 0, 8)
	a.send(t, roce.SendWR{Opcode: roce.WRSend})
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	clean(t, a, b)
}

// idleAfterTraffic sends something, then leaves the two ends alone until not even a
// timer is left. A goroutine waits on b's completion queue and will tell when it is woken.
func idleAfterTraffic(t *testing.T, a, b *end) <-chan error {
	t.Helper()
	a.send(t, roce.SendWR{Opcode: roce.WRWrite, SGL: []roce.SGE{a.mr.SGE(0, 5000)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.Key()})
	a.succeed(t)
	waiting := make(chan error, 1)
	go func() { waiting <- b.cq.Wait(t.Context()) }()
	// The ACK timer, 201 ms, is lazy: it comes once in vain.
	time.Sleep(300 * time.Millisecond)
	return waiting
}

package roce_test

import (
	"testing"
	"time"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/link"
	"github.com/go-roce/roce/test/exercise"
)

// Pitfall 42: with no completion, no packet and no timer the device sleeps in one piece.
func TestIdle_LoopDoesNotTurn(t *testing.T) {
	// So few buffers that the link never gives as many as asked for.
	la, lb := link.NewMemPair(link.MemOptions{Depth: 16})
	o := options{Device: roce.Config{Spin: -1}, Tweak: shortTimeout}
	a, b := exercise.New(t, la, o), exercise.New(t, lb, o)
	exercise.Join(t, a, b, o)
	waiting := idleAfterTraffic(t, a, b)
	before := [2]roce.DeviceCounters{a.Dev.Counters(), b.Dev.Counters()}
	time.Sleep(300 * time.Millisecond)
	for i, e := range []*exercise.End{a, b} {
		c := e.Dev.Counters()
		// The turn after either look at the counters, and the one that finds nothing then.
		if turns := c.Turns - before[i].Turns; turns > 4 {
			t.Errorf("an idle device turned %d times in 300 ms", turns)
		}
	}
	b.Recv(t, 0, 8)
	a.Send(t, roce.SendWR{Opcode: roce.WRSend})
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	exercise.Clean(t, a, b)
}

// shortTimeout has the ACK timer run out within the test, so that it is seen to do nothing.
func shortTimeout(r *roce.Remote) { r.Timeout = new(uint8(14)) }

// idleAfterTraffic sends something, then leaves the two ends alone until not even a
// timer is left. A goroutine waits on b's completion queue and will tell when it is woken.
func idleAfterTraffic(t *testing.T, a, b *exercise.End) <-chan error {
	t.Helper()
	a.Send(t, roce.SendWR{Opcode: roce.WRWrite, SGL: []roce.SGE{a.MR.SGE(0, 5000)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.Key()})
	a.Succeed(t)
	waiting := make(chan error, 1)
	go func() { waiting <- b.CQ.Wait(t.Context()) }()
	// The ACK timer, 201 ms, is lazy: it comes once in vain.
	time.Sleep(300 * time.Millisecond)
	return waiting
}

package link

import (
	"sync/atomic"
	"time"

	"github.com/go-roce/roce/clock"
)

// parker puts a queue's owner to sleep until another goroutine has something for it.
//
// The sleeper calls prepare, looks once more for work, then sleep or cancel. Others
// publish work, then call unpark. Either the sleeper sees the work or
// the other sees it parked, because both sides store before they load.
type parker struct {
	parked atomic.Bool
	token  chan struct{} // of capacity 1: a wake-up that nobody has taken yet
	timer  *time.Timer   // stopped between sleeps
}

func (p *parker) init() {
	p.token = make(chan struct{}, 1)
	p.timer = time.NewTimer(time.Hour)
	p.timer.Stop()
}

func (p *parker) prepare() { p.parked.Store(true) }

func (p *parker) cancel() { p.parked.Store(false) }

// sleep blocks until unpark, wake or the deadline.
func (p *parker) sleep(clk clock.Clock, deadline clock.Time) {
	defer p.parked.Store(false)
	if deadline == clock.Never {
		<-p.token
		return
	}
	d := deadline.Sub(clk.Now())
	if d <= 0 {
		select {
		case <-p.token:
		default:
		}
		return
	}
	p.timer.Reset(d)
	select {
	case <-p.token:
		p.timer.Stop()
	case <-p.timer.C:
	}
}

// unpark ends a sleep that is under way or about to begin, and is otherwise free.
func (p *parker) unpark() {
	if p.parked.Load() && p.parked.CompareAndSwap(true, false) {
		p.wake()
	}
}

// wake ends the present sleep or the next.
func (p *parker) wake() {
	select {
	case p.token <- struct{}{}:
	default:
	}
}

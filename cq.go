package roce

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/go-roce/roce/internal/engine"
)

// CQ is a completion queue: it collects the completions of the queue pairs that name
// it. It has room for all of them, always.
type CQ struct {
	dev *Device
	cq  *engine.CQ
}

// maxCQDepth is the most completions a queue holds, which take 64 bytes each.
const maxCQDepth = 1 << 22

// CreateCQ makes a completion queue with room for depth completions: at least the sum of the
// depths of all queues that will use it.
func (d *Device) CreateCQ(depth int) (*CQ, error) {
	switch {
	case depth < 1 || depth > maxCQDepth:
		return nil, opError("create completion queue", 0, fmt.Errorf("its depth %d must be 1 to %d", depth, maxCQDepth))
	case d.isClosed():
		return nil, opError("create completion queue", 0, d.errClosed())
	}
	return &CQ{dev: d, cq: engine.NewCQ(depth, len(d.loops))}, nil
}

// usable says why queue pairs of d cannot use c. A nil c is no fault here.
func (c *CQ) usable(d *Device) error {
	if c != nil && c.dev != d {
		return errors.New("the completion queue is another device's")
	}
	return nil
}

// Depth returns how many completions the queue has room for.
func (c *CQ) Depth() int { return c.cq.Depth() }

// Poll moves completions, oldest first, to dst and returns how many; 0 when there is none. Of
// a Config.Manual device it does what there is to do before.
func (c *CQ) Poll(dst []Completion) int {
	if c.dev.cfg.Manual {
		c.dev.loops[0].Progress()
		return c.cq.Poll(dst)
	}
	n := c.cq.Poll(dst)
	if n == 0 {
		// A program that polls in a circle must not keep the loop it waits for from running.
		runtime.Gosched()
	}
	return n
}

// Wait blocks until there is a completion to poll. Its error is that of ctx, or
// ErrClosed when the device is closed and no completion is left. When several goroutines wait
// for one queue, another may have polled the completion by the time Wait returns.
func (c *CQ) Wait(ctx context.Context) error {
	var ok bool
	var err error
	if c.dev.cfg.Manual {
		ok, err = c.dev.loops[0].Wait(ctx, c.cq)
	} else {
		ok, err = c.cq.Wait(ctx, c.dev.flushed)
	}
	switch {
	case err != nil:
		return opError("wait for a completion", 0, err)
	case !ok:
		return opError("wait for a completion", 0, c.dev.errClosed())
	}
	return nil
}

// Close says that the queue is not used any more. It fails while a queue pair could
// still add to it or completions of one are left in it.
func (c *CQ) Close() error {
	if n := c.cq.Reserved(); n > 0 {
		return opError("close completion queue", 0, fmt.Errorf("%d of its %d places belong to queue pairs or to completions not yet polled: close and poll them first", n, c.cq.Depth()))
	}
	return nil
}

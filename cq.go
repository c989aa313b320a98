package roce

import "context"

// CQ is a completion queue: it collects the completions of the queue pairs that name
// it. It has room for all of them, always.
type CQ struct {
	dev *Device
}

// CreateCQ makes a completion queue with room for depth completions: at least the sum of the
// depths of all queues that will use it.
func (d *Device) CreateCQ(depth int) (*CQ, error) { panic("not built yet") }

// Poll moves completions, oldest first, to dst and returns how many; 0 when there is none. Of
// a Config.Manual device it does what there is to do before.
func (c *CQ) Poll(dst []Completion) int { panic("not built yet") }

// Wait blocks until there is a completion to poll. Its error is that of ctx, or
// ErrClosed when the device is closed and no completion is left. When several goroutines wait
// for one queue, another may have polled the completion by the time Wait returns.
func (c *CQ) Wait(ctx context.Context) error { panic("not built yet") }

// Close gives the queue back. It fails while queue pairs use it.
func (c *CQ) Close() error { panic("not built yet") }

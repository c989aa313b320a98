package roce_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/test/exercise"
)

// Thousands of messages over several queue pairs, both ways at once, several goroutines
// posting to each and several polling: each completes once, with its bytes, in the order of its queue.
func TestTraffic_ManyPostersAndPollers(t *testing.T) {
	const qps, posters, each = 4, 3, 400
	for _, manual := range []bool{false, true} {
		t.Run(fmt.Sprintf("manual=%v", manual), func(t *testing.T) {
			a, b := newPair(t, options{Device: roce.Config{Manual: manual}, CQ: 4096})
			ends := [2]*crowd{newCrowd(t, a), newCrowd(t, b)}
			for i := range qps {
				if i > 0 {
					for _, e := range []*exercise.End{a, b} {
						e.QP = e.NewQP(t, roce.QPConfig{})
					}
					exercise.Join(t, a, b, options{})
				}
				ends[0].add(t, a.QP)
				ends[1].add(t, b.QP)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			var wg, polling sync.WaitGroup
			for _, c := range ends {
				for _, q := range c.queues {
					for p := range posters {
						wg.Go(func() { q.postAll(ctx, t, uint64(p), each) })
					}
				}
				c.left.Store(2 * qps * posters * each)
				for range 2 {
					polling.Go(func() { c.pollAll(ctx, t) })
				}
			}
			wg.Wait()
			polling.Wait()
			for _, c := range ends {
				for _, q := range c.queues {
					for p, n := range q.received {
						if n != each {
							t.Errorf("%d of %d messages of poster %d arrived", n, each, p)
						}
					}
				}
			}
		})
	}
}

// crowd is an end whose queue pairs are used by many goroutines at once.
type crowd struct {
	*exercise.End
	mu     sync.Mutex // of those who poll
	queues map[roce.QPN]*crowdQP
	left   atomic.Int64
}

const (
	crowdMessage = 96
	crowdDepth   = 32
)

type crowdQP struct {
	*crowd
	qp       *roce.QP
	mr       *roce.MR
	slots    chan int // free places to send from
	received [3]uint64
}

func newCrowd(t *testing.T, e *exercise.End) *crowd {
	t.Helper()
	return &crowd{End: e, queues: map[roce.QPN]*crowdQP{}}
}

// add takes a queue pair in. Its region has crowdDepth messages to send, then crowdDepth to receive.
func (c *crowd) add(t *testing.T, qp *roce.QP) {
	t.Helper()
	mr, err := c.PD.RegisterMemory(make([]byte, 2*crowdDepth*crowdMessage), roce.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	q := &crowdQP{crowd: c, qp: qp, mr: mr, slots: make(chan int, crowdDepth)}
	for i := range crowdDepth {
		q.slots <- i
		q.repost(t, crowdDepth+i)
	}
	c.queues[qp.QPN()] = q
}

func (q *crowdQP) repost(t *testing.T, slot int) {
	if _, err := q.qp.PostRecv(roce.RecvWR{ID: uint64(slot), SGL: []roce.SGE{q.mr.SGE(slot*crowdMessage, crowdMessage)}}); err != nil {
		t.Error(err)
	}
}

// postAll sends n numbered messages.
func (q *crowdQP) postAll(ctx context.Context, t *testing.T, poster uint64, n int) {
	for i := range n {
		var slot int
		select {
		case slot = <-q.slots:
		case <-ctx.Done():
			t.Errorf("poster %d: no place to send from: %v", poster, ctx.Err())
			return
		}
		m := q.mr.Bytes()[slot*crowdMessage:][:crowdMessage]
		binary.NativeEndian.PutUint64(m, poster)
		binary.NativeEndian.PutUint64(m[crowdMessage-8:], uint64(i))
		wr := roce.SendWR{ID: uint64(slot), Opcode: roce.WRSend, Flags: roce.Signaled, SGL: []roce.SGE{q.mr.SGE(slot*crowdMessage, crowdMessage)}}
		if _, err := q.qp.PostSend(wr); err != nil {
			t.Errorf("poster %d: %v", poster, err)
			return
		}
	}
}

func (c *crowd) pollAll(ctx context.Context, t *testing.T) {
	var got [16]roce.Completion
	for c.left.Load() > 0 {
		wait, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		err := c.CQ.Wait(wait)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
			return
		}
		if ctx.Err() != nil {
			t.Errorf("%d completions are missing: %+v", c.left.Load(), c.Dev.Counters())
			return
		}
		c.mu.Lock()
		n := c.CQ.Poll(got[:])
		for _, x := range got[:n] {
			c.take(t, x)
		}
		c.mu.Unlock()
		c.left.Add(int64(-n))
	}
}

func (c *crowd) take(t *testing.T, x roce.Completion) {
	q := c.queues[x.QPN]
	if err := q.qp.Explain(x); err != nil {
		t.Error(err)
	}
	if !x.Recv {
		q.slots <- int(x.ID)
		return
	}
	m := q.mr.Bytes()[int(x.ID)*crowdMessage:][:crowdMessage]
	poster, i := binary.NativeEndian.Uint64(m), binary.NativeEndian.Uint64(m[crowdMessage-8:])
	if i != q.received[poster] {
		t.Errorf("message %d of poster %d came, %d was expected", i, poster, q.received[poster])
	}
	q.received[poster] = i + 1
	q.repost(t, int(x.ID))
}

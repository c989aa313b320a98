package demo

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/cmd/rocectl/internal/measure"
)

// refill posts receives anew for the messages that have come to b.
func (p *pair) refill(size int) error {
	var comps [receives]roce.Completion
	n := p.b.cq.Poll(comps[:])
	for _, c := range comps[:n] {
		if err := p.b.qp.Explain(c); err != nil {
			return err
		}
	}
	return p.receive(n, size)
}

// rate keeps depth messages on the way for a time and returns how many went through.
func (p *pair) rate(ctx context.Context, o *operation, size int, d time.Duration, done *atomic.Uint64) (messages uint64, took time.Duration, err error) {
	if o.receives {
		if err := p.receive(receives, size); err != nil {
			return 0, 0, err
		}
	}
	var comps [depth]roce.Completion
	wr := p.request(o, size)
	start := time.Now()
	before := done.Load()
	for posted := uint64(0); ; {
		took = time.Since(start)
		done.Store(before + uint64(min(took, d).Milliseconds()))
		if err := p.refill(size); err != nil {
			return 0, 0, err
		}
		for took < d && posted-messages < depth {
			if _, err := p.a.qp.PostSend(wr); err != nil {
				return 0, 0, err
			}
			posted++
		}
		if took >= d && posted == messages {
			return messages, took, nil
		}
		n := p.a.cq.Poll(comps[:])
		for _, c := range comps[:n] {
			if err := p.a.qp.Explain(c); err != nil {
				return 0, 0, err
			}
		}
		messages += uint64(n)
		if n == 0 {
			if err := p.a.cq.Wait(ctx); err != nil {
				return 0, 0, waiting(ctx, err)
			}
		}
	}
}

// latency carries out one operation after the other for a time.
func (p *pair) latency(ctx context.Context, o *operation, size int, d time.Duration, done *atomic.Uint64) (l *measure.Latency, err error) {
	if o.receives {
		if err := p.receive(receives, size); err != nil {
			return nil, err
		}
	}
	rec := measure.NewRecorder()
	wr := p.request(o, size)
	start, before := time.Now(), done.Load()
	for now := time.Duration(0); now < d || rec.Empty(); {
		if err := p.carryOut(ctx, wr); err != nil {
			return nil, waiting(ctx, err)
		}
		if err := p.refill(size); err != nil {
			return nil, err
		}
		then := now
		now = time.Since(start)
		rec.Record(now - then)
		done.Store(before + uint64(min(now, d).Milliseconds()))
	}
	return rec.Latency(1), nil
}

func waiting(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted")
	}
	return err
}

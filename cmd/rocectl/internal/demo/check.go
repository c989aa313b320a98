package demo

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/go-roce/roce"
)

// check carries the operation out once for each of its sizes and compares every byte that should have come or changed.
// It returns how many messages and bytes were right.
func (p *pair) check(ctx context.Context, o *operation, random *rand.ChaCha8) (messages, n uint64, err error) {
	for _, size := range o.sizes {
		if o.atomic() {
			err = p.checkAtomic(ctx, o, random)
		} else {
			err = p.checkMessage(ctx, o, size, random)
		}
		if err != nil {
			return messages, n, fmt.Errorf("%s of %d bytes: %w", o.name, size, err)
		}
		messages++
		n += uint64(size)
	}
	return messages, n, nil
}

func (p *pair) checkMessage(ctx context.Context, o *operation, size int, random *rand.ChaCha8) error {
	from, to := &p.a, &p.b
	if o.op == roce.WRRead {
		from, to = to, from
	}
	source, target := from.mr.Bytes()[:size], to.mr.Bytes()[:size]
	_, _ = random.Read(source) // cannot fail
	clear(target)
	if o.receives {
		if err := p.receive(1, size); err != nil {
			return err
		}
	}
	if err := p.carryOut(ctx, p.request(o, size)); err != nil {
		return err
	}
	if o.receives {
		c, err := p.b.completion(ctx)
		if err != nil {
			return err
		}
		if int(c.ByteLen) != size || o.immediate() && c.Imm != immediate {
			return fmt.Errorf("its completion tells of %d bytes and immediate 0x%x instead of %d and 0x%x", c.ByteLen, c.Imm, size, immediate)
		}
	}
	if !bytes.Equal(source, target) {
		return fmt.Errorf("the bytes that arrived are not those that were sent")
	}
	return nil
}

func (p *pair) checkAtomic(ctx context.Context, o *operation, random *rand.ChaCha8) error {
	old, operand := random.Uint64(), random.Uint64()
	p.b.mr.StoreUint64(0, old)
	wr, want := p.request(o, word), old+operand
	wr.CompareAdd = operand
	if o.op == roce.WRCompareSwap {
		wr.CompareAdd, wr.Swap, want = old, operand, operand
	}
	if err := p.carryOut(ctx, wr); err != nil {
		return err
	}
	if got := binary.NativeEndian.Uint64(p.a.mr.Bytes()); got != old {
		return fmt.Errorf("it returned 0x%x, but 0x%x was there", got, old)
	}
	if got := p.b.mr.LoadUint64(0); got != want {
		return fmt.Errorf("it left 0x%x instead of 0x%x", got, want)
	}
	return nil
}

// carryOut posts one work request and waits for it.
func (p *pair) carryOut(ctx context.Context, wr roce.SendWR) error {
	if _, err := p.a.qp.PostSend(wr); err != nil {
		return err
	}
	_, err := p.a.completion(ctx)
	return err
}

package perftest

import (
	"errors"
	"time"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/cmd/rocectl/internal/measure"
)

// pacer decides when a latency test is over and records what it measures.
type pacer struct {
	t        *traffic
	rec      *measure.Recorder
	w        window
	posted   uint64
	previous time.Duration
}

func (t *traffic) newPacer() *pacer {
	p := &pacer{t: t, rec: measure.NewRecorder(), w: window{duration: t.Params.Duration}}
	p.w.begin()
	return p
}

// more says whether another message is to be posted.
func (p *pacer) more(count uint64) bool {
	return p.t.Params.Duration != 0 || count < p.t.Params.Iterations
}

// post takes the time right before a message is posted: from one to the next is a round trip.
func (p *pacer) post() (over bool) {
	now, over := p.w.tick(p.posted)
	if p.posted > 0 && p.w.open {
		p.record(now)
	}
	p.previous = now
	p.posted++
	p.t.done.Store(p.posted)
	if p.t.Params.Duration != 0 {
		p.t.done.Store(uint64(now.Milliseconds()))
	}
	return over
}

// record takes the time since the last message was posted for a latency.
func (p *pacer) record(now time.Duration) { p.rec.Record(now - p.previous) }

func (p *pacer) result(r *measure.Result, trips int) {
	p.w.tick(p.posted)
	p.w.result(r, p.t.size)
	r.Latency = p.rec.Latency(trips)
}

// single makes the one work request of a latency test.
func (t *traffic) single() []roce.SendWR {
	var s sender
	t.prepare(&s, 0)
	wr := s.wrs[0]
	wr.Flags |= roce.Signaled
	wr.ID = sendID(0, 1)
	if wr.SGL != nil {
		wr.SGL = []roce.SGE{wr.SGL[0]}
	}
	return []roce.SendWR{wr}
}

// await reaps until enough says so.
func (t *traffic) await(enough func() bool) error {
	for !enough() {
		n, err := t.reap()
		if err == nil && n == 0 {
			err = t.idle()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// run posts the test's messages one after the other until all are through or the time is up. step makes one round trip;
// it must call post, and not go on when that says that the time is up.
func (p *pacer) run(step func() (over bool, err error)) error {
	defer p.t.limit(p.t.Params.Duration)()
	for {
		over, err := step()
		switch {
		case errors.Is(err, errTimeIsUp):
			return nil
		case over || err != nil:
			return err
		}
	}
}

// latencyOfWrites is a ping-pong through memory: each end writes, waits for its completion, and watches the last byte
// that the peer's next message will change. The server begins.
func (t *traffic) latencyOfWrites(r *measure.Result) error {
	var (
		p     = t.newPacer()
		wrs   = t.single()
		mark  = &t.mr.Bytes()[t.local(0)+t.size-1]
		watch = t.remote(0) + t.size - 1
		seen  uint64
	)
	done := func() bool { return t.finished == p.posted }
	err := p.run(func() (bool, error) {
		if p.more(seen) && (p.posted > 0 || t.Exchange.client) {
			seen++
			if err := t.watch(watch, byte(seen)); err != nil {
				return false, err
			}
		}
		if !p.more(p.posted) {
			return !p.more(seen), nil
		}
		if over := p.post(); over {
			return true, nil
		}
		*mark = byte(p.posted)
		if _, err := t.qps[0].PostSend(wrs...); err != nil {
			return false, err
		}
		return false, t.await(done)
	})
	p.result(r, 2)
	return err
}

// watch waits until the peer has written want at offset off. Nothing wakes this end when it does.
func (t *traffic) watch(off int, want byte) error {
	defer t.idling.Reset()
	for t.mr.LoadUint8(off) != want {
		if t.Device.Progress() > 0 || !t.idling.Idle() {
			continue
		}
		time.Sleep(nap)
		if t.ctx.Err() != nil && t.mr.LoadUint8(off) != want {
			return t.ended(t.ctx.Err())
		}
	}
	return nil
}

// latencyOfSends is a ping-pong of messages. The client begins.
func (t *traffic) latencyOfSends(r *measure.Result) error {
	var (
		p    = t.newPacer()
		wrs  = t.single()
		want uint64
	)
	came := func() bool { return t.received >= want }
	free := func() bool { return p.posted-t.finished < uint64(t.Params.TxDepth) }
	err := p.run(func() (bool, error) {
		if p.more(want) && (p.posted > 0 || !t.Exchange.client) {
			want++
			if err := t.await(came); err != nil {
				return false, err
			}
			if err := t.repost(0); err != nil {
				return false, err
			}
		}
		if !p.more(p.posted) {
			return !p.more(want), nil
		}
		if over := p.post(); over {
			return true, nil
		}
		if _, err := t.qps[0].PostSend(wrs...); err != nil {
			return false, err
		}
		return false, t.await(free)
	})
	p.result(r, 2)
	if err != nil || t.Params.Duration != 0 {
		return err // the peer may not answer any more
	}
	return t.await(func() bool { return t.finished == p.posted })
}

// latencyOfRequests times READs or atomics one after the other.
func (t *traffic) latencyOfRequests(r *measure.Result) error {
	var (
		p   = t.newPacer()
		wrs = t.single()
	)
	done := func() bool { return t.finished == p.posted }
	err := p.run(func() (bool, error) {
		if !p.more(p.posted) {
			return true, nil
		}
		if over := p.post(); over {
			return true, nil
		}
		if _, err := t.qps[0].PostSend(wrs...); err != nil {
			return false, err
		}
		return false, t.await(done)
	})
	if t.Params.Duration == 0 {
		p.record(time.Since(p.w.start)) // nothing is posted after the last
	}
	p.result(r, 1)
	return err
}

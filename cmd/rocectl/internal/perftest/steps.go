package perftest

import (
	"context"
	"strconv"
	"time"

	"github.com/go-roce/roce/cmd/rocectl/internal/measure"
)

// rendezvous is what the ends say to each other between connecting and the first run.
func (s *Session) rendezvous(ctx context.Context) error {
	p, x := &s.Params, s.Exchange
	connected := func() error { return x.barrier(ctx, "word that it is connected", &s.mine[0], patience) }
	if p.Test.Verb == Send {
		if err := connected(); err != nil {
			return err
		}
	}
	for i := range s.mine {
		if err := x.barrier(ctx, "repeated key "+strconv.Itoa(i+1), &s.mine[i], patience); err != nil {
			return err
		}
	}
	if p.Test.Verb == Send {
		return nil
	}
	return connected()
}

// measured makes one run, with what the ends say to each other right before and after it.
func (s *Session) measured(ctx context.Context, size int) (*measure.Result, error) {
	p := &s.Params
	r := &measure.Result{
		Test: p.Test.Name, Link: s.Device.Info().Kind, Mode: measure.Mode(s.Device.Info()), Size: size, Iterations: p.Iterations, QPs: p.QPs, MTU: s.agreed.mtu,
	}
	if s.passive() {
		return r, nil // the wait for the client's leave is all there is
	}
	t := newTraffic(ctx, s, size)
	defer t.close()
	if p.Test.Verb == Send {
		if err := t.postReceives(); err != nil {
			return nil, err
		}
	}
	if p.Test.Verb == Send || p.Both {
		if err := s.driving(ctx, func(ctx context.Context) error {
			return s.Exchange.barrier(ctx, "word that it is ready", &s.mine[0], patience)
		}); err != nil {
			return nil, err
		}
	}
	before := measure.ReadCounters(s.Device)
	total := p.Iterations * uint64(p.QPs)
	if p.Duration != 0 {
		total = uint64(p.Duration.Milliseconds())
	}
	s.done.Store(0)
	bar := measure.Show(s.Bar, p.Test.Name+" "+strconv.Itoa(size)+" B", total, &s.done)
	err := t.run(r)
	bar.Stop()
	if err != nil {
		return nil, err
	}
	r.Counters = measure.ReadCounters(s.Device).Since(before)
	if err := s.driving(ctx, func(ctx context.Context) error { return s.compare(ctx, r) }); err != nil {
		return nil, err
	}
	s.tableRow(r)
	return r, nil
}

// compare is what the ends say to each other after each run that not only the client made.
func (s *Session) compare(ctx context.Context, r *measure.Result) error {
	p, x := &s.Params, s.Exchange
	after := func() error { return x.barrier(ctx, "word that its run is over", &s.mine[0], 0) }
	if p.Test.Latency {
		return nil
	}
	if p.Both && p.All && p.Test.Verb != Send {
		if err := after(); err != nil {
			return err
		}
	}
	if p.Both && (p.Duration == 0 || p.Test.Verb != Send) {
		peer, err := x.reports(ctx, s.reportOf(r))
		if err != nil {
			return err
		}
		addDirection(r, &peer)
	}
	if p.All && p.Test.Verb == Send {
		return after()
	}
	return nil
}

// reportOf is a run as the peer is told of it, in the unit it will show.
func (s *Session) reportOf(r *measure.Result) *bwReport {
	return &bwReport{
		size: uint64(r.Size), iterations: r.Bytes / uint64(r.Size),
		peak: s.Units.rate(r.PeakGbitPerS), avg: s.Units.rate(r.GbitPerS), rate: r.MmsgPerS,
	}
}

// addDirection adds what the peer sent to what this end did.
func addDirection(r *measure.Result, peer *bwReport) {
	took := max(time.Duration(r.Seconds*float64(time.Second)), peer.took())
	peak := r.PeakGbitPerS + peer.peakGbit()
	messages := (r.Bytes + peer.bytes()) / uint64(r.Size)
	r.Rate(r.Bytes+peer.bytes(), messages, took)
	r.PeakGbitPerS = peak
}

// leave is how the ends part after the last run.
func (s *Session) leave(ctx context.Context, r *measure.Result) error {
	p, x := &s.Params, s.Exchange
	if p.Test.Latency && p.Test.Verb == Write {
		return s.slipAway(ctx)
	}
	if !p.Test.Latency && p.Test.Verb != Send && !p.Both {
		// The server of a unidirectional test waits here while the client runs.
		if err := x.barrier(ctx, "word that its run is over", &s.mine[0], 0); err != nil {
			return err
		}
		peer, err := x.reports(ctx, s.reportOf(r))
		if err != nil {
			return err
		}
		if s.passive() {
			r.Rate(peer.bytes(), peer.iterations, peer.took())
			r.PeakGbitPerS = peer.peakGbit()
			r.Size = int(min(peer.size, maxSize))
		}
	}
	return x.goodbye(ctx, &s.mine[0])
}

// slipAway ends a write latency test, which has no words for it: whoever is done closes. This end waits a moment for
// the peer to do so too, and answers it until then in case an acknowledgement was lost.
func (s *Session) slipAway(ctx context.Context) error {
	_ = s.Exchange.conn.CloseWrite()
	select {
	case <-s.Exchange.conn.Gone():
	case <-time.After(2 * time.Second):
	case <-ctx.Done():
	}
	return nil
}

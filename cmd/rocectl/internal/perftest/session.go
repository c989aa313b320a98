package perftest

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/cmd/rocectl/internal/measure"
	"github.com/go-roce/roce/cmd/rocectl/internal/spin"
)

// Session is one test at one end.
type Session struct {
	Device   *roce.Device
	Exchange *Exchange
	Params   Params
	// Table gets the output as perftest lays it out; nil for none. Bar is where a progress bar may be shown.
	Table, Bar io.Writer
	Units      Units // of the table
	// Remark is told choices and what they follow from; nil for nobody.
	Remark func(format string, args ...any)

	agreed       terms
	stride       int // bytes of a queue pair's half of the buffer
	mr           *roce.MR
	cq           *roce.CQ
	qps          []*roce.QP
	mine, theirs []Key
	spinFor      time.Duration // while the test runs; 0 for the default
	before       measure.Counters
	done         atomic.Uint64 // messages of the present run, for the bar
}

// cacheLine is where small messages start; that of every processor this runs on.
const cacheLine = 64

// Run sets the test up with the peer, runs it and takes leave.
func (s *Session) Run(ctx context.Context) (*measure.Result, error) {
	if err := s.setUp(ctx); err != nil {
		return nil, err
	}
	var runs []measure.Result
	err := s.driving(ctx, func(ctx context.Context) error {
		return s.rendezvous(ctx)
	})
	if err != nil {
		return nil, err
	}
	s.tableHead()
	sizes := s.Params.sizes()
	if s.passive() {
		sizes = sizes[:1]
	}
	for _, size := range sizes {
		r, err := s.measured(ctx, size)
		if err != nil {
			return nil, err
		}
		runs = append(runs, *r)
	}
	if err := s.driving(ctx, func(ctx context.Context) error { return s.leave(ctx, &runs[len(runs)-1]) }); err != nil {
		return nil, err
	}
	total := runs[len(runs)-1]
	if s.passive() {
		s.tableRow(&total)
	}
	s.tableFoot()
	total.Counters = s.counters()
	if s.Params.All && !s.passive() {
		total.Runs = runs
	}
	return &total, nil
}

// Close gives back what Run took.
func (s *Session) Close() {
	for _, q := range s.qps {
		_ = q.Close() // the device's Close would do it as well
	}
	if s.mr != nil {
		_ = s.mr.Deregister()
	}
}

// passive says that this end does nothing but answer.
func (s *Session) passive() bool {
	return !s.Exchange.client && !s.Params.Both && s.Params.Test.passiveServer()
}

func (s *Session) setUp(ctx context.Context) error {
	p := &s.Params
	most := s.Device.PathMTU()
	if p.MTU > most {
		return fmt.Errorf("the path MTU -m %d does not fit the interface's MTU, which carries at most %d: raise it, or choose a smaller -m", p.MTU, most)
	}
	own := terms{cycleBuffer: os.Getpagesize(), cacheLine: cacheLine, mtu: p.MTU}
	if own.mtu == 0 {
		own.mtu = most
	}
	var err error
	if s.agreed, err = s.Exchange.hello(ctx, own); err != nil {
		return err
	}
	s.remark("the peer speaks version %v of perftest's exchange; agreed on path MTU %d", s.Exchange.Peer(), s.agreed.mtu)
	if err := s.makeQueuePairs(); err != nil {
		return err
	}
	s.mine, s.theirs, err = s.Exchange.keys(ctx, p.QPs, s.key)
	if err != nil {
		return err
	}
	if p.Test.Latency && p.Test.Verb != Send {
		// These three programs exchange the key of their queue pair twice.
		if err := s.Exchange.barrier(ctx, "second key", &s.mine[0], patience); err != nil {
			return err
		}
	}
	s.before = measure.ReadCounters(s.Device)
	for i, q := range s.qps {
		if err := s.connect(ctx, q, &s.mine[i], &s.theirs[i]); err != nil {
			return err
		}
	}
	s.tableAddresses()
	return nil
}

func (s *Session) makeQueuePairs() error {
	p := &s.Params
	const page = 4096
	s.stride = (max(p.largest(), s.agreed.cycleBuffer) + page - 1) &^ (page - 1)
	if s.stride > (1<<46)/p.QPs {
		return fmt.Errorf("%d queue pairs with messages of %d bytes do not fit into memory", p.QPs, p.largest())
	}
	pd := s.Device.AllocPD()
	// The first half is sent from, or read into; the second half is the peer's to write and read.
	var err error
	const all = roce.LocalWrite | roce.RemoteWrite | roce.RemoteRead | roce.RemoteAtomic
	if s.mr, err = pd.RegisterMemory(make([]byte, 2*p.QPs*s.stride), all); err != nil {
		return err
	}
	rxDepth := 0
	if p.Test.Verb == Send {
		rxDepth = p.RxDepth
	}
	if s.cq, err = s.Device.CreateCQ(p.QPs * (p.TxDepth + rxDepth)); err != nil {
		return err
	}
	access := map[Verb]roce.Access{Write: roce.RemoteWrite, Read: roce.RemoteRead, Atomic: roce.RemoteAtomic}[p.Test.Verb]
	for range p.QPs {
		q, err := pd.CreateQP(roce.QPConfig{
			SendCQ: s.cq, RecvCQ: s.cq, SendDepth: p.TxDepth, RecvDepth: rxDepth, MaxInline: p.Inline, Access: access,
		})
		if err != nil {
			return err
		}
		s.qps = append(s.qps, q)
	}
	return nil
}

// local and remote are offsets of a queue pair's halves in the buffer.
func (s *Session) local(i int) int  { return i * s.stride }
func (s *Session) remote(i int) int { return (s.Params.QPs + i) * s.stride }

// key makes this end's key of queue pair i; peer is the peer's, if it is known.
func (s *Session) key(i int, peer *Key) (Key, error) {
	gid, why, err := s.gid(peer)
	if err != nil {
		return Key{}, err
	}
	if i == 0 {
		s.remark("GID %v: %s", gid, why)
	}
	k := Key{OutReads: 1, QPN: s.qps[i].QPN(), PSN: s.qps[i].PSN(), VAddr: s.mr.Addr() + uint64(s.remote(i)), GID: gid}
	switch s.Params.Test.Verb {
	case Read, Atomic:
		k.OutReads = s.Params.OutReads
		fallthrough
	case Write:
		k.RKey = uint32(s.mr.Key())
	}
	return k, nil
}

func (s *Session) remark(format string, args ...any) {
	if s.Remark != nil {
		s.Remark(format, args...)
	}
}

func (s *Session) connect(ctx context.Context, q *roce.QP, mine, theirs *Key) error {
	p := &s.Params
	reads := uint8(1)
	if v := p.Test.Verb; v == Read || v == Atomic {
		reads = uint8(max(1, min(p.OutReads, theirs.OutReads)))
	}
	answers := uint8(mine.OutReads)
	return q.Connect(ctx, roce.Remote{
		Addr: theirs.GID, QPN: theirs.QPN, PSN: theirs.PSN, Src: mine.GID, PathMTU: s.agreed.mtu, Timeout: &p.Timeout,
		MaxRdAtomic: &reads, MaxDestRdAtomic: &answers, TrafficClass: p.TrafficClass,
	})
}

// counters are what the device counted since the queue pairs were connected.
func (s *Session) counters() measure.Counters { return measure.ReadCounters(s.Device).Since(s.before) }

// nap is how long an end that drives its device sleeps when it has polled in vain and nothing could wake it.
const nap = 50 * time.Microsecond

// driving runs f, which talks to the peer. A device that has no goroutine of its own is driven meanwhile: the peer may
// need its answers.
func (s *Session) driving(ctx context.Context, f func(context.Context) error) error {
	if !s.Device.Info().Manual {
		return f(ctx)
	}
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	for idle := (spin.Spin{}); ; {
		if s.Device.Progress() > 0 {
			idle.Reset()
			continue
		}
		if !idle.Idle() {
			continue
		}
		select {
		case err := <-done:
			return err
		default:
			time.Sleep(nap)
		}
	}
}

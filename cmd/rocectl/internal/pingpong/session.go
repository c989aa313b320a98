package pingpong

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/cmd/rocectl/internal/fault"
	"github.com/go-roce/roce/cmd/rocectl/internal/measure"
	"github.com/go-roce/roce/cmd/rocectl/internal/oob"
	"github.com/go-roce/roce/cmd/rocectl/internal/spin"
)

// patience is how long the peer may take from one message of the exchange to the next.
const patience = 60 * time.Second

// Params are the options, named after the original's flags. Both ends must be given the same.
type Params struct {
	Size       int    // -s, bytes of a message
	MTU        int    // -m, path MTU: not exchanged, so it must be the same at both ends
	RxDepth    int    // -r
	Iterations uint64 // -n, messages in each direction
	// GID (-g) is the local address to use; zero to choose one.
	GID netip.Addr
}

// Defaults are those of the original.
func Defaults() Params { return Params{Size: 4096, MTU: 1024, RxDepth: 500, Iterations: 1000} }

// Validate names the first option that makes no sense.
func (p *Params) Validate() error {
	switch {
	case p.Size < 1 || p.Size > 1<<30:
		return fmt.Errorf("the message size -s %d must be 1 to %d", p.Size, 1<<30)
	case p.Iterations < 1:
		return errors.New("the number of iterations -n must be at least 1")
	case p.RxDepth < 1 || p.RxDepth > roce.MaxDepth:
		return fmt.Errorf("the depth of the receive queue -r %d must be 1 to %d", p.RxDepth, roce.MaxDepth)
	}
	return nil
}

// Session is one run at one end.
type Session struct {
	Device *roce.Device
	Conn   *oob.Conn
	Client bool
	Params Params
	// Text gets what the original prints; nil for nothing. Bar is where a progress bar may be shown.
	Text, Bar io.Writer
	// Remark is told choices and what they follow from; nil for nobody.
	Remark func(format string, args ...any)

	qp           *roce.QP
	cq           *roce.CQ
	mr           *roce.MR
	recvOff      int // of the receive buffer; the server has one buffer for both
	mine, theirs Destination
	manual       bool // this end drives the device
	done         atomic.Uint64
}

// Run exchanges addresses, plays, and prints what the original prints.
func (s *Session) Run(ctx context.Context) (*measure.Result, error) {
	if most := s.Device.PathMTU(); s.Params.MTU > most {
		return nil, fmt.Errorf("the path MTU -m %d does not fit the interface's MTU, which carries at most %d: raise it, or choose a smaller -m", s.Params.MTU, most)
	}
	if err := s.makeQueuePair(); err != nil {
		return nil, err
	}
	info := s.Device.Info()
	s.manual = info.Manual
	before := measure.ReadCounters(s.Device)
	if err := s.exchange(ctx); err != nil {
		return nil, err
	}
	bar := measure.Show(s.Bar, "pingpong", s.Params.Iterations, &s.done)
	start := time.Now()
	err := s.play(ctx)
	took := time.Since(start)
	bar.Stop()
	if err != nil {
		return nil, err
	}
	s.linger(ctx)
	r := &measure.Result{
		Test: "pingpong-rc", Link: info.Kind, Mode: measure.Mode(info), Size: s.Params.Size, Iterations: s.Params.Iterations, QPs: 1,
		MTU: s.Params.MTU, Counters: measure.ReadCounters(s.Device).Since(before),
	}
	messages := 2 * s.Params.Iterations
	r.Rate(messages*uint64(s.Params.Size), messages, took)
	s.printf("%d bytes in %.2f seconds = %.2f Mbit/sec\n", r.Bytes, r.Seconds, r.GbitPerS*1e3)
	s.printf("%d iters in %.2f seconds = %.2f usec/iter\n", r.Iterations, r.Seconds, r.Seconds*1e6/float64(r.Iterations))
	return r, nil
}

// linger answers the peer a little longer: nobody says goodbye, and should the last acknowledgement be lost, the peer
// will send its last message again after 67 ms.
func (s *Session) linger(ctx context.Context) {
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end) && ctx.Err() == nil; {
		s.Device.Progress()
		time.Sleep(time.Millisecond)
	}
}

// Close gives back what Run took.
func (s *Session) Close() {
	if s.qp != nil {
		_ = s.qp.Close() // the device's Close would do it as well
	}
	if s.mr != nil {
		_ = s.mr.Deregister()
	}
}

func (s *Session) printf(format string, args ...any) {
	if s.Text != nil {
		fmt.Fprintf(s.Text, format, args...)
	}
}

func (s *Session) makeQueuePair() error {
	p := &s.Params
	pd := s.Device.AllocPD()
	n := p.Size
	if s.Client {
		s.recvOff, n = p.Size, 2*p.Size
	}
	var err error
	if s.mr, err = pd.RegisterMemory(make([]byte, n), roce.LocalWrite); err != nil {
		return err
	}
	if s.cq, err = s.Device.CreateCQ(p.RxDepth + 1); err != nil {
		return err
	}
	s.qp, err = pd.CreateQP(roce.QPConfig{SendCQ: s.cq, RecvCQ: s.cq, SendDepth: 1, RecvDepth: p.RxDepth})
	return err
}

func (s *Session) exchange(ctx context.Context) error {
	own := func(peer netip.Addr) error {
		gid := s.Params.GID
		if !gid.IsValid() {
			c, err := s.Device.ChooseGID(peer)
			if err != nil && s.Client {
				c, err = s.Device.ChooseGID(netip.Addr{}) // the exchange may go another way than the packets
			}
			if err != nil {
				return err
			}
			gid = c.Addr
			if s.Remark != nil {
				s.Remark("%v; %s", c, strings.Join(c.Refused, "; "))
			}
		}
		s.mine = Destination{QPN: s.qp.QPN(), PSN: s.qp.PSN(), GID: gid}
		s.printAddress("local", &s.mine)
		return nil
	}
	send := func() error { return s.Conn.Send("this end's address", s.mine.encode()) }
	receive := func() error {
		b := make([]byte, destinationLen)
		err := s.Conn.Receive(ctx, oob.Expect{What: "its address", Patience: patience}, b)
		if err == nil {
			s.theirs, err = parseDestination(b)
		}
		return err
	}
	if s.Client {
		if err := own(s.Conn.PeerIP()); err != nil {
			return err
		}
		if err := send(); err != nil {
			return err
		}
		if err := receive(); err != nil {
			return err
		}
		if err := s.Conn.Send("done", []byte("done\x00")); err != nil {
			return err
		}
		_ = s.Conn.Close() // the original closes here too
		return s.connect(ctx)
	}
	if err := receive(); err != nil {
		return err
	}
	if err := own(s.theirs.GID); err != nil {
		return err
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	if err := send(); err != nil {
		return err
	}
	if err := s.Conn.Receive(ctx, oob.Expect{What: `its "done"`, Patience: patience}, make([]byte, 5)); err != nil {
		return err
	}
	_ = s.Conn.Close()
	return nil
}

func (s *Session) printAddress(end string, d *Destination) {
	s.printf("  %-15s LID 0x0000, QPN 0x%06x, PSN 0x%06x, GID %v\n", end+" address:", uint32(d.QPN), uint32(d.PSN), d.GID)
}

// connect makes the queue pair ready and posts its receives.
func (s *Session) connect(ctx context.Context) error {
	s.printAddress("remote", &s.theirs)
	if s.mine.GID.Is4() != s.theirs.GID.Is4() {
		return fmt.Errorf("this end's GID %v and the peer's %v are of different IP versions, so no packet can go between them: choose another at either end with -g",
			s.mine.GID, s.theirs.GID)
	}
	one := uint8(1)
	err := s.qp.Connect(ctx, roce.Remote{
		Addr: s.theirs.GID, QPN: s.theirs.QPN, PSN: s.theirs.PSN, Src: s.mine.GID, PathMTU: s.Params.MTU, MaxRdAtomic: &one, MaxDestRdAtomic: &one,
	})
	if err != nil {
		return err
	}
	return s.postReceives(s.Params.RxDepth)
}

func (s *Session) postReceives(n int) error {
	wr := roce.RecvWR{SGL: []roce.SGE{s.mr.SGE(s.recvOff, s.Params.Size)}}
	for range n {
		if _, err := s.qp.PostRecv(wr); err != nil {
			return err
		}
	}
	return nil
}

// fill is what the original client's buffer holds; this one goes on from there.
const fill = 0x7B

// play sends and receives in turn until both have been done often enough.
func (s *Session) play(ctx context.Context) error {
	p := &s.Params
	ctx, stop := s.watchdog(ctx)
	defer stop()
	var (
		sent, completed, received uint64
		receives                  = p.RxDepth
		out                       = s.mr.Bytes()[:p.Size]
		in                        = s.mr.Bytes()[s.recvOff:][:p.Size]
		comps                     [16]roce.Completion
		idle                      spin.Spin
		wrs                       = []roce.SendWR{{Opcode: roce.WRSend, Flags: roce.Signaled, SGL: []roce.SGE{s.mr.SGE(0, p.Size)}}}
	)
	send := func() error {
		if s.Client {
			out[0] = byte(fill + sent)
			for n := 1; n < len(out); n *= 2 {
				copy(out[n:], out[:n])
			}
		}
		sent++
		_, err := s.qp.PostSend(wrs...)
		return err
	}
	if s.Client {
		if err := send(); err != nil {
			return err
		}
	}
	for completed < p.Iterations || received < p.Iterations {
		n := s.cq.Poll(comps[:])
		if n == 0 {
			if err := s.idle(ctx, &idle); err != nil {
				return err
			}
			continue
		}
		idle.Reset()
		for i := range comps[:n] {
			c := &comps[i]
			switch {
			case c.Status != roce.StatusSuccess:
				err := fault.Explain(s.cq, comps[i:n], func(roce.QPN) *roce.QP { return s.qp })
				if work := new(roce.WorkError); s.Client && received == p.Iterations && errors.As(err, &work) && work.Completion.Status == roce.StatusRetryExcErr {
					return nil // the last message was answered, so it arrived: its acknowledgement got lost, and the peer is gone
				}
				return err
			case !c.Recv:
				completed++
				continue
			case int(c.ByteLen) != p.Size:
				return fmt.Errorf("message %d has %d bytes instead of %d: give both ends the same -s", received+1, c.ByteLen, p.Size)
			case s.Client && !bytes.Equal(in, out):
				return fmt.Errorf("message %d came back with other bytes than it was sent with", received+1)
			}
			received++
			receives--
			s.done.Store(received)
			if receives <= 1 {
				if err := s.postReceives(p.RxDepth - receives); err != nil {
					return err
				}
				receives = p.RxDepth
			}
		}
		// One message is on the way at a time: the next goes out when the last is acknowledged and answered.
		if due := completed == sent && (s.Client && received == sent || !s.Client && received > sent); due && sent < p.Iterations {
			if err := send(); err != nil {
				return err
			}
		}
	}
	return nil
}

// idle is called when a poll found nothing. Who drives the device himself polls on for a while.
func (s *Session) idle(ctx context.Context, idle *spin.Spin) error {
	if s.manual && !idle.Idle() {
		return nil
	}
	idle.Reset()
	err := s.cq.Wait(ctx)
	if err == nil || ctx.Err() == nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return fmt.Errorf("interrupted after %d of %d messages had come", s.done.Load(), s.Params.Iterations)
}

// watchdog ends a run in which no packet comes any more. The exchange is over and its connection closed, so nothing
// else tells a server that its client has died.
func (s *Session) watchdog(ctx context.Context) (context.Context, context.CancelFunc) {
	const limit = 10 * time.Second
	ctx, cancel := context.WithCancelCause(ctx)
	go fault.OnSilence(ctx, s.Device, limit, func(bool) {
		cancel(fmt.Errorf("no packet came from %v for %v, after %d of %d messages: has the program there ended, or does a firewall drop UDP port 4791?",
			s.theirs.GID, limit, s.done.Load(), s.Params.Iterations))
	})
	return ctx, func() { cancel(nil) }
}

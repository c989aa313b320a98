package demo

import (
	"context"
	"fmt"
	"io"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/link"
)

// depth is how many work requests are on the way when a rate is measured.
const depth = 32

// receives is how many receives are posted: for what is on the way, and as much again that was not looked at yet.
const receives = 2 * depth

// room is the memory of each end: as much as the largest message.
const room = 1 << 20

// end is one of the two devices with what it needs.
type end struct {
	dev *roce.Device
	qp  *roce.QP
	cq  *roce.CQ
	mr  *roce.MR
}

// pair is both ends; a asks, b answers.
type pair struct{ a, b end }

// newPair makes two devices joined by memory and connects a queue pair of each.
func newPair(ctx context.Context, impair link.Impairment, pcap io.Writer) (*pair, error) {
	p := new(pair)
	la, lb := link.NewMemPair(link.MemOptions{})
	for _, e := range []struct {
		*end
		link link.Link
		pcap io.Writer
	}{{&p.a, la, pcap}, {&p.b, lb, nil}} { // one end sees all packets
		cfg := &roce.Config{Impair: impair, Pcap: e.pcap, Recovery: recovery(impair)}
		if err := e.open(ctx, e.link, cfg); err != nil {
			p.close()
			return nil, err
		}
	}
	// Nothing gets lost on a clean wire, so that a timeout could only be a pause of a busy machine; where packets are
	// lost, one of 67 ms would be most of what is measured.
	timeout := uint8(18) // 1 s
	if impair.Active() {
		timeout = 13 // 34 ms
	}
	for _, e := range []struct{ from, to *end }{{&p.a, &p.b}, {&p.b, &p.a}} {
		to := e.to.qp.Local()
		if err := e.from.qp.Connect(ctx, roce.Remote{Addr: to.Addr, QPN: to.QPN, PSN: to.PSN, Timeout: &timeout}); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

func (e *end) open(ctx context.Context, l link.Link, cfg *roce.Config) (err error) {
	if e.dev, err = roce.OpenLink(ctx, l, cfg); err != nil {
		return err
	}
	const all = roce.RemoteWrite | roce.RemoteRead | roce.RemoteAtomic
	pd := e.dev.AllocPD()
	if e.mr, err = pd.RegisterMemory(make([]byte, room), roce.LocalWrite|all); err != nil {
		return err
	}
	if e.cq, err = e.dev.CreateCQ(depth + receives); err != nil {
		return err
	}
	e.qp, err = pd.CreateQP(roce.QPConfig{SendCQ: e.cq, RecvCQ: e.cq, SendDepth: depth, RecvDepth: receives, Access: all})
	return err
}

func (p *pair) close() {
	for _, e := range []*end{&p.a, &p.b} {
		if e.dev != nil {
			_ = e.dev.Close() // nothing is in flight that anybody still wants
		}
	}
}

// completion waits for one completion.
func (e *end) completion(ctx context.Context) (roce.Completion, error) {
	var c [1]roce.Completion
	for e.cq.Poll(c[:]) == 0 {
		if err := e.cq.Wait(ctx); err != nil {
			return c[0], err
		}
	}
	return c[0], e.qp.Explain(c[0])
}

// request is a's work request for an operation on size bytes.
func (p *pair) request(o *operation, size int) roce.SendWR {
	return roce.SendWR{
		Opcode: o.op, Flags: roce.Signaled, SGL: []roce.SGE{p.a.mr.SGE(0, size)}, RemoteAddr: p.b.mr.Addr(), RKey: p.b.mr.Key(), Imm: immediate,
	}
}

// immediate is what operations with immediate carry.
const immediate = 0x524F4345

// receive posts n receives of size bytes at b.
func (p *pair) receive(n, size int) error {
	wr := roce.RecvWR{SGL: []roce.SGE{p.b.mr.SGE(0, size)}}
	for range n {
		if _, err := p.b.qp.PostRecv(wr); err != nil {
			return fmt.Errorf("cannot post a receive: %w", err)
		}
	}
	return nil
}

// recovery is patient on a wire in memory, which loses nothing: silence there is a process that waits for its turn.
func recovery(impair link.Impairment) *roce.Recovery {
	r := roce.DefaultRecovery()
	if !impair.Active() {
		r.Probe = 0
	}
	return &r
}

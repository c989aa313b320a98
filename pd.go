package roce

import (
	"context"

	"github.com/go-roce/roce/internal/engine"
	"github.com/go-roce/roce/memreg"
	"github.com/go-roce/roce/transport"
)

// PD is a protection domain: queue pairs reach only memory regions of their own.
type PD struct {
	dev *Device
	id  memreg.PD
}

// AllocPD makes a protection domain. It holds nothing that would have to be given back.
func (d *Device) AllocPD() *PD { return &PD{dev: d, id: memreg.PD(d.pds.Add(1))} }

// RegisterMemory makes b a memory region of the domain. b stays where it is and must
// not be empty. RemoteWrite and RemoteAtomic need LocalWrite as well.
func (pd *PD) RegisterMemory(b []byte, a Access) (*MR, error) {
	d := pd.dev
	if d.isClosed() {
		return nil, opError("register memory", 0, d.errClosed())
	}
	d.regMu.Lock()
	defer d.regMu.Unlock()
	r, err := d.table.Register(pd.id, b, memreg.Options{Access: a})
	if err != nil {
		return nil, opError("register memory", 0, err)
	}
	return &MR{dev: d, region: r}, nil
}

// CreateQP makes a queue pair in the domain, in RESET, with a random number and initial PSN.
// The error is ErrCQTooSmall when a completion queue has not enough room left.
func (pd *PD) CreateQP(c QPConfig) (*QP, error) {
	d := pd.dev
	if c.Type == 0 {
		c.Type = RC
	}
	q := &QP{dev: d, cfg: c, psn: PSN(random32() & 0xFFFFFF)}
	ec := engine.QPConfig{Config: transport.Config{
		Type:       c.Type,
		PD:         pd.id,
		Table:      d.table,
		SendDepth:  c.SendDepth,
		RecvDepth:  c.RecvDepth,
		SendSGE:    c.SendSGE,
		RecvSGE:    c.RecvSGE,
		MaxInline:  c.MaxInline,
		SignalAll:  c.SignalAll,
		MaxPathMTU: d.PathMTU(),
		Window:     d.cfg.Window,
		Recovery:   d.cfg.recovery(),
	}}
	if c.SendCQ != nil {
		ec.SendCQ = c.SendCQ.cq
	}
	if c.RecvCQ != nil {
		ec.RecvCQ = c.RecvCQ.cq
	}
	if err := c.SendCQ.usable(d); err != nil {
		return nil, opError("create queue pair", 0, err)
	}
	if err := c.RecvCQ.usable(d); err != nil {
		return nil, opError("create queue pair", 0, err)
	}
	var err error
	if q.qp, err = d.nextLoop().CreateQP(context.Background(), ec); err != nil {
		if d.isClosed() {
			err = d.errClosed()
		}
		return nil, opError("create queue pair", 0, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.qps[q.QPN()] = q
	return q, nil
}

// nextLoop spreads queue pairs over the loops.
func (d *Device) nextLoop() *engine.Loop {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.loops[d.made%len(d.loops)]
	d.made++
	return l
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/go-roce/roce"
)

// An endpoint is one end of the connection and the TCP line by which it finds the other.
type endpoint struct {
	*settings
	device *roce.Device
	pcap   *os.File
	cq     *roce.CQ
	qp     *roce.QP
	region *roce.MR // what the other end may reach
	local  *roce.MR // what this end sends from, and behind that receives into
	addr   netip.Addr
	peer   remote
	line   net.Conn
	heard  *bufio.Reader
}

// remote is what an end tells the other, as the text "QPN PSN RKEY ADDRESS LENGTH GID\n", all but the GID in hex.
type remote struct {
	qpn, psn, rkey  uint32
	address, length uint64
	gid             netip.Addr
}

func open(ctx context.Context, s *settings) (_ *endpoint, err error) {
	e := &endpoint{settings: s}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	recovery := roce.DefaultRecovery()
	if !s.probe {
		recovery.Probe = 0
	}
	cfg := &roce.Config{Link: "raw", Recovery: &recovery}
	if s.pcap != "" {
		if e.pcap, err = os.Create(s.pcap); err != nil {
			return nil, err
		}
		cfg.Pcap = e.pcap
	}
	if e.device, err = roce.Open(ctx, s.iface, cfg); err != nil {
		return nil, err
	}
	for _, a := range e.device.Addrs() {
		if a.Is4() == (s.family == 4) && !a.IsLinkLocalUnicast() {
			e.addr = a
			break
		}
	}
	if !e.addr.IsValid() {
		return nil, fmt.Errorf("%s has no IPv%d address", s.iface, s.family)
	}
	if e.cq, err = e.device.CreateCQ(2 * queueDepth); err != nil {
		return nil, err
	}
	pd := e.device.AllocPD()
	if e.qp, err = pd.CreateQP(roce.QPConfig{SendCQ: e.cq, RecvCQ: e.cq, SendDepth: queueDepth, RecvDepth: queueDepth,
		SignalAll: true, Access: s.qpAccess &^ roce.LocalWrite}); err != nil {
		return nil, err
	}
	data := s.count * s.size
	if e.region, err = pd.RegisterMemory(make([]byte, data), s.regionAccess); err != nil {
		return nil, err
	}
	e.local, err = pd.RegisterMemory(make([]byte, data+max(1, s.receives*s.receiveSize)), roce.LocalWrite)
	return e, err
}

// close is for an endpoint that open left half made as well.
func (e *endpoint) close() error {
	var errs []error
	if e.line != nil {
		errs = append(errs, e.line.Close())
	}
	if e.device != nil {
		errs = append(errs, e.device.Close())
	}
	if e.pcap != nil {
		errs = append(errs, e.pcap.Close())
	}
	return errors.Join(errs...)
}

// connect exchanges the lines, the requester's first, and takes the queue pair to RTS.
func (e *endpoint) connect(ctx context.Context) error {
	if err := e.meet(ctx); err != nil {
		return err
	}
	e.heard = bufio.NewReader(e.line)
	if e.host != "" {
		if err := e.tell(); err != nil {
			return err
		}
	}
	if err := e.hear(); err != nil {
		return err
	}
	if e.host == "" {
		if err := e.tell(); err != nil {
			return err
		}
	}
	timeout, retries, rnrTimer, reads := uint8(14), uint8(6), uint8(12), uint8(outstanding)
	rnrRetry := uint8(e.rnrRetry)
	return e.qp.Connect(ctx, roce.Remote{
		Addr: e.peer.gid, QPN: roce.QPN(e.peer.qpn), PSN: roce.PSN(e.peer.psn), Src: e.addr, PathMTU: e.mtu,
		Timeout: &timeout, RetryCnt: &retries, RNRRetry: &rnrRetry, MinRNRTimer: &rnrTimer,
		MaxRdAtomic: &reads, MaxDestRdAtomic: &reads,
	})
}

func (e *endpoint) meet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if e.host != "" {
		var d net.Dialer
		var err error
		e.line, err = d.DialContext(ctx, "tcp", net.JoinHostPort(e.host, strconv.Itoa(e.port)))
		return err
	}
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(e.port)))
	if err != nil {
		return err
	}
	defer l.Close()
	e.line, err = l.Accept()
	return err
}

func (e *endpoint) tell() error {
	gid := e.addr.String()
	if e.addr.Is4() {
		gid = "::ffff:" + gid
	}
	_, err := fmt.Fprintf(e.line, "%06x %06x %08x %016x %x %s\n", e.qp.QPN(), e.qp.PSN(), e.region.Key(), e.region.Addr(),
		e.region.Len(), gid)
	return err
}

func (e *endpoint) hear() error {
	if err := e.line.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	text, err := e.heard.ReadString('\n')
	if err != nil {
		return fmt.Errorf("the other end's line: %w", err)
	}
	p, gid := &e.peer, ""
	if _, err := fmt.Sscanf(text, "%x %x %x %x %x %s\n", &p.qpn, &p.psn, &p.rkey, &p.address, &p.length, &gid); err != nil {
		return fmt.Errorf("the other end's line %q: %w", text, err)
	}
	p.gid, err = netip.ParseAddr(gid)
	p.gid = p.gid.Unmap()
	return err
}

// pattern is byte j of message i.
func pattern(i, j int) byte { return byte(i*31 + j*7 + j/4096 + 1) }

func (e *endpoint) fill(memory []byte) {
	for i := range e.count {
		for j := range e.size {
			memory[i*e.size+j] = pattern(i, j)
		}
	}
}

// filled checks every message that fill would have written.
func (e *endpoint) filled(memory []byte) error {
	for i := range e.count {
		for j := range e.size {
			if got, want := memory[i*e.size+j], pattern(i, j); got != want {
				return fmt.Errorf("message %d: byte %d is %02x, want %02x", i, j, got, want)
			}
		}
	}
	return nil
}

// fillRegion gives the region its first contents and returns a copy of them.
func (e *endpoint) fillRegion() []byte {
	memory := e.region.Bytes()
	switch {
	case e.verify && e.op == "read":
		e.fill(memory)
	case !e.atomic():
		for i := range memory {
			memory[i] = 0xee
		}
	}
	return bytes.Clone(memory)
}

func (s *settings) atomic() bool { return s.op == "fadd" || s.op == "cas" }

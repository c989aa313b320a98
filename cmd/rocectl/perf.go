package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-roce/roce/cmd/rocectl/internal/measure"
	"github.com/go-roce/roce/cmd/rocectl/internal/oob"
	"github.com/go-roce/roce/cmd/rocectl/internal/perftest"
)

func (a *app) perfCommand() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "perf",
		Short: "Measure bandwidth and latency, against perftest or this program",
		Long: `perf is perftest's ib_write_bw, ib_send_bw, ib_read_bw, ib_atomic_bw, ib_write_lat, ib_send_lat, ib_read_lat and
ib_atomic_lat. Without HOST it waits for one client; with HOST it is the client. Either end may be the original
program. The same options must be given at both ends, as perftest wants it.

A latency is half a round trip for write-lat and send-lat, a whole one for read-lat and atomic-lat.

--json prints test, link, mode, size, iters, qps, mtu, bytes, seconds, gbit_per_s, mmsg_per_s, latency_us (of latency
tests: min, p50, p99, p999, max, mean), retransmits, naks_received, rnr_naks_received, timeouts and icrc_errors. bytes
and seconds are those of the data's sender; with -b they are of both directions. -a adds runs, the same for each size.`,
		Example: `  rocectl perf write-bw -d eth0               (then, elsewhere:  ib_write_bw 10.0.0.1)
  rocectl perf send-lat 10.0.0.2 -s 64 -n 10000 --json`,
	})
	for _, t := range perftest.Tests {
		c.AddCommand(a.perfTestCommand(t))
	}
	return c
}

// perf is one test.
type perf struct {
	*app
	perftest.Params
	port       int
	seconds    int
	atomic     string
	connection string
	timeout    int
	tclass     int
	tos        int
	gbits      bool
	cm         bool
	ipv6Addr   bool
	ignored    bool // -F
}

func (a *app) perfTestCommand(t perftest.Test) *cobra.Command {
	p := &perf{app: a, Params: perftest.Defaults(t)}
	c := &cobra.Command{
		Use:   t.Name + " [HOST]",
		Short: t.Title + ", as " + t.Program,
		Args:  atMost(1, "one host"),
		RunE: func(cmd *cobra.Command, args []string) error {
			host := ""
			if len(args) > 0 {
				host = args[0]
			}
			return p.run(cmd.Context(), host, cmd.Flags().Changed("tos"))
		},
	}
	f := c.Flags()
	f.IntVarP(&p.port, "port", "p", oob.DefaultPort, "listen on or connect to TCP `PORT`")
	f.Uint64VarP(&p.Iterations, "iters", "n", p.Iterations, "messages of each queue pair, at least 5")
	f.IntVarP(&p.seconds, "duration", "D", 0, "run for so many `SECONDS` instead")
	f.IntVarP(&p.MTU, "mtu", "m", 0, "path MTU in `BYTES`, 256 to 4096 (default: what the interface carries)")
	f.StringVarP(&p.connection, "connection", "c", "RC", "connection `TYPE`; only RC yet")
	f.BoolVarP(&p.cm, "rdma_cm", "R", false, "connect by the RDMA connection manager; not yet")
	f.IntVarP(&p.timeout, "qp-timeout", "u", int(p.Timeout), "ACK timeout `CODE`, 4.096 us x 2^CODE")
	f.IntVarP(&p.tos, "tos", "T", 0, "type of service of connections made by -R")
	f.IntVar(&p.tclass, "tclass", 0, "traffic class of the packets, `0-255`")
	f.IntVarP(&p.GIDIndex, "gid-index", "x", -1, "`INDEX` of the local GID, as in \"rocectl info\" (default: the one that fits)")
	f.BoolVar(&p.IPv6, "ipv6", false, "use an IPv6 GID")
	f.BoolVar(&p.ipv6Addr, "ipv6-addr", false, "use IPv6 for the exchange over TCP")
	f.BoolVarP(&p.ignored, "CPU-freq", "F", false, "accepted and ignored: the processor's frequency does not matter here")
	if t.Verb == perftest.Atomic {
		f.StringVarP(&p.atomic, "atomic_type", "A", "FETCH_AND_ADD", "atomic operation, CMP_AND_SWAP or FETCH_AND_ADD")
	} else {
		f.IntVarP(&p.Size, "size", "s", p.Size, "`BYTES` of a message")
		f.BoolVarP(&p.All, "all", "a", false, "run all sizes from 2 to 2^23")
	}
	if t.Verb == perftest.Send || t.Verb == perftest.Write {
		f.IntVarP(&p.Inline, "inline_size", "I", 0, "hand messages of up to so many `BYTES` over by value")
	} else {
		f.IntVarP(&p.OutReads, "outs", "o", p.OutReads, "outstanding READs or atomics")
	}
	if t.Verb == perftest.Send {
		f.IntVarP(&p.RxDepth, "rx-depth", "r", p.RxDepth, "depth of the receive queue")
	}
	if !t.Latency {
		f.BoolVarP(&p.Both, "bidirectional", "b", false, "both ends send")
		f.IntVarP(&p.QPs, "qp", "q", p.QPs, "number of queue pairs")
		f.IntVarP(&p.TxDepth, "tx-depth", "t", p.TxDepth, "depth of the send queue")
		f.IntVarP(&p.CQMod, "cq-mod", "Q", 0, "ask for a completion of every so many sends (default: 100, or 1 for messages of over 8 KiB)")
		f.BoolVar(&p.gbits, "report_gbits", false, "show Gbit/s instead of MiB/s")
	}
	return c
}

// check turns flags into parameters.
func (p *perf) check(tosGiven bool) error {
	switch p.connection {
	case "RC":
	case "UC", "UD":
		return usagef("-c %s is not available in this version: only RC is", p.connection)
	default:
		return usagef("the connection type -c %q is none of RC, UC, UD", p.connection)
	}
	if p.cm {
		return usagef("-R needs the RDMA connection manager, which is not available in this version: leave it out at both ends")
	}
	if tosGiven {
		return usagef("-T is the type of service of connections made by -R: use --tclass")
	}
	switch p.atomic {
	case "", "FETCH_AND_ADD":
	case "CMP_AND_SWAP":
		p.CompareSwap = true
	default:
		return usagef("the atomic operation -A %q is neither CMP_AND_SWAP nor FETCH_AND_ADD", p.atomic)
	}
	if p.port < 1 || p.port > 65535 {
		return usagef("the port -p %d must be 1 to 65535", p.port)
	}
	if p.tclass < 0 || p.tclass > 255 {
		return usagef("the traffic class --tclass %d must be 0 to 255", p.tclass)
	}
	if p.timeout < 0 || p.timeout > 31 {
		return usagef("the timeout code -u %d must be 0 to 31", p.timeout)
	}
	p.TrafficClass, p.Timeout = uint8(p.tclass), uint8(p.timeout)
	p.Duration = time.Duration(p.seconds) * time.Second
	if err := p.Validate(); err != nil {
		return &usageError{err}
	}
	return nil
}

func (p *perf) run(ctx context.Context, host string, tosGiven bool) (err error) {
	if err := p.check(tosGiven); err != nil {
		return err
	}
	// Latency is best where no other goroutine is in between; for bandwidth one that does the sending beside the test is
	// as good, and lets the test sleep while it waits.
	d, err := p.open(ctx, host, p.Test.Latency)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	conn, err := p.meet(ctx, host, p.port, p.ipv6Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	s := &perftest.Session{Device: d.Device, Exchange: perftest.NewExchange(conn, host != ""), Params: p.Params, Table: p.text(), Bar: p.bar(), Remark: p.remark}
	if p.gbits {
		s.Units = perftest.GbitPerS
	}
	defer s.Close()
	r, err := s.Run(ctx)
	if err != nil {
		return err
	}
	p.complain(&r.Counters)
	if p.json {
		return p.printJSON(r)
	}
	return nil
}

// meet connects to the server at host, or waits for a client without one.
func (a *app) meet(ctx context.Context, host string, port int, ipv6 bool) (*oob.Conn, error) {
	network := "tcp"
	if ipv6 {
		network = "tcp6"
	}
	if host != "" {
		return oob.Dial(ctx, network, host, port)
	}
	return oob.Accept(ctx, network, port, func(at net.Addr) {
		fmt.Fprintf(a.text(), "Waiting for a client at %v\n", at)
	})
}

// complain says what went wrong on the wire of a run that went well otherwise.
func (a *app) complain(c *measure.Counters) {
	if !a.json && *c != (measure.Counters{}) {
		fmt.Fprintf(a.stdout, " On the wire: %d packets sent again, %d timeouts, %d NAKs and %d RNR NAKs received, %d packets with a wrong ICRC.\n",
			c.Retransmits, c.Timeouts, c.NAKs, c.RNRNAKs, c.ICRCErrors)
	}
}

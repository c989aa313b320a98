// Command ours is one end of a verbs cell of the matrix, on this library; ../rxe is its twin on libibverbs, with the
// same flags and the same output.
//
// With HOST it is the requester: it posts --count operations, of which --fault spoils the first. Without, it is the
// responder, whose memory they are about. It prints one line a completion, "wc send|recv ID STATUS" (with --stream only
// those of failures), and at the end "data right|wrong" where --verify is given, or else "region untouched|changed",
// and how often this end sent something again, "retransmits N", which its twin does not know. What a failure means goes to stderr in words. Its exit status is 0 if each posted work request has completed exactly
// once, whatever the statuses are: the matrix judges those.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/go-roce/roce"
)

// settings are what the command line says.
type settings struct {
	iface, host, pcap string
	probe             bool
	family, port      int
	mtu, rnrRetry     int
	regionAccess      roce.Access
	qpAccess          roce.Access

	op, fault      string
	count, size    int
	receives       int
	receiveSize    int
	late           int // milliseconds
	verify, stream bool
}

const everything = roce.LocalWrite | roce.RemoteWrite | roce.RemoteRead | roce.RemoteAtomic

// outstanding is how many sends are kept under way, queueDepth how many work requests a queue takes.
const (
	outstanding = 16
	queueDepth  = 512
)

func main() {
	s, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "verbs-ours:", err)
		os.Exit(2)
	}
	if err := run(context.Background(), s, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "verbs-ours:", err)
		os.Exit(1)
	}
}

func parse(args []string) (*settings, error) {
	s := &settings{regionAccess: everything, qpAccess: everything}
	flags := flag.NewFlagSet("verbs-ours", flag.ContinueOnError)
	flags.StringVar(&s.iface, "d", "", "network interface")
	flags.IntVar(&s.family, "family", 4, "address family of the GIDs, 4 or 6")
	flags.IntVar(&s.port, "p", 0, "TCP port of the exchange")
	flags.StringVar(&s.pcap, "pcap", "", "write the packets to this file")
	flags.BoolVar(&s.probe, "probe", true, "ask again when rxe is silent for long, before the ACK timeout")
	flags.IntVar(&s.mtu, "mtu", 1024, "path MTU")
	flags.IntVar(&s.rnrRetry, "rnr-retry", 7, "attempts after an RNR NAK, 7 for ever")
	noRegion := flags.Bool("no-region-access", false, "register the region for this end alone")
	noQP := flags.Bool("no-qp-access", false, "let the queue pair refuse WRITE, READ and atomics")
	flags.StringVar(&s.op, "op", "write", "send, send-imm, write, write-imm, read, fadd or cas")
	flags.StringVar(&s.fault, "fault", "", "what is wrong with the first operation: rkey, bounds or wrap")
	flags.IntVar(&s.count, "count", 2, "operations")
	flags.IntVar(&s.size, "size", 64, "bytes of one")
	flags.IntVar(&s.receives, "receives", 2, "receives that this end posts")
	flags.IntVar(&s.receiveSize, "receive-size", 64, "bytes of one")
	flags.IntVar(&s.late, "late", 0, "milliseconds before the responder posts them")
	flags.BoolVar(&s.verify, "verify", false, "check every byte")
	flags.BoolVar(&s.stream, "stream", false, "go on until something fails")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if *noRegion {
		s.regionAccess = roce.LocalWrite
	}
	if *noQP {
		s.qpAccess = 0
	}
	if s.stream {
		s.count = outstanding
	}
	s.host = flags.Arg(0)
	if s.iface == "" || flags.NArg() > 1 || s.count > queueDepth || s.receives > queueDepth {
		return nil, errors.New("needs -d INTERFACE, at most one HOST and at most 512 work requests")
	}
	return s, nil
}

func run(ctx context.Context, s *settings, out io.Writer) (err error) {
	e, err := open(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	t := &tally{endpoint: e, out: out}
	before := e.fillRegion()
	if err := e.connect(ctx); err != nil {
		return err
	}
	if s.host != "" {
		err = t.request(ctx)
	} else {
		err = t.respond(ctx, before)
	}
	t.printEvents()
	if err == nil {
		err = t.printCounters(ctx)
	}
	return err
}

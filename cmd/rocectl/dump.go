package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/go-roce/roce/cmd/rocectl/internal/sniff"
)

// dump is the command of that name.
type dump struct {
	*app
	read, iface, write string
	strict             bool
	count              uint64
}

func (a *app) dumpCommand() *cobra.Command {
	d := &dump{app: a}
	c := &cobra.Command{
		Use:   "dump [-r FILE | -i INTERFACE]",
		Short: "Decode RoCEv2 packets",
		Long: `dump decodes RoCEv2 packets from a capture file, pcap or pcapng, or from an interface: a line a packet with the
verdict on its ICRC and what it is to its flow (retransmission, duplicate ack, gap, NAK, RNR NAK), then a summary.
An interface is watched until -c packets came or the command is interrupted.`,
		Example: `  rocectl dump -r capture.pcap --strict
  sudo rocectl dump -i eth0 -w roce.pcapng`,
		Args: atMost(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context()) },
	}
	f := c.Flags()
	f.StringVarP(&d.read, "read", "r", "", "read the capture `FILE`")
	f.StringVarP(&d.iface, "interface", "i", "", "capture on `INTERFACE`; -d will do as well")
	f.StringVarP(&d.write, "write", "w", "", "write the RoCEv2 packets to `FILE`, as pcapng with the marks as comments")
	f.BoolVar(&d.strict, "strict", false, "fail if a packet has a wrong ICRC")
	f.Uint64VarP(&d.count, "count", "c", 0, "end after `N` packets")
	return c
}

func (d *dump) run(ctx context.Context) (err error) {
	if d.iface == "" && d.read == "" {
		d.iface = d.dev
	}
	var source sniff.Source
	switch {
	case (d.read == "") == (d.iface == ""):
		return usagef("dump needs either a capture file, -r FILE, or an interface, -i INTERFACE")
	case d.read != "":
		source, err = sniff.OpenFile(d.read)
	default:
		source, err = sniff.OpenInterface(d.iface)
	}
	if err != nil {
		return err
	}
	defer source.Close()
	// A capture goes on until somebody ends it.
	stop := context.AfterFunc(ctx, func() { source.Close() })
	defer stop()
	var w *sniff.Writer
	if d.write != "" {
		if w, err = sniff.CreateFile(d.write); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.Close()) }()
	}
	a := sniff.NewAnalyzer()
	if err := d.watch(source, a, w); err != nil {
		return err
	}
	sum := a.Summary()
	if d.json {
		err = d.printJSON(sum)
	} else {
		err = d.summarize(sum)
	}
	if err != nil {
		return err
	}
	if d.strict && sum.ICRCBad > 0 {
		return fmt.Errorf("%d of %d packets have a wrong ICRC", sum.ICRCBad, sum.Packets)
	}
	return nil
}

// watch takes frames until there are no more, or the source is closed.
func (d *dump) watch(source sniff.Source, a *sniff.Analyzer, w *sniff.Writer) error {
	for d.count == 0 || a.Summary().Packets < d.count {
		frame, at, err := source.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		o := a.Frame(at, frame)
		if o == nil {
			continue
		}
		if !d.json {
			if _, err := fmt.Fprintln(d.stdout, o); err != nil {
				return err
			}
		}
		if w != nil {
			if err := w.Write(at, frame, o.Marks); err != nil {
				return fmt.Errorf("cannot write %s: %w", d.write, err)
			}
		}
	}
	return nil
}

// summarize prints what was counted.
func (d *dump) summarize(s *sniff.Summary) error {
	out := tabwriter.NewWriter(d.stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "\n%d RoCEv2 packets, %d with a wrong ICRC, %d other frames\n", s.Packets, s.ICRCBad, s.Other)
	for _, drop := range slices.Sorted(maps.Keys(s.Odd)) {
		fmt.Fprintf(out, "%d frames are not packets: %s\n", s.Odd[drop], sniff.Reason(drop))
	}
	if len(s.Opcodes) > 0 {
		fmt.Fprintln(out)
		for _, name := range slices.Sorted(maps.Keys(s.Opcodes)) {
			fmt.Fprintf(out, "%d\t %s\n", s.Opcodes[name], name)
		}
	}
	if len(s.Flows) > 0 {
		fmt.Fprint(out, "\nsource\tdestination\tQP\tpackets\tpayload bytes\tretransmissions\tNAKs\tRNR NAKs\t\n")
		for _, f := range s.Flows {
			fmt.Fprintf(out, "%v\t%v\t0x%06x\t%d\t%d\t%d\t%d\t%d\t\n", f.Src, f.Dst, uint32(f.DestQP), f.Packets, f.Bytes, f.Retransmits, f.NAKs, f.RNRNAKs)
		}
	}
	if s.Unfollowed > 0 {
		fmt.Fprintf(out, "%d packets of further flows were counted, but not followed\n", s.Unfollowed)
	}
	return out.Flush()
}

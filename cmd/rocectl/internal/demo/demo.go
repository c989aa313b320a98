package demo

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/go-roce/roce/cmd/rocectl/internal/measure"
	"github.com/go-roce/roce/link"
)

// Options of the demo.
type Options struct {
	// Impair is what is done to the packets in the second part, in the words of link.ParseImpairment.
	Impair string
	// Text gets what people read, Bar a progress bar if it is a terminal, Pcap all packets.
	Text, Bar io.Writer
	Pcap      io.Writer
}

// Result is both parts of the demo.
type Result struct {
	Parts []Part `json:"parts"`
}

// Part is all operations over one kind of wire.
type Part struct {
	Impair     string    `json:"impair"` // "" for a clean wire
	Operations []Outcome `json:"operations"`
	// Verified sums the messages and bytes of which every one was compared.
	VerifiedMessages uint64 `json:"verified_messages"`
	VerifiedBytes    uint64 `json:"verified_bytes"`
	measure.Counters
}

// Outcome is what one operation showed.
type Outcome struct {
	Operation        string           `json:"operation"`
	VerifiedMessages uint64           `json:"verified_messages"`
	VerifiedBytes    uint64           `json:"verified_bytes"`
	Size             int              `json:"size"` // of the messages whose rate was measured
	GbitPerS         float64          `json:"gbit_per_s"`
	MmsgPerS         float64          `json:"mmsg_per_s"`
	LatencySize      int              `json:"latency_size"`
	Latency          *measure.Latency `json:"latency_us"` // until the completion
	Retransmits      uint64           `json:"retransmits"`
}

// How long each rate and latency is measured.
const (
	rateTime    = 200 * time.Millisecond
	latencyTime = 100 * time.Millisecond
)

// Run shows both parts.
func Run(ctx context.Context, o Options) (*Result, error) {
	impair, err := link.ParseImpairment(o.Impair)
	if err != nil {
		return nil, err
	}
	var done atomic.Uint64
	bar := measure.Show(o.Bar, "demo", uint64(2*len(operations))*uint64((rateTime+latencyTime).Milliseconds()), &done)
	defer bar.Stop()
	r := new(Result)
	for _, p := range []struct {
		text   string
		impair link.Impairment
	}{{"", link.Impairment{}}, {o.Impair, impair}} {
		part, err := run(ctx, p.text, p.impair, o.Pcap, &done)
		if err != nil {
			return nil, err
		}
		r.Parts = append(r.Parts, *part)
	}
	bar.Stop()
	for i := range r.Parts {
		r.Parts[i].print(o.Text)
	}
	return r, nil
}

// run shows all operations over one kind of wire. Each has a pair of devices of its own, so that none leaves anything
// to the next.
func run(ctx context.Context, text string, impair link.Impairment, pcap io.Writer, done *atomic.Uint64) (*Part, error) {
	part := &Part{Impair: text}
	random := rand.NewChaCha8([32]byte{'r', 'o', 'c', 'e'})
	for i := range operations {
		o := &operations[i]
		var (
			out      = Outcome{Operation: o.name, Size: o.bulk, LatencySize: o.small}
			messages uint64
			took     time.Duration
		)
		for _, step := range []func(p *pair) error{
			func(p *pair) (err error) {
				out.VerifiedMessages, out.VerifiedBytes, err = p.check(ctx, o, random)
				return err
			},
			func(p *pair) (err error) {
				messages, took, err = p.rate(ctx, o, o.bulk, rateTime, done)
				return err
			},
			func(p *pair) (err error) {
				out.Latency, err = p.latency(ctx, o, o.small, latencyTime, done)
				return err
			},
		} {
			if err := part.with(ctx, impair, pcap, &out, step); err != nil {
				return nil, fmt.Errorf("%s: %w", o.name, err)
			}
		}
		out.GbitPerS = measure.Gbit(messages*uint64(o.bulk), took)
		out.MmsgPerS = float64(messages) / took.Seconds() / 1e6
		part.Operations = append(part.Operations, out)
		part.VerifiedMessages += out.VerifiedMessages
		part.VerifiedBytes += out.VerifiedBytes
	}
	return part, nil
}

// with runs a step with a new pair of devices and counts what went wrong on the wire.
func (p *Part) with(ctx context.Context, impair link.Impairment, pcap io.Writer, out *Outcome, step func(*pair) error) error {
	ends, err := newPair(ctx, impair, pcap)
	if err != nil {
		return err
	}
	defer ends.close()
	if err := step(ends); err != nil {
		return err
	}
	for _, e := range []*end{&ends.a, &ends.b} {
		c := measure.ReadCounters(e.dev)
		out.Retransmits += c.Retransmits
		p.Counters = p.Counters.Plus(c)
	}
	return nil
}

func (p *Part) print(w io.Writer) {
	wire := "a clean wire"
	if p.Impair != "" {
		wire = "a wire with " + p.Impair
	}
	fmt.Fprintf(w, "Two devices in this process, joined by memory: %s\n", wire)
	fmt.Fprintf(w, "  %-26s %16s   %8s %10s %10s   %6s %9s %9s %9s %8s\n",
		"operation", "bytes verified", "size", "Gbit/s", "Mmsg/s", "size", "p50 us", "p99 us", "max us", "resent")
	for i := range p.Operations {
		o := &p.Operations[i]
		fmt.Fprintf(w, "  %-26s %16d   %8d %10.3f %10.4f   %6d %9.1f %9.1f %9.1f %8d\n",
			o.Operation, o.VerifiedBytes, o.Size, o.GbitPerS, o.MmsgPerS, o.LatencySize, o.Latency.P50, o.Latency.P99, o.Latency.Max, o.Retransmits)
	}
	fmt.Fprintf(w, "  %d messages, %d bytes verified. %d packets sent again, %d timeouts, %d NAKs received.\n\n",
		p.VerifiedMessages, p.VerifiedBytes, p.Retransmits, p.Timeouts, p.NAKs)
}

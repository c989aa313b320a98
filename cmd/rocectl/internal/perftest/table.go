package perftest

import (
	"fmt"
	"strings"

	"github.com/go-roce/roce/cmd/rocectl/internal/measure"
)

// The table is laid out as perftest's, for the eyes and scripts that know it. Rates are MiB/s, as they always were
// there, and are called so here.

const tableWidth = 87

// Units says in what the table shows rates.
type Units uint8

// Units of a rate.
const (
	MiBPerS  Units = iota
	GbitPerS       // --report_gbits
)

// rate converts from Gbit/s.
func (u Units) rate(gbit float64) float64 {
	if u == GbitPerS {
		return gbit
	}
	return measure.MiB(gbit)
}

func (s *Session) tablef(format string, args ...any) {
	if s.Table != nil {
		fmt.Fprintf(s.Table, format, args...)
	}
}

func (s *Session) tableRule() { s.tablef("%s\n", strings.Repeat("-", tableWidth)) }

// tableAddresses shows the parameters and both ends' queue pairs.
func (s *Session) tableAddresses() {
	p, info := &s.Params, s.Device.Info()
	s.tableRule()
	s.tablef("                    %s\n", p.Test.Title)
	s.tablef(" Device          : %-12s Link           : %s (%s)\n", info.Interface, info.Kind, info.Mode)
	s.tablef(" Number of qps   : %-12d Connection type : RC\n", p.QPs)
	s.tablef(" Mtu             : %-12s Peer's exchange : version %v\n", fmt.Sprint(s.agreed.mtu, "[B]"), s.Exchange.Peer())
	if !p.Test.Latency {
		s.tablef(" TX depth        : %-12d CQ Moderation   : %d\n", p.TxDepth, p.moderation(p.largest()))
	}
	if p.Test.Verb == Read || p.Test.Verb == Atomic {
		s.tablef(" Outstand reads  : %d\n", p.OutReads)
	}
	s.tableRule()
	for _, end := range []struct {
		name string
		keys []Key
	}{{"local", s.mine}, {"remote", s.theirs}} {
		for i := range end.keys {
			k := &end.keys[i]
			s.tablef(" %s address: LID 0000 QPN %#04x PSN %#06x", end.name, uint32(k.QPN), uint32(k.PSN))
			if p.Test.Verb == Read || p.Test.Verb == Atomic {
				s.tablef(" OUT %#02x", k.OutReads)
			}
			if k.RKey != 0 {
				s.tablef(" RKey %#08x VAddr %#016x", k.RKey, k.VAddr)
			}
			s.tablef("\n GID: %v\n", k.GID)
		}
	}
	s.tableRule()
}

func (s *Session) tableHead() {
	switch {
	case s.Params.Test.Latency:
		s.tablef(" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99%% percentile[usec]   99.9%% percentile[usec]\n")
	case s.Units == GbitPerS:
		s.tablef(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n")
	default:
		s.tablef(" #bytes     #iterations    BW peak[MiB/sec]   BW average[MiB/sec]  MsgRate[Mpps]\n")
	}
}

// tableRow shows a run, if this end measured it.
func (s *Session) tableRow(r *measure.Result) {
	iterations := r.Iterations
	if s.Params.Duration == 0 {
		iterations *= uint64(r.QPs)
	}
	if l := r.Latency; l != nil {
		s.tablef(" %-7d %-10d     %-7.2f        %-7.2f      %-7.2f            %-7.2f        %-7.2f         %-7.2f                 %-7.2f\n",
			r.Size, iterations, l.Min, l.Max, l.P50, l.Mean, l.Stddev, l.P99, l.P999)
		return
	}
	if r.Seconds == 0 {
		return
	}
	s.tablef(" %-10d %-14d %-18.2f %-20.2f %.6f\n", r.Size, iterations, s.Units.rate(r.PeakGbitPerS), s.Units.rate(r.GbitPerS), r.MmsgPerS)
}

func (s *Session) tableFoot() { s.tableRule() }

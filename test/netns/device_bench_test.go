//go:build linux

package netns

import (
	"slices"
	"testing"
	"time"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/test/exercise"
)

// BenchmarkDevice_Bandwidth writes 1 MiB messages over a veth pair, both devices in this process.
func BenchmarkDevice_Bandwidth(b *testing.B) {
	for _, op := range []struct {
		name string
		op   roce.WROpcode
	}{{"WRITE", roce.WRWrite}, {"READ", roce.WRRead}} {
		b.Run(op.name, func(b *testing.B) {
			const size, depth = 1 << 20, 16
			x, y := newLab(b, 9000).pair("eth0", exercise.Options{Memory: size})
			wr := roce.SendWR{Opcode: op.op, Flags: roce.Signaled, SGL: []roce.SGE{x.MR.SGE(0, size)}, RemoteAddr: y.MR.Addr(), RKey: y.MR.Key()}
			var got [depth]roce.Completion
			b.SetBytes(size)
			b.ReportAllocs()
			b.ResetTimer()
			for posted, done := 0, 0; done < b.N; {
				for ; posted < b.N && posted-done < depth; posted++ {
					if _, err := x.QP.PostSend(wr); err != nil {
						b.Fatal(err)
					}
				}
				if err := x.CQ.Wait(b.Context()); err != nil {
					b.Fatal(err)
				}
				n := x.CQ.Poll(got[:])
				for _, c := range got[:n] {
					if err := x.QP.Explain(c); err != nil {
						b.Fatal(err)
					}
				}
				done += n
			}
			c := x.Dev.Counters()
			b.ReportMetric(float64(c.QPs.Retransmits)/float64(b.N), "resent/op")
		})
	}
}

// BenchmarkDevice_Latency is a ping-pong of 8-byte SENDs; an operation is a round trip.
func BenchmarkDevice_Latency(b *testing.B) {
	for _, bc := range []struct {
		name   string
		manual bool
	}{{"manual", true}, {"background", false}} {
		b.Run(bc.name, func(b *testing.B) {
			x, y := newLab(b, 9000).pair("eth0", exercise.Options{Device: roce.Config{Manual: bc.manual}})
			for _, e := range []*exercise.End{x, y} {
				e.Recv(b, 0, 8)
			}
			took := make([]time.Duration, b.N)
			b.ReportAllocs()
			b.ResetTimer()
			echo := make(chan struct{})
			go func() {
				defer close(echo)
				for range b.N {
					pong(b, y)
					ping(b, y)
				}
			}()
			for i := range took {
				start := time.Now()
				ping(b, x)
				pong(b, x)
				took[i] = time.Since(start)
			}
			<-echo
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "ns/p50") // the mean is the machine's
		})
	}
}

// ping sends a message.
func ping(b *testing.B, e *exercise.End) {
	if _, err := e.QP.PostSend(roce.SendWR{Opcode: roce.WRSend, SGL: []roce.SGE{e.MR.SGE(8, 8)}}); err != nil {
		b.Error(err)
	}
	e.Dev.Progress() // or it would go with the next Poll, which the last one does not have
}

// pong polls until a message is received, and posts the next receive at once, before the
// peer can know.
func pong(b *testing.B, e *exercise.End) {
	var got [1]roce.Completion
	for e.CQ.Poll(got[:]) == 0 {
		if b.Failed() {
			return
		}
	}
	if _, err := e.QP.PostRecv(roce.RecvWR{SGL: []roce.SGE{e.MR.SGE(0, 8)}}); err != nil {
		b.Error(err)
	}
}

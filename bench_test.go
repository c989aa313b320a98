package roce_test

import (
	"fmt"
	"testing"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/test/exercise"
)

// BenchmarkBandwidth keeps a queue of messages in flight between two devices over mem.
func BenchmarkBandwidth(b *testing.B) {
	for _, op := range []struct {
		name string
		op   roce.WROpcode
	}{{"WRITE", roce.WRWrite}, {"READ", roce.WRRead}, {"SEND", roce.WRSend}} {
		for _, size := range []int{64, 4 << 10, 64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d", op.name, size), func(b *testing.B) {
				x, y := newPair(b, options{Memory: max(size, 1<<16)})
				wr := roce.SendWR{Opcode: op.op, Flags: roce.Signaled, SGL: []roce.SGE{x.MR.SGE(0, size)}, RemoteAddr: y.MR.Addr(), RKey: y.MR.Key()}
				recv := roce.RecvWR{SGL: []roce.SGE{y.MR.SGE(0, size)}}
				const depth = 32
				var got [depth]roce.Completion
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.ResetTimer()
				for posted, done, received := 0, 0, 0; done < b.N; {
					for ; posted < b.N && posted-done < depth && posted-received < depth; posted++ {
						if op.op == roce.WRSend {
							if _, err := y.QP.PostRecv(recv); err != nil {
								b.Fatal(err)
							}
						}
						if _, err := x.QP.PostSend(wr); err != nil {
							b.Fatal(err)
						}
					}
					if err := x.CQ.Wait(b.Context()); err != nil {
						b.Fatal(err)
					}
					done += x.CQ.Poll(got[:])
					if op.op == roce.WRSend {
						received += y.CQ.Poll(got[:])
					} else {
						received = done
					}
				}
			})
		}
	}
}

// BenchmarkLatency is a ping-pong of 8-byte SENDs. An operation is a round trip.
func BenchmarkLatency(b *testing.B) {
	b.Run("manual", func(b *testing.B) {
		x, y := newPair(b, options{Device: roce.Config{Manual: true}})
		pingPong(b, x, y, func(e *exercise.End, got []roce.Completion) {
			// One goroutine drives both ends: no processor has to notice another's work.
			for e.CQ.Poll(got) == 0 {
				x.Dev.Progress()
				y.Dev.Progress()
			}
		})
	})
	b.Run("background", func(b *testing.B) {
		x, y := newPair(b, options{})
		pingPong(b, x, y, func(e *exercise.End, got []roce.Completion) {
			for e.CQ.Poll(got) == 0 {
				if err := e.CQ.Wait(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

func pingPong(b *testing.B, x, y *exercise.End, next func(e *exercise.End, got []roce.Completion)) {
	var got [1]roce.Completion
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		for _, way := range [2][2]*exercise.End{{x, y}, {y, x}} {
			from, to := way[0], way[1]
			to.Recv(b, 0, 8)
			if _, err := from.QP.PostSend(roce.SendWR{Opcode: roce.WRSend, SGL: []roce.SGE{from.MR.SGE(0, 8)}}); err != nil {
				b.Fatal(err)
			}
			next(to, got[:])
		}
	}
}

//go:build linux

package netns

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-roce/roce/link"
)

// BenchmarkRaw_Burst sends bursts of 384 frames while nobody reads and then reads
// them, so that neither end sleeps or wakes the other. One operation is a frame, there and in.
// What counts is the CPU time of either end, which holds on a busy machine as well.
func BenchmarkRaw_Burst(b *testing.B) {
	for _, size := range []int{90, 1098, 4170} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			lab := newLab(b, 9000)
			tx, rx := lab.a.open(link.Options{}).Queues()[0], lab.b.open(link.Options{}).Queues()[0]
			frame := between(lab.a, lab.b, false).frame(make([]byte, size-42))
			gather := [][]byte{frame[60:]}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var txCPU, rxCPU time.Duration
			fs := make([]link.Frame, 64)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for left := b.N; left > 0; {
				burst := min(left, 6*len(fs))
				left -= burst
				start := threadCPU()
				for sent := 0; sent < burst; {
					n := tx.Alloc(fs[:min(len(fs), burst-sent)])
					for i := range fs[:n] {
						fs[i].Data = fs[i].Data[:copy(fs[i].Data, frame[:60])]
						fs[i].Gather = gather
					}
					tx.Submit(fs[:n])
					sent += n
				}
				middle := threadCPU()
				for got := 0; got < burst; {
					n, _ := rx.Recv(fs)
					if n == 0 {
						b.Fatalf("%d of %d frames came", got, burst)
					}
					rx.Release(fs[:n])
					got += n
				}
				txCPU += middle - start
				rxCPU += threadCPU() - middle
			}
			b.ReportMetric(float64(txCPU)/float64(b.N), "tx-ns/frame")
			b.ReportMetric(float64(rxCPU)/float64(b.N), "rx-ns/frame")
		})
	}
}

// threadCPU is the CPU time this thread has used.
func threadCPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRaw_RoundTrip is one small frame there and back, without sleeping.
func BenchmarkRaw_RoundTrip(b *testing.B) {
	lab := newLab(b, 1500)
	x, y := lab.a.open(link.Options{}), lab.b.open(link.Options{})
	there, back := between(lab.a, lab.b, false).frame(make([]byte, 40)), between(lab.b, lab.a, false).frame(make([]byte, 40))
	stop := make(chan struct{})
	one := func(l link.Link, frame []byte) {
		var f [1]link.Frame
		q := l.Queues()[0]
		q.Alloc(f[:])
		f[0].Data = f[0].Data[:copy(f[0].Data, frame)]
		q.Submit(f[:])
	}
	take := func(l link.Link) bool {
		var f [1]link.Frame
		q := l.Queues()[0]
		for {
			if n, _ := q.Recv(f[:]); n == 1 {
				q.Release(f[:])
				return true
			}
			select {
			case <-stop:
				return false
			default:
			}
		}
	}
	ended := make(chan bool)
	go func() {
		for take(y) {
			one(y, back)
		}
		close(ended)
	}()
	for b.Loop() {
		one(x, there)
		take(x)
	}
	close(stop)
	<-ended
}

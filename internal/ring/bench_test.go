package ring

import (
	"fmt"
	"runtime"
	"testing"
)

// completion has the size of the values the ring is made for.
type completion [7]uint64

func BenchmarkPutPop(b *testing.B) {
	for _, batch := range []int{1, 16} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			r := New[completion](64)
			dst := make([]completion, batch)
			var v completion
			b.ReportAllocs()
			for i := 0; i < b.N; i += batch {
				for range batch {
					r.Put(&v)
				}
				r.Publish()
				r.Pop(dst)
			}
		})
	}
}

func BenchmarkBetweenGoroutines(b *testing.B) {
	for _, batch := range []int{1, 16} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			r := New[completion](256)
			total := b.N
			b.ReportAllocs()
			go func() {
				var v completion
				for i := 0; i < total; {
					if r.Free() < batch {
						runtime.Gosched()
						continue
					}
					for range batch {
						r.Put(&v)
					}
					r.Publish()
					i += batch
				}
			}()
			dst := make([]completion, 64)
			for i := 0; i < total; {
				n := r.Pop(dst)
				if n == 0 {
					runtime.Gosched()
				}
				i += n
			}
		})
	}
}

package engine

import (
	"fmt"
	"testing"

	"github.com/go-roce/roce/link"
	"github.com/go-roce/roce/transport"
)

// BenchmarkLoop is what both loops together cost for a message, link and scheduler left out.
func BenchmarkLoop(b *testing.B) {
	for _, bc := range []struct {
		op   transport.WROpcode
		size int
		o    wireOptions
	}{
		{transport.WRSend, 64, wireOptions{}},
		{transport.WRWrite, 64, wireOptions{}},
		{transport.WRWrite, 32 << 10, wireOptions{mtu: 4096}},
		{transport.WRWrite, 32 << 10, wireOptions{mtu: 4096, gather: true, bufLen: link.MaxHeader}},
		{transport.WRRead, 32 << 10, wireOptions{mtu: 4096}},
	} {
		name := map[transport.WROpcode]string{transport.WRSend: "SEND", transport.WRWrite: "WRITE", transport.WRRead: "READ"}[bc.op]
		b.Run(fmt.Sprintf("%s/%d/gather=%v", name, bc.size, bc.o.gather), func(b *testing.B) {
			w := newWire(b, bc.o)
			recv := make([]transport.RecvWR, 16)
			wrs := make([]transport.SendWR, 16)
			for i := range wrs {
				recv[i].SGL = []transport.SGE{w.b.sge(0, bc.size)}
				wrs[i] = w.a.write(w.b, 0, 0, bc.size)
				wrs[i].Opcode = bc.op
			}
			b.SetBytes(int64(bc.size))
			b.ReportAllocs()
			for i := 0; i < b.N; i += len(wrs) {
				if bc.op == transport.WRSend {
					if _, err := w.b.qp.PostRecv(recv); err != nil {
						b.Fatal(err)
					}
				}
				w.a.send(b, w.a.qp, wrs...)
				w.settle(b)
				w.a.succeed(b, len(wrs))
				if bc.op == transport.WRSend {
					w.b.succeed(b, len(recv))
				}
			}
		})
	}
}

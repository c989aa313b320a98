package transport

import "testing"

// The benchmarks move one work request at a time from end to end: post, packets both
// ways, completion. What they show is the state machine and one copy each way, no
// frames and no ICRC.
func benchmark(b *testing.B, size, packets int, wr SendWR) {
	l := newLean(b, func(o *options) { o.mtu, o.depth, o.window = 4096, 64, 256 })
	a, peer := l.ends[0], l.ends[1]
	wr.Flags = Signaled
	if wr.SGL = a.sge(0, size); wr.Opcode == WRFetchAdd {
		wr.SGL = a.sge(0, 8)
	}
	wr.RemoteAddr, wr.RKey = peer.region.Addr(), peer.region.Key()
	recv := RecvWR{SGL: peer.sge(0x80000, max(size, 1))}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		if wr.Opcode == WRSend {
			if err := peer.qp.PostRecv(&recv); err != nil {
				b.Fatal(err)
			}
		}
		if err := a.qp.PostSend(&wr); err != nil {
			b.Fatal(err)
		}
		l.run()
	}
	if l.done == 0 || a.qp.State() != StateRTS {
		b.Fatalf("%d completions, state %v", l.done, a.qp.State())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(packets), "ns/packet")
}

func BenchmarkSend64(b *testing.B)   { benchmark(b, 64, 2, SendWR{Opcode: WRSend}) }
func BenchmarkWrite64(b *testing.B)  { benchmark(b, 64, 2, SendWR{Opcode: WRWrite}) }
func BenchmarkWrite4K(b *testing.B)  { benchmark(b, 4096, 2, SendWR{Opcode: WRWrite}) }
func BenchmarkWrite64K(b *testing.B) { benchmark(b, 65536, 17, SendWR{Opcode: WRWrite}) }
func BenchmarkRead64(b *testing.B)   { benchmark(b, 64, 2, SendWR{Opcode: WRRead}) }
func BenchmarkRead64K(b *testing.B)  { benchmark(b, 65536, 17, SendWR{Opcode: WRRead}) }
func BenchmarkFetchAdd(b *testing.B) { benchmark(b, 8, 2, SendWR{Opcode: WRFetchAdd}) }

// BenchmarkPost is a work request's way into the queue and out of it, flushed.
func BenchmarkPost(b *testing.B) {
	l := newLean(b, nil)
	e := l.ends[0]
	e.modify(0, &Attr{Mask: AttrState, State: StateErr})
	wr := SendWR{Opcode: WRWrite, SGL: e.sge(0, 64)}
	var c Completion
	b.ReportAllocs()
	for b.Loop() {
		if err := e.qp.PostSend(&wr); err != nil {
			b.Fatal(err)
		}
		e.qp.PollCompletion(&c)
	}
}

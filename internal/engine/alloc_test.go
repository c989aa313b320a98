//go:build !race

package engine

import (
	"testing"

	"github.com/go-roce/roce/link"
	"github.com/go-roce/roce/transport"
)

// From post to completion, both sides, by every operation and kind of link, retransmissions
// included: nothing is allocated.
func TestDataPath_AllocatesNothing(t *testing.T) {
	for _, o := range []wireOptions{{}, {gather: true, bufLen: link.MaxHeader}, {ipv6: true}} {
		w := newWire(t, o)
		a, b := w.a, w.b
		lost := 0
		a.queue.lose = func([]byte) bool { lost++; return lost%50 == 0 }
		recv := []transport.RecvWR{{SGL: []transport.SGE{b.sge(0, 6000)}}}
		data := []transport.SGE{a.sge(100, 2500), a.sge(5000, 3500)}
		word := []transport.SGE{a.sge(8, 8)}
		at := func(wr transport.SendWR) []transport.SendWR {
			wr.Flags |= transport.Signaled
			wr.RemoteAddr, wr.RKey = b.mr.Addr()+64, b.mr.Key()
			return []transport.SendWR{wr}
		}
		for _, tc := range []struct {
			name  string
			wrs   []transport.SendWR
			recvs int
		}{
			{"SEND", at(transport.SendWR{Opcode: transport.WRSend, SGL: data}), 1},
			{"WRITE", at(transport.SendWR{Opcode: transport.WRWrite, SGL: data}), 0},
			{"WRITE with immediate", at(transport.SendWR{Opcode: transport.WRWriteImm, SGL: data}), 1},
			{"READ", at(transport.SendWR{Opcode: transport.WRRead, SGL: data}), 0},
			{"compare and swap", at(transport.SendWR{Opcode: transport.WRCompareSwap, SGL: word}), 0},
			{"fetch and add", at(transport.SendWR{Opcode: transport.WRFetchAdd, SGL: word}), 0},
		} {
			once := func() {
				if tc.recvs > 0 {
					if _, err := b.qp.PostRecv(recv); err != nil {
						t.Fatal(err)
					}
				}
				a.send(t, a.qp, tc.wrs...)
				for due := w.settle(t); a.cq.Len() == 0; due = w.settle(t) {
					w.clk.AdvanceTo(due)
				}
				a.succeed(t, 1)
				b.succeed(t, tc.recvs)
			}
			for range 100 {
				once()
			}
			if n := testing.AllocsPerRun(200, once); n != 0 {
				t.Errorf("%+v: %s allocates %v times", o, tc.name, n)
			}
		}
	}
}

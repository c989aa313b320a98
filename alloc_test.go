//go:build !race

package roce_test

import (
	"testing"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/test/exercise"
)

// A program's way from post to completion allocates nothing, with either kind of progress,
// for every operation. (internal/engine tests the same for every kind of link, and under loss.)
func TestDataPath_AllocatesNothing(t *testing.T) {
	for _, manual := range []bool{false, true} {
		a, b := newPair(t, options{Device: roce.Config{Manual: manual}, QP: roce.QPConfig{MaxInline: 64}})
		inline := make([]byte, 64)
		for _, op := range []roce.WROpcode{roce.WRSend, roce.WRSendImm, roce.WRWrite, roce.WRWriteImm, roce.WRRead, roce.WRCompareSwap, roce.WRFetchAdd} {
			wr := roce.SendWR{Opcode: op, Flags: roce.Signaled, SGL: []roce.SGE{a.MR.SGE(0, 9000)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.Key()}
			switch op {
			case roce.WRCompareSwap, roce.WRFetchAdd:
				wr.SGL = []roce.SGE{a.MR.SGE(0, 8)}
			case roce.WRSendImm:
				wr.Flags, wr.SGL, wr.Inline = roce.Signaled|roce.Inline, nil, inline
			}
			recv := roce.RecvWR{SGL: []roce.SGE{b.MR.SGE(0, 9000)}}
			receives := op == roce.WRSend || op == roce.WRSendImm || op == roce.WRWriteImm
			var got [1]roce.Completion
			poll := func(e *exercise.End) {
				for e.CQ.Poll(got[:]) == 0 {
					if manual {
						a.Dev.Progress()
						b.Dev.Progress()
					} else if err := e.CQ.Wait(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			n := testing.AllocsPerRun(300, func() {
				if receives {
					if _, err := b.QP.PostRecv(recv); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := a.QP.PostSend(wr); err != nil {
					t.Fatal(err)
				}
				poll(a)
				if receives {
					poll(b)
				}
			})
			if n != 0 {
				t.Errorf("manual=%v: opcode %d allocates %v times", manual, op, n)
			}
		}
	}
}

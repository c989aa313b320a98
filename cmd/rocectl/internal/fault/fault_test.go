package fault

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/link"
)

// A peer that is not there: the send fails with RETRY_EXC_ERR, the receives are flushed.
func TestExplain_TheCauseIsFoundAmongTheFlushed(t *testing.T) {
	a, b := link.NewMemPair(link.MemOptions{})
	there := b.Addrs()[0]
	dev, err := roce.OpenLink(t.Context(), a, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	defer b.Close()
	cq, err := dev.CreateCQ(300)
	if err != nil {
		t.Fatal(err)
	}
	pd := dev.AllocPD()
	mr, err := pd.RegisterMemory(make([]byte, 8), roce.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	qp, err := pd.CreateQP(roce.QPConfig{SendCQ: cq, RecvCQ: cq, SendDepth: 4, RecvDepth: 200})
	if err != nil {
		t.Fatal(err)
	}
	timeout, retries := uint8(4), uint8(0)
	if err := qp.Connect(t.Context(), roce.Remote{Addr: there, QPN: 2, Timeout: &timeout, RetryCnt: &retries}); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if _, err := qp.PostRecv(roce.RecvWR{SGL: []roce.SGE{mr.SGE(0, 8)}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := qp.PostSend(roce.SendWR{Opcode: roce.WRSend, Flags: roce.Signaled, SGL: []roce.SGE{mr.SGE(0, 8)}}); err != nil {
		t.Fatal(err)
	}
	find := func(n roce.QPN) *roce.QP {
		if n != qp.QPN() {
			t.Errorf("QP 0x%x", uint32(n))
		}
		return qp
	}
	flushed := roce.Completion{QPN: qp.QPN(), Status: roce.StatusWRFlushErr, Recv: true}
	// As if a flushed receive had been polled first, alone.
	if err := Explain(cq, []roce.Completion{flushed}, find); err == nil || !strings.Contains(err.Error(), "RETRY_EXC_ERR") {
		t.Errorf("%v", err)
	}
	// With nothing else to find, it has to do.
	if w := new(roce.WorkError); !errors.As(Explain(cq, []roce.Completion{flushed}, find), &w) || w.Completion.Status != roce.StatusWRFlushErr {
		t.Errorf("%v", w)
	}
	// With others that were polled along with it.
	cause := roce.Completion{QPN: qp.QPN(), Status: roce.StatusRemAccessErr}
	if w := new(roce.WorkError); !errors.As(Explain(cq, []roce.Completion{flushed, flushed, cause, flushed}, find), &w) || w.Completion.Status != roce.StatusRemAccessErr {
		t.Errorf("%v", w)
	}
	stranger := []roce.Completion{{QPN: 5, Status: roce.StatusRemAccessErr}}
	if err := Explain(cq, stranger, func(roce.QPN) *roce.QP { return nil }); err == nil || !strings.Contains(err.Error(), "REM_ACCESS_ERR") {
		t.Errorf("%v", err)
	}
}

func TestOnSilence_IsCalledOnceOrNotAtAll(t *testing.T) {
	a, _ := link.NewMemPair(link.MemOptions{})
	dev, err := roce.OpenLink(t.Context(), a, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	calls := 0
	start := time.Now()
	OnSilence(t.Context(), dev, 40*time.Millisecond, func(notReady bool) {
		if calls++; notReady {
			t.Error("RNR NAKs from nobody")
		}
	})
	if took := time.Since(start); calls != 1 || took < 40*time.Millisecond {
		t.Errorf("%d calls after %v", calls, took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	OnSilence(ctx, dev, 40*time.Millisecond, func(bool) { t.Error("called though the run is over") })
}

package roce_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/test/exercise"
	"github.com/go-roce/roce/transport"
)

// still has what ends need in a synctest bubble: its clock is the bubble's, and nobody
// spins, for time stands still while a goroutine runs.
func still() options {
	return options{Device: roce.Config{Clock: clock.NewReal(), Spin: -1}}
}

// Pitfalls 50 to 52: the error says in words what happened, after how long a time, to which peer, and
// whether a firewall is likely; and the time is the one that was computed.
func TestExplain_NoAnswer(t *testing.T) {
	for _, tc := range []struct {
		heard bool
		says  []string
	}{
		{false, []string{"nothing was ever received", "firewall", "4791"}},
		{true, []string{"packets came before", "went away"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := still()
			o.Tweak = func(r *roce.Remote) { r.Timeout = nil } // the default
			a, b := newPair(t, o)
			if tc.heard {
				a.Send(t, roce.SendWR{Opcode: roce.WRWrite})
				a.Succeed(t)
			}
			if err := b.QP.Close(); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			a.Send(t, roce.SendWR{Opcode: roce.WRSend})
			c := a.Next(t)
			if got, want := time.Since(start), transport.RetryTime(14, 7); c.Status != roce.StatusRetryExcErr || got != want {
				t.Fatalf("%v after %v, want RETRY_EXC_ERR after %v", c.Status, got, want)
			}
			err := a.QP.Explain(c)
			var status transport.StatusError
			if !errors.As(err, &status) || roce.Status(status) != roce.StatusRetryExcErr {
				t.Errorf("the error does not hold its status: %#v", err)
			}
			for _, s := range append(tc.says, "RETRY_EXC_ERR (12)", "QP 0x", "10.77.0.2", "no answer for 1.61s", "8 transmissions") {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
		})
	}
}

func TestExplain_OtherStatuses(t *testing.T) {
	for _, tc := range []struct {
		status roce.Status
		says   string
		do     func(t *testing.T, a, b *exercise.End)
	}{
		{roce.StatusRNRRetryExc, "no receive posted for the message, 3 times", func(t *testing.T, a, _ *exercise.End) {
			a.Send(t, roce.SendWR{Opcode: roce.WRSend})
		}},
		{roce.StatusRemAccessErr, "refused the remote key", func(t *testing.T, a, b *exercise.End) {
			a.Send(t, roce.SendWR{Opcode: roce.WRWrite, SGL: []roce.SGE{a.MR.SGE(0, 1)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.Key() + 1})
		}},
		{roce.StatusRemInvReqErr, "longer than the receive", func(t *testing.T, a, b *exercise.End) {
			b.Recv(t, 0, 10)
			a.Send(t, roce.SendWR{Opcode: roce.WRSend, SGL: []roce.SGE{a.MR.SGE(0, 11)}})
		}},
		{roce.StatusLocProtErr, "not inside a region", func(t *testing.T, a, _ *exercise.End) {
			a.Send(t, roce.SendWR{Opcode: roce.WRSend, SGL: []roce.SGE{a.MR.SGE(a.MR.Len()-1, 2)}})
		}},
		{roce.StatusWRFlushErr, "went to ERR", func(t *testing.T, a, _ *exercise.End) {
			a.Recv(t, 0, 8)
			if err := a.QP.Modify(t.Context(), &roce.Attr{Mask: roce.AttrState, State: roce.StateErr}); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := still()
			r.Tweak = func(r *roce.Remote) { r.RNRRetry = new(uint8(2)) }
			a, b := newPair(t, r)
			tc.do(t, a, b)
			c := a.Next(t)
			err := a.QP.Explain(c)
			if c.Status != tc.status || !strings.HasPrefix(err.Error(), tc.status.String()+" (") || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("want %v and %q, got %v", tc.status, tc.says, err)
			}
		})
	}
}

package roce_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/test/exercise"
	"github.com/go-roce/roce/transport"
)

// Pitfall 35: of more work requests than the queue holds, some are taken and the
// error says how many; none is lost, none doubled. A slot is taken until its completion is polled.
func TestPost_FullQueueSaysHowManyItTook(t *testing.T) {
	a, b := newPair(t, options{QP: roce.QPConfig{SendDepth: 8, RecvDepth: 8}, Device: roce.Config{Manual: true}})
	sends, recvs := make([]roce.SendWR, 11), make([]roce.RecvWR, 11)
	for i := range sends {
		sends[i] = roce.SendWR{ID: uint64(i), Opcode: roce.WRSend, Flags: roce.Signaled, SGL: []roce.SGE{a.MR.SGE(0, 8)}}
		recvs[i] = roce.RecvWR{ID: uint64(i), SGL: []roce.SGE{b.MR.SGE(8*i, 8)}}
	}
	if n, err := b.QP.PostRecv(recvs...); n != 8 || !errors.Is(err, roce.ErrQueueFull) {
		t.Fatalf("11 receives in a queue of 8: took %d, %v", n, err)
	}
	if n, err := a.QP.PostSend(sends...); n != 8 || !errors.Is(err, roce.ErrQueueFull) {
		t.Fatalf("11 sends in a queue of 8: took %d, %v", n, err)
	}
	for deadline := time.Now().Add(exercise.Patience); a.Dev.Counters().QPs.AcksReceived == 0; {
		a.Dev.Progress()
		b.Dev.Progress()
		if time.Now().After(deadline) {
			t.Fatal("no acknowledgement came")
		}
	}
	if n, err := a.QP.PostSend(sends[8:]...); n != 0 || !errors.Is(err, roce.ErrQueueFull) {
		t.Fatalf("before a completion was polled: took %d, %v", n, err)
	}
	for i := range 11 {
		if c := b.Succeed(t, a, b); c.ID != uint64(i) {
			t.Fatalf("receive %d completed when %d was due", c.ID, i)
		}
		if c := a.Succeed(t, a, b); c.ID != uint64(i) {
			t.Fatalf("send %d completed when %d was due", c.ID, i)
		}
		if i < 3 { // one slot of each queue is free now
			if n, err := b.QP.PostRecv(recvs[8+i], recvs[0]); n != 1 || !errors.Is(err, roce.ErrQueueFull) {
				t.Fatalf("receives: took %d, %v", n, err)
			}
			if n, err := a.QP.PostSend(sends[8+i], sends[0]); n != 1 || !errors.Is(err, roce.ErrQueueFull) {
				t.Fatalf("sends: took %d, %v", n, err)
			}
		}
	}
	if c := make([]roce.Completion, 1); a.CQ.Poll(c)+b.CQ.Poll(c) != 0 {
		t.Fatalf("one completion too many: %+v", c)
	}
	exercise.Clean(t, a, b)
}

// A program that never signals can go on for ever, and gets no completion.
func TestPost_SilentSendsFreeTheirSlots(t *testing.T) {
	a, b := newPair(t, options{QP: roce.QPConfig{SendDepth: 4}})
	wr := roce.SendWR{Opcode: roce.WRWrite, SGL: []roce.SGE{a.MR.SGE(0, 100)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.Key()}
	deadline := time.Now().Add(exercise.Patience)
	for posted := 0; posted < 1000; {
		n, err := a.QP.PostSend(wr)
		posted += n
		if err != nil && !errors.Is(err, roce.ErrQueueFull) || time.Now().After(deadline) {
			t.Fatalf("after %d sends: %v", posted, err)
		}
	}
	wr.ID, wr.Flags = 99, roce.Signaled
	for n, err := a.QP.PostSend(wr); n == 0; n, err = a.QP.PostSend(wr) {
		if !errors.Is(err, roce.ErrQueueFull) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if c := a.Succeed(t); c.ID != 99 {
		t.Fatalf("send %d completed, only 99 was signaled", c.ID)
	}
	// The completion gave its own slot back, no more: four are free.
	for i := range 5 {
		n, err := a.QP.PostSend(roce.SendWR{ID: uint64(i), Opcode: roce.WRSend, Flags: roce.Signaled})
		if want := i < 4; want != (n == 1) || want != (err == nil) {
			t.Fatalf("send %d into 4 free slots: took %d, %v", i, n, err)
		}
	}
	exercise.Clean(t, a)
}

// Pitfall 36: the work request with a wrong key fails, every later one is flushed, each once, also one
// posted afterwards; receives as well.
func TestPost_EveryWorkRequestOfAFailedQueuePairCompletesOnce(t *testing.T) {
	a, b := newPair(t, options{})
	a.Recv(t, 0, 8)
	good := roce.SendWR{Opcode: roce.WRWrite, Flags: roce.Signaled, SGL: []roce.SGE{a.MR.SGE(0, 8)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.Key()}
	bad := good
	bad.RKey++
	wrs := []roce.SendWR{good, bad, good, good}
	for i := range wrs {
		wrs[i].ID = uint64(i)
	}
	if _, err := a.QP.PostSend(wrs...); err != nil {
		t.Fatal(err)
	}
	want := []roce.Status{roce.StatusSuccess, roce.StatusRemAccessErr, roce.StatusWRFlushErr, roce.StatusWRFlushErr}
	sends, recvs := 0, 0
	for range 5 {
		c := a.Next(t)
		if c.Recv {
			recvs++
			if c.Status != roce.StatusWRFlushErr {
				t.Errorf("the receive ended with %v", c.Status)
			}
			continue
		}
		if c.ID != uint64(sends) || c.Status != want[sends] {
			t.Errorf("send %d ended with %v; %d with %v was due", c.ID, c.Status, sends, want[sends])
		}
		sends++
	}
	if sends != 4 || recvs != 1 {
		t.Fatalf("%d sends and %d receives completed, want 4 and 1", sends, recvs)
	}
	for _, post := range []func(){func() { a.Send(t, good) }, func() { a.Recv(t, 0, 8) }} {
		post()
		if c := a.Next(t); c.Status != roce.StatusWRFlushErr {
			t.Fatalf("posted in ERR, it ended with %v", c.Status)
		}
	}
}

// Pitfall 37, and the errors at post: a sentence each, nothing queued.
func TestPost_RefusesWithAReason(t *testing.T) {
	a, _ := newPair(t, options{QP: roce.QPConfig{MaxInline: 4}})
	fresh := a.NewQP(t, roce.QPConfig{})
	for _, tc := range []struct {
		what string
		post func() (int, error)
	}{
		{"an unknown opcode", func() (int, error) { return a.QP.PostSend(roce.SendWR{Opcode: 77}) }},
		{"too many elements", func() (int, error) { return a.QP.PostSend(roce.SendWR{Opcode: roce.WRSend, SGL: make([]roce.SGE, 2)}) }},
		{"too much inline", func() (int, error) {
			return a.QP.PostSend(roce.SendWR{Opcode: roce.WRSend, Flags: roce.Inline, Inline: make([]byte, 5)})
		}},
		{"a send in RESET", func() (int, error) { return fresh.PostSend(roce.SendWR{Opcode: roce.WRSend}) }},
		{"a receive in RESET", func() (int, error) { return fresh.PostRecv(roce.RecvWR{}) }},
	} {
		n, err := tc.post()
		var post *transport.PostError
		var op *roce.OpError
		if n != 0 || !errors.As(err, &post) || !errors.As(err, &op) {
			t.Errorf("%s: took %d, %v", tc.what, n, err)
		}
	}
	// What comes before the bad one is taken.
	if n, err := a.QP.PostSend(roce.SendWR{Opcode: roce.WRSend}, roce.SendWR{Opcode: 77}); n != 1 || err == nil {
		t.Errorf("a good and a bad one: took %d, %v", n, err)
	}
}

// A move to RESET forgets what is posted, and its slots are free again.
func TestModify_ToResetFreesTheQueues(t *testing.T) {
	a, _ := newPair(t, options{QP: roce.QPConfig{SendDepth: 4, RecvDepth: 4}})
	for range 3 {
		for i := range 4 {
			a.Recv(t, 8*i, 8)
		}
		if n, err := a.QP.PostRecv(roce.RecvWR{}); n != 0 {
			t.Fatalf("a fifth receive was taken: %v", err)
		}
		if err := a.QP.Modify(t.Context(), &roce.Attr{Mask: roce.AttrState, State: roce.StateReset}); err != nil {
			t.Fatal(err)
		}
		if err := a.QP.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := a.CQ.Poll(make([]roce.Completion, 1)); n != 0 {
		t.Fatal("a forgotten receive completed")
	}
}

package transport

import (
	"fmt"
	"testing"

	"github.com/go-roce/roce/bth"
)

func TestReplay_KeepsTheNewest(t *testing.T) {
	for _, n := range []int{1, 2, 4, 8} {
		var s replayStore
		s.resize(n)
		for psn := range bth.PSN(20) {
			s.remember(resource{kind: resourceAtomic, psn: psn * 10, npkts: 1})
			for old := range psn + 1 {
				kept := int(psn-old) < n
				if got := s.find(old*10) != nil; got != kept {
					t.Fatalf("room %d, after %d: PSN %d kept %v, want %v", n, psn*10, old*10, got, kept)
				}
			}
		}
	}
}

func TestReplay_FindsEveryPSNOfARead(t *testing.T) {
	var s replayStore
	s.resize(2)
	s.remember(resource{kind: resourceRead, psn: 0xFFFFFE, npkts: 4})
	for psn, want := range map[bth.PSN]bool{0xFFFFFD: false, 0xFFFFFE: true, 0xFFFFFF: true, 0: true, 1: true, 2: false} {
		if got := s.find(psn) != nil; got != want {
			t.Errorf("PSN 0x%x is found %v, want %v", uint32(psn), got, want)
		}
	}
	if s.find(0x800000) != nil {
		t.Error("an empty slot was found")
	}
}

// PSNs come round again after 2^24 packets, and WRITEs leave no trace in the store.
func TestReplay_TheNewerOfTwoWithTheSamePSNIsMeant(t *testing.T) {
	var s replayStore
	s.resize(4)
	s.remember(resource{kind: resourceRead, psn: 100, npkts: 100})
	s.remember(resource{kind: resourceAtomic, psn: 150, npkts: 1, original: 7}) // a whole round later
	if e := s.find(150); e == nil || e.original != 7 {
		t.Fatalf("found %+v, want the newer one", e)
	}
}

func TestReplay_ResizeKeepsTheNewestThatFit(t *testing.T) {
	for _, from := range []int{0, 1, 2, 4, 8} {
		for _, to := range []int{0, 1, 2, 4, 8} {
			for used := range 12 {
				t.Run(fmt.Sprintf("%d_%d_%d", from, to, used), func(t *testing.T) {
					var s replayStore
					s.resize(from)
					if from == 0 {
						used = 0
					}
					for i := range used {
						s.remember(resource{kind: resourceAtomic, psn: bth.PSN(i), npkts: 1})
					}
					s.resize(to)
					if to > 0 {
						s.remember(resource{kind: resourceAtomic, psn: 100, npkts: 1})
					}
					kept := min(used, from, max(to-1, 0))
					for i := range used {
						if got, want := s.find(bth.PSN(i)) != nil, used-i <= kept; got != want {
							t.Errorf("number %d of %d kept %v, want %v", i+1, used, got, want)
						}
					}
					if to > 0 && s.find(100) == nil {
						t.Error("the one after the change is not remembered")
					}
				})
			}
		}
	}
}

func TestReplay_FirstAfter(t *testing.T) {
	var s replayStore
	s.resize(4)
	for _, psn := range []bth.PSN{0xFFFFF0, 0xFFFFFF, 3} {
		s.remember(resource{kind: resourceRead, psn: psn, npkts: 2})
	}
	for _, tc := range []struct {
		psn, end, want bth.PSN
		ok             bool
	}{
		{0xFFFFE0, 10, 0xFFFFF0, true},
		{0xFFFFF0, 10, 0xFFFFFF, true}, // itself does not count
		{0xFFFFFF, 10, 3, true},
		{2, 10, 3, true},
		{2, 3, 0, false}, // end is not reached
		{4, 10, 0, false},
	} {
		if got, ok := s.firstAfter(tc.psn, tc.end); got != tc.want || ok != tc.ok {
			t.Errorf("after 0x%x before %d: 0x%x, %v; want 0x%x, %v", uint32(tc.psn), tc.end, uint32(got), ok, uint32(tc.want), tc.ok)
		}
	}
}

// The depth is rounded up to a power of two, as rdma_rxe's requester rounds its own.
func TestReplay_DepthIsRoundedUpAndThenHeldTo(t *testing.T) {
	for _, tc := range []struct{ asked, granted int }{{1, 1}, {2, 2}, {3, 4}, {5, 8}, {16, 16}, {100, 128}, {128, 128}} {
		s := newScript(t, func(o *options) { o.rdAtomic = uint8(tc.asked) })
		for i := range tc.granted {
			s.arrives(s.rdma(bth.RCReadRequest, i, 0, 8, nil))
			s.wantState(StateRTS)
		}
		s.arrives(s.atomic(bth.RCFetchAdd, tc.granted, 0, 1, 0))
		s.wantState(StateErr)
		s.transmit()
		if last := s.sent[len(s.sent)-1]; describe(&last, s.opt.psn) != fmt.Sprintf("NAK_61 %d", tc.granted) {
			t.Errorf("depth %d: the one too many is answered by %s", tc.asked, describe(&last, s.opt.psn))
		}
		if len(s.sent) != tc.granted+1 {
			t.Errorf("depth %d: %d answers, want %d before the NAK", tc.asked, len(s.sent)-1, tc.granted)
		}
	}
	for _, op := range []bth.Opcode{bth.RCReadRequest, bth.RCFetchAdd} {
		s := newScript(t, func(o *options) { o.rdAtomic = 0 })
		p := s.rdma(op, 0, 0, 8, nil)
		p.AtomicETH.VA, p.AtomicETH.RKey = p.RETH.VA, p.RETH.RKey
		s.arrives(p)
		s.wantSent("NAK_61 0")
	}
}

package transport

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"strings"
	"testing"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/memreg"
)

// The table of ibv_modify_qp for RC (IBA 11.2.5.2, and Linux's qp_state_table), written
// down a second time, by name. STATE is always given; to RESET and ERR from everywhere, nothing else.
var verbsTable = map[string]struct{ required, optional string }{
	"RESET INIT": {required: "PKEY_INDEX PORT ACCESS_FLAGS"},
	"INIT INIT":  {optional: "PKEY_INDEX PORT ACCESS_FLAGS"},
	"INIT RTR": {
		required: "AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER",
		optional: "ALT_PATH ACCESS_FLAGS PKEY_INDEX",
	},
	"RTR RTS": {
		required: "TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC",
		optional: "CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE",
	},
	"RTS RTS": {optional: "CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE MIN_RNR_TIMER"},
	"RTS SQD": {optional: "EN_SQD_ASYNC_NOTIFY"},
	"SQD RTS": {optional: "CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE"},
	"SQD SQD": {
		optional: "PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC ALT_PATH ACCESS_FLAGS " +
			"PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE",
	},
}

// Legal in places, but this endpoint has no alternate path.
var notHere = []string{"ALT_PATH", "PATH_MIG_STATE"}

// maskOf turns names into bits, by the order of ibv_qp_attr_mask.
func maskOf(t *testing.T, names string) (m AttrMask) {
	t.Helper()
	order := strings.Fields("STATE CUR_STATE EN_SQD_ASYNC_NOTIFY ACCESS_FLAGS PKEY_INDEX PORT QKEY AV PATH_MTU TIMEOUT RETRY_CNT " +
		"RNR_RETRY RQ_PSN MAX_QP_RD_ATOMIC ALT_PATH MIN_RNR_TIMER SQ_PSN MAX_DEST_RD_ATOMIC PATH_MIG_STATE CAP DEST_QPN")
next:
	for _, name := range strings.Fields(names) {
		for i, n := range order {
			if n == name {
				m |= 1 << i
				continue next
			}
		}
		t.Fatalf("no attribute is called %s", name)
	}
	return m
}

// inState makes a queue pair in any state, connected as far as that goes.
func inState(t *testing.T, state State) *end {
	t.Helper()
	e := newEnd(t, "a", makeOptions(nil))
	steps := []*Attr{e.toInit(), e.toRTR(), e.toRTS(), {Mask: AttrState, State: StateSQD}}
	switch state {
	case StateErr:
		steps = []*Attr{{Mask: AttrState, State: StateErr}}
	case StateSQE: // an RC queue pair gets there by no way
		e.qp.state.Store(uint32(StateSQE))
		return e
	default:
		steps = steps[:state]
	}
	for _, a := range steps {
		e.modify(0, a)
	}
	e.wantState(state)
	return e
}

// goodValues are attributes all of which are allowed, and differ from what inState sets.
func goodValues(from, to State, mask AttrMask) *Attr {
	return &Attr{
		Mask: mask, State: to, CurState: from, EnSQDNotify: true, Access: memreg.RemoteRead, Port: 1,
		AV: AV{Src: addrs["a"], Dst: netip.MustParseAddr("10.77.0.9"), TrafficClass: 2}, PathMTU: 512,
		Timeout: 31, RetryCnt: 1, RNRRetry: 2, RQPSN: 3, SQPSN: 4, MaxRdAtomic: 5, MaxDestRdAtomic: 6, MinRNRTimer: 7, DestQPN: 8,
	}
}

func TestPitfall39_EveryTransitionWithEveryAttributeMissingOrTooMany(t *testing.T) {
	for from := StateReset; from <= StateErr; from++ {
		for to := StateReset; to <= StateErr+1; to++ {
			name := fmt.Sprintf("%v %v", from, to)
			row, legal := verbsTable[name]
			legal = legal || to == StateReset || to == StateErr
			required, optional := maskOf(t, row.required), maskOf(t, row.optional)
			check := func(mask, atFault AttrMask) {
				t.Helper()
				e := inState(t, from)
				var before, after Attr
				e.qp.Query(&before)
				err := e.qp.Modify(0, goodValues(from, to, mask|AttrState))
				e.qp.Query(&after)
				if atFault == 0 && legal {
					if err != nil || e.qp.State() != to {
						t.Errorf("%s with %v: %v, state %v", name, mask, err, e.qp.State())
					}
					return
				}
				var me *ModifyError
				if !errors.As(err, &me) {
					t.Errorf("%s with %v is not refused: %v", name, mask, err)
					return
				}
				if me.From != from || me.To != to || me.Attribute != atFault || me.QPN != e.qp.QPN() {
					t.Errorf("%s with %v: the error names %v to %v, %v; want attribute %v", name, mask, me.From, me.To, me.Attribute, atFault)
				}
				if text := err.Error(); !strings.Contains(text, fmt.Sprintf("from %v to %v: %v", from, to, atFault)) {
					t.Errorf("%s with %v: %q names transition and attribute wrongly", name, mask, text)
				}
				if before != after {
					t.Errorf("%s with %v: refused, yet changed\n%+v to\n%+v", name, mask, before, after)
				}
			}
			if !legal {
				check(0, 0)
				check(maskOf(t, "ACCESS_FLAGS CUR_STATE"), 0)
				continue
			}
			supported := optional &^ maskOf(t, strings.Join(notHere, " "))
			check(required, 0)
			check(required|supported, 0)
			for bit := AttrMask(2); bit < 1<<26; bit <<= 1 {
				switch {
				case required&bit != 0:
					check(required&^bit, bit)
				case supported&bit != 0:
					check(required|bit, 0)
				default:
					check(required|bit, bit)
				}
			}
			if bits.OnesCount32(uint32(required)) > 1 {
				check(0, required)
			}
		}
	}
}

func TestPitfall39_ValuesOutOfRangeAreRefused(t *testing.T) {
	v6 := netip.MustParseAddr("fd77::2")
	type change func(*Attr)
	for _, tc := range []struct {
		from, to State
		attr     AttrMask
		ok, bad  []change
	}{
		{StateReset, StateInit, AttrPKeyIndex, []change{func(a *Attr) { a.PKeyIndex = 0 }}, []change{func(a *Attr) { a.PKeyIndex = 1 }}},
		{StateReset, StateInit, AttrPort, []change{func(a *Attr) { a.Port = 1 }}, []change{func(a *Attr) { a.Port = 0 }, func(a *Attr) { a.Port = 2 }}},
		{StateReset, StateInit, AttrAccess,
			[]change{func(a *Attr) { a.Access = 0 }, func(a *Attr) { a.Access = allAccess }},
			[]change{func(a *Attr) { a.Access = memreg.BindWindow }, func(a *Attr) { a.Access = 1 << 20 }}},
		{StateInit, StateRTR, AttrAV,
			[]change{func(a *Attr) { a.AV = AV{Src: v6, Dst: v6, FlowLabel: 0xFFFFF} },
				func(a *Attr) { a.AV = AV{Src: netip.MustParseAddr("::ffff:10.0.0.1"), Dst: addrs["b"]} }},
			[]change{func(a *Attr) { a.AV = AV{} }, func(a *Attr) { a.AV.Dst = netip.Addr{} }, func(a *Attr) { a.AV.Dst = v6 },
				func(a *Attr) { a.AV.FlowLabel = 1 << 20 }}},
		{StateInit, StateRTR, AttrPathMTU,
			[]change{func(a *Attr) { a.PathMTU = 256 }, func(a *Attr) { a.PathMTU = 2048 }},
			[]change{func(a *Attr) { a.PathMTU = 0 }, func(a *Attr) { a.PathMTU = 1500 }, func(a *Attr) { a.PathMTU = 8192 }, func(a *Attr) { a.PathMTU = 4096 }}},
		{StateInit, StateRTR, AttrDestQPN, []change{func(a *Attr) { a.DestQPN = bth.MaxQPN }}, []change{func(a *Attr) { a.DestQPN = 0xFFFFFF }, func(a *Attr) { a.DestQPN = 1 << 24 }}},
		{StateInit, StateRTR, AttrRQPSN, []change{func(a *Attr) { a.RQPSN = 0xFFFFFF }}, []change{func(a *Attr) { a.RQPSN = 1 << 24 }}},
		{StateInit, StateRTR, AttrMaxDestRdAtomic, []change{func(a *Attr) { a.MaxDestRdAtomic = 0 }, func(a *Attr) { a.MaxDestRdAtomic = 128 }}, []change{func(a *Attr) { a.MaxDestRdAtomic = 129 }}},
		{StateInit, StateRTR, AttrMinRNRTimer, []change{func(a *Attr) { a.MinRNRTimer = 31 }}, []change{func(a *Attr) { a.MinRNRTimer = 32 }}},
		{StateRTR, StateRTS, AttrTimeout, []change{func(a *Attr) { a.Timeout = 0 }, func(a *Attr) { a.Timeout = 31 }}, []change{func(a *Attr) { a.Timeout = 32 }}},
		{StateRTR, StateRTS, AttrRetryCnt, []change{func(a *Attr) { a.RetryCnt = 7 }}, []change{func(a *Attr) { a.RetryCnt = 8 }}},
		{StateRTR, StateRTS, AttrRNRRetry, []change{func(a *Attr) { a.RNRRetry = 7 }}, []change{func(a *Attr) { a.RNRRetry = 8 }}},
		{StateRTR, StateRTS, AttrSQPSN, []change{func(a *Attr) { a.SQPSN = 0 }}, []change{func(a *Attr) { a.SQPSN = 1 << 24 }}},
		{StateRTR, StateRTS, AttrMaxRdAtomic, []change{func(a *Attr) { a.MaxRdAtomic = 0 }, func(a *Attr) { a.MaxRdAtomic = 128 }}, []change{func(a *Attr) { a.MaxRdAtomic = 129 }}},
		{StateRTS, StateRTS, AttrCurState, []change{func(a *Attr) { a.CurState = StateRTS }}, []change{func(a *Attr) { a.CurState = StateSQD }}},
	} {
		row := transitionsRC[[2]State{tc.from, tc.to}]
		try := func(c change) (before, after Attr, err error) {
			e := inState(t, tc.from)
			e.qp.cfg.MaxPathMTU = 2048
			e.qp.Query(&before)
			a := goodValues(tc.from, tc.to, AttrState|row.required|tc.attr)
			c(a)
			err = e.qp.Modify(0, a)
			e.qp.Query(&after)
			return before, after, err
		}
		for i, c := range tc.ok {
			if _, _, err := try(c); err != nil {
				t.Errorf("%v: good value %d is refused: %v", tc.attr, i, err)
			}
		}
		for i, c := range tc.bad {
			before, after, err := try(c)
			var me *ModifyError
			if !errors.As(err, &me) || me.Attribute != tc.attr || me.Reason == "" {
				t.Errorf("%v: bad value %d gives %v", tc.attr, i, err)
			}
			if before != after {
				t.Errorf("%v: bad value %d changed something", tc.attr, i)
			}
		}
	}
}

func TestModify_ErrorIsASentence(t *testing.T) {
	e := inState(t, StateRTS)
	for want, a := range map[string]*Attr{
		"QP 0x000011 cannot go from RTS to RTS: TIMEOUT cannot be given here":                {Mask: AttrTimeout, Timeout: 3},
		"QP 0x000011 cannot go from RTS to INIT: an RC queue pair has no such transition":    {Mask: AttrState, State: StateInit},
		"QP 0x000011 cannot go from RTS to RTS: MIN_RNR_TIMER is 40, at most 31 is possible": {Mask: AttrMinRNRTimer, MinRNRTimer: 40},
		"QP 0x000011 cannot go from RTS to RTS: CAP, bit 25 cannot be given here":            {Mask: AttrCap | 1<<25},
		"QP 0x000011 cannot go from RTS to RTS: ALT_PATH is not supported by this endpoint":  {Mask: AttrAltPath},
		"QP 0x000011 cannot go from RTS to UNKNOWN: an RC queue pair has no such transition": {Mask: AttrState, State: 9},
	} {
		if err := e.qp.Modify(0, a); err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

func TestModify_QueryReturnsWhatWasSet(t *testing.T) {
	e := inState(t, StateInit)
	a := e.toRTR()
	a.AV = AV{Src: netip.MustParseAddr("::ffff:10.77.0.1"), Dst: netip.MustParseAddr("::ffff:10.77.0.2"), TrafficClass: 3, FlowLabel: 5, HopLimit: 9}
	e.modify(0, a)
	e.modify(0, e.toRTS())
	var got Attr
	e.qp.Query(&got)
	want := Attr{
		State: StateRTS, CurState: StateRTS, Access: e.opt.access, Port: 1,
		// IPv4-mapped addresses are IPv4 addresses.
		AV:      AV{Src: addrs["a"], Dst: addrs["b"], TrafficClass: 3, FlowLabel: 5, HopLimit: 9},
		PathMTU: 1024, Timeout: 14, RetryCnt: 7, RNRRetry: 7, RQPSN: 0x1000, SQPSN: 0x1000, MaxRdAtomic: 4, MaxDestRdAtomic: 4,
		MinRNRTimer: 12, DestQPN: 0x22,
	}
	if got != want {
		t.Errorf("\n%+v, want\n%+v", got, want)
	}
	if text := e.qp.String(); text != "QP 0x000011 (RTS) to 10.77.0.2 QP 0x000022" {
		t.Errorf("described as %q", text)
	}
	if text := inState(t, StateInit).qp.String(); text != "QP 0x000011 (INIT)" {
		t.Errorf("described as %q", text)
	}
}

func TestModify_IPv4MappedAddressesStillMeanThePeer(t *testing.T) {
	s := newScript(t, nil)
	s.modify(0, &Attr{Mask: AttrState, State: StateSQD})
	s.modify(0, &Attr{Mask: AttrAV, AV: AV{Src: netip.MustParseAddr("::ffff:10.77.0.1"), Dst: netip.MustParseAddr("::ffff:10.77.0.2")}})
	s.recv(1, 0, 10)
	s.arrives(s.packet(bth.RCSendOnly, 0, nil))
	s.wantDone("1 SUCCESS")
}

func TestModify_LinkLocalZonesAreNotCompared(t *testing.T) {
	e := inState(t, StateInit)
	a := e.toRTR()
	a.AV = AV{Src: netip.MustParseAddr("fe80::1%eth0"), Dst: netip.MustParseAddr("fe80::2%eth0")}
	e.modify(0, a)
	p := bth.Packet{Flags: bth.RCSendOnly.Flags(), Src: netip.MustParseAddr("fe80::2"), Dst: netip.MustParseAddr("fe80::1")}
	p.Opcode, p.PSN = bth.RCSendOnly, e.opt.psn
	e.recv(1, 0, 10)
	e.handle(0, &p)
	e.wantDone("1 SUCCESS")
}

func TestPitfall40_MaxDestRdAtomicChangesUnderTrafficAtOnce(t *testing.T) {
	for _, to := range []uint8{0, 1, 2, 8} {
		s := newScript(t, nil) // depth 4
		read := func(psn int) bth.Packet { return s.rdma(bth.RCReadRequest, psn, 0, 8, nil) }
		s.arrives(read(0), read(1), s.atomic(bth.RCFetchAdd, 2, 64, 5, 0))
		s.pollPacket(s.now())
		s.sent = nil
		s.modify(0, &Attr{Mask: AttrState, State: StateSQD})
		s.modify(0, &Attr{Mask: AttrMaxDestRdAtomic, MaxDestRdAtomic: to})
		// What is owed is sent; what fits is remembered.
		s.wantSent("READ_RESPONSE_ONLY 1", "ATOMIC_ACKNOWLEDGE 2")
		s.arrives(s.atomic(bth.RCFetchAdd, 2, 64, 5, 0))
		if to == 0 {
			s.wantSent()
			s.wantDrops(map[bth.Drop]int{bth.DropForgotten: 1})
		} else {
			s.wantSent("ATOMIC_ACKNOWLEDGE 2")
		}
		for i := range int(to) {
			s.arrives(read(3 + i))
		}
		s.wantState(StateSQD)
		s.arrives(read(3 + int(to)))
		s.wantState(StateErr)
		if got := s.mem[64]; got != 5 {
			t.Errorf("depth %d: the atomic ran %d times", to, got/5)
		}
	}
}

func TestPitfall40_ShrinkingWhileMuchIsOwedKeepsTheRoomForIt(t *testing.T) {
	s := newScript(t, func(o *options) { o.rdAtomic = 128; o.depth = 512 })
	for i := range 256 {
		if i%2 == 0 {
			s.arrives(s.rdma(bth.RCReadRequest, i, 0, 8, nil))
		} else {
			s.recv(uint64(i), 0, 8)
			s.arrives(s.packet(bth.RCSendOnly, i, nil))
		}
	}
	s.modify(0, &Attr{Mask: AttrState, State: StateSQD})
	s.modify(0, &Attr{Mask: AttrMaxDestRdAtomic, MaxDestRdAtomic: 1})
	room := cap(s.qp.resp.answers.list)
	s.arrives(s.packet(bth.RCSendOnly, 300, nil))
	s.transmit()
	if len(s.sent) != 257 || cap(s.qp.resp.answers.list) != room {
		t.Errorf("%d answers, want 256 and a NAK; room %d, now %d", len(s.sent), room, cap(s.qp.resp.answers.list))
	}
}

func TestModify_MaxRdAtomicOfZeroUnderQueuedReads(t *testing.T) {
	s := newScript(t, nil)
	s.modify(0, &Attr{Mask: AttrState, State: StateSQD})
	zero := &Attr{Mask: AttrMaxRdAtomic}
	s.send(s.sendWR(1, 1))
	s.modify(0, zero)
	s.modify(0, &Attr{Mask: AttrMaxRdAtomic, MaxRdAtomic: 1})
	s.send(s.read(2, 0, 8, s.far, 0))
	if err := s.qp.Modify(0, zero); err == nil || err.Error() != "QP 0x000011 cannot go from SQD to SQD: MAX_QP_RD_ATOMIC is 0, but a READ or atomic is queued" {
		t.Errorf("%v", err)
	}
}

func TestModify_MinRNRTimerAppliesToTheNextNAK(t *testing.T) {
	s := newScript(t, nil)
	s.arrives(s.packet(bth.RCSendOnly, 0, nil))
	s.wantSent("RNR_12 0")
	s.modify(0, &Attr{Mask: AttrMinRNRTimer, MinRNRTimer: 30})
	s.arrives(s.packet(bth.RCSendOnly, 0, nil))
	s.wantSent("RNR_30 0")
}

func TestModify_AccessAppliesToTheNextRequest(t *testing.T) {
	s := newScript(t, nil)
	s.arrives(s.rdma(bth.RCWriteOnly, 0, 0, 0, nil))
	s.wantSent("ACK 0")
	s.modify(0, &Attr{Mask: AttrAccess, Access: memreg.RemoteRead})
	s.arrives(s.rdma(bth.RCWriteOnly, 1, 0, 0, nil))
	s.wantSent("NAK_61 1")
}

func TestModify_CommEstWhenTheFirstPacketFindsRTR(t *testing.T) {
	e := inState(t, StateRTR)
	e.recv(1, 0, 10)
	p := bth.Packet{Flags: bth.RCSendOnly.Flags(), Src: addrs["b"], Dst: addrs["a"]}
	p.Opcode, p.PSN = bth.RCSendOnly, e.opt.psn
	e.handle(0, &p)
	e.wantEvents(EventCommEst)
	e.handle(0, &p)
	e.wantEvents()
	e.wantDone("1 SUCCESS")
	e.modify(0, e.toRTS())
	e.handle(0, &p)
	e.wantEvents()
}

func TestPitfall08_PacketsOfOthersAreDroppedSilentlyUnderTheirNames(t *testing.T) {
	s := newScript(t, nil)
	s.recv(1, 0, 10)
	s.send(s.sendWR(2, 10))
	s.transmit()
	s.sent = nil
	good := s.packet(bth.RCSendOnly, 0, data(10, 1))
	for _, tc := range []struct {
		want   bth.Drop
		change func(*bth.Packet)
	}{
		{bth.DropSource, func(p *bth.Packet) { p.Src = netip.MustParseAddr("10.77.0.3") }},
		{bth.DropSource, func(p *bth.Packet) { p.Src = netip.MustParseAddr("::ffff:10.77.0.2") }}, // in an IPv6 header
		{bth.DropNotOurs, func(p *bth.Packet) { p.Dst = netip.MustParseAddr("10.77.0.9") }},
		{bth.DropQPType, func(p *bth.Packet) { p.Opcode, p.Flags = bth.UCSendOnly, bth.UCSendOnly.Flags() }},
		{bth.DropQPType, func(p *bth.Packet) { p.Opcode, p.Flags = bth.UDSendOnly, bth.UDSendOnly.Flags() }},
	} {
		for _, response := range []bool{false, true} {
			p := good
			if response {
				p = s.ack(0)
			}
			tc.change(&p)
			before := *s.qp.Counters()
			s.arrives(p)
			s.wantDrops(map[bth.Drop]int{tc.want: 1})
			if *s.qp.Counters() != before {
				t.Errorf("%v changed the counters of the queue pair", tc.want)
			}
		}
	}
	s.wantSent()
	s.wantDone()
	s.wantEvents()
	s.wantState(StateRTS)
	s.arrives(good, s.ack(0)) // all is as it was
	s.wantDone("1 SUCCESS", "2 SUCCESS")
}

func TestPitfall08_StatesThatTakeNoPackets(t *testing.T) {
	for state := StateReset; state <= StateErr; state++ {
		if state == StateSQE {
			continue
		}
		e := inState(t, state)
		for _, op := range []bth.Opcode{bth.RCSendOnly, bth.RCReadRequest, bth.RCAcknowledge} {
			p := bth.Packet{Flags: op.Flags(), Src: addrs["b"], Dst: addrs["a"]}
			p.Opcode, p.PSN = op, e.opt.psn
			got := e.qp.HandlePacket(0, &p)
			dead := state == StateReset || state == StateInit || state == StateErr || state == StateRTR && op == bth.RCAcknowledge
			if dead != (got == bth.DropQPState) {
				t.Errorf("%v in %v: drop %d", op, state, got)
			}
		}
	}
}

func TestModify_CongestionNotificationsAreCounted(t *testing.T) {
	s := newScript(t, nil)
	cnp := s.packet(bth.CongestionNotification, 0, nil)
	s.arrives(cnp)
	marked := s.packet(bth.RCSendOnly, 0, nil)
	marked.ECN = bth.CongestionExperienced
	s.recv(1, 0, 1)
	s.arrives(marked)
	if c := s.qp.Counters(); c.CNPsReceived != 1 || c.ECNMarked != 1 || c.RxPackets != 1 {
		t.Errorf("counters %+v", c)
	}
	s.wantDrops(map[bth.Drop]int{})
}

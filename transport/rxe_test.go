package transport

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-roce/roce/bth"
)

// rxeManners makes the responder of an end behave on the wire as rdma_rxe's does:
// legal, but not the way ours behaves.
type rxeManners struct {
	nakSent bool // for this gap; an RNR NAK does not count
	// resumed holds the PSNs at which a READ was asked for again from its midst.
	resumed map[bth.PSN]bool
	firsts  map[bth.PSN]bool // of READs
	crafted []bth.Packet
	// ahead lets crafted acknowledgements leave before what is owed.
	ahead bool
}

func (e *end) likeRxe(ahead bool) {
	e.manners = &rxeManners{resumed: map[bth.PSN]bool{}, firsts: map[bth.PSN]bool{}, ahead: ahead}
}

// request takes a request as rdma_rxe does, and reports whether the queue pair gets to see it.
func (m *rxeManners) request(e *end, p *bth.Packet) bool {
	epsn := e.qp.resp.epsn
	switch ahead := p.PSN.Diff(epsn); {
	case ahead > 0:
		// Once for each gap, also for what was on its way behind an RNR NAK.
		if !m.nakSent {
			m.craft(e, bth.NAKSequence, epsn)
		}
		m.nakSent = true
		return false
	case ahead < 0 && p.Flags.Any(bth.Send|bth.Write):
		m.craft(e, bth.AckNoCredits, epsn.Prev()) // whether asked to or not
		return false
	case ahead < 0 && p.Flags.Any(bth.Read) && !m.firsts[p.PSN]:
		m.resumed[p.PSN] = true
	case ahead == 0:
		m.nakSent = false
		if p.Flags.Any(bth.Read) {
			m.firsts[p.PSN] = true
		}
	}
	return true
}

func (m *rxeManners) craft(e *end, s bth.Syndrome, psn bth.PSN) {
	p := bth.Packet{Flags: bth.RCAcknowledge.Flags(), Src: e.addr, Dst: addrs[other(e.name)]}
	p.Opcode, p.PSN, p.AETH.Syndrome = bth.RCAcknowledge, psn, s
	m.crafted = append(m.crafted, p)
}

// next takes the oldest crafted packet.
func (m *rxeManners) next(e *end) bth.Packet {
	p := m.crafted[0]
	m.crafted = m.crafted[1:]
	e.sent = append(e.sent, p)
	return p
}

// response changes a response of ours to one of rdma_rxe's.
func (m *rxeManners) response(p *bth.Packet) {
	p.AETH.MSN = 0 // 5.10 does not count all messages
	if m.resumed[p.PSN] {
		switch p.Opcode {
		case bth.RCReadResponseFirst:
			p.Opcode = bth.RCReadResponseMiddle
		case bth.RCReadResponseOnly:
			p.Opcode = bth.RCReadResponseLast
		}
		p.Flags = p.Opcode.Flags()
	}
}

func TestRxe_EveryLossAgainstItsResponder(t *testing.T) {
	for _, x := range exchanges() {
		for _, ahead := range []bool{false, true} {
			build := func() *pair {
				p := smallPair(t)
				p.b.likeRxe(ahead)
				return p
			}
			clean := build()
			x.run(t, clean)
			packets := len(clean.a.sent) + len(clean.b.sent)
			for name, f := range map[string]fate{"lost": lost, "twice": twice, "late": late} {
				for k := range packets {
					p := build()
					p.latency = 10e3
					p.tamper = nth(f, k)
					if x.run(t, p); t.Failed() {
						t.Fatalf("%v, packet %d %s", x, k, name)
					}
				}
			}
		}
	}
}

func TestRxe_EveryTwoLossesAgainstItsResponder(t *testing.T) {
	clean := smallPair(t)
	program(t, clean)
	packets := len(clean.a.sent) + len(clean.b.sent)
	for k := range packets {
		for l := k + 1; l < packets+10; l += 3 {
			p := smallPair(t)
			p.a.likeRxe(k%2 == 0)
			p.b.likeRxe(l%2 == 0)
			p.tamper = nth(lost, k, l)
			program(t, p)
		}
	}
}

func TestRxe_RandomProgramsAgainstItsResponder(t *testing.T) {
	forSeeds(t, func(t *testing.T, seed uint64) {
		m := newModel(t, seed^0x4E4E)
		m.a.likeRxe(seed%2 == 0)
		m.b.likeRxe(seed%3 == 0)
		m.run()
		m.verify()
	})
}

// rdma_rxe answers a READ that is asked for again from its midst with Middle and Last.
func TestRxe_ResumedReadAnsweredWithMiddleAndLast(t *testing.T) {
	for resumed := 1; resumed < 4; resumed++ {
		s := newScript(t, nil)
		s.send(s.read(1, 0, 4000, s.far, 0))
		s.wantSent("READ_REQUEST 0!")
		answer := func(from int, first bth.Opcode) {
			for i := from; i < 4; i++ {
				op := bth.RCReadResponseMiddle
				switch {
				case i == 3:
					op = bth.RCReadResponseLast
				case i == from:
					op = first
				}
				if from == 0 && i == resumed {
					return // lost
				}
				s.arrives(s.packet(op, i, data(min(1024, 4000-1024*i), byte(i))))
			}
		}
		answer(0, bth.RCReadResponseFirst)
		s.wait(AckTimeout(14))
		s.wantSent(fmt.Sprintf("READ_REQUEST %d!", resumed))
		answer(resumed, bth.RCReadResponseMiddle)
		s.wantDone("1 SUCCESS")
		s.wantIdle()
	}
}

// After an RNR NAK rdma_rxe adds a sequence NAK with the same PSN, for what was on its
// way; and it answers the duplicates of a resend from further back.
func TestRxe_SequenceNAKBehindAnRNRNAK(t *testing.T) {
	s := newScript(t, func(o *options) { o.retry = 1 })
	s.send(s.write(1, 10, s.far, 0))
	s.send(s.sendWR(2, 10))
	s.send(s.sendWR(3, 10))
	s.transmit()
	s.sent = nil
	for range 5 {
		s.arrives(s.rnr(12, 1), s.nak(bth.NAKSequence, 1))
		s.wantSent()
		s.wait(640 * time.Microsecond)
		s.wantSent("SEND_ONLY 1!", "SEND_ONLY 2!")
	}
	s.arrives(s.ack(1), s.ack(1), s.ack(2))
	s.wantDone("1 SUCCESS", "2 SUCCESS", "3 SUCCESS")
	s.wantIdle()
}

// Each duplicate of a SEND is acknowledged up to the newest packet, also ahead of a
// READ whose response was lost. That is an implied NAK once, not with each.
func TestRxe_AcknowledgementsOfDuplicatesAheadOfALostReadResponse(t *testing.T) {
	s := newScript(t, func(o *options) { o.retry = 1 })
	s.send(s.sendWR(1, 3000))
	s.send(s.read(2, 0, 2000, s.far, 0))
	s.send(s.sendWR(3, 10))
	s.transmit()
	s.sent = nil
	s.wait(AckTimeout(14)) // all acknowledgements were lost
	s.wantSent("SEND_FIRST 0", "SEND_MIDDLE 1", "SEND_LAST 2!", "READ_REQUEST 3!", "SEND_ONLY 5!")
	s.arrives(s.ack(5), s.ack(5), s.ack(5))
	s.wantDone("1 SUCCESS")
	s.wantSent("READ_REQUEST 3!", "SEND_ONLY 5!")
	s.arrives(s.packet(bth.RCReadResponseFirst, 3, data(1024, 0)), s.packet(bth.RCReadResponseLast, 4, data(976, 0)), s.ack(5))
	s.wantDone("2 SUCCESS", "3 SUCCESS")
	s.arrives(s.packet(bth.RCReadResponseFirst, 3, data(1024, 0)), s.packet(bth.RCReadResponseLast, 4, data(976, 0)), s.ack(5), s.ack(5))
	s.wantIdle()
}

// The gap is NAKed once. When that is lost, or what it asked for, only the timer helps.
func TestRxe_LostResendAfterItsOnlyNAK(t *testing.T) {
	s := newScript(t, nil)
	s.send(s.sendWR(1, 10))
	s.send(s.sendWR(2, 10))
	s.transmit()
	s.sent = nil
	s.arrives(s.nak(bth.NAKSequence, 0))
	s.wantSent("SEND_ONLY 0!", "SEND_ONLY 1!") // the first is lost again, the second met with silence
	s.wait(AckTimeout(14))
	s.wantSent("SEND_ONLY 0!", "SEND_ONLY 1!")
	s.arrives(s.ack(0), s.ack(1))
	s.wantDone("1 SUCCESS", "2 SUCCESS")
	s.wantIdle()
}

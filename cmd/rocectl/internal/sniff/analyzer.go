package sniff

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/go-roce/roce/bth"
)

// maxFlows bounds the memory that a capture can cost; what comes after that many flows is counted, not followed.
const maxFlows = 1 << 16

// Analyzer takes frames one after the other. The zero value is not usable; see [NewAnalyzer].
type Analyzer struct {
	icrc  bth.ICRC
	env   bth.Envelope
	pkt   bth.Packet
	flows map[flowKey]*follower
	mtus  pathMTU
	start time.Time
	sum   Summary
}

// NewAnalyzer returns an analyzer that has seen nothing.
func NewAnalyzer() *Analyzer {
	return &Analyzer{
		flows: make(map[flowKey]*follower),
		mtus:  make(pathMTU),
		sum:   Summary{Opcodes: make(map[string]uint64), Flows: []*Flow{}},
	}
}

// Summary is what an analyzer counted, in the form that dump --json prints.
type Summary struct {
	// Packets are RoCEv2 packets, those with a wrong ICRC included.
	Packets  uint64            `json:"packets"`
	ICRCGood uint64            `json:"icrc_good"`
	ICRCBad  uint64            `json:"icrc_bad"`
	Opcodes  map[string]uint64 `json:"opcodes"`
	// Flows are in the order of their first packet.
	Flows []*Flow `json:"flows"`

	// Other counts frames that are not RoCEv2, Odd those to its port that are none by their headers, by reason.
	Other uint64              `json:"-"`
	Odd   map[bth.Drop]uint64 `json:"-"`
	// Unfollowed counts packets of more flows than can be followed.
	Unfollowed uint64 `json:"-"`
}

// Summary returns what has been counted so far; it changes with the next frame.
func (a *Analyzer) Summary() *Summary { return &a.sum }

// Observation is one RoCEv2 packet as it was seen. It is good until the next frame.
type Observation struct {
	Number   uint64 // counted from 1
	Since    time.Duration
	Src, Dst netip.Addr
	VLAN     uint16 // tag control information
	// Packet has headers and payload. If Drop is none they are sound, otherwise only the BTH is.
	Packet *bth.Packet
	Drop   bth.Drop
	Marks  Mark
}

// Frame takes the next frame, from its Ethernet header on, and returns the packet in it; nil if it is not RoCEv2.
func (a *Analyzer) Frame(at time.Time, frame []byte) *Observation {
	switch d := a.env.Decode(frame); {
	case d == bth.DropNotRoCE:
		a.sum.Other++
		return nil
	case d != bth.DropNone:
		a.odd(d)
		return nil
	case len(a.env.IB) < bth.Len+bth.ICRCLen:
		a.odd(bth.DropHeaderLength)
		return nil
	}
	if a.start.IsZero() {
		a.start = at
	}
	a.sum.Packets++
	o := &Observation{Number: a.sum.Packets, Since: at.Sub(a.start), Src: a.env.Src, Dst: a.env.Dst, VLAN: a.env.VLAN, Packet: &a.pkt}
	o.Drop = a.pkt.Decode(&a.env, a.env.IB)
	a.sum.Opcodes[a.pkt.Opcode.String()]++
	if a.pkt.ECN == bth.CongestionExperienced {
		o.Marks |= CongestionMarked
	}
	if !a.icrc.Verify(&a.env, a.env.IB, 0) {
		a.sum.ICRCBad++
		o.Marks |= BadICRC
		return o // nothing in it can be believed
	}
	a.sum.ICRCGood++
	if f := a.follow(o); f != nil && o.Drop == bth.DropNone {
		o.Marks |= f.observe(&a.pkt, a.mtus)
	} else if f != nil {
		f.Packets++
	}
	return o
}

func (a *Analyzer) odd(d bth.Drop) {
	if a.sum.Odd == nil {
		a.sum.Odd = make(map[bth.Drop]uint64)
	}
	a.sum.Odd[d]++
}

// follow returns the packet's flow.
func (a *Analyzer) follow(o *Observation) *follower {
	key := flowKey{o.Src, o.Dst, o.Packet.DestQP}
	f := a.flows[key]
	if f != nil {
		return f
	}
	if len(a.flows) == maxFlows {
		a.sum.Unfollowed++
		return nil
	}
	f = &follower{Flow: Flow{Src: o.Src, Dst: o.Dst, DestQP: o.Packet.DestQP}}
	a.flows[key] = f
	a.sum.Flows = append(a.sum.Flows, &f.Flow)
	return f
}

// String describes the packet in one line.
func (o *Observation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%6d %11.6f %v > %v", o.Number, o.Since.Seconds(), o.Src, o.Dst)
	if o.VLAN != 0 {
		fmt.Fprintf(&b, " vlan %d", o.VLAN&0xFFF)
	}
	if o.Drop == bth.DropNone {
		fmt.Fprintf(&b, " %v", &o.Packet.Headers)
		if n := len(o.Packet.Payload); n > 0 {
			fmt.Fprintf(&b, " payload %d", n)
		}
	} else {
		fmt.Fprintf(&b, " %v QP 0x%06x PSN 0x%06x", o.Packet.Opcode, uint32(o.Packet.DestQP), uint32(o.Packet.PSN))
	}
	if !o.Marks.Has(BadICRC) {
		b.WriteString(" icrc ok")
	}
	if o.Marks != 0 {
		fmt.Fprintf(&b, " [%v]", o.Marks)
	}
	if o.Drop != bth.DropNone {
		fmt.Fprintf(&b, " (%s)", Reason(o.Drop))
	}
	return b.String()
}

// Reason says why a frame is no sound packet.
func Reason(d bth.Drop) string { return strings.TrimPrefix(d.Error(), "bth: ") }

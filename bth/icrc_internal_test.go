package bth

import (
	"net/netip"
	"testing"
)

// TestICRC_RemembersHowTheSenderCounts: the identification that was right last is tried
// first, so that a sender who does not count costs no second CRC a packet.
func TestICRC_RemembersHowTheSenderCounts(t *testing.T) {
	var builder, c ICRC
	peer := netip.AddrFrom4([4]byte{10, 7, 0, 1})
	encap, err := NewEncap(Path{Src: peer, Dst: peer, SrcPort: 0xC000})
	if err != nil {
		t.Fatal(err)
	}
	h := Headers{Header: Header{Opcode: RCSendOnly}}
	ib := append(h.AppendTo(nil), 0, 0, 0, 0)
	frame := make([]byte, encap.Len())
	encap.Put(frame, 2*len(ib), 7)
	var e Envelope
	if d := e.Decode(append(append(frame, ib...), ib...)); d != DropNone {
		t.Fatal(d)
	}
	for _, constant := range []bool{true, true, false, false, true} {
		id := uint16(7 + 1)
		if constant {
			id = 7
		}
		PutICRC(ib[Len:], builder.StartPacket(&encap, len(ib), id, ib[:Len]))
		if !c.Verify(&e, ib, 1) || c.constantID != constant {
			t.Errorf("after a packet with constant identification %v, %v is tried first", constant, c.constantID)
		}
	}
}

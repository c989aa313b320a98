package bth_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/go-roce/roce/bth"
)

// decodeIB decodes an IB packet without frame around it.
func decodeIB(p *bth.Packet, ib []byte) bth.Drop {
	return p.Decode(&bth.Envelope{}, ib)
}

// TestPacket_RoundTrip builds a packet of every opcode over every kind of path and
// takes it apart again.
func TestPacket_RoundTrip(t *testing.T) {
	var (
		p bth.Packet
		c bth.ICRC
	)
	for kind, path := range testPaths {
		encap := newEncap(t, path)
		spoken(func(o bth.Opcode, info *bth.Info) {
			h := sampleHeaders(o)
			var payload []byte
			if info.Flags.Has(bth.HasPayload) {
				payload, h.Pad = payloadOf(5)
			}
			p = bth.Packet{}
			frame := buildFrame(&c, encap, &h, payload, 0x1234)
			if d := p.DecodeFrame(&c, frame); d != bth.DropNone {
				t.Errorf("%v over %s: %v", o, kind, d)
				return
			}
			if got, want := p.Headers, onlyWhat(info.Flags, h); got != want {
				t.Errorf("%v over %s: decoded as\n%+v, want\n%+v", o, kind, got, want)
			}
			if !bytes.Equal(p.Payload, payload) {
				t.Errorf("%v over %s: payload is %x, want %x", o, kind, p.Payload, payload)
			}
			if p.Flags != info.Flags || p.Src != path.Src || p.Dst != path.Dst || p.ECN != path.TrafficClass&3 {
				t.Errorf("%v over %s: flags 0x%x, %v to %v, ECN %d", o, kind, uint32(p.Flags), p.Src, p.Dst, p.ECN)
			}
			if want := frame[encap.L3() : encap.Len()-8]; !bytes.Equal(p.IP, want) {
				t.Errorf("%v over %s: IP header is %x, want %x", o, kind, p.IP, want)
			}
		})
	}
}

// onlyWhat returns h with the extension headers that f does not name zero.
func onlyWhat(f bth.Flags, h bth.Headers) bth.Headers {
	out := bth.Headers{Header: h.Header}
	if f.Has(bth.HasDETH) {
		out.DETH = h.DETH
	}
	if f.Has(bth.HasFETH) {
		out.FETH = h.FETH
	}
	if f.Has(bth.HasRETH) {
		out.RETH = h.RETH
	}
	if f.Has(bth.HasAtomicETH) {
		out.AtomicETH = h.AtomicETH
	}
	if f.Has(bth.HasAETH) {
		out.AETH = h.AETH
	}
	if f.Has(bth.HasAtomicAckETH) {
		out.AtomicAck = h.AtomicAck
	}
	if f.Has(bth.HasImmDt) {
		out.Imm = h.Imm
	}
	if f.Has(bth.HasIETH) {
		out.Inv = h.Inv
	}
	return out
}

// drawHeaders draws headers of any spoken opcode whose every field fits the wire.
func drawHeaders(t *rapid.T) bth.Headers {
	var opcodes []bth.Opcode
	spoken(func(o bth.Opcode, _ *bth.Info) { opcodes = append(opcodes, o) })
	u24 := rapid.Uint32Range(0, 0xFFFFFF)
	return bth.Headers{
		Header: bth.Header{
			Opcode: rapid.SampledFrom(opcodes).Draw(t, "opcode"), SE: rapid.Bool().Draw(t, "se"), MigReq: rapid.Bool().Draw(t, "migreq"),
			PKey: rapid.Uint16().Draw(t, "pkey"), FECN: rapid.Bool().Draw(t, "fecn"), BECN: rapid.Bool().Draw(t, "becn"),
			DestQP: bth.QPN(u24.Draw(t, "destqp")), AckReq: rapid.Bool().Draw(t, "ackreq"), PSN: bth.PSN(u24.Draw(t, "psn")),
		},
		RETH: bth.RETH{VA: rapid.Uint64().Draw(t, "va"), RKey: rapid.Uint32().Draw(t, "rkey"), Length: rapid.Uint32().Draw(t, "length")},
		AETH: bth.AETH{Syndrome: bth.Syndrome(rapid.Uint8().Draw(t, "syndrome")), MSN: u24.Draw(t, "msn")},
		AtomicETH: bth.AtomicETH{
			VA: rapid.Uint64().Draw(t, "atomic va"), RKey: rapid.Uint32().Draw(t, "atomic rkey"),
			SwapAdd: rapid.Uint64().Draw(t, "swap"), Compare: rapid.Uint64().Draw(t, "compare"),
		},
		AtomicAck: rapid.Uint64().Draw(t, "original"),
		DETH:      bth.DETH{QKey: rapid.Uint32().Draw(t, "qkey"), SrcQP: bth.QPN(u24.Draw(t, "srcqp"))},
		FETH:      bth.FETH{Placement: rapid.Uint8Range(0, 15).Draw(t, "placement"), Selectivity: rapid.Uint8Range(0, 3).Draw(t, "selectivity")},
		Imm:       rapid.Uint32().Draw(t, "imm"),
		Inv:       rapid.Uint32().Draw(t, "inv"),
	}
}

// drawPath draws a path over IPv4 or IPv6, with and without VLAN.
func drawPath(t *rapid.T) bth.Path {
	n := 4
	if rapid.Bool().Draw(t, "IPv6") {
		n = 16
	}
	addr := func(label string) netip.Addr {
		b := rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, label)
		if n == 16 {
			b[0] |= 0x20 // no IPv4-mapped address
		}
		a, _ := netip.AddrFromSlice(b)
		return a
	}
	mac := func(label string) [6]byte { return [6]byte(rapid.SliceOfN(rapid.Byte(), 6, 6).Draw(t, label)) }
	return bth.Path{
		SrcMAC: mac("srcmac"), DstMAC: mac("dstmac"), VLAN: rapid.Uint16().Draw(t, "vlan"), Src: addr("src"), Dst: addr("dst"),
		SrcPort: rapid.Uint16Range(1, 0xFFFF).Draw(t, "port"), TrafficClass: rapid.Uint8().Draw(t, "tclass"),
		HopLimit: rapid.Uint8Range(1, 255).Draw(t, "hops"), FlowLabel: rapid.Uint32Range(0, 1<<20-1).Draw(t, "label"),
	}
}

// TestPacket_RoundTripLaws is TestPacket_RoundTrip with values nobody thought of.
func TestPacket_RoundTripLaws(t *testing.T) {
	var c bth.ICRC
	rapid.Check(t, func(t *rapid.T) {
		h, path := drawHeaders(t), drawPath(t)
		flags := h.Opcode.Flags()
		var payload []byte
		if flags.Has(bth.HasPayload) {
			payload, h.Pad = payloadOf(rapid.IntRange(0, bth.MaxPathMTU).Draw(t, "payload"))
		}
		encap, err := bth.NewEncap(path)
		if err != nil {
			t.Fatal(err)
		}
		frame := buildFrame(&c, &encap, &h, payload, rapid.Uint16().Draw(t, "id"))
		var (
			e bth.Envelope
			p bth.Packet
		)
		if d := e.Decode(frame); d != bth.DropNone {
			t.Fatal(d)
		}
		if d := p.Decode(&e, e.IB); d != bth.DropNone {
			t.Fatal(d)
		}
		if !c.Verify(&e, e.IB, 0) {
			t.Fatal("the ICRC is wrong")
		}
		if got, want := p.Headers, onlyWhat(flags, h); got != want || !bytes.Equal(p.Payload, payload) {
			t.Fatalf("decoded as\n%+v, want\n%+v", got, want)
		}
		got := bth.Path{
			SrcMAC: e.SrcMAC, DstMAC: e.DstMAC, VLAN: e.VLAN, Src: e.Src, Dst: e.Dst,
			SrcPort: e.SrcPort, TrafficClass: e.TrafficClass, HopLimit: e.HopLimit, FlowLabel: path.FlowLabel,
		}
		if got != path {
			t.Fatalf("the envelope says\n%+v, want\n%+v", got, path)
		}
	})
}

// TestHeaders_AppendToMasks writes fields that hold more bits than the wire has:
// neighbours stay as they are.
func TestHeaders_AppendToMasks(t *testing.T) {
	for _, o := range []bth.Opcode{bth.UDSendOnly, bth.RCAcknowledge, bth.RCFlush} {
		h := sampleHeaders(o)
		want := h.AppendTo(nil)
		h.DestQP |= 0xFF << 24
		h.PSN |= 0xFF << 24
		h.Pad |= 0xFC
		h.TVer |= 0xF0
		h.DETH.SrcQP |= 0xFF << 24
		h.AETH.MSN |= 0xFF << 24
		h.FETH.Placement |= 0xF0
		h.FETH.Selectivity |= 0xFC
		if got := h.AppendTo(nil); !bytes.Equal(got, want) {
			t.Errorf("%v with surplus bits is encoded as %x, want %x", o, got, want)
		}
	}
}

// TestHeaders_AppendToUnspoken: of an opcode that has no layout the BTH is written, nothing else.
func TestHeaders_AppendToUnspoken(t *testing.T) {
	for _, o := range []bth.Opcode{0x1E, 0x40, 0xA6, 0xC0} {
		h := sampleHeaders(o)
		if got := h.AppendTo([]byte("x")); len(got) != 1+bth.Len || got[0] != 'x' || got[1] != byte(o) {
			t.Errorf("%v is encoded as %x", o, got)
		}
	}
}

// TestHeaders_AppendToDirtyMemory: the reserved bytes of a CNP are written, not left as
// the buffer has them.
func TestHeaders_AppendToDirtyMemory(t *testing.T) {
	spoken(func(o bth.Opcode, _ *bth.Info) {
		h := sampleHeaders(o)
		dirty := bytes.Repeat([]byte{0xEE}, bth.MaxHeaderLen)
		if got, want := h.AppendTo(dirty[:0]), h.AppendTo(nil); !bytes.Equal(got, want) {
			t.Errorf("%v is encoded into used memory as %x, want %x", o, got, want)
		}
	})
}

// TestPacket_Lengths holds every opcode to the lengths its IB packet may have.
func TestPacket_Lengths(t *testing.T) {
	var p bth.Packet
	spoken(func(o bth.Opcode, info *bth.Info) {
		for n := range 64 {
			for pad := range uint8(4) {
				ib := make([]byte, n)
				if n > 1 {
					ib[0], ib[1] = byte(o), pad<<4
				}
				area := n - info.HeaderLen - bth.ICRCLen
				want := bth.DropNone
				switch {
				case area < 0:
					want = bth.DropHeaderLength
				case area%4 != 0 || int(pad) > area || area > 0 && !info.Flags.Has(bth.HasPayload):
					want = bth.DropPad
				}
				if got := decodeIB(&p, ib); got != want {
					t.Fatalf("%v of %d bytes with pad %d: %s, want %s", o, n, pad, got.String(), want.String())
				}
				if want == bth.DropNone && len(p.Payload) != area-int(pad) {
					t.Fatalf("%v of %d bytes with pad %d: payload of %d bytes", o, n, pad, len(p.Payload))
				}
			}
		}
	})
}

// TestPacket_Longest takes the largest packets there are, and nothing longer.
func TestPacket_Longest(t *testing.T) {
	var p bth.Packet
	spoken(func(o bth.Opcode, info *bth.Info) {
		if !info.Flags.Has(bth.HasPayload) {
			return
		}
		ib := make([]byte, info.HeaderLen+bth.MaxPathMTU+bth.ICRCLen)
		ib[0] = byte(o)
		if d := decodeIB(&p, ib); d != bth.DropNone || len(p.Payload) != bth.MaxPathMTU {
			t.Errorf("%v with %d bytes of payload: %s, %d bytes", o, bth.MaxPathMTU, d.String(), len(p.Payload))
		}
		ib = append(ib, make([]byte, bth.MaxPacketLen+4-len(ib))...)
		if d := decodeIB(&p, ib); d != bth.DropMerged {
			t.Errorf("%v of %d bytes: %s", o, len(ib), d.String())
		}
	})
}

// TestPacket_DroppedShowsItsBTH: a packet that is refused can still be described.
func TestPacket_DroppedShowsItsBTH(t *testing.T) {
	for o, want := range map[bth.Opcode]bth.Drop{0x1E: bth.DropOpcode, 0xA4: bth.DropUnsupported, 0x45: bth.DropUnsupported, bth.RCCompareSwap: bth.DropHeaderLength} {
		h := sampleHeaders(o)
		p := bth.Packet{Payload: []byte("of an earlier packet")}
		if d := decodeIB(&p, append(h.AppendTo(nil)[:bth.Len], 0, 0, 0, 0)); d != want {
			t.Errorf("%v: %s, want %s", o, d.String(), want.String())
		}
		if p.Header != h.Header || p.Payload != nil {
			t.Errorf("%v is shown as %+v with payload %q", o, p.Header, p.Payload)
		}
	}
}

func TestHeaders_String(t *testing.T) {
	const base = " QP 0xabcdef PSN 0x123456 ACKREQ"
	for o, want := range map[bth.Opcode]string{
		bth.RCSendMiddle:           "RC_SEND_MIDDLE" + base,
		bth.UDSendOnlyImm:          "UD_SEND_ONLY_WITH_IMMEDIATE" + base + " qkey 0xf0f1f2f3 from QP 0xf5f6f7 imm 0x91929394",
		bth.RCFlush:                "RC_FLUSH" + base + " placement 3 selectivity 1 va 0xa0a1a2a3a4a5a6a7 rkey 0xa8a9aaab length 2897063599",
		bth.RCCompareSwap:          "RC_COMPARE_SWAP" + base + " va 0xc0c1c2c3c4c5c6c7 rkey 0xc8c9cacb compare 0xd4d5d6d7d8d9dadb swap 0xcccdcecfd0d1d2d3",
		bth.RCFetchAdd:             "RC_FETCH_ADD" + base + " va 0xc0c1c2c3c4c5c6c7 rkey 0xc8c9cacb add 0xcccdcecfd0d1d2d3",
		bth.RCAtomicAcknowledge:    "RC_ATOMIC_ACKNOWLEDGE" + base + " ACK MSN 11645619 original 0xe0e1e2e3e4e5e6e7",
		bth.RCSendOnlyInvalidate:   "RC_SEND_ONLY_WITH_INVALIDATE" + base + " invalidate 0x81828384",
		bth.CongestionNotification: "CNP" + base,
		0x1E:                       "UNKNOWN_0x1E" + base,
	} {
		h := sampleHeaders(o)
		if got := fmt.Sprint(&h); got != want {
			t.Errorf("%v is described as\n%s, want\n%s", o, got, want)
		}
	}
	h := bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly, SE: true, FECN: true, BECN: true, PKey: 0x1234, DestQP: 1}}
	if got, want := h.String(), "RC_SEND_ONLY QP 0x000001 PSN 0x000000 SE FECN BECN pkey 0x1234"; got != want {
		t.Errorf("described as %q, want %q", got, want)
	}
}

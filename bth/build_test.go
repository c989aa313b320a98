package bth_test

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/go-roce/roce/bth"
)

// testPaths has a path of every kind of encapsulation.
var testPaths = map[string]bth.Path{
	"IPv4": {
		SrcMAC: [6]byte{0x52, 0x54, 0, 0, 0, 0x0a}, DstMAC: [6]byte{0x52, 0x54, 0, 0, 0, 0x0b},
		Src: netip.MustParseAddr("10.7.0.1"), Dst: netip.MustParseAddr("10.7.0.2"),
		SrcPort: 0xC144, TrafficClass: 0x6A, HopLimit: 17,
	},
	"IPv6": {
		SrcMAC: [6]byte{0x52, 0x54, 0, 0, 0, 0x0a}, DstMAC: [6]byte{0x52, 0x54, 0, 0, 0, 0x0b},
		Src: netip.MustParseAddr("fd00:7::1"), Dst: netip.MustParseAddr("fd00:7::2"),
		SrcPort: 0xC144, TrafficClass: 0x6A, HopLimit: 17, FlowLabel: 0x8BC0B,
	},
	"IPv4 VLAN": {
		VLAN: 0x6005, Src: netip.MustParseAddr("10.8.0.1"), Dst: netip.MustParseAddr("10.8.0.2"), SrcPort: 0xFFFF,
	},
	"IPv6 VLAN": {
		VLAN: 5, Src: netip.MustParseAddr("fe80::1"), Dst: netip.MustParseAddr("fe80::2"), SrcPort: 0xC000,
	},
}

// newEncap returns the headers of a path that must be good.
func newEncap(t testing.TB, p bth.Path) *bth.Encap {
	t.Helper()
	e, err := bth.NewEncap(p)
	if err != nil {
		t.Fatal(err)
	}
	return &e
}

// sampleHeaders returns headers of an opcode in which every field has a value of its own.
func sampleHeaders(o bth.Opcode) bth.Headers {
	return bth.Headers{
		Header:    bth.Header{Opcode: o, PKey: 0xFFFF, DestQP: 0xABCDEF, AckReq: true, PSN: 0x123456},
		RETH:      bth.RETH{VA: 0xA0A1A2A3A4A5A6A7, RKey: 0xA8A9AAAB, Length: 0xACADAEAF},
		AETH:      bth.AETH{Syndrome: 0x1F, MSN: 0xB1B2B3},
		AtomicETH: bth.AtomicETH{VA: 0xC0C1C2C3C4C5C6C7, RKey: 0xC8C9CACB, SwapAdd: 0xCCCDCECFD0D1D2D3, Compare: 0xD4D5D6D7D8D9DADB},
		AtomicAck: 0xE0E1E2E3E4E5E6E7,
		DETH:      bth.DETH{QKey: 0xF0F1F2F3, SrcQP: 0xF5F6F7},
		FETH:      bth.FETH{Placement: 3, Selectivity: 1},
		Imm:       0x91929394,
		Inv:       0x81828384,
	}
}

// spoken calls f for every opcode that is decoded: RC, UC, UD and CNP.
func spoken(f func(bth.Opcode, *bth.Info)) {
	for i := range 256 {
		if info, ok := bth.Opcode(i).Info(); ok && !info.Flags.Has(bth.Unsupported) {
			f(bth.Opcode(i), info)
		}
	}
}

// payloadOf returns n bytes of payload, none of them 0, and the pad they need.
func payloadOf(n int) (payload []byte, pad uint8) {
	payload = make([]byte, n)
	for i := range payload {
		payload[i] = byte(i%255 + 1)
	}
	return payload, uint8(-n & 3)
}

// buildFrame makes a whole frame, with zero pad bytes as h.Pad says.
func buildFrame(c *bth.ICRC, encap *bth.Encap, h *bth.Headers, payload []byte, id uint16) []byte {
	frame := h.AppendTo(make([]byte, encap.Len()))
	frame = append(frame, payload...)
	frame = append(frame, make([]byte, h.Pad)...)
	encap.Put(frame, len(frame)-encap.Len()+bth.ICRCLen, id)
	return appendICRC(frame, c.Start(frame[encap.L3():]))
}

func appendICRC(b []byte, crc uint32) []byte {
	b = append(b, 0, 0, 0, 0)
	bth.PutICRC(b[len(b)-bth.ICRCLen:], crc)
	return b
}

// referenceICRC computes the invariant CRC of a frame bit by bit, as IBA 7.8.1 has it. ib is the
// length of the IB packet; the frame may lack its ICRC.
func referenceICRC(frame []byte, l3, ibLen int) uint32 {
	b := []byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}
	ip := frame[l3:]
	ones := []int{1, 8, 10, 11, 26, 27, 32}
	n := 28
	if ip[0]>>4 == 6 {
		ones = []int{1, 2, 3, 7, 46, 47, 52}
		n = 48
	}
	b = append(b, ip[:n+ibLen-bth.ICRCLen]...)
	for _, i := range ones {
		b[8+i] = 0xFF
	}
	if n == 48 {
		b[8] |= 0x0F
	}
	crc := ^uint32(0)
	for _, v := range b {
		crc ^= uint32(v)
		for range 8 {
			if crc&1 != 0 {
				crc = crc>>1 ^ 0xEDB88320
			} else {
				crc >>= 1
			}
		}
	}
	return ^crc
}

// fixChecksum sets the IPv4 header checksum of the packet at l3, by the textbook.
func fixChecksum(frame []byte, l3 int) {
	ip := frame[l3 : l3+20]
	ip[10], ip[11] = 0, 0
	sum := 0
	for i := 0; i < 20; i += 2 {
		sum += int(binary.BigEndian.Uint16(ip[i:]))
	}
	for sum > 0xFFFF {
		sum = sum>>16 + sum&0xFFFF
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum))
}

package bth_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"testing"

	"github.com/go-roce/roce/bth"
)

// TestGolden_Tshark compares every RoCEv2 frame of every capture with the fields that
// tshark found in it (testdata/tshark, written by generate.sh there), and lets tshark
// say which frames are RoCEv2.
func TestGolden_Tshark(t *testing.T) {
	var (
		e bth.Envelope
		p bth.Packet
	)
	compared := 0
	for _, name := range captureNames(t) {
		rows := readTSV(t, "tshark", name+".tsv")
		fields, rows := rows[0], rows[1:]
		frames := captureFrames(t, name)
		if len(frames) != len(rows) {
			t.Fatalf("%s: %d frames, tshark has %d", name, len(frames), len(rows))
		}
		for i, frame := range frames {
			want := map[string]string{}
			for j, field := range fields {
				want[field] = rows[i][j]
			}
			if b, err := hex.DecodeString(want["infiniband.reserved"]); err == nil && len(b) == 1 {
				want["infiniband.reserved"] = fmt.Sprintf("%08b", b[0])
			}
			if want["frame.number"] != fmt.Sprint(i+1) {
				t.Fatalf("%s: row %d is of frame %s", name, i+1, want["frame.number"])
			}
			if drop := e.Decode(frame); (drop == bth.DropNone) != (want["infiniband.bth.opcode"] != "") {
				t.Errorf("%s frame %d: %v, but opcode %q in tshark", name, i+1, drop, want["infiniband.bth.opcode"])
				continue
			} else if drop != bth.DropNone {
				continue
			}
			got := envelopeFields(&e)
			drop := p.Decode(&e, e.IB)
			headerFields(got, &p, e.IB)
			if drop == bth.DropNone && tsharkKnows(p.Opcode) {
				extensionFields(got, &p)
				payloadFields(got, &p, e.IB)
			} else {
				// tshark looks behind the BTH of what is refused here, and not behind
				// the BTH of opcodes it does not know.
				for _, f := range []string{"infiniband.invariant.crc", "data.data"} {
					got[f] = want[f]
				}
			}
			got["frame.number"] = want["frame.number"]
			for _, field := range fields {
				if got[field] != want[field] {
					t.Errorf("%s frame %d, %v: %s is %q, tshark says %q", name, i+1, p.Opcode, field, got[field], want[field])
				}
				compared++
			}
		}
	}
	if want := 5439 * 42; compared != want {
		t.Errorf("compared %d fields, want %d", compared, want)
	}
}

// tsharkKnows reports whether tshark 4.0 knows the layout of an opcode: not of FLUSH,
// ATOMIC WRITE and CNP.
func tsharkKnows(o bth.Opcode) bool {
	return o != bth.RCFlush && o != bth.RCAtomicWrite && o != bth.CongestionNotification
}

// envelopeFields writes what Envelope holds as tshark writes it.
func envelopeFields(e *bth.Envelope) map[string]string {
	f := map[string]string{
		"eth.dst":       net.HardwareAddr(e.DstMAC[:]).String(),
		"eth.src":       net.HardwareAddr(e.SrcMAC[:]).String(),
		"udp.srcport":   fmt.Sprint(e.SrcPort),
		"udp.length":    fmt.Sprint(8 + len(e.IB)),
		"ip.src":        "",
		"vlan.id":       "",
		"vlan.dei":      "",
		"ipv6.src":      "",
		"ipv6.dst":      "",
		"ipv6.tclass":   "",
		"ipv6.hlim":     "",
		"ip.dst":        "",
		"ip.dsfield":    "",
		"ip.ttl":        "",
		"ip.id":         "",
		"vlan.priority": "",
	}
	if e.VLAN != 0 {
		f["vlan.priority"] = fmt.Sprint(e.VLAN >> 13)
		f["vlan.dei"] = fmt.Sprint(e.VLAN >> 12 & 1)
		f["vlan.id"] = fmt.Sprint(e.VLAN & 0xFFF)
	}
	if e.Src.Is4() {
		f["ip.src"], f["ip.dst"] = e.Src.String(), e.Dst.String()
		f["ip.dsfield"] = fmt.Sprintf("0x%02x", e.TrafficClass)
		f["ip.ttl"] = fmt.Sprint(e.HopLimit)
		f["ip.id"] = fmt.Sprintf("0x%04x", binary.BigEndian.Uint16(e.Head[4:]))
	} else {
		f["ipv6.src"], f["ipv6.dst"] = e.Src.String(), e.Dst.String()
		f["ipv6.tclass"] = fmt.Sprintf("0x%08x", e.TrafficClass)
		f["ipv6.hlim"] = fmt.Sprint(e.HopLimit)
	}
	return f
}

// headerFields adds the BTH. Its reserved bits, which Header does not keep, are read from
// the packet.
func headerFields(f map[string]string, p *bth.Packet, ib []byte) {
	f["infiniband.bth.opcode"] = fmt.Sprint(uint8(p.Opcode))
	f["infiniband.bth.se"] = oneIf(p.SE)
	f["infiniband.bth.m"] = oneIf(p.MigReq)
	f["infiniband.bth.padcnt"] = fmt.Sprint(p.Pad)
	f["infiniband.bth.tver"] = fmt.Sprint(p.TVer)
	f["infiniband.bth.p_key"] = fmt.Sprint(p.PKey)
	f["infiniband.reserved"] = oneIf(p.FECN) + oneIf(p.BECN) + fmt.Sprintf("%06b", ib[4]&0x3F)
	f["infiniband.bth.destqp"] = fmt.Sprintf("0x%06x", uint32(p.DestQP))
	f["infiniband.bth.a"] = oneIf(p.AckReq)
	f["infiniband.bth.reserved7"] = fmt.Sprint(ib[8] & 0x7F)
	f["infiniband.bth.psn"] = fmt.Sprint(uint32(p.PSN))
}

func oneIf(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

// extensionFields adds the extension headers that the opcode has.
func extensionFields(f map[string]string, p *bth.Packet) {
	if p.Flags.Has(bth.HasDETH) {
		f["infiniband.deth.q_key"] = fmt.Sprintf("0x%016x", p.DETH.QKey)
		f["infiniband.deth.srcqp"] = fmt.Sprintf("0x%08x", uint32(p.DETH.SrcQP))
	}
	if p.Flags.Has(bth.HasRETH) {
		f["infiniband.reth.va"] = fmt.Sprintf("0x%016x", p.RETH.VA)
		f["infiniband.reth.r_key"] = fmt.Sprintf("0x%08x", p.RETH.RKey)
		f["infiniband.reth.dmalen"] = fmt.Sprint(p.RETH.Length)
	}
	if p.Flags.Has(bth.HasAtomicETH) {
		f["infiniband.reth.va"] = fmt.Sprintf("0x%016x", p.AtomicETH.VA)
		f["infiniband.reth.r_key"] = fmt.Sprintf("0x%08x", p.AtomicETH.RKey)
		f["infiniband.atomiceth.swapdt"] = fmt.Sprint(p.AtomicETH.SwapAdd)
		f["infiniband.atomiceth.cmpdt"] = fmt.Sprint(p.AtomicETH.Compare)
	}
	if p.Flags.Has(bth.HasAETH) {
		f["infiniband.aeth.syndrome"] = fmt.Sprint(uint8(p.AETH.Syndrome))
		f["infiniband.aeth.msn"] = fmt.Sprint(p.AETH.MSN)
	}
	if p.Flags.Has(bth.HasAtomicAckETH) {
		f["infiniband.atomicacketh.origremdt"] = fmt.Sprint(p.AtomicAck)
	}
	if p.Flags.Has(bth.HasImmDt) {
		f["infiniband.immdt"] = fmt.Sprintf("%08x", p.Imm)
	}
	if p.Flags.Has(bth.HasIETH) {
		f["infiniband.ieth"] = fmt.Sprintf("%08x", p.Inv)
	}
}

// payloadFields adds the ICRC, which tshark reads as big-endian, and payload with pad.
// Of management datagrams tshark dissects the payload instead of showing it.
func payloadFields(f map[string]string, p *bth.Packet, ib []byte) {
	if p.Flags.Has(bth.HasDETH) && len(p.Payload) == 0 {
		return // tshark 4.0 stops before the ICRC of an empty datagram
	}
	f["infiniband.invariant.crc"] = fmt.Sprintf("0x%08x", binary.BigEndian.Uint32(ib[len(ib)-bth.ICRCLen:]))
	data := p.Payload[:len(p.Payload)+int(p.Pad)]
	if len(data) > 0 && p.DestQP != bth.QPNGSI {
		f["data.data"] = fmt.Sprintf("%d:%s", len(data), hex.EncodeToString(data[:min(8, len(data))]))
	}
}

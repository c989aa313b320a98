package bth_test

import (
	"encoding/hex"
	"maps"
	"strings"
	"testing"

	"github.com/go-roce/roce/bth"
)

// layouts lists what follows the BTH, for the operations as IBA table 38 and IBA 1.5 have
// them, written down apart from the table under test.
var layouts = map[string]string{
	"SEND_FIRST": "payload", "SEND_MIDDLE": "payload", "SEND_LAST": "payload", "SEND_LAST_WITH_IMMEDIATE": "ImmDt payload",
	"SEND_ONLY": "payload", "SEND_ONLY_WITH_IMMEDIATE": "ImmDt payload",
	"RDMA_WRITE_FIRST": "RETH payload", "RDMA_WRITE_MIDDLE": "payload", "RDMA_WRITE_LAST": "payload",
	"RDMA_WRITE_LAST_WITH_IMMEDIATE": "ImmDt payload", "RDMA_WRITE_ONLY": "RETH payload",
	"RDMA_WRITE_ONLY_WITH_IMMEDIATE": "RETH ImmDt payload",
	"RDMA_READ_REQUEST":              "RETH", "RDMA_READ_RESPONSE_FIRST": "AETH payload", "RDMA_READ_RESPONSE_MIDDLE": "payload",
	"RDMA_READ_RESPONSE_LAST": "AETH payload", "RDMA_READ_RESPONSE_ONLY": "AETH payload",
	"ACKNOWLEDGE": "AETH", "ATOMIC_ACKNOWLEDGE": "AETH AtomicAckETH", "COMPARE_SWAP": "AtomicETH", "FETCH_ADD": "AtomicETH",
	"SEND_LAST_WITH_INVALIDATE": "IETH payload", "SEND_ONLY_WITH_INVALIDATE": "IETH payload",
	"FLUSH": "FETH RETH", "ATOMIC_WRITE": "RETH payload",
}

// layout returns the layout of an opcode by its name.
func layout(t testing.TB, name string) []string {
	t.Helper()
	if name == "CNP" {
		return []string{"reserved"}
	}
	service, operation, _ := strings.Cut(name, "_")
	l, ok := layouts[operation]
	if !ok {
		t.Fatalf("%s has no layout", name)
	}
	if service == "UD" {
		l = "DETH " + l
	}
	return strings.Fields(l)
}

// wire is the bytes of each extension header of sampleHeaders.
var wire = map[string]string{
	"DETH":         "f0f1f2f3 00 f5f6f7",
	"FETH":         "000000 13",
	"RETH":         "a0a1a2a3a4a5a6a7 a8a9aaab acadaeaf",
	"AtomicETH":    "c0c1c2c3c4c5c6c7 c8c9cacb cccdcecfd0d1d2d3 d4d5d6d7d8d9dadb",
	"AETH":         "1f b1b2b3",
	"AtomicAckETH": "e0e1e2e3e4e5e6e7",
	"ImmDt":        "91929394",
	"IETH":         "81828384",
	"reserved":     "00000000000000000000000000000000",
}

// TestOpcode_Layout builds every opcode's headers and compares each byte: what is there, its
// encoding, and its place in the order on the wire (RETH before ImmDt, FETH before
// RETH, AETH before AtomicAckETH, DETH first).
func TestOpcode_Layout(t *testing.T) {
	n := 0
	spoken(func(o bth.Opcode, info *bth.Info) {
		n++
		want := hexByte(uint8(o)) + " 00 ffff 00 abcdef 80 123456"
		payload := false
		for _, part := range layout(t, info.Name) {
			if payload = part == "payload"; !payload {
				want += wire[part]
			}
		}
		want = strings.ReplaceAll(want, " ", "")
		h := sampleHeaders(o)
		if got := hex.EncodeToString(h.AppendTo(nil)); got != want {
			t.Errorf("%v is encoded as\n%s, want\n%s", o, got, want)
		}
		if info.HeaderLen != len(want)/2 {
			t.Errorf("%v has headers of %d bytes, want %d", o, info.HeaderLen, len(want)/2)
		}
		if info.HeaderLen > bth.MaxHeaderLen {
			t.Errorf("%v has headers of %d bytes, more than MaxHeaderLen", o, info.HeaderLen)
		}
		if got := info.Flags.Has(bth.HasPayload); got != payload {
			t.Errorf("%v carries payload: %v, want %v", o, got, payload)
		}
	})
	if want := 25 + 12 + 2 + 1; n != want {
		t.Errorf("%d opcodes are spoken, want %d", n, want)
	}
}

func hexByte(b uint8) string { return hex.EncodeToString([]byte{b}) }

// TestOpcode_Names compares the table with tshark's list of opcodes, which lacks the two
// operations of IBA 1.5 and has CNP one too low (IBA annex A17.9.3 says 0x81).
func TestOpcode_Names(t *testing.T) {
	want := map[bth.Opcode]string{
		0x1C: "RC_FLUSH", 0x5C: "RD_FLUSH", 0xBC: "XRC_FLUSH", 0x1D: "RC_ATOMIC_WRITE", 0xBD: "XRC_ATOMIC_WRITE", 0x81: "CNP",
	}
	for _, row := range readTSV(t, "tshark", "opcodes.tsv") {
		_, long, ok := strings.Cut(row[1], "(")
		if service, operation, both := strings.Cut(long, ") - "); ok && both && operation != "Reserved" {
			name := strings.NewReplacer(" ", "_", "CMPSWAP", "COMPARE_SWAP", "FETCHADD", "FETCH_ADD").Replace(strings.ToUpper(operation))
			want[bth.Opcode(number(t, row[0]))] = service + "_" + name
		}
	}
	got := map[bth.Opcode]string{}
	for i := range 256 {
		if info, ok := bth.Opcode(i).Info(); ok {
			got[bth.Opcode(i)] = info.Name
		}
	}
	if !maps.Equal(got, want) {
		for i := range 256 {
			if o := bth.Opcode(i); got[o] != want[o] {
				t.Errorf("opcode 0x%02x is %q, want %q", i, got[o], want[o])
			}
		}
	}
}

// TestOpcode_Flags derives from an opcode's name what it is, and compares.
func TestOpcode_Flags(t *testing.T) {
	for i := range 256 {
		o := bth.Opcode(i)
		info, ok := o.Info()
		if !ok {
			if o.Flags() != 0 {
				t.Errorf("0x%02x has no name but flags", i)
			}
			continue
		}
		service, operation, _ := strings.Cut(info.Name, "_")
		if got := o.Service().String(); got != service {
			t.Errorf("%v belongs to service %s", o, got)
		}
		if uint8(o.Service())|o.Operation() != uint8(o) {
			t.Errorf("%v is not made of service 0x%02x and operation 0x%02x", o, uint8(o.Service()), o.Operation())
		}
		if service == "RD" || service == "XRC" {
			if info.Flags != bth.Unsupported || info.HeaderLen != bth.Len {
				t.Errorf("%v: flags 0x%x, header length %d; nothing of it should be spoken", o, uint32(info.Flags), info.HeaderLen)
			}
			continue
		}
		want := bth.Only
		for suffix, place := range map[string]bth.Flags{"FIRST": bth.First, "MIDDLE": bth.Middle, "LAST": bth.Last} {
			if strings.Contains(operation, suffix) {
				want = place
			}
		}
		for prefix, kind := range map[string]bth.Flags{
			"SEND": bth.Request | bth.Send, "RDMA_WRITE": bth.Request | bth.Write, "RDMA_READ_REQUEST": bth.Request | bth.Read,
			"RDMA_READ_RESPONSE": bth.Response | bth.ReadResponse, "ACKNOWLEDGE": bth.Response | bth.Ack,
			"ATOMIC_ACKNOWLEDGE": bth.Response | bth.Ack, "COMPARE_SWAP": bth.Request | bth.Atomic, "FETCH_ADD": bth.Request | bth.Atomic,
			"FLUSH": bth.Request | bth.Flush, "ATOMIC_WRITE": bth.Request | bth.AtomicWrite,
		} {
			if strings.HasPrefix(operation, prefix) {
				want |= kind
			}
		}
		if strings.HasSuffix(operation, "WITH_IMMEDIATE") {
			want |= bth.Imm
		}
		if strings.HasSuffix(operation, "WITH_INVALIDATE") {
			want |= bth.Inv
		}
		if info.Name == "CNP" {
			want |= bth.Congestion
		}
		const headers = bth.HasPayload | bth.HasDETH | bth.HasFETH | bth.HasRETH | bth.HasAtomicETH | bth.HasAETH | bth.HasAtomicAckETH | bth.HasImmDt | bth.HasIETH
		if got := info.Flags &^ headers; got != want {
			t.Errorf("%v has flags 0x%x, want 0x%x", o, uint32(got), uint32(want))
		}
		if o.Flags() != info.Flags {
			t.Errorf("%v: Flags and Info disagree", o)
		}
		if starts := want.Any(bth.First | bth.Only); info.Flags.Any(bth.Starts) != starts {
			t.Errorf("%v starts a message: %v, want %v", o, !starts, starts)
		}
		if ends := want.Any(bth.Last | bth.Only); info.Flags.Any(bth.Ends) != ends {
			t.Errorf("%v ends a message: %v, want %v", o, !ends, ends)
		}
	}
}

func TestOpcode_String(t *testing.T) {
	for o, want := range map[bth.Opcode]string{
		bth.RCWriteOnlyImm:         "RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE",
		bth.UDSendOnly:             "UD_SEND_ONLY",
		bth.CongestionNotification: "CNP",
		0x55:                       "RD_RESYNC",
		0x1E:                       "UNKNOWN_0x1E",
		0xFF:                       "UNKNOWN_0xFF",
	} {
		if got := o.String(); got != want {
			t.Errorf("0x%02x is %q, want %q", uint8(o), got, want)
		}
	}
	if got := bth.Opcode(0xC3).Service().String(); got != "SERVICE_0xC0" {
		t.Errorf("the service of a vendor's opcode is %q", got)
	}
}

package bth

import (
	"fmt"
	"strings"
)

// String describes the headers in one line: opcode, destination, PSN, the bits that
// are set, and each extension header the opcode has.
func (h *Headers) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v QP 0x%06x PSN 0x%06x", h.Opcode, uint32(h.DestQP), uint32(h.PSN))
	for _, bit := range [...]struct {
		set  bool
		name string
	}{{h.SE, "SE"}, {h.AckReq, "ACKREQ"}, {h.FECN, "FECN"}, {h.BECN, "BECN"}} {
		if bit.set {
			b.WriteString(" " + bit.name)
		}
	}
	if h.PKey != DefaultPKey {
		fmt.Fprintf(&b, " pkey 0x%04x", h.PKey)
	}
	f := h.Opcode.Flags()
	if f.Has(HasDETH) {
		fmt.Fprintf(&b, " qkey 0x%08x from QP 0x%06x", h.DETH.QKey, uint32(h.DETH.SrcQP))
	}
	if f.Has(HasFETH) {
		fmt.Fprintf(&b, " placement %d selectivity %d", h.FETH.Placement, h.FETH.Selectivity)
	}
	if f.Has(HasRETH) {
		fmt.Fprintf(&b, " va 0x%x rkey 0x%08x length %d", h.RETH.VA, h.RETH.RKey, h.RETH.Length)
	}
	if f.Has(HasAtomicETH) {
		fmt.Fprintf(&b, " va 0x%x rkey 0x%08x", h.AtomicETH.VA, h.AtomicETH.RKey)
		if h.Opcode == RCCompareSwap {
			fmt.Fprintf(&b, " compare 0x%x swap 0x%x", h.AtomicETH.Compare, h.AtomicETH.SwapAdd)
		} else {
			fmt.Fprintf(&b, " add 0x%x", h.AtomicETH.SwapAdd)
		}
	}
	if f.Has(HasAETH) {
		fmt.Fprintf(&b, " %v MSN %d", h.AETH.Syndrome, h.AETH.MSN)
	}
	if f.Has(HasAtomicAckETH) {
		fmt.Fprintf(&b, " original 0x%x", h.AtomicAck)
	}
	if f.Has(HasImmDt) {
		fmt.Fprintf(&b, " imm 0x%08x", h.Imm)
	}
	if f.Has(HasIETH) {
		fmt.Fprintf(&b, " invalidate 0x%08x", h.Inv)
	}
	return b.String()
}

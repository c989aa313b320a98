package bth

import (
	"encoding/binary"
	"slices"
)

// parse reads the BTH at the beginning of b.
func (h *Header) parse(b []byte) {
	_ = b[Len-1]
	flags, qp, psn := b[1], binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	h.Opcode = Opcode(b[0])
	h.SE = flags&0x80 != 0
	h.MigReq = flags&0x40 != 0
	h.Pad = flags >> 4 & 3
	h.TVer = flags & 0x0F
	h.PKey = binary.BigEndian.Uint16(b[2:])
	h.FECN = qp&(1<<31) != 0
	h.BECN = qp&(1<<30) != 0
	h.DestQP = QPN(qp & 0xFFFFFF)
	h.AckReq = psn&(1<<31) != 0
	h.PSN = PSN(psn & psnMask)
}

// put writes the BTH to the beginning of b, reserved bits zero.
func (h *Header) put(b []byte) {
	_ = b[Len-1]
	b[0] = byte(h.Opcode)
	b[1] = bit(h.SE, 7) | bit(h.MigReq, 6) | h.Pad&3<<4 | h.TVer&0x0F
	binary.BigEndian.PutUint16(b[2:], h.PKey)
	binary.BigEndian.PutUint32(b[4:], uint32(h.DestQP)&0xFFFFFF)
	b[4] = bit(h.FECN, 7) | bit(h.BECN, 6)
	binary.BigEndian.PutUint32(b[8:], uint32(h.PSN)&psnMask)
	b[8] = bit(h.AckReq, 7)
}

func bit(set bool, n uint) byte {
	if set {
		return 1 << n
	}
	return 0
}

// extensions is every extension header, so that a packet without any is done at once.
const extensions = HasDETH | HasFETH | HasRETH | HasAtomicETH | HasAETH | HasAtomicAckETH | HasImmDt | HasIETH

// parseExtensions reads the extension headers f names from a packet that is long enough for them.
func (h *Headers) parseExtensions(ib []byte, f Flags) {
	if !f.Any(extensions) {
		return
	}
	b := ib[Len:]
	if f.Has(HasDETH) {
		h.DETH.QKey = binary.BigEndian.Uint32(b)
		h.DETH.SrcQP = QPN(binary.BigEndian.Uint32(b[4:]) & 0xFFFFFF)
		b = b[DETHLen:]
	}
	if f.Has(HasFETH) {
		h.FETH.Placement, h.FETH.Selectivity = b[3]&0x0F, b[3]>>4&3
		b = b[FETHLen:]
	}
	if f.Has(HasRETH) {
		h.RETH.VA = binary.BigEndian.Uint64(b)
		h.RETH.RKey = binary.BigEndian.Uint32(b[8:])
		h.RETH.Length = binary.BigEndian.Uint32(b[12:])
		b = b[RETHLen:]
	}
	if f.Has(HasAtomicETH) {
		h.AtomicETH.VA = binary.BigEndian.Uint64(b)
		h.AtomicETH.RKey = binary.BigEndian.Uint32(b[8:])
		h.AtomicETH.SwapAdd = binary.BigEndian.Uint64(b[12:])
		h.AtomicETH.Compare = binary.BigEndian.Uint64(b[20:])
		b = b[AtomicETHLen:]
	}
	if f.Has(HasAETH) {
		h.AETH.Syndrome = Syndrome(b[0])
		h.AETH.MSN = binary.BigEndian.Uint32(b) & 0xFFFFFF
		b = b[AETHLen:]
	}
	if f.Has(HasAtomicAckETH) {
		h.AtomicAck = binary.BigEndian.Uint64(b)
		b = b[AtomicAckETHLen:]
	}
	if f.Has(HasImmDt) {
		h.Imm = binary.BigEndian.Uint32(b)
		b = b[ImmDtLen:]
	}
	if f.Has(HasIETH) {
		h.Inv = binary.BigEndian.Uint32(b)
	}
}

// AppendTo appends the BTH and the extension headers its opcode has, in wire
// order, and for a CNP its reserved bytes; payload, pad bytes and ICRC are the
// caller's. Reserved bits are zero. Of an opcode that is unsupported or has no
// name it appends the BTH alone. It does not allocate if b has MaxHeaderLen bytes of room.
func (h *Headers) AppendTo(b []byte) []byte {
	info := &table[h.Opcode]
	n := len(b)
	b = slices.Grow(b, MaxHeaderLen)[:n+max(info.HeaderLen, Len)]
	h.Header.put(b[n:])
	h.putExtensions(b[n+Len:], info.Flags)
	return b
}

// putExtensions writes the extension headers f names to b, which is as long as they are.
func (h *Headers) putExtensions(b []byte, f Flags) {
	if !f.Any(extensions) {
		clear(b) // the reserved bytes of a CNP
		return
	}
	if f.Has(HasDETH) {
		binary.BigEndian.PutUint32(b, h.DETH.QKey)
		binary.BigEndian.PutUint32(b[4:], uint32(h.DETH.SrcQP)&0xFFFFFF)
		b = b[DETHLen:]
	}
	if f.Has(HasFETH) {
		binary.BigEndian.PutUint32(b, uint32(h.FETH.Selectivity&3)<<4|uint32(h.FETH.Placement&0x0F))
		b = b[FETHLen:]
	}
	if f.Has(HasRETH) {
		binary.BigEndian.PutUint64(b, h.RETH.VA)
		binary.BigEndian.PutUint32(b[8:], h.RETH.RKey)
		binary.BigEndian.PutUint32(b[12:], h.RETH.Length)
		b = b[RETHLen:]
	}
	if f.Has(HasAtomicETH) {
		binary.BigEndian.PutUint64(b, h.AtomicETH.VA)
		binary.BigEndian.PutUint32(b[8:], h.AtomicETH.RKey)
		binary.BigEndian.PutUint64(b[12:], h.AtomicETH.SwapAdd)
		binary.BigEndian.PutUint64(b[20:], h.AtomicETH.Compare)
		b = b[AtomicETHLen:]
	}
	if f.Has(HasAETH) {
		binary.BigEndian.PutUint32(b, h.AETH.MSN)
		b[0] = byte(h.AETH.Syndrome)
		b = b[AETHLen:]
	}
	if f.Has(HasAtomicAckETH) {
		binary.BigEndian.PutUint64(b, h.AtomicAck)
		b = b[AtomicAckETHLen:]
	}
	if f.Has(HasImmDt) {
		binary.BigEndian.PutUint32(b, h.Imm)
		b = b[ImmDtLen:]
	}
	if f.Has(HasIETH) {
		binary.BigEndian.PutUint32(b, h.Inv)
	}
}

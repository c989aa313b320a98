package bth

// table has a row for each opcode that has a name. A zero HeaderLen means none.
var table = buildTable()

// operation is the part of an opcode row that the services share.
type operation struct {
	op    uint8
	name  string
	flags Flags
}

var operations = []operation{
	{0x00, "SEND_FIRST", Request | Send | First | HasPayload},
	{0x01, "SEND_MIDDLE", Request | Send | Middle | HasPayload},
	{0x02, "SEND_LAST", Request | Send | Last | HasPayload},
	{0x03, "SEND_LAST_WITH_IMMEDIATE", Request | Send | Last | Imm | HasImmDt | HasPayload},
	{0x04, "SEND_ONLY", Request | Send | Only | HasPayload},
	{0x05, "SEND_ONLY_WITH_IMMEDIATE", Request | Send | Only | Imm | HasImmDt | HasPayload},
	{0x06, "RDMA_WRITE_FIRST", Request | Write | First | HasRETH | HasPayload},
	{0x07, "RDMA_WRITE_MIDDLE", Request | Write | Middle | HasPayload},
	{0x08, "RDMA_WRITE_LAST", Request | Write | Last | HasPayload},
	{0x09, "RDMA_WRITE_LAST_WITH_IMMEDIATE", Request | Write | Last | Imm | HasImmDt | HasPayload},
	{0x0A, "RDMA_WRITE_ONLY", Request | Write | Only | HasRETH | HasPayload},
	{0x0B, "RDMA_WRITE_ONLY_WITH_IMMEDIATE", Request | Write | Only | Imm | HasRETH | HasImmDt | HasPayload},
	{0x0C, "RDMA_READ_REQUEST", Request | Read | Only | HasRETH},
	{0x0D, "RDMA_READ_RESPONSE_FIRST", Response | ReadResponse | First | HasAETH | HasPayload},
	{0x0E, "RDMA_READ_RESPONSE_MIDDLE", Response | ReadResponse | Middle | HasPayload},
	{0x0F, "RDMA_READ_RESPONSE_LAST", Response | ReadResponse | Last | HasAETH | HasPayload},
	{0x10, "RDMA_READ_RESPONSE_ONLY", Response | ReadResponse | Only | HasAETH | HasPayload},
	{0x11, "ACKNOWLEDGE", Response | Ack | Only | HasAETH},
	{0x12, "ATOMIC_ACKNOWLEDGE", Response | Ack | Only | HasAETH | HasAtomicAckETH},
	{0x13, "COMPARE_SWAP", Request | Atomic | Only | HasAtomicETH},
	{0x14, "FETCH_ADD", Request | Atomic | Only | HasAtomicETH},
	{0x16, "SEND_LAST_WITH_INVALIDATE", Request | Send | Last | Inv | HasIETH | HasPayload},
	{0x17, "SEND_ONLY_WITH_INVALIDATE", Request | Send | Only | Inv | HasIETH | HasPayload},
	{0x1C, "FLUSH", Request | Flush | Only | HasFETH | HasRETH},
	{0x1D, "ATOMIC_WRITE", Request | AtomicWrite | Only | HasRETH | HasPayload},
}

const (
	// lastUCOperation is the highest operation that UC has: it knows SEND and WRITE
	// without invalidate, nothing that is answered.
	lastUCOperation = 0x0B
	// RD has the operations of IBA 1.0 and FLUSH, and RESYNC, which is its own.
	lastRDOperation = 0x14
	rdResync        = Opcode(RD) | 0x15
	rdFlush         = Opcode(RD) | 0x1C
)

func buildTable() (t [256]Info) {
	put := func(o Opcode, name string, f Flags) {
		t[o] = Info{Name: name, Flags: f, HeaderLen: f.headerLen()}
	}
	for _, op := range operations {
		put(Opcode(RC)|Opcode(op.op), "RC_"+op.name, op.flags)
		if op.op <= lastUCOperation {
			put(Opcode(UC)|Opcode(op.op), "UC_"+op.name, op.flags)
		}
		if rd := Opcode(RD) | Opcode(op.op); op.op <= lastRDOperation || rd == rdFlush {
			put(rd, "RD_"+op.name, Unsupported)
		}
		put(Opcode(XRC)|Opcode(op.op), "XRC_"+op.name, Unsupported)
	}
	put(rdResync, "RD_RESYNC", Unsupported)
	put(UDSendOnly, "UD_SEND_ONLY", Request|Send|Only|HasDETH|HasPayload)
	put(UDSendOnlyImm, "UD_SEND_ONLY_WITH_IMMEDIATE", Request|Send|Only|Imm|HasDETH|HasImmDt|HasPayload)
	put(CongestionNotification, "CNP", Congestion|Only)
	return t
}

func (f Flags) headerLen() int {
	n := Len
	for _, h := range [...]struct {
		flag Flags
		size int
	}{
		{HasDETH, DETHLen}, {HasFETH, FETHLen}, {HasRETH, RETHLen}, {HasAtomicETH, AtomicETHLen},
		{HasAETH, AETHLen}, {HasAtomicAckETH, AtomicAckETHLen}, {HasImmDt, ImmDtLen}, {HasIETH, IETHLen},
		{Congestion, CNPReserved},
	} {
		if f.Has(h.flag) {
			n += h.size
		}
	}
	return n
}

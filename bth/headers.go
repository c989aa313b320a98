package bth

// Header is the base transport header, 12 bytes (IBA 9.2).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------+-+-+---+-------+-------------------------------+
//	|    OpCode     |S|M|Pad| TVer  |             P_Key             |
//	+-+-+-----------+-+-+---+-------+-------------------------------+
//	|F|B| reserved  |            Destination QP                     |
//	+-+-+-----------+-----------------------------------------------+
//	|A|  reserved   |            Packet sequence number             |
//	+-+-------------+-----------------------------------------------+
type Header struct {
	Opcode Opcode
	// SE asks the responder for a solicited event.
	SE bool
	// MigReq is the path migration state; hardware sends 1 and nobody may depend on it.
	MigReq bool
	// Pad is the bytes, 0..3, that fill the payload up to a multiple of four.
	Pad uint8
	// TVer is the transport version; only 0 exists.
	TVer   uint8
	PKey   uint16
	FECN   bool
	BECN   bool
	DestQP QPN
	// AckReq asks the responder to acknowledge this packet.
	AckReq bool
	PSN    PSN
}

// RETH is the RDMA extended transport header, 16 bytes (IBA 9.3.3).
type RETH struct {
	VA     uint64
	RKey   uint32
	Length uint32 // of the whole message, in bytes
}

// AETH is the ACK extended transport header, 4 bytes (IBA 9.3.5).
type AETH struct {
	Syndrome Syndrome
	MSN      uint32 // 24 bits: messages completed by the responder
}

// AtomicETH is the atomic extended transport header, 28 bytes (IBA 9.3.4). The
// operands are integers, big-endian on the wire.
type AtomicETH struct {
	VA   uint64
	RKey uint32
	// SwapAdd is the value to swap in, or to add.
	SwapAdd uint64
	// Compare is the value CompareSwap compares with; 0 for FetchAdd.
	Compare uint64
}

// DETH is the datagram extended transport header, 8 bytes (IBA 9.3.2).
type DETH struct {
	QKey  uint32
	SrcQP QPN
}

// FETH is the flush extended transport header, 4 bytes (IBA 1.5, 9.3.7): which
// placement guarantee is asked for and over what.
type FETH struct {
	// Placement: bit 0 global visibility, bit 1 persistence.
	Placement uint8
	// Selectivity: 0 a range of memory, 1 the whole region.
	Selectivity uint8
}

// Headers is the BTH of a packet with every extension header an opcode can
// carry; Opcode says which of them are meaningful. It is decoded into and built
// from in place, so that neither allocates.
type Headers struct {
	Header
	RETH      RETH
	AETH      AETH
	AtomicETH AtomicETH
	// AtomicAck is the original value an ATOMIC ACKNOWLEDGE returns.
	AtomicAck uint64
	DETH      DETH
	FETH      FETH
	// Imm is the immediate data: four bytes the application gave, read as big-endian.
	Imm uint32
	// Inv is the R_Key an IETH invalidates.
	Inv uint32
}

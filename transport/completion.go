package transport

import (
	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/memreg"
)

// WCOpcode says which operation a completion belongs to, with the values of ibv_wc_opcode.
type WCOpcode uint8

// Completion opcodes.
const (
	WCSend        WCOpcode = 0
	WCWrite       WCOpcode = 1
	WCRead        WCOpcode = 2
	WCCompareSwap WCOpcode = 3
	WCFetchAdd    WCOpcode = 4
	WCRecv        WCOpcode = 128
	WCRecvImm     WCOpcode = 129 // receive consumed by a WRITE with immediate
)

// WCFlags say which optional fields of a completion are meaningful.
type WCFlags uint8

// Completion flags, with the values of ibv_wc_flags.
const (
	WCWithImm WCFlags = 1 << 1
	WCWithInv WCFlags = 1 << 3
)

// Completion tells that one work request ended. Every posted work request
// completes exactly once; a successful send that is not Signaled does so silently.
// Of a completion with an error only ID, Status, QPN, Recv and Retired are meaningful.
type Completion struct {
	ID      uint64
	QPN     bth.QPN
	Status  Status
	Opcode  WCOpcode
	Flags   WCFlags
	ByteLen uint32 // bytes received, read, or 8 of an atomic
	Imm     uint32
	InvKey  memreg.Key
	SrcQP   bth.QPN
	// Recv: the work request was a receive.
	Recv bool
	// Solicited: the peer asked for a solicited event, or the status is an error.
	Solicited bool
	// Retired is how many slots of its queue this completion frees: itself and the
	// silent ones before it.
	Retired uint32
}

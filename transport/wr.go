package transport

import "github.com/go-roce/roce/memreg"

// WROpcode says what a send work request does, with the values of ibv_wr_opcode.
type WROpcode uint8

// Operations of a send work request.
const (
	WRWrite       WROpcode = 0
	WRWriteImm    WROpcode = 1
	WRSend        WROpcode = 2
	WRSendImm     WROpcode = 3
	WRRead        WROpcode = 4
	WRCompareSwap WROpcode = 5
	WRFetchAdd    WROpcode = 6
	WRSendInv     WROpcode = 9
)

// SendFlags modify a send work request, with the values of ibv_send_flags.
type SendFlags uint8

// Send flags.
const (
	// Fence holds the request back until all earlier READs and atomics of the queue pair are complete.
	Fence SendFlags = 1 << 0
	// Signaled asks for a completion on success; an error always completes.
	Signaled SendFlags = 1 << 1
	// Solicited wakes the peer's solicited-only notification.
	Solicited SendFlags = 1 << 2
	// Inline takes the data from SendWR.Inline, copied when posted; SGL must be empty.
	Inline SendFlags = 1 << 3
)

// MaxSGE is the most gather or scatter elements a work request may have.
const MaxSGE = 32

// MaxMessage is the longest message in bytes, 2 GiB (IBA 9.7.1).
const MaxMessage = 1 << 31

// SGE is an element of a gather or scatter list: Length bytes at virtual address
// Addr of the region with key LKey.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   memreg.Key
}

// SendWR is a send work request. PostSend copies it, SGL included; the memory
// the SGL names belongs to the queue pair until the completion.
type SendWR struct {
	ID     uint64
	Opcode WROpcode
	Flags  SendFlags
	// SGL is what to send, or where a READ or an atomic's original value (8 bytes,
	// host byte order) goes.
	SGL []SGE
	// Inline is the data when Flags has Inline; its memory is free again when PostSend returns.
	Inline []byte
	// Imm is the immediate data, sent big-endian.
	Imm uint32
	// InvKey is the peer's key that WRSendInv invalidates.
	InvKey memreg.Key
	// RemoteAddr and RKey say where a WRITE, READ or atomic acts at the peer.
	RemoteAddr uint64
	RKey       memreg.Key
	// CompareAdd is what WRFetchAdd adds or WRCompareSwap compares with; Swap is
	// what WRCompareSwap stores.
	CompareAdd, Swap uint64
}

// RecvWR is a receive work request: where one incoming SEND goes. A WRITE with
// immediate consumes one without touching its memory.
type RecvWR struct {
	ID  uint64
	SGL []SGE
}

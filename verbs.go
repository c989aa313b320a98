package roce

import (
	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/memreg"
	"github.com/go-roce/roce/transport"
)

// The values that travel between a program and its queue pairs are those of the
// packages that act on them.
type (
	// SendWR is a send work request: SEND, RDMA WRITE, RDMA READ or an atomic.
	SendWR = transport.SendWR
	// RecvWR is a receive work request: room for one incoming SEND.
	RecvWR = transport.RecvWR
	// SGE is an element of a gather or scatter list. [MR.SGE] makes one.
	SGE = transport.SGE
	// Completion tells how a work request ended.
	Completion = transport.Completion
	// Status is the outcome of a work request, with the names and values of verbs.
	Status = transport.Status
	// WROpcode says what a send work request does.
	WROpcode = transport.WROpcode
	// WCOpcode says which operation a completion belongs to.
	WCOpcode = transport.WCOpcode
	// SendFlags modify a send work request.
	SendFlags = transport.SendFlags
	// WCFlags say which fields of a completion are meaningful.
	WCFlags = transport.WCFlags
	// Attr holds queue pair attributes for [QP.Modify].
	Attr = transport.Attr
	// AttrMask says which fields of an Attr are set.
	AttrMask = transport.AttrMask
	// AV is an address vector: where the peer is.
	AV = transport.AV
	// State is a queue pair's state.
	State = transport.State
	// Type is the service of a queue pair.
	Type = transport.Type
	// Recovery says how losses are made good.
	Recovery = transport.Recovery
	// Counters counts what happened on a queue pair.
	Counters = transport.Counters
	// Access is what a memory region or queue pair allows.
	Access = memreg.Access
	// Key is the L_Key and R_Key of a memory region.
	Key = memreg.Key
	// QPN is a 24-bit queue pair number.
	QPN = bth.QPN
	// PSN is a 24-bit packet sequence number.
	PSN = bth.PSN
)

// Queue pair types. The zero Type of a [QPConfig] means RC.
const (
	RC = transport.TypeRC
	UC = transport.TypeUC
	UD = transport.TypeUD
)

// Operations of a send work request.
const (
	WRWrite       = transport.WRWrite
	WRWriteImm    = transport.WRWriteImm
	WRSend        = transport.WRSend
	WRSendImm     = transport.WRSendImm
	WRRead        = transport.WRRead
	WRCompareSwap = transport.WRCompareSwap
	WRFetchAdd    = transport.WRFetchAdd
	WRSendInv     = transport.WRSendInv
)

// Send flags.
const (
	Fence     = transport.Fence
	Signaled  = transport.Signaled
	Solicited = transport.Solicited
	Inline    = transport.Inline
)

// Completion opcodes and flags.
const (
	WCSend        = transport.WCSend
	WCWrite       = transport.WCWrite
	WCRead        = transport.WCRead
	WCCompareSwap = transport.WCCompareSwap
	WCFetchAdd    = transport.WCFetchAdd
	WCRecv        = transport.WCRecv
	WCRecvImm     = transport.WCRecvImm

	WCWithImm = transport.WCWithImm
	WCWithInv = transport.WCWithInv
)

// Access rights.
const (
	LocalWrite       = memreg.LocalWrite
	RemoteWrite      = memreg.RemoteWrite
	RemoteRead       = memreg.RemoteRead
	RemoteAtomic     = memreg.RemoteAtomic
	ZeroBased        = memreg.ZeroBased
	RemoteInvalidate = memreg.RemoteInvalidate
)

// Queue pair states.
const (
	StateReset = transport.StateReset
	StateInit  = transport.StateInit
	StateRTR   = transport.StateRTR
	StateRTS   = transport.StateRTS
	StateSQD   = transport.StateSQD
	StateSQE   = transport.StateSQE
	StateErr   = transport.StateErr
)

// Attribute bits.
const (
	AttrState           = transport.AttrState
	AttrCurState        = transport.AttrCurState
	AttrEnSQDNotify     = transport.AttrEnSQDNotify
	AttrAccess          = transport.AttrAccess
	AttrPKeyIndex       = transport.AttrPKeyIndex
	AttrPort            = transport.AttrPort
	AttrAV              = transport.AttrAV
	AttrPathMTU         = transport.AttrPathMTU
	AttrTimeout         = transport.AttrTimeout
	AttrRetryCnt        = transport.AttrRetryCnt
	AttrRNRRetry        = transport.AttrRNRRetry
	AttrRQPSN           = transport.AttrRQPSN
	AttrMaxRdAtomic     = transport.AttrMaxRdAtomic
	AttrMinRNRTimer     = transport.AttrMinRNRTimer
	AttrSQPSN           = transport.AttrSQPSN
	AttrMaxDestRdAtomic = transport.AttrMaxDestRdAtomic
	AttrDestQPN         = transport.AttrDestQPN
)

// Completion statuses.
const (
	StatusSuccess      = transport.StatusSuccess
	StatusLocLenErr    = transport.StatusLocLenErr
	StatusLocQPOpErr   = transport.StatusLocQPOpErr
	StatusLocProtErr   = transport.StatusLocProtErr
	StatusWRFlushErr   = transport.StatusWRFlushErr
	StatusBadRespErr   = transport.StatusBadRespErr
	StatusLocAccessErr = transport.StatusLocAccessErr
	StatusRemInvReqErr = transport.StatusRemInvReqErr
	StatusRemAccessErr = transport.StatusRemAccessErr
	StatusRemOpErr     = transport.StatusRemOpErr
	StatusRetryExcErr  = transport.StatusRetryExcErr
	StatusRNRRetryExc  = transport.StatusRNRRetryExc
)

// Limits.
const (
	// MaxSGE is the most gather or scatter elements of a work request.
	MaxSGE = transport.MaxSGE
	// MaxMessage is the longest message in bytes.
	MaxMessage = transport.MaxMessage
	// MaxDepth is the most work requests a queue holds.
	MaxDepth = transport.MaxDepth
	// MaxInlineData is the most bytes a work request may carry inline.
	MaxInlineData = transport.MaxInlineData
)

package transport

import (
	"net/netip"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/memreg"
)

// State is a queue pair's state, with the values of ibv_qp_state (IBA 10.3.1).
type State uint8

// Queue pair states.
const (
	StateReset State = iota
	StateInit
	StateRTR
	StateRTS
	StateSQD
	StateSQE
	StateErr
)

var stateNames = [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}

// String returns the IBA name.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "UNKNOWN"
}

// AttrMask says which fields of an Attr a Modify sets, with the bits of ibv_qp_attr_mask.
type AttrMask uint32

// Attribute bits.
const (
	AttrState           AttrMask = 1 << 0
	AttrCurState        AttrMask = 1 << 1
	AttrEnSQDNotify     AttrMask = 1 << 2
	AttrAccess          AttrMask = 1 << 3
	AttrPKeyIndex       AttrMask = 1 << 4
	AttrPort            AttrMask = 1 << 5
	AttrQKey            AttrMask = 1 << 6
	AttrAV              AttrMask = 1 << 7
	AttrPathMTU         AttrMask = 1 << 8
	AttrTimeout         AttrMask = 1 << 9
	AttrRetryCnt        AttrMask = 1 << 10
	AttrRNRRetry        AttrMask = 1 << 11
	AttrRQPSN           AttrMask = 1 << 12
	AttrMaxRdAtomic     AttrMask = 1 << 13
	AttrAltPath         AttrMask = 1 << 14
	AttrMinRNRTimer     AttrMask = 1 << 15
	AttrSQPSN           AttrMask = 1 << 16
	AttrMaxDestRdAtomic AttrMask = 1 << 17
	AttrPathMigState    AttrMask = 1 << 18
	AttrCap             AttrMask = 1 << 19
	AttrDestQPN         AttrMask = 1 << 20
)

// AV is the address vector: where the peer is. Transport checks sources against
// it; the driver turns it into the packets' Ethernet, IP and UDP headers.
type AV struct {
	// Src and Dst are the IP addresses (the RoCEv2 GIDs) of this end and the peer.
	Src, Dst     netip.Addr
	TrafficClass uint8
	FlowLabel    uint32 // 20 bits; chooses the UDP source port when not 0
	HopLimit     uint8  // 0 means 64
}

// Attr holds the attributes of a queue pair. Mask says which ones a Modify sets;
// the others are ignored.
type Attr struct {
	Mask  AttrMask
	State State
	// CurState is what the caller believes the present state to be.
	CurState State
	// EnSQDNotify asks for EventSQDrained once SQD has nothing in progress.
	EnSQDNotify bool
	// Access is what the peer may do: RemoteWrite, RemoteRead, RemoteAtomic.
	Access    memreg.Access
	PKeyIndex uint16
	Port      uint8
	QKey      uint32
	AV        AV
	// PathMTU is the payload bytes of a full packet: 256, 512, 1024, 2048 or 4096.
	PathMTU int
	// Timeout is the ACK timeout code: 4.096 us x 2^n, 0 for none, at most 31.
	Timeout  uint8
	RetryCnt uint8 // 0..7
	RNRRetry uint8 // 0..7; 7 never gives up
	// RQPSN is the first PSN expected from the peer, SQPSN the first one sent.
	RQPSN, SQPSN bth.PSN
	// MaxRdAtomic is how many READs and atomics may be outstanding at the peer,
	// MaxDestRdAtomic how many the peer may have outstanding here.
	MaxRdAtomic, MaxDestRdAtomic uint8
	// MinRNRTimer is the RNR timer code the peer is told, 0..31; 0 is the longest.
	MinRNRTimer uint8
	DestQPN     bth.QPN
}

package bth

import "fmt"

// Opcode is the first byte of a BTH: the transport service in its upper three
// bits, the operation in the lower five (IBA 9.2.2, table 38).
type Opcode uint8

// Service is the transport service of an opcode, as its upper three bits.
type Service uint8

// Transport services.
const (
	RC  Service = 0x00
	UC  Service = 0x20
	RD  Service = 0x40
	UD  Service = 0x60
	CNP Service = 0x80
	XRC Service = 0xA0
)

// String returns the name of the service, or in hexadecimal the prefix of one that has none.
func (s Service) String() string {
	switch s {
	case RC:
		return "RC"
	case UC:
		return "UC"
	case RD:
		return "RD"
	case UD:
		return "UD"
	case CNP:
		return "CNP"
	case XRC:
		return "XRC"
	}
	return fmt.Sprintf("SERVICE_0x%02X", uint8(s))
}

// Service returns the transport service the opcode belongs to.
func (o Opcode) Service() Service { return Service(o & 0xE0) }

// Operation returns the opcode without its service, 0..31.
func (o Opcode) Operation() uint8 { return uint8(o & 0x1F) }

// Reliable connection opcodes.
const (
	RCSendFirst            Opcode = 0x00
	RCSendMiddle           Opcode = 0x01
	RCSendLast             Opcode = 0x02
	RCSendLastImm          Opcode = 0x03
	RCSendOnly             Opcode = 0x04
	RCSendOnlyImm          Opcode = 0x05
	RCWriteFirst           Opcode = 0x06
	RCWriteMiddle          Opcode = 0x07
	RCWriteLast            Opcode = 0x08
	RCWriteLastImm         Opcode = 0x09
	RCWriteOnly            Opcode = 0x0A
	RCWriteOnlyImm         Opcode = 0x0B
	RCReadRequest          Opcode = 0x0C
	RCReadResponseFirst    Opcode = 0x0D
	RCReadResponseMiddle   Opcode = 0x0E
	RCReadResponseLast     Opcode = 0x0F
	RCReadResponseOnly     Opcode = 0x10
	RCAcknowledge          Opcode = 0x11
	RCAtomicAcknowledge    Opcode = 0x12
	RCCompareSwap          Opcode = 0x13
	RCFetchAdd             Opcode = 0x14
	RCSendLastInvalidate   Opcode = 0x16
	RCSendOnlyInvalidate   Opcode = 0x17
	RCFlush                Opcode = 0x1C
	RCAtomicWrite          Opcode = 0x1D
	UCSendFirst            Opcode = 0x20
	UCSendMiddle           Opcode = 0x21
	UCSendLast             Opcode = 0x22
	UCSendLastImm          Opcode = 0x23
	UCSendOnly             Opcode = 0x24
	UCSendOnlyImm          Opcode = 0x25
	UCWriteFirst           Opcode = 0x26
	UCWriteMiddle          Opcode = 0x27
	UCWriteLast            Opcode = 0x28
	UCWriteLastImm         Opcode = 0x29
	UCWriteOnly            Opcode = 0x2A
	UCWriteOnlyImm         Opcode = 0x2B
	UDSendOnly             Opcode = 0x64
	UDSendOnlyImm          Opcode = 0x65
	CongestionNotification Opcode = 0x81
)

// Flags say what an opcode is and which headers follow its BTH. They drive
// decoding, length checks and building alike, so that no two places can
// disagree about an opcode.
type Flags uint32

// What an opcode is.
const (
	// Request travels from requester to responder, Response the other way.
	Request Flags = 1 << iota
	Response
	Send
	Write
	Read   // READ request
	Atomic // CompareSwap or FetchAdd
	Flush
	AtomicWrite
	Ack          // ACKNOWLEDGE or ATOMIC ACKNOWLEDGE
	ReadResponse // any READ RESPONSE
	// First, Middle, Last and Only place the packet in its message. Requests
	// without payload, ACKs and the like are Only.
	First
	Middle
	Last
	Only
	// Imm and Inv: the message ends with immediate data, or invalidates a key.
	Imm
	Inv
	// HasPayload: payload may follow the headers.
	HasPayload
	// Extension headers present, in the order they have on the wire.
	HasDETH
	HasFETH
	HasRETH
	HasAtomicETH
	HasAETH
	HasAtomicAckETH
	HasImmDt
	HasIETH
	// Congestion is set on CNP alone.
	Congestion
	// Unsupported names an opcode that exists but that this stack does not speak
	// (RD and XRC): it is dropped under its own name.
	Unsupported
)

const (
	// Starts has the flags of packets that begin a message.
	Starts = First | Only
	// Ends has the flags of packets that complete a message.
	Ends = Last | Only
)

// Info is a row of the opcode table.
type Info struct {
	// Name as IBA writes it, e.g. RC_RDMA_WRITE_FIRST.
	Name  string
	Flags Flags
	// HeaderLen is the bytes of BTH and extension headers together, for a CNP with
	// its reserved bytes. Behind the BTH of an Unsupported opcode nothing is looked
	// at, so theirs is Len.
	HeaderLen int
}

// Has reports whether all of f are set.
func (f Flags) Has(g Flags) bool { return f&g == g }

// Any reports whether at least one of f is set.
func (f Flags) Any(g Flags) bool { return f&g != 0 }

// Sizes of the headers in bytes.
const (
	Len             = 12
	DETHLen         = 8
	RETHLen         = 16
	AtomicETHLen    = 28
	AETHLen         = 4
	AtomicAckETHLen = 8
	ImmDtLen        = 4
	IETHLen         = 4
	FETHLen         = 4
	ICRCLen         = 4
	// MaxHeaderLen is the longest run of BTH and extension headers of any opcode.
	MaxHeaderLen = Len + AtomicETHLen
	// CNPReserved is the zero bytes between the BTH of a CNP and its ICRC.
	CNPReserved = 16
)

// Info returns the table row of o, and whether the opcode has a name at all.
func (o Opcode) Info() (*Info, bool) {
	i := &table[o]
	return i, i.HeaderLen != 0
}

// Flags returns what o is; 0 for an opcode without a name.
func (o Opcode) Flags() Flags { return table[o].Flags }

// String returns the IBA name, or UNKNOWN_0xNN.
func (o Opcode) String() string {
	if i, ok := o.Info(); ok {
		return i.Name
	}
	return fmt.Sprintf("UNKNOWN_0x%02X", uint8(o))
}

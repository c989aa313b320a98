package memreg

// Access is what a region allows, with the bit values of ibv_access_flags.
// Local reading is always allowed.
type Access uint32

// Access rights.
const (
	LocalWrite   Access = 1 << 0
	RemoteWrite  Access = 1 << 1
	RemoteRead   Access = 1 << 2
	RemoteAtomic Access = 1 << 3
	BindWindow   Access = 1 << 4
	ZeroBased    Access = 1 << 5
)

// Fault says why a key, address and length were refused. It is an error for the
// caller at hand; on the wire it becomes a NAK, locally a completion status.
type Fault uint8

// Faults. FaultNone, the zero value, means the access is allowed.
const (
	FaultNone   Fault = iota
	FaultKey          // no region has this key
	FaultPD           // the region belongs to another protection domain
	FaultAccess       // the region does not allow this
	FaultBounds       // the range leaves the region
	FaultAlign        // an atomic's address is not a multiple of 8
)

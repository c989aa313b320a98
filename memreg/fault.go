package memreg

import "fmt"

// Fault says why a key, address and length were refused. It is an error for the
// caller at hand; on the wire it becomes a NAK, locally a completion status.
//
// Compare it with FaultNone: stored in an error, FaultNone is not nil.
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

var faultText = [...]struct{ name, sentence string }{
	FaultNone:   {"none", "memreg: the access is allowed"},
	FaultKey:    {"key", "memreg: no region has this key; it may have been deregistered or invalidated"},
	FaultPD:     {"pd", "memreg: the region is not of the queue pair's protection domain: register the memory in that one"},
	FaultAccess: {"access", "memreg: the region was not registered with the access right that this operation needs"},
	FaultBounds: {"bounds", "memreg: the address range is not inside the region"},
	FaultAlign:  {"align", "memreg: an atomic's address must be a multiple of 8"},
}

// String returns one word for the fault: none, key, pd, access, bounds or align.
func (f Fault) String() string {
	if int(f) < len(faultText) {
		return faultText[f].name
	}
	return fmt.Sprintf("fault %d", uint8(f))
}

// Error says what is wrong and, where something can be done, what to do.
func (f Fault) Error() string {
	if int(f) < len(faultText) {
		return faultText[f].sentence
	}
	return fmt.Sprintf("memreg: fault %d", uint8(f))
}

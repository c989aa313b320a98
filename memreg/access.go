package memreg

import (
	"strconv"
	"strings"
)

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

	// RemoteInvalidate lets a peer's SEND with invalidate end the use of the key. It
	// is no flag of verbs, where the kind of the region decides instead: memory from
	// ibv_reg_mr refuses, fast-registered memory and type 2 windows allow it.
	RemoteInvalidate Access = 1 << 30
)

// knownAccess is every right a region can be registered with.
const knownAccess = LocalWrite | RemoteWrite | RemoteRead | RemoteAtomic | BindWindow | ZeroBased | RemoteInvalidate

var accessNames = [...]struct {
	bit  Access
	name string
}{
	{LocalWrite, "LOCAL_WRITE"},
	{RemoteWrite, "REMOTE_WRITE"},
	{RemoteRead, "REMOTE_READ"},
	{RemoteAtomic, "REMOTE_ATOMIC"},
	{BindWindow, "MW_BIND"},
	{ZeroBased, "ZERO_BASED"},
	{RemoteInvalidate, "REMOTE_INVALIDATE"},
}

// String returns the names verbs gives the rights, e.g. LOCAL_WRITE|REMOTE_READ,
// then unknown bits in hexadecimal. No right at all, which still means local
// reading, is 0.
func (a Access) String() string {
	if a == 0 {
		return "0"
	}
	var parts []string
	for _, n := range accessNames {
		if a&n.bit != 0 {
			parts = append(parts, n.name)
			a &^= n.bit
		}
	}
	if a != 0 {
		parts = append(parts, "0x"+strconv.FormatUint(uint64(a), 16))
	}
	return strings.Join(parts, "|")
}

package roce

import "net/netip"

// GIDChoice is a chosen local address with the reasons.
type GIDChoice struct {
	// Addr is the address, Index its place among Device.Addrs.
	Addr  netip.Addr
	Index int
	// Reason says why it was chosen.
	Reason string
	// Refused says, for each other address in order, why it was not.
	Refused []string
}

// ChooseGID chooses, among the local addresses, the one to talk to peer from: of the
// peer's family; link-local exactly when the peer is; the first that is left. A zero peer leaves the
// first address, global before link-local. The error says which addresses there are and
// what is missing.
func ChooseGID(local []netip.Addr, peer netip.Addr) (GIDChoice, error) { panic("not built yet") }

package roce

import (
	"errors"
	"fmt"
	"net/netip"
)

// GIDChoice is a chosen local address with the reasons.
type GIDChoice struct {
	// Addr is the address, Index its place among those there are.
	Addr  netip.Addr
	Index int
	// Reason says why it was chosen.
	Reason string
	// Refused says of each other address why it was not.
	Refused []string
}

// ChooseGID chooses, among local addresses, best first, the one to talk to peer from: it must be of
// the peer's family, and link-local exactly if the peer is; the first such one is
// taken. If all are refused only because they are link-local or are not, the
// first of the family is taken. Without a peer the first address is.
//
// The address is the GID, and its family decides whether packets are IPv4 or IPv6. The
// error says which addresses there are and what is missing.
func ChooseGID(local []netip.Addr, peer netip.Addr) (GIDChoice, error) {
	if len(local) == 0 {
		return GIDChoice{}, errors.New("there is no usable GID: the interface has no IPv4 or IPv6 address, give it one")
	}
	if !peer.IsValid() {
		return choose(local, 0, "it is the best address and no peer is known yet", func(netip.Addr) string { return "a better one comes before it" }), nil
	}
	peer = peer.Unmap()
	family := func(a netip.Addr) string {
		if a.Is4() != peer.Is4() {
			return fmt.Sprintf("the peer's address is %s", familyName(peer))
		}
		return ""
	}
	scope := func(a netip.Addr) string {
		if why := family(a); why != "" {
			return why
		}
		switch {
		case a.IsLinkLocalUnicast() && !peer.IsLinkLocalUnicast():
			return "it is link-local and the peer's address is not"
		case !a.IsLinkLocalUnicast() && peer.IsLinkLocalUnicast():
			return "it is not link-local and the peer's address is"
		}
		return ""
	}
	for _, rule := range []struct {
		refuse func(netip.Addr) string
		reason string
	}{
		{scope, "it is the first of the peer's family and scope"},
		{family, "it is the first of the peer's family, there is none of its scope"},
	} {
		for i, a := range local {
			if rule.refuse(a) == "" {
				return choose(local, i, rule.reason, func(a netip.Addr) string {
					if why := scope(a); why != "" {
						return why
					}
					return "one as good comes before it"
				}), nil
			}
		}
	}
	return GIDChoice{}, fmt.Errorf("there is no usable GID to talk to %v: that is %s and the local addresses are %v; give the interface an %s address or use another address of the peer",
		peer, familyName(peer), local, familyName(peer))
}

// choose takes local[i], with a reason to refuse each other.
func choose(local []netip.Addr, i int, reason string, refuse func(netip.Addr) string) GIDChoice {
	c := GIDChoice{Addr: local[i], Index: i, Reason: reason}
	for j, a := range local {
		if j != i {
			c.Refused = append(c.Refused, fmt.Sprintf("%v: %s", a, refuse(a)))
		}
	}
	return c
}

// String tells the choice in a line.
func (c GIDChoice) String() string {
	return fmt.Sprintf("GID %d, %v (RoCE v2, %s): %s", c.Index, c.Addr, familyName(c.Addr), c.Reason)
}

func familyName(a netip.Addr) string {
	if a.Unmap().Is4() {
		return "IPv4"
	}
	return "IPv6"
}

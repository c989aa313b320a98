package lab

import "net/netip"

// DefaultMTU is that of the veth pair: it carries the largest path MTU, as RoCE networks are made to.
const DefaultMTU = 9000

// Interface is the name of the interface in both namespaces.
const Interface = "roce0"

// Side is one of the two namespaces.
type Side struct {
	Name      string // a or b, as in "lab exec a"
	Namespace string
	IPv4      netip.Prefix
	IPv6      netip.Prefix
}

// Sides are a and b.
var Sides = [2]Side{
	{"a", "roce-a", netip.MustParsePrefix("10.77.0.1/24"), netip.MustParsePrefix("fd77::1/64")},
	{"b", "roce-b", netip.MustParsePrefix("10.77.0.2/24"), netip.MustParsePrefix("fd77::2/64")},
}

// State is what there is of the lab.
type State struct {
	// Up: both namespaces are there, and so is what belongs in them.
	Up bool `json:"up"`
	// Problem says what is missing from a lab of which a part is there.
	Problem string      `json:"problem,omitempty"`
	Sides   []SideState `json:"sides,omitempty"`
}

// SideState is what there is of one namespace.
type SideState struct {
	Name      string   `json:"name"`
	Namespace string   `json:"namespace"`
	Interface string   `json:"interface"`
	MTU       int      `json:"mtu"`
	MAC       string   `json:"mac"`
	Addresses []string `json:"addresses"`
}

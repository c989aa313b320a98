package netinfo

// Interface is a network interface as far as RDMA is concerned.
type Interface struct {
	Name   string `json:"name"`
	Driver string `json:"driver"`
	Up     bool   `json:"up"`
	MAC    string `json:"mac"`
	MTU    int    `json:"mtu"`
	// PathMTU is the largest path MTU that the MTU allows; 0 if not even the smallest.
	PathMTU  int `json:"path_mtu"`
	RxQueues int `json:"rx_queues"`
	TxQueues int `json:"tx_queues"`
	// GIDs are the local addresses in the order of their indices.
	GIDs  []string `json:"gids"`
	Links []Link   `json:"links"`
}

// Link says whether a kind of link works on an interface.
type Link struct {
	Kind  string `json:"kind"`
	Works bool   `json:"works"`
	// Mode tells how it runs; Reason why it does not.
	Mode   string `json:"mode,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Report is what there is on the machine.
type Report struct {
	Interfaces []Interface `json:"interfaces"`
	// Port says who has UDP port 4791 in this network namespace.
	Port string `json:"port_4791"`
}

// later are the kinds of link that have a name already.
func later() []Link {
	const reason = "not available in this version"
	return []Link{{Kind: "xdp", Reason: reason}, {Kind: "udp", Reason: reason}}
}

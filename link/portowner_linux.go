package link

import (
	"fmt"
	"slices"
	"strings"
)

// PortOwner says in words who has UDP port 4791 in the network namespace of the calling thread: nobody, processes of
// this library, which share it, or somebody else, from whom the raw link cannot take it.
func PortOwner() (string, error) {
	owners, err := portOwners()
	if err != nil {
		return "", err
	}
	var names []string
	for _, o := range owners {
		name := fmt.Sprintf("held by %s at %v", o.name(), o.addr)
		if o.ours {
			name = fmt.Sprintf("shared by %s, a process of this library", o.name())
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if names == nil {
		return "free", nil
	}
	return strings.Join(names, "; "), nil
}

//go:build !linux

package sniff

import "errors"

// OpenInterface captures on an interface, on Linux.
func OpenInterface(string) (Source, error) {
	return nil, errors.New("capturing on an interface needs Linux: read a file with -r")
}

//go:build race

package xdp

// someDescriptors is less than elsewhere: the race detector makes a ring ten times slower.
const someDescriptors = 500_000

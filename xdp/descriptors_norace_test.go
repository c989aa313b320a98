//go:build !race

package xdp

const someDescriptors = 10_000_000

// Package xdp is AF_XDP: sockets that take frames from a queue of a network interface, and give frames to it, past
// the kernel's network stack (Documentation/networking/af_xdp.rst).
package xdp

// Package netinfo tells what there is on this machine to do RDMA over: interfaces with their drivers, queues, MTUs and
// addresses, which links work on them and why others do not, and which interface leads to a host.
package netinfo

// Package lab makes a place to try RDMA in on one machine: two network namespaces joined by a veth pair, with
// addresses.
//
//	roce-a                                    roce-b
//	roce0  10.77.0.1, fd77::1  <-- veth -->  roce0  10.77.0.2, fd77::2
//
// It needs CAP_NET_ADMIN and CAP_SYS_ADMIN, as ip-netns does, and Linux.
package lab

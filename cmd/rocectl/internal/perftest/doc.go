// Package perftest is perftest's ib_{write,send,read,atomic}_{bw,lat}: the exchange over TCP by which two ends set up
// a test, and the traffic. Either end may be the original program, of the versions named at [Announced].
//
// The exchange is symmetric: at every step the client writes a message and the server answers with one of the same size.
//
//	version        16 bytes, ASCII, NUL padded                                 [Version]
//	cycle buffer    4 bytes, big-endian; both take the larger
//	cache line      4 bytes, big-endian; both take the larger
//	MTU             2 bytes, the digit of the verbs enum and NUL; both take the smaller
//	keys          108 bytes a queue pair: where it is and what may be done to it [Key]
//	barriers      108 bytes each, the key of one queue pair; only that it came matters
//	              the traffic, by RDMA
//	barriers, reports (5 x 8 bytes) and "done\0", as the test has them
//
// How many barriers there are differs from test to test; [Session] knows. What else two ends must agree on, such as
// message size and iterations, is not exchanged: the same options must be given at both.
//
// Limits: RC only; no rdma_cm (-R), no events, no rate limit, no multicast.
package perftest

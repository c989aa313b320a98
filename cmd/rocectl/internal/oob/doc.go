// Package oob is the TCP side of the test programs: the connection over which two ends tell each other where their
// queue pairs are, before any RDMA can happen.
//
// perftest and the ibv_*_pingpong programs exchange messages of fixed sizes without framing, and read each with a
// single read(2) that must return the whole of it. So a message here is always one Write. A [Conn] reads all the
// time, into a buffer, so that it notices a peer that goes away even while nobody waits for a message, and can then say
// what that peer had last said.
package oob

// Package memreg keeps registered memory: regions, the keys that name them, and
// what each of them allows.
//
// A [Table] belongs to one device. [Table.Register] makes a [Region] of a byte
// slice and gives it a random 32-bit key; work requests name it by that key as
// L_Key, the peer as R_Key. Every access by key goes through the table, which
// checks, in this order, that the key is registered, that the region belongs to
// the protection domain of the queue pair, that it grants the right, that the
// range lies inside it and, for atomics, that the address is a multiple of 8
// (IBA volume 1, 10.6 and 9.7.4.1.5). The first check that fails is the [Fault].
//
// # Addresses
//
// A region is reached by virtual addresses, uint64 in the peer's terms. By default
// they begin at the address of the first byte, as after ibv_reg_mr; with
// [ZeroBased] they begin at 0; with Options.Addr anywhere, as after
// ibv_reg_mr_iova. The last byte may be at 2^64-1. Bounds are checked without
// overflow. An access of length 0 touches nothing, so neither its key nor its
// address is looked at (IBA C9-88).
//
// # Concurrency
//
// Register and Deregister are for one goroutine at a time; the caller serialises
// them. Everything else may be called by any number of goroutines beside them:
// look-ups take no lock and allocate nothing.
//
// Deregister makes every look-up fail that begins after it returned. Slices and
// regions that were looked up before remain usable, and the garbage collector
// keeps their memory alive, so nothing ever touches freed memory. But they may
// still be written for a while. Whoever hands the memory to another purpose
// therefore lets a grace period pass: first Deregister, then wait until every loop
// that may hold a slice has finished its current turn. A loop that keeps slices
// only within one turn is past it once it has run an empty function between turns.
//
// # Memory shared with the network
//
// Registered memory is written by the endpoint while the program runs. The program
// owns it again after the matching completion, and needs nothing special then.
// Memory that a peer reaches by RDMA WRITE or atomics without a completion here is
// polled with [Region.LoadUint8] or [Region.LoadUint64] and written with
// [Region.StoreUint64]; their order with the endpoint's copies is described at [Copy].
//
// The race detector understands this: in race builds the endpoint's copies count as
// atomic accesses, so that pollers are clean, and a program that reads or writes a
// buffer too early with ordinary code is reported.
package memreg

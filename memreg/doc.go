// Package memreg keeps registered memory: regions, the keys that name them, and
// what each of them allows.
//
// A [Table] belongs to one device. [Table.Register] makes a [Region] of a byte
// slice and gives it a random 32-bit key; work requests name it by that key as
// L_Key, the peer as R_Key. Every access by key goes through the table, which
// checks, in this order, that the key is registered, that the region belongs to
// the protection domain of the queue pair, that it grants the right, that the
// range lies inside it and, for atomics, that the address is a multiple of 8. The
// first check that fails is the [Fault].
//
// # Addresses
//
// A region is reached by virtual addresses, uint64 in the peer's terms. By default
// they begin at the address of the first byte, as after ibv_reg_mr; with
// [ZeroBased] they begin at 0; with Options.Addr anywhere, as after
// ibv_reg_mr_iova. The last byte may be at 2^64-1. Bounds are checked without
// overflow. An access of length 0 touches nothing, so neither its key nor its
// address is looked at (IBA volume 1, C9-88). For the same reason there are no regions
// of length 0.
//
// # Concurrency
//
// Register and Deregister are for one goroutine at a time; the caller serialises
// them. Everything else may be called by any number of goroutines beside them:
// look-ups take no lock and allocate nothing.
//
// Deregister makes every look-up fail that begins after it returned. A slice that was
// looked up before stays good: the garbage collector keeps its memory, so nothing
// ever touches freed memory, but that memory may still be read or written for a
// while. Whoever wants to use it for something else lets a grace period pass: first
// Deregister, then wait for every loop that looks up to finish its current turn,
// since a loop keeps no slice from one turn to the next. The device does that by
// running an empty function on each of its loops between turns. Memory that is not
// the garbage collector's, from mmap or C, may be released only after that.
//
// # Memory shared with the network
//
// The endpoint reads and writes registered memory while the program runs. What a work
// request names is the program's again after its completion, and needs nothing
// special then. What a peer writes by RDMA WRITE or atomics, with no completion here, is
// polled with [Region.LoadUint8] or [Region.LoadUint64] and written with
// [Region.StoreUint64]; their order with the endpoint's copies is described at [Copy].
//
// The race detector understands this: in race builds the endpoint's copies count as
// atomic accesses, so that pollers are clean, and a program that reads or writes a
// buffer too early with ordinary code is reported.
package memreg

// Package ring hands values from one goroutine to another through a bounded ring.
//
// An [SPSC] has one producer and one consumer. The producer writes any number of
// values with Put and makes them visible together with Publish; the consumer takes
// as many as there are with Pop. So a batch costs one atomic store on each side, and
// each side looks at the other's index only when its cached copy says full or empty:
// the two do not fight over a cache line for every value. It is the shape of the
// AF_XDP rings.
//
// Neither side ever waits, takes a lock or allocates. Waking a consumer that sleeps
// is left to its owner; Publish is a sequentially consistent store, so "publish, then
// look whether somebody sleeps" against "announce sleep, then look at Len" loses no wake-up.
package ring

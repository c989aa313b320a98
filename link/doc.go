// Package link carries Ethernet frames between an endpoint and its peers.
//
// A [Link] has one or more queues; each [Queue] is a pair of receive and transmit
// queues that one goroutine owns and drives:
//
//	n, err := q.Recv(in)           // lease what came; never blocks
//	...                            // read in[:n], set Note
//	q.Release(in[:n])              // give it back
//	n = q.Alloc(out)               // lease buffers to send from; fewer when full
//	...                            // write out[i].Data, cut it to length
//	q.Submit(out[:n])              // send
//	q.Flush()                      // one kick for the batch
//	q.Wait(deadline)               // nothing to do: sleep
//
// # Contract
//
// Memory is leased, never owned. A received frame is good until Release, a
// transmit buffer until Submit; both take back only what the same queue leased.
// Frames may be given back in any order and in any grouping. A leased buffer
// that turns out not to be needed is submitted with empty Data.
// Nothing on these paths allocates.
//
// Only Wake and Stats may be called by goroutines other than the owner. Ownership may move,
// if whoever had it is done before the next begins.
//
// A queue never drops a frame to send for want of room: Alloc gives fewer buffers,
// and Wait returns once there are some. Whatever else is lost is counted in [Stats].
//
// Wait may return early for no reason; it never returns late, and uses no CPU meanwhile.
//
// After Close, Recv and Wait return an error that wraps [net.ErrClosed], and Alloc leases nothing.
//
// # Links
//
// [NewMemPair] and [MemSwitch] join devices of one process and need nothing from the
// system. [OpenRaw] opens a network interface by an AF_PACKET socket (Linux).
//
// # Wrappers
//
// [NewTap] writes what passes a link into a pcapng file, and [NewImpaired] loses, doubles, delays
// and damages packets on purpose. Both are links themselves and stack: a tap outside an
// impaired link shows what the endpoint sent, one inside what went out.
//
// # Super-frames
//
// A frame with a Segment is a row of UDP payloads behind one header, see [Frame]. Every link and
// wrapper takes part: mem hands the frame over as it is, the tap and the
// impairment act on each payload as a packet of its own.
package link

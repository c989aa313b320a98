package link

import (
	"context"
	"net/netip"

	"github.com/go-roce/roce/clock"
)

// Frame is an Ethernet frame on its way through a queue. Its memory is leased:
// it belongs to the queue again after Release or Submit.
type Frame struct {
	// Data is the frame from the Ethernet header on, without FCS. For a frame to
	// send that has a Gather list, it is the frame's beginning.
	Data []byte
	// Gather continues Data, for queues whose Caps say they take it. The slices
	// are good until Submit returns. The backing array belongs to the caller.
	Gather [][]byte
	// Segment is 0 for an ordinary frame. Otherwise the frame is a super-frame: what
	// follows its one Ethernet, IP and UDP header is a row of UDP payloads of
	// Segment bytes each (the last may be shorter), to be cut, or that came uncut.
	// Cut over IPv4, payload i travels with IP identification id+i and its own lengths.
	Segment int
	// Note remarks on the frame for a tap: why it was dropped, or sent again. It is
	// set before Submit or Release and must be a constant, not made per frame.
	Note string
	// Token is the queue's own mark of the buffer; nobody else looks at it.
	Token uint64
}

// Queue is one pair of receive and transmit queues. Batch first: every call takes
// as many frames as the caller has. One goroutine owns a queue; only Wake may be
// called by others.
type Queue interface {
	// Recv leases received frames into dst and returns how many; 0 when none wait.
	// It never blocks. The error is for a link that is gone for good.
	Recv(dst []Frame) (int, error)
	// Release gives received frames back.
	Release(fs []Frame)
	// Alloc leases buffers to send from into dst and returns how many; fewer than
	// asked when the queue is full. Each Data has the length of the longest frame
	// the link takes (with Gather links: at least MaxHeader bytes).
	Alloc(dst []Frame) int
	// Submit takes leased frames to send, Data cut to length by the caller. A frame
	// whose Data is empty is given back unsent. What cannot go out at once the queue
	// keeps (copying gathered parts), and Alloc leases less meanwhile: Submit never
	// drops for want of room.
	Submit(fs []Frame)
	// Flush makes the kernel or peer look at everything submitted: one kick a batch.
	Flush() error
	// Wait blocks until a frame can be received, room appeared after Alloc had
	// none, Wake was called, or the deadline passes. clock.Never waits for ever; a
	// deadline in the past returns at once. It is measured on the clock given to the link.
	Wait(deadline clock.Time) error
	// Wake ends the present Wait, or the next one. Any goroutine may call it.
	Wake()
	// Stats returns the queue's own counters, by name.
	Stats() Stats
	// Close ends the queue. Frames still leased are forgotten.
	Close() error
}

// Stats counts what a queue did and refused. Nothing is lost without a count.
type Stats struct {
	RxFrames, RxBytes, TxFrames, TxBytes uint64
	// RxDropped: frames the kernel or peer dropped because this end was slow.
	RxDropped uint64
	// RxMerged: super-frames received; TxMerged: super-frames sent.
	RxMerged, TxMerged uint64
	// RxTruncated: frames longer than a receive buffer.
	RxTruncated uint64
	// TxErrors: frames the kernel refused for good (too long, interface down).
	TxErrors uint64
	// TxKept: frames that had to wait because the queue was full.
	TxKept uint64
}

// Caps says what a link's queues can do.
type Caps struct {
	// MTU is the longest IP packet.
	MTU int
	// MaxSegments is how many packets a super-frame may hold; 1 when the link has none. What a leased buffer
	// has room for is its longest.
	MaxSegments int
	// Gather: Submit takes Frame.Gather.
	Gather bool
}

// Info describes an open link to people.
type Info struct {
	// Kind is mem, raw, udp or xdp.
	Kind string
	// Mode tells how it runs, e.g. "AF_PACKET, single frames".
	Mode string
	// Interface is the network interface, or a made-up name.
	Interface string
	// Reasons says of each better link or mode why it was not taken.
	Reasons []string
}

// Route is how to reach a peer: what the Ethernet and IP headers of its packets need.
type Route struct {
	SrcMAC, DstMAC [6]byte
	// Src is the local address packets to the peer come from.
	Src netip.Addr
	// MTU is the longest IP packet on the way, as far as known here.
	MTU int
}

// EventKind says what changed on a link.
type EventKind uint8

// Link events.
const (
	EventNeighbor EventKind = iota // the hardware address of Event.Addr changed
	EventDown                      // the interface went down
	EventUp                        // the interface is up again
	EventMTU                       // the MTU changed to Event.MTU
	EventAddrs                     // local addresses came or went
)

// Event tells of a change on a link.
type Event struct {
	Kind EventKind
	Addr netip.Addr
	MAC  [6]byte
	MTU  int
}

// Link carries frames between this endpoint and its peers.
type Link interface {
	// Queues returns the link's queues; their number does not change.
	Queues() []Queue
	// Info describes the link.
	Info() Info
	// Caps says what the queues can do.
	Caps() Caps
	// Addrs returns the local addresses usable as RoCEv2 GIDs, best first: global
	// before link-local.
	Addrs() []netip.Addr
	// QPNs returns the queue pair numbers this process may use.
	QPNs() QPNRange
	// Resolve finds the way to dst; src may be the zero Addr. It may send ARP or
	// neighbour solicitations and waits for the answer until ctx ends. The error
	// says whether address, route or neighbour is missing and what to do.
	Resolve(ctx context.Context, src, dst netip.Addr) (Route, error)
	// Events delivers changes. A slow reader loses the oldest, never blocks the link.
	Events() <-chan Event
	// Close ends all queues and gives back everything taken from the system.
	Close() error
}

// MaxHeader is the room a leased transmit buffer has at least: Ethernet with a VLAN tag,
// IPv6, UDP, the longest run of IB headers, pad and ICRC.
const MaxHeader = 128

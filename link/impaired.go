package link

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/go-roce/roce/clock"
)

// Impaired is a link that ill-treats the packets its endpoint sends. What
// the endpoint receives is left alone: for both directions impair both ends.
type Impaired struct {
	Link
	queues []Queue
	counts impairedCounts
}

// ImpairedCounts tells what was done to packets.
type ImpairedCounts struct {
	Packets                                        uint64 // RoCEv2 packets looked at
	Lost, Duplicated, Reordered, Corrupted, Marked uint64
}

type impairedCounts struct {
	packets, lost, duplicated, reordered, corrupted, marked atomic.Uint64
}

// NewImpaired returns l with the packets sent through it impaired. A nil clk means [clock.System];
// otherwise it must be the clock l was given.
func NewImpaired(l Link, im Impairment, clk clock.Clock) *Impaired {
	if clk == nil {
		clk = clock.System()
	}
	i := &Impaired{Link: l}
	for n, q := range l.Queues() {
		i.queues = append(i.queues, newImpairedQueue(q, uint64(n), im, clk, &i.counts))
	}
	return i
}

// Queues returns the impaired queues.
func (i *Impaired) Queues() []Queue { return i.queues }

// Counts returns what was done so far. Any goroutine may call it.
func (i *Impaired) Counts() ImpairedCounts {
	c := &i.counts
	return ImpairedCounts{
		Packets: c.packets.Load(), Lost: c.lost.Load(), Duplicated: c.duplicated.Load(),
		Reordered: c.reordered.Load(), Corrupted: c.corrupted.Load(), Marked: c.marked.Load(),
	}
}

// verdict is what happens to one packet.
type verdict struct {
	lose, duplicate, reorder, corrupt, mark bool
	bit                                     uint64 // to invert, modulo their number
	overtakers                              int    // of a reordered packet
	delay                                   time.Duration
}

// judge gives verdicts on the packets of a queue, one after the other.
type judge struct {
	im   Impairment
	rnd  *rand.Rand
	seen []int // matches of each rule
}

func newJudge(im Impairment, queue uint64) *judge {
	return &judge{im: im, rnd: rand.New(rand.NewPCG(im.Seed, queue)), seen: make([]int, len(im.Rules))}
}

// next judges the next packet. It always draws the same number of random numbers, so
// that what one probability decides does not depend on another.
func (j *judge) next(frame []byte) verdict {
	v := verdict{
		lose:       j.rnd.Float64() < j.im.Loss,
		duplicate:  j.rnd.Float64() < j.im.Dup,
		reorder:    j.rnd.Float64() < j.im.Reorder,
		corrupt:    j.rnd.Float64() < j.im.Corrupt,
		mark:       j.rnd.Float64() < j.im.CE,
		bit:        j.rnd.Uint64(),
		overtakers: 1 + int(j.rnd.Uint64()%3),
		delay:      j.im.Delay,
	}
	for i, r := range j.im.Rules {
		if r.Match != nil && !r.Match(frame) {
			continue
		}
		if j.seen[i]++; r.Nth != 0 && r.Nth != j.seen[i] {
			continue
		}
		switch r.Action {
		case ActionLose:
			v.lose = true
		case ActionDuplicate:
			v.duplicate = true
		case ActionReorder:
			v.reorder = true
		case ActionCorrupt:
			v.corrupt = true
		case ActionMarkCE:
			v.mark = true
		case ActionDelay:
			v.delay += r.Delay
		}
	}
	return v
}

// unchecked is the byte of a RoCEv2 packet that the ICRC leaves out (resv8a of the BTH): a bit wrong
// there harms nothing.
const unchecked = 4

// corruptBit inverts one bit of the UDP payload that the ICRC covers, if there is any.
func (l layout) corruptBit(b []byte, bit uint64) {
	payload := b[l.payload:l.end(b)]
	if len(payload) <= unchecked {
		return
	}
	bit %= uint64(len(payload)-1) * 8
	at := bit / 8
	if at >= unchecked {
		at++
	}
	payload[at] ^= 1 << (bit % 8)
}

// markCE sets both ECN bits of the IP header (RFC 3168, 5).
func (l layout) markCE(b []byte) {
	if l.v6 {
		b[l.ip+1] |= 3 << 4
		return
	}
	b[l.ip+1] |= 3
	l.sumIPv4(b)
}

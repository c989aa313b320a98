package perftest

import (
	"fmt"
	"time"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/bth"
)

// Verb is the operation a test is made of.
type Verb uint8

// Verbs.
const (
	Send Verb = iota
	Write
	Read
	Atomic
)

// Test is one of perftest's programs.
type Test struct {
	Name    string // as this project's command line has it, e.g. write-bw
	Program string // as perftest calls it
	Title   string // of its output
	Verb    Verb
	Latency bool
}

// Tests are all of them.
var Tests = []Test{
	{"write-bw", "ib_write_bw", "RDMA_Write BW Test", Write, false},
	{"send-bw", "ib_send_bw", "Send BW Test", Send, false},
	{"read-bw", "ib_read_bw", "RDMA_Read BW Test", Read, false},
	{"atomic-bw", "ib_atomic_bw", "Atomic BW Test", Atomic, false},
	{"write-lat", "ib_write_lat", "RDMA_Write Latency Test", Write, true},
	{"send-lat", "ib_send_lat", "Send Latency Test", Send, true},
	{"read-lat", "ib_read_lat", "RDMA_Read Latency Test", Read, true},
	{"atomic-lat", "ib_atomic_lat", "Atomic Latency Test", Atomic, true},
}

// passiveServer reports whether only the client posts work requests, unless both are told to.
func (t *Test) passiveServer() bool {
	return t.Verb == Read || t.Verb == Atomic || t.Verb == Write && !t.Latency
}

// pingPong reports whether a message of one end answers one of the other, so that half a round trip is what counts.
func (t *Test) pingPong() bool { return t.Latency && (t.Verb == Write || t.Verb == Send) }

// Limits of the options.
const (
	minIterations = 5       // perftest's
	maxQPs        = 16384   // perftest's
	maxSize       = 1 << 30 // both halves of the buffer must fit a sensible memory
	atomicSize    = 8
)

// Params are the options of a test, named after perftest's flags. Both ends must be given the same.
type Params struct {
	Test Test
	// Size (-s) is the bytes of a message; All (-a) runs 2, 4, 8 ... 2^23 bytes instead.
	Size int
	All  bool
	// Iterations (-n) are the messages of each queue pair. With Duration (-D) the run ends after that time instead, and
	// what its middle half moved is measured.
	Iterations uint64
	Duration   time.Duration
	QPs        int  // -q
	Both       bool // -b: both ends send
	// MTU (-m) is the path MTU; 0 means the largest that both ends have.
	MTU int
	// TxDepth (-t) and RxDepth (-r) are work requests of a queue pair.
	TxDepth, RxDepth int
	// CQMod (-Q) asks for a completion of every so many sends; 0 means 100, or 1 for messages of over 8 KiB.
	CQMod int
	// Inline (-I) is the largest message that is handed over by value.
	Inline int
	// OutReads (-o) is how many READs or atomics may be outstanding.
	OutReads int
	// CompareSwap (-A CMP_AND_SWAP) instead of fetch-and-add.
	CompareSwap bool
	// Timeout (-u) is the ACK timeout code.
	Timeout      uint8
	TrafficClass uint8 // --tclass
	// GIDIndex (-x) is the local address by its place in the device's list; negative means to choose one.
	GIDIndex int
	// IPv6 (--ipv6) chooses an IPv6 address.
	IPv6 bool

	powers int // All ends at 2^powers
}

// Defaults returns perftest's defaults for a test. -o is this library's default instead of the most it can do, since
// the answers to 128 READs of 64 KiB at once fill any interface's queue.
func Defaults(t Test) Params {
	p := Params{
		Test: t, Size: 65536, Iterations: 1000, QPs: 1, TxDepth: 128, RxDepth: 512, OutReads: 16, Timeout: 14, GIDIndex: -1, powers: 23,
	}
	switch {
	case t.Verb == Atomic:
		p.Size = atomicSize
	case t.Latency:
		p.Size = 2
	case t.Verb == Write:
		p.Iterations = 5000
	}
	return p
}

// Validate names the first option that makes no sense.
func (p *Params) Validate() error {
	t := &p.Test
	between := func(flag string, v, low, high int) error {
		if v < low || v > high {
			return fmt.Errorf("%s %d must be %d to %d", flag, v, low, high)
		}
		return nil
	}
	for _, err := range []error{
		between("the message size -s", p.Size, 1, maxSize),
		between("the number of queue pairs -q", p.QPs, 1, maxQPs),
		between("the depth of the send queue -t", p.TxDepth, 1, roce.MaxDepth),
		between("the depth of the receive queue -r", p.RxDepth, 1, roce.MaxDepth),
		between("the completion moderation -Q", p.CQMod, 0, roce.MaxDepth),
		between("the inline size -I", p.Inline, 0, roce.MaxInlineData),
		between("the number of outstanding reads -o", p.OutReads, 1, 128),
		between("the timeout code -u", int(p.Timeout), 0, 31),
	} {
		if err != nil {
			return err
		}
	}
	switch {
	case p.Duration < 0:
		return fmt.Errorf("the duration -D must be positive")
	case p.Duration == 0 && p.Iterations < minIterations:
		return fmt.Errorf("the number of iterations -n %d must be at least %d, as in perftest", p.Iterations, minIterations)
	case p.MTU != 0 && !bth.ValidPathMTU(p.MTU):
		return fmt.Errorf("the path MTU -m %d is none of 256, 512, 1024, 2048, 4096", p.MTU)
	case p.All && p.Duration != 0:
		return fmt.Errorf("-a runs every size for -n iterations; it cannot be combined with -D")
	case t.Verb == Atomic && p.Size != atomicSize:
		return fmt.Errorf("an atomic has %d bytes; -s does not apply", atomicSize)
	case t.Verb == Atomic && p.All:
		return fmt.Errorf("an atomic has %d bytes; -a does not apply", atomicSize)
	case t.Latency && (p.QPs != 1 || p.Both):
		return fmt.Errorf("a latency test has one queue pair and one message on the way; -q and -b do not apply")
	}
	return nil
}

// largest is the largest message of the test.
func (p *Params) largest() int {
	if p.All {
		return 1 << p.powers
	}
	return p.Size
}

// sizes are the messages of the test's runs.
func (p *Params) sizes() []int {
	if !p.All {
		return []int{p.Size}
	}
	var s []int
	for i := 1; i <= p.powers; i++ {
		s = append(s, 1<<i)
	}
	return s
}

// moderation is how many sends share a completion.
func (p *Params) moderation(size int) int {
	const defaultModeration, unmoderated = 100, 8192
	switch {
	case p.CQMod > 0:
		return min(p.CQMod, p.TxDepth)
	case size > unmoderated:
		return 1
	}
	return min(defaultModeration, p.TxDepth)
}

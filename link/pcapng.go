package link

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-roce/roce/clock"
)

// CaptureOptions are the properties of a capture. The zero value means the defaults.
type CaptureOptions struct {
	// Clock tells when a frame passed; nil means [clock.System].
	Clock clock.Clock
	// Start is the time of day at the clock's present instant; zero means now. With a
	// manual clock and a given start the same frames make the same file.
	Start time.Time
	// Snaplen is how many bytes of a frame are kept; 0 means all.
	Snaplen int
}

// Capture writes frames of one or more links to one pcapng stream
// (draft-ietf-opsawg-pcapng). Its methods may be called by several goroutines.
//
// It writes through a buffer, which is emptied when a tapped queue is about to
// sleep and when a tapped link is closed. When writing fails the
// links go on without being captured; Err and their Close tell.
//
// This is no use of gopacket's writer, because that allocates for each packet with options.
type Capture struct {
	clk     clock.Clock
	zero    time.Time // time of day at the clock's origin
	snaplen int

	mu     sync.Mutex
	w      *bufio.Writer
	ifaces uint32
	block  []byte // the one being put together
	err    error
}

// Block types, option codes and the like of pcapng.
const (
	ngSection   = 0x0A0D0D0A
	ngInterface = 1
	ngPacket    = 6 // enhanced packet block

	ngByteOrder    = 0x1A2B3C4D
	ngLinkEthernet = 1
	ngTimeNano     = 9 // of if_tsresol: 10^-9 s

	ngEndOfOptions = 0
	ngComment      = 1
	ngIfName       = 2
	ngIfTimeRes    = 9
	ngEpbFlags     = 2
	ngEpbQueue     = 6

	ngInbound  = 1 // of epb_flags
	ngOutbound = 2
)

// NewCapture begins a pcapng stream.
func NewCapture(w io.Writer, o CaptureOptions) *Capture {
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Start.IsZero() {
		o.Start = time.Now()
	}
	c := &Capture{
		clk: o.Clock, zero: o.Start.Add(-o.Clock.Now().Sub(0)),
		snaplen: o.Snaplen, w: bufio.NewWriterSize(w, 1<<16),
	}
	c.begin(ngSection)
	c.u32(ngByteOrder)
	c.u32(1)                      // version 1.0
	c.u32(^uint32(0), ^uint32(0)) // length of the section: not known
	c.end()
	return c
}

// addInterface describes an interface and returns its number.
func (c *Capture) addInterface(name string) uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin(ngInterface)
	c.u32(ngLinkEthernet, uint32(c.snaplen))
	c.option(ngIfName, name)
	c.option(ngIfTimeRes, string([]byte{ngTimeNano}))
	c.option(ngEndOfOptions, "")
	c.end()
	c.ifaces++
	return c.ifaces - 1
}

// now is the time of day in nanoseconds since 1970.
func (c *Capture) now() uint64 {
	return uint64(c.zero.Add(c.clk.Now().Sub(0)).UnixNano())
}

// packet writes a frame that passed an interface's queue at time at. direction is
// ngInbound or ngOutbound; a queue below 0 is not worth mentioning.
func (c *Capture) packet(iface uint32, queue int, at uint64, direction uint32, frame []byte, note string) {
	kept := frame
	if c.snaplen > 0 && len(kept) > c.snaplen {
		kept = kept[:c.snaplen]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin(ngPacket)
	c.u32(iface, uint32(at>>32), uint32(at), uint32(len(kept)), uint32(len(frame)))
	c.block = append(c.block, kept...)
	c.pad()
	if note != "" {
		c.option(ngComment, note)
	}
	c.optionU32(ngEpbFlags, direction)
	if queue >= 0 {
		c.optionU32(ngEpbQueue, uint32(queue))
	}
	c.option(ngEndOfOptions, "")
	c.end()
}

// flush hands what is buffered to the writer.
func (c *Capture) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && c.w.Buffered() > 0 {
		c.fail(c.w.Flush())
	}
	return c.err
}

// Err returns why writing ended before the links were closed, or nil.
func (c *Capture) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *Capture) fail(err error) {
	if err != nil && c.err == nil {
		c.err = fmt.Errorf("writing the capture, which is incomplete: %w", err)
	}
}

// A block is its type, its length, its body and its length again, all padded to 4 bytes.

func (c *Capture) begin(blockType uint32) {
	c.block = c.block[:0]
	c.u32(blockType, 0)
}

func (c *Capture) end() {
	n := uint32(len(c.block) + 4)
	binary.NativeEndian.PutUint32(c.block[4:], n)
	c.u32(n)
	if c.err == nil {
		_, err := c.w.Write(c.block)
		c.fail(err)
	}
}

func (c *Capture) u32(vs ...uint32) {
	for _, v := range vs {
		c.block = binary.NativeEndian.AppendUint32(c.block, v)
	}
}

func (c *Capture) pad() {
	for len(c.block)%4 != 0 {
		c.block = append(c.block, 0)
	}
}

// An option is its code and length, 16 bits each, and its value, padded.

func (c *Capture) optionHead(code uint16, length int) {
	c.block = binary.NativeEndian.AppendUint16(c.block, code)
	c.block = binary.NativeEndian.AppendUint16(c.block, uint16(length))
}

func (c *Capture) option(code uint16, value string) {
	c.optionHead(code, len(value))
	c.block = append(c.block, value...)
	c.pad()
}

func (c *Capture) optionU32(code uint16, value uint32) {
	c.optionHead(code, 4)
	c.u32(value)
}

package oob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// maxUnread is how much a peer may send ahead. The longest exchange, that of ibv_srq_pingpong, has 13317 bytes.
const maxUnread = 64 << 10

// errTooMuch ends a connection whose peer sends more than any exchange has.
var errTooMuch = errors.New("it sent more than the exchange has")

// Conn is an exchange with one peer. Send and Receive belong to one goroutine at a time; the other methods to any.
type Conn struct {
	conn net.Conn
	peer string

	mu     sync.Mutex
	unread []byte
	err    error         // why nothing more will come
	last   string        // the last whole message received
	more   chan struct{} // holds a token when unread or err changed
	gone   chan struct{} // closed when err is set
}

// New starts the exchange on c, which is the Conn's from now on.
func New(c net.Conn) *Conn {
	x := &Conn{conn: c, peer: c.RemoteAddr().String(), last: "nothing", more: make(chan struct{}, 1), gone: make(chan struct{})}
	go x.read()
	return x
}

// Peer is the address of the other end.
func (x *Conn) Peer() string { return x.peer }

// PeerIP is the IP address of the other end; the zero Addr if it has none.
func (x *Conn) PeerIP() netip.Addr {
	t, ok := x.conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return t.AddrPort().Addr().Unmap().WithZone("")
}

// LocalAddr is the address of this end.
func (x *Conn) LocalAddr() net.Addr { return x.conn.LocalAddr() }

// Gone is closed when the peer has hung up.
func (x *Conn) Gone() <-chan struct{} { return x.gone }

// Close ends the exchange.
func (x *Conn) Close() error { return x.conn.Close() }

// CloseWrite tells the peer that nothing more will come, where the connection can.
func (x *Conn) CloseWrite() error {
	if half, ok := x.conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (x *Conn) read() {
	b := make([]byte, 4096)
	for {
		n, err := x.conn.Read(b)
		x.mu.Lock()
		x.unread = append(x.unread, b[:n]...)
		if err == nil && len(x.unread) > maxUnread {
			err = errTooMuch
		}
		x.err = err
		x.mu.Unlock()
		select {
		case x.more <- struct{}{}:
		default:
		}
		if err != nil {
			close(x.gone)
			return
		}
	}
}

// Send writes one message. what names it in errors.
func (x *Conn) Send(what string, b []byte) error {
	// A peer that takes nothing for this long will not take it later: the messages fit any socket buffer.
	_ = x.conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
	if _, err := x.conn.Write(b); err != nil {
		if hangUp(err) {
			return x.hungUp("when it was sent " + what)
		}
		return fmt.Errorf("cannot send %s to %s: %w", what, x.peer, err)
	}
	return nil
}

// Expect describes a message that is waited for.
type Expect struct {
	// What names the message in errors, e.g. "its key".
	What string
	// Patience is how long the peer may take; 0 means for ever.
	Patience time.Duration
	// Early, if not nil, looks at the part of the message that has come, to refuse a peer that will not send the rest.
	Early func(got []byte) error
}

// Receive fills b with the next message.
func (x *Conn) Receive(ctx context.Context, e Expect, b []byte) error {
	var expired <-chan time.Time
	if e.Patience > 0 {
		t := time.NewTimer(e.Patience)
		defer t.Stop()
		expired = t.C
	}
	for {
		if done, err := x.take(&e, b); done || err != nil {
			return err
		}
		select {
		case <-x.more:
		case <-expired:
			return x.silent(&e, len(b))
		case <-ctx.Done():
			return fmt.Errorf("interrupted while waiting for %s from %s", e.What, x.peer)
		}
	}
}

// take copies the message if all of it is there.
func (x *Conn) take(e *Expect, b []byte) (bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.unread) >= len(b) {
		n := copy(b, x.unread)
		x.unread = append(x.unread[:0], x.unread[n:]...)
		x.last = e.What
		return true, nil
	}
	if e.Early != nil {
		if err := e.Early(x.unread); err != nil {
			return false, err
		}
	}
	switch {
	case x.err == nil:
		return false, nil
	case hangUp(x.err):
		return false, x.describe("while " + e.What + " was expected")
	default:
		return false, fmt.Errorf("the exchange with %s broke while %s was expected: %w", x.peer, e.What, x.err)
	}
}

// Waiting says whether the peer has sent something that nobody received yet.
func (x *Conn) Waiting() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.unread) > 0 || x.err != nil
}

// HungUp is the error of a peer that went away, with when as the rest of the sentence's first half.
func (x *Conn) HungUp(when string) error { return x.hungUp(when) }

func (x *Conn) hungUp(when string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.describe(when)
}

// describe is called with the lock held.
func (x *Conn) describe(when string) error {
	return &HangUpError{Peer: x.peer, When: when, Last: x.last, Rest: len(x.unread)}
}

func (x *Conn) silent(e *Expect, size int) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	had := ""
	if n := len(x.unread); n > 0 {
		had = fmt.Sprintf(" and %d of the next message's %d bytes", n, size)
	}
	return fmt.Errorf("%s did not send %s within %v; the last it sent was %s%s: is the same test running there, with the same options?",
		x.peer, e.What, e.Patience, x.last, had)
}

// HangUpError says that the other end of the exchange went away.
type HangUpError struct {
	Peer string
	When string // e.g. "while its key was expected"
	Last string // the last whole message it sent, or "nothing"
	Rest int    // bytes it sent after that message
}

// Error is a sentence.
func (e *HangUpError) Error() string {
	rest := ""
	if e.Rest > 0 {
		rest = fmt.Sprintf(" and %d bytes more", e.Rest)
	}
	return fmt.Sprintf("the peer %s hung up %s; the last it sent was %s%s: see what it said there", e.Peer, e.When, e.Last, rest)
}

// hangUp tells a peer that went away from other faults of a connection.
func hangUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

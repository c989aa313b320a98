package oob

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"
)

// DefaultPort is where perftest and the pingpong programs listen.
const DefaultPort = 18515

// Dial connects to the server of an exchange. network is "tcp", "tcp4" or "tcp6".
func Dial(ctx context.Context, network, host string, port int) (*Conn, error) {
	at := net.JoinHostPort(host, strconv.Itoa(port))
	d := net.Dialer{Timeout: 10 * time.Second}
	c, err := d.DialContext(ctx, network, at)
	switch {
	case err == nil:
		return New(c), nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("interrupted while connecting to %s", at)
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("nothing listens at %s: start the test there first, without a host name", at)
	}
	var name *net.DNSError
	if errors.As(err, &name) {
		return nil, fmt.Errorf("no address is known for the host name %q: %s", host, name.Err)
	}
	return nil, fmt.Errorf("cannot connect to %s: %w: is the host up, and does a firewall let TCP port %d pass?", at, cause(err), port)
}

// Accept listens on a TCP port, IPv4 and IPv6 alike, until one client came. listening is called once it listens.
func Accept(ctx context.Context, network string, port int, listening func(net.Addr)) (*Conn, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, network, net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("TCP port %d is taken by another program: end it, or choose another port with -p", port)
		}
		return nil, fmt.Errorf("cannot listen on TCP port %d: %w", port, cause(err))
	}
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	defer l.Close()
	if listening != nil {
		listening(l.Addr())
	}
	c, err := l.Accept()
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("interrupted while waiting for a client on TCP port %d", port)
		}
		return nil, fmt.Errorf("cannot accept a client on TCP port %d: %w", port, cause(err))
	}
	return New(c), nil
}

// cause strips what net wraps round an error: the sentence names the address already.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		if op.Timeout() {
			return errors.New("no answer")
		}
		err = op.Err
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

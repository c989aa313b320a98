package perftest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-roce/roce/cmd/rocectl/internal/oob"
)

// against runs f at one end of an exchange and a scripted peer at the other, and returns f's error.
func against(t *testing.T, client bool, peer func(net.Conn) error, f func(context.Context, *Exchange) error) error {
	t.Helper()
	a, b := net.Pipe()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- peer(b)
		b.Close()
	}()
	conn := oob.New(a)
	err := f(ctx, NewExchange(conn, client))
	conn.Close()
	if perr := <-done; perr != nil {
		t.Errorf("the peer's script: %v", perr)
	}
	return err
}

// play is a peer that says what the messages are, one for one of ours, and checks the lengths of ours.
func play(client bool, messages, expect [][]byte) func(net.Conn) error {
	return func(c net.Conn) error {
		for i, m := range messages {
			if client {
				if _, err := c.Write(m); err != nil {
					return fmt.Errorf("message %d: %w", i, err)
				}
			}
			// One read must return a whole message: the originals insist on it.
			b := make([]byte, 512)
			n, err := c.Read(b)
			if err != nil {
				return fmt.Errorf("answer to message %d: %w", i, err)
			}
			if want := len(expect[i]); n != want {
				return fmt.Errorf("answer to message %d has %d bytes, want %d", i, n, want)
			}
			if !client {
				if _, err := c.Write(m); err != nil {
					return fmt.Errorf("message %d: %w", i, err)
				}
			}
		}
		return nil
	}
}

var ownTerms = terms{cycleBuffer: 4096, cacheLine: 64, mtu: 4096}

// setUp is what both roles do up to the keys.
func setUp(ctx context.Context, x *Exchange) (terms, []Key, error) {
	agreed, err := x.hello(ctx, ownTerms)
	if err != nil {
		return agreed, nil, err
	}
	_, theirs, err := x.keys(ctx, 1, func(_ int, peer *Key) (Key, error) {
		if (peer == nil) != x.client {
			return Key{}, errors.New("the server must be given the client's key, and the client none")
		}
		return Key{OutReads: 1, QPN: 7, PSN: 8, RKey: 9, VAddr: 10, GID: netip.MustParseAddr("10.7.0.9")}, nil
	})
	return agreed, theirs, err
}

// Either end of every captured exchange is played to ours, as far as the keys.
func TestExchange_WithTheOriginalsInEitherRole(t *testing.T) {
	for _, name := range captures {
		s := capturedExchange(t, name)
		for _, client := range []bool{true, false} {
			original, replaced := s.server, s.client
			if !client {
				original, replaced = s.client, s.server
			}
			var theirs []Key
			var agreed terms
			err := against(t, client, play(!client, original[:5], replaced[:5]), func(ctx context.Context, x *Exchange) (err error) {
				agreed, theirs, err = setUp(ctx, x)
				if x.Peer() != 606 {
					t.Errorf("%s: peer's version %v", name, x.Peer())
				}
				return err
			})
			if err != nil {
				t.Errorf("%s, client %v: %v", name, client, err)
				continue
			}
			if agreed != ownTerms {
				t.Errorf("%s: agreed on %+v", name, agreed)
			}
			if want, _ := parseKey(original[4]); theirs[0] != want {
				t.Errorf("%s: peer's key %+v, want %+v", name, theirs[0], want)
			}
		}
	}
}

// versionMessage is a peer's first message.
func versionMessage(v string) []byte {
	b := make([]byte, versionLen)
	copy(b, v)
	return b
}

func TestExchange_NewerAndOlderPeers(t *testing.T) {
	s := capturedExchange(t, "pt_write_bw")
	for _, c := range []struct {
		version string
		want    string // in the error; "" where it goes on
	}{
		{"5.69", "version skew: the peer speaks version 5.69"}, {"5.70", ""}, {"6.06", ""}, {"6.16", ""}, {"6.27", ""},
		{"6.28", "version skew: the peer speaks version 6.28"}, {"6.29", ""}, {"7.00", ""}, {"HTTP/1.1", "is another program at the other end?"},
	} {
		for _, client := range []bool{true, false} {
			original, replaced := s.server, s.client
			if !client {
				original, replaced = s.client, s.server
			}
			script := slices.Clone(original[:5])
			script[0] = versionMessage(c.version)
			if c.want != "" {
				script = script[:1]
			}
			err := against(t, client, play(!client, script, replaced), func(ctx context.Context, x *Exchange) error {
				_, _, err := setUp(ctx, x)
				return err
			})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("peer of version %s, client %v: %v, want %q", c.version, client, err, c.want)
			}
		}
	}
}

func TestExchange_AgreesOnTheLargerBufferAndTheSmallerMTU(t *testing.T) {
	for _, c := range []struct {
		cycle, line, mtu string
		want             terms
		refused          string
	}{
		{"\x00\x01\x00\x00", "\x00\x00\x00\x80", "3\x00", terms{65536, 128, 1024}, ""},
		{"\x00\x00\x04\x00", "\x00\x00\x00\x20", "1\x00", terms{4096, 64, 256}, ""},
		{"\x00\x00\x10\x00", "\x00\x00\x00\x40", "5\x00", terms{4096, 64, 4096}, ""},
		{"\x00\x00\x00\x00", "", "", terms{}, "cycle buffer size of 0 bytes"},
		{"\xff\xff\xff\xff", "", "", terms{}, "makes no sense"},
		{"\x00\x00\x10\x00", "\x00\x00\x00\x00", "", terms{}, "cache line size of 0 bytes"},
		{"\x00\x00\x10\x00", "\x00\x00\x00\x40", "6\x00", terms{}, "digits 1 (256) to 5 (4096)"},
		{"\x00\x00\x10\x00", "\x00\x00\x00\x40", "\x00\x00", terms{}, "digits 1 (256) to 5 (4096)"},
		{"\x00\x00\x10\x00", "\x00\x00\x00\x40", "55", terms{}, "digits 1 (256) to 5 (4096)"},
	} {
		script := [][]byte{versionMessage("6.06")}
		for _, m := range []string{c.cycle, c.line, c.mtu} {
			if m != "" {
				script = append(script, []byte(m))
			}
		}
		expect := [][]byte{make([]byte, 16), make([]byte, 4), make([]byte, 4), make([]byte, 2)}
		var got terms
		err := against(t, true, play(false, script, expect), func(ctx context.Context, x *Exchange) (err error) {
			got, err = x.hello(ctx, ownTerms)
			return err
		})
		switch {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%q: %v, want %q", script[1:], err, c.refused)
			}
		case err != nil || got != c.want:
			t.Errorf("%q: %+v, %v; want %+v", script[1:], got, err, c.want)
		}
	}
}

// When the other end hangs up, the error says when, and what it had last said (pitfall 53).
func TestExchange_HangUpIsNamedWithTheLastWords(t *testing.T) {
	s := capturedExchange(t, "pt_write_bw")
	for n, want := range []string{
		"while its version was expected; the last it sent was nothing",
		"while its cycle buffer size was expected; the last it sent was its version",
		"while its cache line size was expected; the last it sent was its cycle buffer size",
		"while its MTU was expected; the last it sent was its cache line size",
		"while its key was expected; the last it sent was its MTU",
	} {
		for _, client := range []bool{true, false} {
			original, replaced := s.server, s.client
			if !client {
				original, replaced = s.client, s.server
			}
			script := play(!client, original[:n], replaced)
			err := against(t, client, func(c net.Conn) error {
				if err := script(c); err != nil {
					return err
				}
				if !client {
					return nil
				}
				_, err := c.Read(make([]byte, 512)) // hears our next message, and goes
				return err
			}, func(ctx context.Context, x *Exchange) error {
				_, _, err := setUp(ctx, x)
				return err
			})
			if hup := new(oob.HangUpError); !errors.As(err, &hup) || !strings.Contains(err.Error(), want) {
				t.Errorf("after %d messages, client %v: %v, want %q", n, client, err, want)
			}
		}
	}
}

func TestExchange_PeerWithoutGIDIsToldApart(t *testing.T) {
	const short = "0001:0001:000050:041871:000078e4:0000556b0d92b000:00000000\x00"
	if len(short) != keyLenWithoutGID {
		t.Fatal(len(short))
	}
	s := capturedExchange(t, "pt_write_bw")
	script := append(slices.Clone(s.server[:4]), []byte(short))
	err := against(t, true, play(false, script, s.client), func(ctx context.Context, x *Exchange) error {
		_, _, err := setUp(ctx, x)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "without a GID") {
		t.Errorf("%v", err)
	}
}

func TestExchange_KeyThatIsLongerIsRefused(t *testing.T) {
	// With --data_validation version 6.29 sends a second address in each key.
	s := capturedExchange(t, "pt_write_bw")
	long := bytes.Replace(s.server[4], []byte("0000556b0d92b000:"), []byte("0000556b0d92b000:0000556b0d92c000:"), 1)
	script := append(slices.Clone(s.server[:4]), long)
	err := against(t, true, play(false, script, s.client), func(ctx context.Context, x *Exchange) error {
		_, _, err := setUp(ctx, x)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "is not perftest's key message") {
		t.Errorf("%v", err)
	}
}

func TestExchange_OtherIPVersionIsRefused(t *testing.T) {
	s := capturedExchange(t, "pt_write_bw")
	six := Key{QPN: 1, GID: netip.MustParseAddr("fd77::1")}
	script := append(slices.Clone(s.server[:4]), six.encode())
	err := against(t, true, play(false, script, s.client), func(ctx context.Context, x *Exchange) error {
		_, _, err := setUp(ctx, x)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "different IP versions") {
		t.Errorf("%v", err)
	}
}

func TestExchange_InterruptEndsAnyWait(t *testing.T) {
	for _, client := range []bool{true, false} {
		a, b := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, b) }()
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(20*time.Millisecond, cancel)
		conn := oob.New(a)
		_, _, err := setUp(ctx, NewExchange(conn, client))
		if err == nil || !strings.Contains(err.Error(), "interrupted while waiting for its version") {
			t.Errorf("client %v: %v", client, err)
		}
		conn.Close()
		b.Close()
	}
}

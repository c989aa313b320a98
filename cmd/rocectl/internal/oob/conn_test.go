package oob

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

func pipe(t *testing.T) (*Conn, net.Conn) {
	t.Helper()
	a, b := net.Pipe()
	c := New(a)
	t.Cleanup(func() { c.Close(); b.Close() })
	return c, b
}

func TestConn_MessagesAreTakenWholeHoweverTheyCome(t *testing.T) {
	c, peer := pipe(t)
	go func() {
		for _, part := range []string{"ab", "cdefg", "h", "ijkl"} { // four messages of three bytes
			if _, err := peer.Write([]byte(part)); err != nil {
				t.Error(err)
			}
		}
	}()
	for _, want := range []string{"abc", "def", "ghi", "jkl"} {
		b := make([]byte, 3)
		if err := c.Receive(t.Context(), Expect{What: "it"}, b); err != nil || string(b) != want {
			t.Errorf("%q, %v; want %q", b, err, want)
		}
	}
	if c.Waiting() {
		t.Error("something is left")
	}
}

func TestConn_HangUpSaysWhatWasLastSaid(t *testing.T) {
	c, peer := pipe(t)
	go func() {
		_, _ = peer.Write([]byte("onetw"))
		peer.Close()
	}()
	b := make([]byte, 3)
	if err := c.Receive(t.Context(), Expect{What: "its first word"}, b); err != nil {
		t.Fatal(err)
	}
	err := c.Receive(t.Context(), Expect{What: "its second word"}, b)
	if h := new(HangUpError); !errors.As(err, &h) || h.Last != "its first word" || h.Rest != 2 {
		t.Errorf("%v", err)
	}
	for _, want := range []string{"hung up while its second word was expected", "the last it sent was its first word and 2 bytes more"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	<-c.Gone()
	if err := c.Send("an answer", []byte("x")); err == nil || !strings.Contains(err.Error(), "hung up when it was sent an answer") {
		t.Errorf("sending: %v", err)
	}
}

func TestConn_HangUpIsNoticedWhileNobodyReceives(t *testing.T) {
	c, peer := pipe(t)
	peer.Close()
	select {
	case <-c.Gone():
	case <-time.After(5 * time.Second):
		t.Fatal("not noticed")
	}
	if !c.Waiting() {
		t.Error("the end is something to look at")
	}
	if err := c.HungUp("in the middle"); !strings.Contains(err.Error(), "hung up in the middle") {
		t.Error(err)
	}
}

func TestConn_PatienceEnds(t *testing.T) {
	c, peer := pipe(t)
	go func() { _, _ = peer.Write([]byte("on")) }()
	err := c.Receive(t.Context(), Expect{What: "its word", Patience: 50 * time.Millisecond}, make([]byte, 3))
	if err == nil || !strings.Contains(err.Error(), "did not send its word within 50ms") || !strings.Contains(err.Error(), "nothing and 2 of the next message's 3 bytes") {
		t.Errorf("%v", err)
	}
}

func TestConn_EarlyLooksAtWhatThereIs(t *testing.T) {
	c, peer := pipe(t)
	go func() { _, _ = peer.Write([]byte("no")) }()
	refused := errors.New("refused")
	err := c.Receive(t.Context(), Expect{What: "its word", Early: func(got []byte) error {
		if string(got) == "no" {
			return refused
		}
		return nil
	}}, make([]byte, 3))
	if !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
}

func TestConn_PeerThatNeverStopsIsCutOff(t *testing.T) {
	c, peer := pipe(t)
	go func() {
		for b := make([]byte, 4096); ; {
			if _, err := peer.Write(b); err != nil {
				return
			}
		}
	}()
	select {
	case <-c.Gone():
	case <-time.After(5 * time.Second):
		t.Fatal("it is still listened to")
	}
}

func TestDial_SaysWhatIsWrong(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	if _, err := Dial(t.Context(), "tcp", "127.0.0.1", port); err == nil || !strings.Contains(err.Error(), "nothing listens at 127.0.0.1:") {
		t.Errorf("%v", err)
	}
	if _, err := Dial(t.Context(), "tcp6", "127.0.0.1", port); err == nil {
		t.Error("IPv4 was used though IPv6 was asked for")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Dial(ctx, "tcp", "127.0.0.1", port); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("%v", err)
	}
}

func TestAccept_OneClientOfEitherFamilyThenThePortIsFree(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			t.Logf("%s is not there: %v", host, err)
			continue
		}
		l.Close()
		at := make(chan int, 1)
		type accepted struct {
			c   *Conn
			err error
		}
		got := make(chan accepted, 1)
		go func() {
			c, err := Accept(t.Context(), "tcp", 0, func(a net.Addr) { at <- a.(*net.TCPAddr).Port })
			got <- accepted{c, err}
		}()
		port := <-at
		c, err := Dial(t.Context(), "tcp", host, port)
		if err != nil {
			t.Fatal(err)
		}
		s := <-got
		if s.err != nil {
			t.Fatal(s.err)
		}
		if err := c.Send("a word", []byte("abc")); err != nil {
			t.Error(err)
		}
		b := make([]byte, 3)
		if err := s.c.Receive(t.Context(), Expect{What: "a word"}, b); err != nil || string(b) != "abc" {
			t.Errorf("%q, %v", b, err)
		}
		if _, err := Dial(t.Context(), "tcp", host, port); err == nil {
			t.Error("it goes on listening")
		}
		c.Close()
		s.c.Close()
	}
}

func TestAccept_SaysWhatIsWrong(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if _, err := Accept(t.Context(), "tcp", port, nil); err == nil || !strings.Contains(err.Error(), "is taken by another program") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := Accept(ctx, "tcp", 0, nil); err == nil || !strings.Contains(err.Error(), "interrupted while waiting for a client") {
		t.Errorf("%v", err)
	}
}

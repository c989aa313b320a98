package pingpong

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/cmd/rocectl/internal/measure"
	"github.com/go-roce/roce/cmd/rocectl/internal/oob"
	"github.com/go-roce/roce/link"
)

// captured is what the two originals said in pp_rc.pcap.
func captured(t *testing.T) (client, server [][]byte) {
	t.Helper()
	f, err := os.Open("../../../../bth/testdata/captures/pp_rc.pcap")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for {
		frame, _, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return client, server
		}
		if err != nil {
			t.Fatal(err)
		}
		tcp, ok := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default).Layer(layers.LayerTypeTCP).(*layers.TCP)
		if !ok || len(tcp.Payload) == 0 {
			continue
		}
		if tcp.DstPort == oob.DefaultPort {
			client = append(client, tcp.Payload)
		} else {
			server = append(server, tcp.Payload)
		}
	}
}

func TestDestination_AsTheOriginalsWriteIt(t *testing.T) {
	client, server := captured(t)
	for _, c := range []struct {
		message []byte
		want    Destination
	}{
		{client[0], Destination{QPN: 0x49, PSN: 0x833290, GID: netip.MustParseAddr("10.7.0.1")}},
		{server[0], Destination{QPN: 0x49, PSN: 0xf59e66, GID: netip.MustParseAddr("10.7.0.2")}},
	} {
		d, err := parseDestination(c.message)
		if err != nil || d != c.want {
			t.Errorf("%+v, %v; want %+v", d, err, c.want)
		}
		if got := d.encode(); !bytes.Equal(got, c.message) {
			t.Errorf("%q became %q", c.message, got)
		}
	}
	six := Destination{QPN: 0xFFFFFE, PSN: 0xFFFFFF, GID: netip.MustParseAddr("fd77::1")}
	if d, err := parseDestination(six.encode()); err != nil || d != six {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestDestination_EveryOtherMessageIsRefused(t *testing.T) {
	good := (&Destination{QPN: 1, PSN: 2, GID: netip.MustParseAddr("10.7.0.1")}).encode()
	for i := range good {
		if d, err := parseDestination(good[:i]); err == nil {
			t.Errorf("%q was read as %+v", good[:i], d)
		}
	}
	for _, bad := range []string{
		"0000:000049:833290:00000000000000000000ffff0a07000g\x00", "0000:00004g:833290:00000000000000000000ffff0a070001\x00",
		"0000:000049:-33290:00000000000000000000ffff0a070001\x00", "0000:000049:8332900:0000000000000000000ffff0a070001\x00",
		"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain;\r\n",
	} {
		if d, err := parseDestination([]byte(bad)); err == nil {
			t.Errorf("%q was read as %+v", bad, d)
		}
	}
	if _, err := parseDestination((&Destination{GID: netip.IPv6Unspecified()}).encode()); err == nil || !strings.Contains(err.Error(), "-g") {
		t.Errorf("no GID: %v", err)
	}
}

// noting notes what is written.
type noting struct {
	net.Conn
	mu    sync.Mutex
	wrote [][]byte
}

func (n *noting) Write(b []byte) (int, error) {
	n.mu.Lock()
	n.wrote = append(n.wrote, bytes.Clone(b))
	n.mu.Unlock()
	return n.Conn.Write(b)
}

type outcome struct {
	result *measure.Result
	err    error
	text   string
	wrote  [][]byte
}

func runBoth(t *testing.T, client, server Params, manual bool) (c, s outcome) {
	t.Helper()
	return runImpaired(t, client, server, manual, link.Impairment{})
}

// runImpaired is runBoth with something done to what the server sends.
func runImpaired(t *testing.T, client, server Params, manual bool, im link.Impairment) (c, s outcome) {
	t.Helper()
	a, b := net.Pipe()
	la, lb := link.NewMemPair(link.MemOptions{})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, e := range []struct {
		out    *outcome
		conn   net.Conn
		link   link.Link
		params Params
		client bool
		impair link.Impairment
	}{{&c, a, la, client, true, link.Impairment{}}, {&s, b, lb, server, false, im}} {
		dev, err := roce.OpenLink(ctx, e.link, &roce.Config{Manual: manual, Impair: e.impair})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			n := &noting{Conn: e.conn}
			conn := oob.New(n)
			var text bytes.Buffer
			session := &Session{Device: dev, Conn: conn, Client: e.client, Params: e.params, Text: &text}
			e.out.result, e.out.err = session.Run(ctx)
			if e.out.err != nil {
				cancel() // the other would wait for it
			}
			session.Close()
			_ = conn.Close()
			_ = dev.Close()
			e.out.text, e.out.wrote = text.String(), n.wrote
		})
	}
	wg.Wait()
	return c, s
}

func TestSession_SaysWhatTheOriginalsSay(t *testing.T) {
	wantClient, wantServer := captured(t)
	p := Defaults()
	p.Iterations = 5
	client, server := runBoth(t, p, p, true)
	if client.err != nil || server.err != nil {
		t.Fatalf("client: %v; server: %v", client.err, server.err)
	}
	lengths := func(m [][]byte) (n []int) {
		for _, x := range m {
			n = append(n, len(x))
		}
		return n
	}
	if got, want := lengths(client.wrote), lengths(wantClient); !slices.Equal(got, want) {
		t.Errorf("the client wrote messages of %v bytes, the original %v", got, want)
	}
	if got, want := lengths(server.wrote), lengths(wantServer); !slices.Equal(got, want) {
		t.Errorf("the server wrote messages of %v bytes, the original %v", got, want)
	}
	if !bytes.Equal(client.wrote[1], wantClient[1]) {
		t.Errorf("the client's last word is %q, the original's %q", client.wrote[1], wantClient[1])
	}
}

func TestSession_MovesAndChecksBytes(t *testing.T) {
	for _, c := range []struct {
		size, depth int
		manual      bool
	}{{1, 500, true}, {1025, 1, true}, {4096, 2, true}, {1 << 16, 500, true}, {4096, 500, false}} {
		p := Params{Size: c.size, MTU: 1024, RxDepth: c.depth, Iterations: 8}
		client, server := runBoth(t, p, p, c.manual)
		for name, end := range map[string]outcome{"client": client, "server": server} {
			if end.err != nil {
				t.Errorf("%+v, %s: %v", c, name, end.err)
				continue
			}
			r := end.result
			if r.Bytes != uint64(c.size)*16 || r.Seconds <= 0 || r.Iterations != 8 || r.QPs != 1 || r.MTU != 1024 || r.NAKs+r.RNRNAKs+r.ICRCErrors != 0 {
				t.Errorf("%+v, %s: %+v", c, name, *r)
			}
			for _, want := range []string{"  local address:  LID 0x0000, QPN 0x", "  remote address: LID 0x0000, QPN 0x", " bytes in ", " usec/iter\n"} {
				if !strings.Contains(end.text, want) {
					t.Errorf("%+v, %s printed %q, without %q", c, name, end.text, want)
				}
			}
		}
	}
}

// The server has got everything and is gone, but its last acknowledgement was lost: the answer shows that all is well.
func TestSession_LastAcknowledgementLost(t *testing.T) {
	p := Defaults()
	p.Iterations = 1
	var c bth.ICRC
	client, server := runImpaired(t, p, p, true, link.Impairment{Rules: []link.Rule{{
		Match: func(frame []byte) bool {
			var packet bth.Packet
			return packet.DecodeFrame(&c, frame) == bth.DropNone && packet.Opcode == bth.RCAcknowledge
		},
		Action: link.ActionLose,
	}}})
	if client.err != nil || server.err != nil {
		t.Fatalf("client: %v; server: %v", client.err, server.err)
	}
	if client.result.Timeouts == 0 {
		t.Error("no acknowledgement was lost")
	}
}

func TestSession_OtherSizeAtTheOtherEndIsNamed(t *testing.T) {
	small, large := Defaults(), Defaults()
	small.Size, large.Size = 100, 4096
	small.Iterations, large.Iterations = 2, 2
	_, server := runBoth(t, small, large, true)
	if server.err == nil || !strings.Contains(server.err.Error(), "has 100 bytes instead of 4096: give both ends the same -s") {
		t.Errorf("%v", server.err)
	}
}

func TestSession_HangUpIsNamed(t *testing.T) {
	client, server := captured(t)
	for _, c := range []struct {
		asClient bool
		peer     func(net.Conn)
		want     string
	}{
		{true, func(n net.Conn) { _, _ = n.Read(make([]byte, 100)) }, "while its address was expected; the last it sent was nothing"},
		{false, func(net.Conn) {}, "while its address was expected; the last it sent was nothing"},
		{false, func(n net.Conn) {
			_, _ = n.Write(client[0])
			_, _ = n.Read(make([]byte, 100))
		}, `while its "done" was expected; the last it sent was its address`},
		{true, func(n net.Conn) {
			_, _ = n.Read(make([]byte, 100))
			_, _ = n.Write(server[0][:20])
		}, "the last it sent was nothing and 20 bytes more"},
	} {
		a, b := net.Pipe()
		go func() {
			c.peer(b)
			b.Close()
		}()
		// The addresses of the captures' two hosts.
		own := link.NewMemSwitch(link.MemOptions{})
		l, err := own.Open(netip.MustParseAddr("10.7.0.2"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := own.Open(netip.MustParseAddr("10.7.0.1")); err != nil {
			t.Fatal(err)
		}
		dev, err := roce.OpenLink(t.Context(), l, &roce.Config{Manual: true})
		if err != nil {
			t.Fatal(err)
		}
		s := &Session{Device: dev, Conn: oob.New(a), Client: c.asClient, Params: Defaults()}
		if _, err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("client %v: %v, want %q", c.asClient, err, c.want)
		}
		s.Close()
		a.Close()
		dev.Close()
	}
}

func TestParams_NonsenseIsNamed(t *testing.T) {
	for _, c := range []struct {
		change func(*Params)
		want   string
	}{
		{func(p *Params) { p.Size = 0 }, "-s 0"}, {func(p *Params) { p.Size = 1<<30 + 1 }, "-s"}, {func(p *Params) { p.Iterations = 0 }, "-n"},
		{func(p *Params) { p.RxDepth = 0 }, "-r 0"}, {func(p *Params) { p.RxDepth = 1 << 17 }, "-r"},
	} {
		p := Defaults()
		c.change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	p := Defaults()
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
}

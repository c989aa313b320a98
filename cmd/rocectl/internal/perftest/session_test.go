package perftest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/cmd/rocectl/internal/measure"
	"github.com/go-roce/roce/cmd/rocectl/internal/oob"
	"github.com/go-roce/roce/link"
)

// recorder notes what one end writes.
type recorder struct {
	*net.TCPConn
	mu    sync.Mutex
	wrote [][]byte
}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	r.wrote = append(r.wrote, bytes.Clone(b))
	r.mu.Unlock()
	return r.TCPConn.Write(b)
}

func (r *recorder) messages() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wrote
}

// tcpPair is two ends of a connection.
func tcpPair(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	there, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	here, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return there.(*net.TCPConn), here.(*net.TCPConn)
}

// outcome is what one end of a test of both ends came to.
type outcome struct {
	result *measure.Result
	err    error
	wrote  [][]byte
	table  string
}

// runBoth runs a test between two devices of this process. The timeout is so long that no pause of a busy machine is
// taken for a loss.
func runBoth(t *testing.T, p Params) (client, server outcome) {
	t.Helper()
	return runBothSpinning(t, p, 0)
}

func runBothSpinning(t *testing.T, p Params, spinFor time.Duration) (client, server outcome) {
	t.Helper()
	p.Timeout = 22
	a, b := tcpPair(t)
	la, lb := link.NewMemPair(link.MemOptions{})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, end := range []struct {
		out    *outcome
		conn   *net.TCPConn
		link   link.Link
		client bool
	}{{&client, a, la, true}, {&server, b, lb, false}} {
		dev, err := roce.OpenLink(ctx, end.link, &roce.Config{Manual: p.Test.Latency})
		if err != nil {
			t.Fatal(err)
		}
		rec := &recorder{TCPConn: end.conn}
		conn := oob.New(rec)
		wg.Go(func() {
			var table bytes.Buffer
			s := &Session{Device: dev, Exchange: NewExchange(conn, end.client), Params: p, Table: &table, spinFor: spinFor}
			end.out.result, end.out.err = s.Run(ctx)
			s.Close()
			_ = conn.Close()
			_ = dev.Close()
			end.out.wrote, end.out.table = rec.messages(), table.String()
		})
	}
	wg.Wait()
	return client, server
}

func testNamed(t *testing.T, name string) Test {
	t.Helper()
	i := slices.IndexFunc(Tests, func(x Test) bool { return x.Name == name })
	if i < 0 {
		t.Fatalf("no test %q", name)
	}
	return Tests[i]
}

// The messages of both ends, before and after the traffic, are those of the originals, one for one.
func TestSession_SaysWhatTheOriginalsSay(t *testing.T) {
	for _, c := range []struct {
		capture, test string
		change        func(*Params)
	}{
		{"pt_write_bw", "write-bw", nil},
		{"pt_write_bw_2qp", "write-bw", func(p *Params) { p.QPs = 2 }},
		{"pt_write_bw_bidir", "write-bw", func(p *Params) { p.Both = true }},
		{"pt_send_bw", "send-bw", nil},
		{"pt_read_bw", "read-bw", nil},
		{"pt_atomic_bw", "atomic-bw", nil},
		{"pt_write_lat", "write-lat", nil},
		{"pt_send_lat", "send-lat", nil},
		{"pt_read_lat", "read-lat", nil},
		{"pt_atomic_lat", "atomic-lat", func(p *Params) { p.CompareSwap = true }},
	} {
		t.Run(c.capture, func(t *testing.T) {
			want := capturedExchange(t, c.capture)
			p := Defaults(testNamed(t, c.test))
			p.Iterations = 5
			if c.change != nil {
				c.change(&p)
			}
			client, server := runBoth(t, p)
			for _, end := range []struct {
				name string
				outcome
				want [][]byte
			}{{"client", client, want.client}, {"server", server, want.server}} {
				if end.err != nil {
					t.Errorf("%s: %v", end.name, end.err)
				}
				// The originals sometimes run two of their messages together, and one is cut off in a capture's end.
				if got, want := lengths(end.wrote), lengths(end.want); !slices.Equal(got, want) {
					t.Errorf("the %s wrote messages of %v bytes, the original %v", end.name, got, want)
				}
				for i, m := range end.want[:4] {
					if i != 3 && !bytes.Equal(end.wrote[i], m) {
						t.Errorf("the %s's message %d is %q, the original's %q", end.name, i, end.wrote[i], m)
					}
				}
			}
		})
	}
}

func TestSession_MovesWhatItSays(t *testing.T) {
	for _, c := range []struct {
		test   string
		change func(*Params)
	}{
		{"write-bw", nil},
		{"write-bw", func(p *Params) { p.Size = 1 }},
		{"write-bw", func(p *Params) { p.Size = 1025; p.MTU = 256 }},
		{"write-bw", func(p *Params) { p.QPs, p.Both = 4, true }},
		{"write-bw", func(p *Params) { p.TxDepth, p.CQMod = 1, 1 }},
		{"write-bw", func(p *Params) { p.TxDepth, p.CQMod, p.Size = 7, 3, 100 }},
		{"write-bw", func(p *Params) { p.Inline, p.Size = 64, 64 }},
		{"send-bw", nil},
		{"send-bw", func(p *Params) { p.RxDepth = 1 }},
		{"send-bw", func(p *Params) { p.QPs, p.Both = 4, true }},
		{"send-bw", func(p *Params) { p.Size = 1 << 18; p.Iterations = 20 }},
		{"read-bw", nil},
		{"read-bw", func(p *Params) { p.OutReads = 1; p.Both = true }},
		{"atomic-bw", nil},
		{"atomic-bw", func(p *Params) { p.CompareSwap, p.QPs, p.Both = true, 2, true }},
		{"write-lat", nil},
		{"write-lat", func(p *Params) { p.Size = 5000 }},
		{"send-lat", nil},
		{"send-lat", func(p *Params) { p.Size = 5000; p.RxDepth = 1 }},
		{"read-lat", nil},
		{"atomic-lat", func(p *Params) { p.CompareSwap = true }},
	} {
		p := Defaults(testNamed(t, c.test))
		p.Iterations = 50
		if p.Test.Latency {
			p.Iterations = 260 // more than 255, for the counter in a write latency test's last byte
		}
		if c.change != nil {
			c.change(&p)
		}
		t.Run(fmt.Sprintf("%s size %d qps %d both %v tx %d rx %d", c.test, p.Size, p.QPs, p.Both, p.TxDepth, p.RxDepth), func(t *testing.T) {
			if err := p.Validate(); err != nil {
				t.Fatal(err)
			}
			client, server := runBoth(t, p)
			if client.err != nil || server.err != nil {
				t.Fatalf("client: %v; server: %v", client.err, server.err)
			}
			want := uint64(p.Size) * p.Iterations * uint64(p.QPs)
			if p.Both {
				want *= 2
			}
			// A server that only answers is told, in bandwidth tests.
			tells := !p.Test.Latency || p.Test.pingPong()
			for _, end := range []struct {
				name string
				outcome
				measures bool
			}{{"client", client, true}, {"server", server, tells}} {
				r := end.result
				if r.Size != p.Size || r.Iterations != p.Iterations || r.QPs != p.QPs || r.Test != c.test {
					t.Errorf("%s: %+v", end.name, *r)
				}
				if !end.measures {
					continue
				}
				if r.Bytes != want || !(r.Seconds > 0) {
					t.Errorf("%s: %d bytes in %v s, want %d", end.name, r.Bytes, r.Seconds, want)
				}
				if rate := float64(r.Bytes) * 8 / r.Seconds / 1e9; rate < 0.99*r.GbitPerS || rate > 1.01*r.GbitPerS {
					t.Errorf("%s: %v Gbit/s, but %v follow from bytes and seconds", end.name, r.GbitPerS, rate)
				}
				if l := r.Latency; (l != nil) != p.Test.Latency {
					t.Errorf("%s: latency %v", end.name, l)
				} else if l != nil && !(0 < l.Min && l.Min <= l.P50 && l.P50 <= l.P99 && l.P99 <= l.P999 && l.P999 <= l.Max && l.Min <= l.Mean && l.Mean <= l.Max) {
					t.Errorf("%s: latency %+v", end.name, *l)
				}
				if r.Counters != (measure.Counters{}) && p.RxDepth > 1 {
					t.Errorf("%s: on a clean wire %+v", end.name, r.Counters)
				}
				if !strings.Contains(end.table, p.Test.Title) || !strings.Contains(end.table, fmt.Sprintf("\n %d ", p.Size)) {
					t.Errorf("%s's table:\n%s", end.name, end.table)
				}
			}
		})
	}
}

func TestSession_AllSizes(t *testing.T) {
	for _, c := range []struct {
		test string
		both bool
	}{{"write-bw", false}, {"write-bw", true}, {"send-bw", false}, {"send-bw", true}, {"write-lat", false}, {"send-lat", false}, {"read-lat", false}} {
		t.Run(fmt.Sprint(c.test, " ", c.both), func(t *testing.T) {
			p := Defaults(testNamed(t, c.test))
			p.All, p.Both, p.Iterations, p.Size = true, c.both, 5, 2
			if got := p.sizes(); got[0] != 2 || got[len(got)-1] != 1<<23 {
				t.Errorf("sizes %v", got)
			}
			p.powers = 16 // the large ones take the race detector minutes
			client, server := runBoth(t, p)
			if client.err != nil || server.err != nil {
				t.Fatalf("client: %v; server: %v", client.err, server.err)
			}
			if n := len(client.result.Runs); n != p.powers {
				t.Fatalf("%d sizes", n)
			}
			for i, r := range client.result.Runs {
				if r.Size != 2<<i || r.Bytes == 0 || r.Seconds <= 0 {
					t.Errorf("run %d: %+v", i, r)
				}
			}
		})
	}
}

func TestSession_Duration(t *testing.T) {
	for _, c := range []struct {
		test string
		both bool
	}{{"write-bw", false}, {"send-bw", false}, {"send-bw", true}, {"read-bw", true}, {"write-lat", false}, {"send-lat", false}, {"read-lat", false}} {
		t.Run(fmt.Sprint(c.test, " ", c.both), func(t *testing.T) {
			p := Defaults(testNamed(t, c.test))
			p.Duration, p.Both, p.Size = 800*time.Millisecond, c.both, 1024
			client, server := runBoth(t, p)
			if client.err != nil || server.err != nil {
				t.Fatalf("client: %v; server: %v", client.err, server.err)
			}
			// The middle half is measured.
			if r := client.result; r.Seconds < 0.39 || r.Seconds > 0.41 || r.Bytes == 0 || r.Iterations == 0 {
				t.Errorf("client: %d messages, %d bytes in %v s", r.Iterations, r.Bytes, r.Seconds)
			}
		})
	}
}

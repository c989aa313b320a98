package link_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/link"
)

// captured is a packet as pcapgo reads it back.
type captured struct {
	iface   string
	at      time.Time
	data    []byte
	full    int
	comment string
	inbound bool
}

func readCapture(t *testing.T, file []byte) (all []captured) {
	t.Helper()
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	for {
		data, ci, opts, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		i, err := r.Interface(ci.InterfaceIndex)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, captured{
			iface: i.Name, at: ci.Timestamp, data: data, full: ci.Length,
			comment: strings.Join(opts.Comments, "; "),
			inbound: opts.Flags != nil && opts.Flags.Direction == pcapgo.NgEpbFlagDirectionInbound,
		})
	}
}

func TestTap_WritesBothDirectionsWithNotesAndTimes(t *testing.T) {
	w := newWire(t, false, 0, link.MemOptions{})
	var clk clock.Manual
	clk.Advance(time.Hour)
	start := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	var file bytes.Buffer
	capture := link.NewCapture(&file, link.CaptureOptions{Clock: &clk, Start: start})
	a, b := capture.Tap(w.a), capture.Tap(w.b)

	var fs, in [3]link.Frame
	qa, qb := lease(t, a, fs[:]), b.Queues()[0]
	fs[0].Data = w.write(fs[0].Data, 1, 256)
	whole := w.write(nil, 2, 1024)
	fs[1].Data = fs[1].Data[:copy(fs[1].Data, whole)]
	fs[1].Note = "retransmission"
	fs[2].Data = fs[2].Data[:0] // unsent
	clk.Advance(1500 * time.Nanosecond)
	qa.Submit(fs[:])
	clk.Advance(time.Millisecond)
	n, err := qb.Recv(in[:])
	if n != 2 || err != nil {
		t.Fatal(n, err)
	}
	clk.Advance(time.Second) // handled later, but come before
	in[1].Note = "icrc"
	qb.Release(in[:2])
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}

	got := readCapture(t, file.Bytes())
	sent, came := start.Add(1500*time.Nanosecond), start.Add(1500*time.Nanosecond+time.Millisecond)
	want := []captured{
		{"mem1", sent, w.write(nil, 1, 256), 0, "", false},
		{"mem1", sent, whole, 0, "retransmission", false},
		{"mem2", came, w.write(nil, 1, 256), 0, "", true},
		{"mem2", came, whole, 0, "icrc", true},
	}
	if len(got) != len(want) {
		t.Fatalf("%d packets in the file, want %d", len(got), len(want))
	}
	for i, g := range got {
		x := want[i]
		if g.iface != x.iface || !g.at.Equal(x.at) || !bytes.Equal(g.data, x.data) || g.full != len(x.data) || g.comment != x.comment || g.inbound != x.inbound {
			t.Errorf("packet %d: %s %v %d bytes %q inbound %v, want %s %v %d bytes %q inbound %v", i,
				g.iface, g.at, len(g.data), g.comment, g.inbound, x.iface, x.at, len(x.data), x.comment, x.inbound)
		}
	}
}

func TestTap_SameFramesAndClockMakeTheSameFile(t *testing.T) {
	write := func() []byte {
		w := newWire(t, true, 0, link.MemOptions{})
		var clk clock.Manual
		var file bytes.Buffer
		capture := link.NewCapture(&file, link.CaptureOptions{Clock: &clk, Start: time.Unix(1, 0)})
		a := capture.Tap(w.a)
		for psn := range bth.PSN(20) {
			clk.Advance(time.Microsecond)
			w.send(t, a, psn, psn+1, 100)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		return file.Bytes()
	}
	if one, two := write(), write(); !bytes.Equal(one, two) || len(one) < 20*100 {
		t.Error("two runs made different files")
	}
}

func TestTap_CutsFramesToSnaplen(t *testing.T) {
	w := newWire(t, false, 0, link.MemOptions{})
	var file bytes.Buffer
	a := link.NewCapture(&file, link.CaptureOptions{Snaplen: 77}).Tap(w.a)
	w.send(t, a, 1, 3, 1024)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	got := readCapture(t, file.Bytes())
	whole := w.write(nil, 1, 1024)
	if len(got) != 2 || !bytes.Equal(got[0].data, whole[:77]) || got[0].full != len(whole) {
		t.Errorf("%d packets, the first of %d bytes of %d", len(got), len(got[0].data), got[0].full)
	}
}

// Each payload of a super-frame is in the file as the packet it travels as: with an
// ICRC that is right for its headers.
func TestTap_CutsSuperFramesIntoPackets(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, vlan := range []uint16{0, 5} {
			w := newWire(t, v6, vlan, link.MemOptions{})
			var file bytes.Buffer
			a := link.NewTap(w.a, &file, nil)
			var f [1]link.Frame
			q := lease(t, a, f[:])
			f[0].Data = w.writeSuper(f[0].Data, 100, 1024, 5, 333)
			f[0].Segment, f[0].Note = bth.Len+1024+bth.ICRCLen, "retransmission"
			q.Submit(f[:])
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			got := readCapture(t, file.Bytes())
			if len(got) != 5 {
				t.Fatalf("IPv6 %v: %d packets in the file, want 5", v6, len(got))
			}
			var icrc bth.ICRC
			var p bth.Packet
			for i, g := range got {
				n := 1024
				if i == 4 {
					n = 333
				}
				if drop := p.DecodeFrame(&icrc, g.data); drop != bth.DropNone || p.PSN != bth.PSN(100+i) || len(p.Payload) != n {
					t.Errorf("IPv6 %v, packet %d: %v, PSN %d, %d bytes", v6, i, drop, p.PSN, len(p.Payload))
				}
				if g.comment != "retransmission" {
					t.Errorf("IPv6 %v, packet %d: comment %q", v6, i, g.comment)
				}
			}
		}
	}
}

// flushCheck is a writer that counts what has come through the buffer.
type flushCheck struct {
	n    int
	fail error
}

func (f *flushCheck) Write(b []byte) (int, error) {
	if f.fail != nil {
		return 0, f.fail
	}
	f.n += len(b)
	return len(b), nil
}

func TestTap_FlushesBeforeSleepingAndReportsErrors(t *testing.T) {
	w := newWire(t, false, 0, link.MemOptions{})
	var file flushCheck
	a := link.NewTap(w.a, &file, nil)
	w.send(t, a, 1, 2, 256)
	if file.n != 0 {
		t.Error("the tap does not buffer")
	}
	if err := a.Queues()[0].Wait(0); err != nil {
		t.Fatal(err)
	}
	if file.n < 256 {
		t.Errorf("%d bytes written before sleeping", file.n)
	}
	file.fail = errors.New("disk full")
	w.send(t, a, 2, 3, 256)
	if err := a.Queues()[0].Wait(0); err != nil {
		t.Errorf("the queue fails with its capture: %v", err)
	}
	w.send(t, a, 3, 4, 256)
	if err := a.Close(); err == nil || !strings.Contains(err.Error(), "disk full") || !strings.Contains(err.Error(), "incomplete") {
		t.Errorf("Close says %v", err)
	}
	if got := w.receive(t); len(got) != 3 {
		t.Errorf("%d of 3 packets came", len(got))
	}
}

func TestTap_NoAllocations(t *testing.T) {
	w := newWire(t, false, 0, link.MemOptions{})
	a, b := link.NewTap(w.a, io.Discard, nil), link.NewTap(w.b, io.Discard, nil)
	qa, qb := a.Queues()[0], b.Queues()[0]
	frame := w.write(nil, 1, 1024)
	gather := [][]byte{frame[60:500], frame[500:]}
	var fs [8]link.Frame
	if n := testing.AllocsPerRun(500, func() {
		qa.Alloc(fs[:])
		for i := range fs {
			fs[i].Data = fs[i].Data[:copy(fs[i].Data, frame)]
			if i%2 == 1 { // as a link that gathers would get it
				fs[i].Data, fs[i].Gather = fs[i].Data[:60], gather
			}
			fs[i].Note = "retransmission"
		}
		qa.Submit(fs[:])
		if n, _ := qb.Recv(fs[:]); n != len(fs) {
			t.Fatalf("%d of %d frames", n, len(fs))
		}
		qb.Release(fs[:])
		_ = qb.Wait(0)
	}); n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
}

// tshark is the judge of the format: it must find every packet, direction and comment.
func TestTap_TsharkReadsIt(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed")
	}
	name := filepath.Join(t.TempDir(), "tap.pcapng")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	// Two taps one after the other make two sections, as a program does that opens two devices.
	for i := range 2 {
		w := newWire(t, i == 1, 0, link.MemOptions{})
		capture := link.NewCapture(file, link.CaptureOptions{Start: time.Unix(1700000000+int64(i), 123456789)})
		a, b := capture.Tap(w.a), capture.Tap(w.b)
		var fs [2]link.Frame
		q := lease(t, a, fs[:])
		fs[0].Data = w.write(fs[0].Data, 7, 301)
		fs[1].Data = w.writeSuper(fs[1].Data, 8, 512, 3, 512)
		fs[1].Segment, fs[1].Note = bth.Len+512+bth.ICRCLen, "retransmission"
		q.Submit(fs[:])
		q = b.Queues()[0]
		n, err := q.Recv(fs[:])
		if err != nil || n != 2 {
			t.Fatal(n, err)
		}
		fs[0].Note = "unknown_qp"
		q.Release(fs[:n])
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(tshark, "-r", name, "-T", "fields", "-E", "separator=,",
		"--disable-heuristic", "rpcrdma_infiniband", "--disable-heuristic", "eth_over_ib",
		"--disable-heuristic", "iser_infiniband", "--disable-heuristic", "smb_direct_infiniband",
		"-e", "frame.interface_name", "-e", "frame.packet_flags_direction", "-e", "frame.comment",
		"-e", "frame.time_epoch", "-e", "infiniband.bth.opcode", "-e", "infiniband.bth.psn",
		"-e", "infiniband.bth.padcnt", "-e", "_ws.malformed")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark: %v: %s", err, stderr.String())
	}
	var want strings.Builder
	for range 2 {
		for _, iface := range []string{"mem1,0x00000002", "mem2,0x00000001"} {
			for psn := 7; psn <= 10; psn++ {
				want.WriteString(iface)
				switch {
				case psn == 7 && strings.HasPrefix(iface, "mem2"):
					want.WriteString(",unknown_qp")
				case psn > 7 && strings.HasPrefix(iface, "mem1"):
					want.WriteString(",retransmission")
				default:
					want.WriteString(",")
				}
				pad := "0"
				if psn == 7 {
					pad = "3"
				}
				fmt.Fprintf(&want, ",TIME,1,%d,%s,\n", psn, pad)
			}
		}
	}
	var got strings.Builder
	for line := range strings.Lines(string(out)) {
		f := strings.Split(line, ",")
		if len(f) > 3 && (strings.HasPrefix(f[3], "1700000000.12") || strings.HasPrefix(f[3], "1700000001.12")) {
			f[3] = "TIME"
		}
		got.WriteString(strings.Join(f, ","))
	}
	if got.String() != want.String() {
		t.Errorf("tshark shows\n%swant\n%s", got.String(), want.String())
	}
}

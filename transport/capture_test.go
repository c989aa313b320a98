package transport

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/memreg"
)

// capturedPackets decodes the RC packets of a capture of two rdma_rxe hosts.
func capturedPackets(t *testing.T, name string) (list []bth.Packet) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "bth", "testdata", "captures", name+".pcap"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(bufio.NewReader(f))
	if err != nil {
		t.Fatal(err)
	}
	var icrc bth.ICRC
	for {
		frame, _, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		var p bth.Packet
		if d := p.DecodeFrame(&icrc, frame); d == bth.DropNone {
			list = append(list, p)
		}
	}
}

func describeFully(p *bth.Packet, base bth.PSN) string {
	text := describe(p, base)
	if p.Flags.Any(bth.HasAETH) {
		text += fmt.Sprintf(" msn %d", p.AETH.MSN)
	}
	if p.Flags.Any(bth.HasAtomicAckETH) {
		text += fmt.Sprintf(" original 0x%x", p.AtomicAck)
	}
	if len(p.Payload) > 0 {
		text += fmt.Sprintf(" %d bytes, sum %08x", len(p.Payload), crc32.ChecksumIEEE(p.Payload))
	}
	return text
}

// capture is one whose requests, host A's, are fed to a responder of ours.
type capture struct {
	name   string
	mtu    int // 0 means 1024
	access memreg.Access
	badKey bool // the key it uses does not exist
	recv   int  // bytes of each receive; 0 means 64 KiB
}

// replay returns, in order, what the other host answered and what ours does.
func replay(t *testing.T, c capture) (theirs, ours []string) {
	t.Helper()
	ps := capturedPackets(t, c.name)
	a := ps[0].Src
	key, low := remoteMemory(ps)
	e := newEnd(t, "b", makeOptions(func(o *options) {
		o.depth, o.psn, o.mtu = 4096, 0x1000, 1024
		if p := &ps[0]; p.PSN.Diff(o.psn) > 100 || p.PSN.Diff(o.psn) < 0 {
			o.psn = p.PSN // drawn at random
		}
		if c.mtu != 0 {
			o.mtu = c.mtu
		}
		if c.access != 0 {
			o.access = c.access
		}
	}))
	if c.badKey {
		key++
	}
	keys := []uint32{uint32(key), uint32(key) + 100}
	e.table = memreg.NewTable(func() uint32 { k := keys[0]; keys = append(keys[1:], k); return k })
	e.qp.cfg.Table = e.table
	for i := range e.mem {
		e.mem[i] = 0xEE // as B's was
	}
	var err error
	if e.region, err = e.table.Register(1, e.mem[:64<<10], memreg.Options{Access: allAccess | memreg.RemoteInvalidate, Addr: low}); err != nil {
		t.Fatal(err)
	}
	e.connect(0)
	if c.recv == 0 {
		c.recv = 64 << 10
	}
	inbox, err := e.table.Register(1, make([]byte, c.recv), memreg.Options{Access: memreg.LocalWrite})
	if err != nil {
		t.Fatal(err)
	}
	for range e.opt.depth {
		if err := e.qp.PostRecv(&RecvWR{SGL: []SGE{{Addr: inbox.Addr(), Length: uint32(c.recv), LKey: inbox.Key()}}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range ps {
		p := ps[i]
		if p.Src != a {
			if p.Flags.Any(bth.Response) {
				theirs = append(theirs, describeFully(&p, e.opt.psn))
			}
			continue
		}
		if !p.Flags.Any(bth.Request) || p.Opcode.Service() != bth.RC {
			continue
		}
		p.Src, p.Dst = addrs["a"], addrs["b"]
		e.handle(0, &p)
		e.pollDone()
		for {
			p, ok := e.pollPacket(0)
			if !ok {
				break
			}
			ours = append(ours, describeFully(&p, e.opt.psn))
		}
	}
	return theirs, ours
}

// remoteMemory finds the key that host A's requests use and the lowest address.
func remoteMemory(ps []bth.Packet) (key memreg.Key, low uint64) {
	key, low = 1, 0x10000
	for i := range ps {
		p := &ps[i]
		var k uint32
		va := uint64(0x10000)
		switch {
		case p.Src != ps[0].Src:
		case p.Flags.Any(bth.HasRETH):
			k, va = p.RETH.RKey, p.RETH.VA
		case p.Flags.Any(bth.HasAtomicETH):
			k, va = p.AtomicETH.RKey, p.AtomicETH.VA&^7
		case p.Flags.Any(bth.HasIETH):
			k = p.Inv
		}
		if k != 0 {
			if key == 1 || va < low {
				low = va
			}
			key = memreg.Key(k)
		}
	}
	return key, low
}

// asRxe are the captures in which our responder answers exactly what rdma_rxe answered:
// opcodes, PSNs, syndromes, MSNs, data and original values.
var asRxe = []capture{
	{name: "k612_bad_rkey_read", badKey: true}, {name: "k612_bad_rkey_write", badKey: true}, {name: "k612_dup"}, {name: "k612_mixed"},
	{name: "k612_probe_first_short"}, {name: "k612_probe_iba15b"}, {name: "k612_probe_last_zero"}, {name: "k612_probe_middle"},
	{name: "k612_probe_misaligned"}, {name: "k612_probe_only_big"}, {name: "k612_probe_only_in_msg"}, {name: "k612_probe_wlen_mismatch"},
	{name: "k612_probe_wlen_short"}, {name: "pp_rc"}, {name: "probe_middle"}, {name: "probe_misaligned"},
	{name: "probe_only_in_msg"}, {name: "probe_psn"}, {name: "probe_wlen_mismatch"}, {name: "probe_wlen_short"},
	{name: "pt_send_bw", mtu: 4096}, {name: "pt_send_lat", mtu: 4096}, {name: "pt_write_bw", mtu: 4096},
	{name: "pt_write_bw_bidir", mtu: 4096}, {name: "pt_write_lat", mtu: 4096}, {name: "rc_ack_every_65", mtu: 256}, {name: "rc_atomic"},
	{name: "rc_atomic_depth"}, {name: "rc_bad_rkey_atomic", badKey: true}, {name: "rc_bad_rkey_read", badKey: true},
	{name: "rc_bad_rkey_write", badKey: true}, {name: "rc_dup"}, {name: "rc_ecn_ce"}, {name: "rc_fence"}, {name: "rc_ipv4_dscp"},
	{name: "rc_ipv6"}, {name: "rc_ipv6_linklocal"}, {name: "rc_loss_req"}, {name: "rc_loss_write"}, {name: "rc_mixed_batch"},
	{name: "rc_mtu_mismatch"}, {name: "rc_noaccess_read", access: memreg.RemoteAtomic},
	{name: "rc_noaccess_write", access: memreg.RemoteAtomic}, {name: "rc_psn_wrap_send"}, {name: "rc_psn_wrap_write"}, {name: "rc_read"},
	{name: "rc_read_depth4"}, {name: "rc_reorder"}, {name: "rc_send"}, {name: "rc_send_mtu256", mtu: 256},
	{name: "rc_send_mtu4096", mtu: 4096}, {name: "rc_sendimm"}, {name: "rc_sendinv"}, {name: "rc_srq"}, {name: "rc_write"},
	{name: "rc_writeimm"}, {name: "vlan"},
}

// lossy are captures taken behind a link that lost some of the answers: what was
// seen of them is, in order, part of ours.
var lossy = []capture{{name: "rc_loss_ack"}, {name: "rc_loss_atomic"}, {name: "rc_loss_read"}, {name: "k510_loss_read"}}

// notAsRxe are captures in which we answer as IBA wants, and rdma_rxe did not.
var notAsRxe = []struct {
	capture
	want []string
}{
	// It took packets of the wrong length before 6.2.
	{capture{name: "probe_first_short"}, []string{"NAK_61 0 msn 0"}},
	{capture{name: "probe_only_big"}, []string{"NAK_61 0 msn 0"}},
	{capture{name: "probe_last_zero"}, []string{"ACK 0 msn 0", "NAK_61 1 msn 0"}},
	{capture{name: "probe_readlong"}, []string{"NAK_61 0 msn 0"}},
	// A SEND longer than the receive is an invalid request, not an operational error.
	{capture{name: "rc_recv_too_small", recv: 16}, []string{"NAK_61 0 msn 0"}},
	{capture{name: "k612_recv_too_small", recv: 16}, []string{"NAK_61 0 msn 0"}},
	{capture{name: "k510_recv_too_small", recv: 16}, []string{"NAK_61 0 msn 0"}},
}

// leftOut says why the other captures with RC packets are not replayed.
var leftOut = map[string]string{
	"k510_dup":             "atomics of the 5.10 responder were lost a thousand times",
	"k510_mixed":           "the same",
	"k510_probe_psn":       "5.10 does not acknowledge duplicates without AckReq, nor count all messages",
	"k612_probe_psn":       "6.12 never answers the duplicate of a READ of length zero",
	"probe_accept":         "P_Keys are checked before a queue pair sees a packet",
	"k612_probe_accept":    "the same",
	"probe_badqpn":         "QPNs are as well",
	"k612_probe_badqpn":    "the same",
	"k612_probe_iba15":     "FLUSH and ATOMIC WRITE are not spoken",
	"k612_probe_iba15c":    "the same",
	"k612_probe_flushdup":  "the same",
	"k612_probe_flushpers": "the same",
	"pp_srq":               "several queue pairs",
	"pt_write_bw_2qp":      "the same",
	"pt_atomic_bw":         "memory began with bytes the capture does not show",
	"pt_atomic_lat":        "the same",
	"pt_read_bw":           "the same",
	"pt_read_lat":          "the same",
	"rc_oob_write":         "the end of the region does not show",
	"rc_retry_exceeded":    "every answer was lost",
	"rc_rnr":               "when receives were posted does not show",
	"rc_rnr_exceeded":      "the same",
	"rc_rnr_writeimm":      "the same",
	"k612_rnr":             "the same",
}

func TestCapture_ResponderAnswersAsRxeOrAsIBADemands(t *testing.T) {
	for _, c := range asRxe {
		t.Run(c.name, func(t *testing.T) {
			theirs, ours := replay(t, c)
			wantList(t, "our responder answers", ours, theirs)
			if len(ours) == 0 {
				t.Error("nothing was answered: this tests nothing")
			}
		})
	}
	for _, c := range lossy {
		t.Run(c.name, func(t *testing.T) {
			theirs, ours := replay(t, c)
			i := 0
			for _, answer := range ours {
				if i < len(theirs) && resumed(answer) == resumed(theirs[i]) {
					i++
				}
			}
			if i < len(theirs) {
				t.Errorf("answer %d of %d that was seen, %s, is not among\n%s", i, len(theirs), theirs[i], strings.Join(ours, ", "))
			}
		})
	}
	for _, c := range notAsRxe {
		t.Run(c.name, func(t *testing.T) {
			theirs, ours := replay(t, c.capture)
			wantList(t, "our responder answers", ours, c.want)
			if fmt.Sprint(theirs) == fmt.Sprint(ours) {
				t.Error("so did rdma_rxe: it belongs to the others")
			}
		})
	}
}

// partOfRead is the answer to a READ up to its last packet. One that is asked for again
// from its midst is answered with Middle by rdma_rxe, with First by us, which has an MSN.
var partOfRead = regexp.MustCompile(`RESPONSE_(?:FIRST|MIDDLE|ONLY|LAST) (\d+)(?: msn \d+)?`)

func resumed(answer string) string { return partOfRead.ReplaceAllString(answer, "RESPONSE $1") }

func TestCapture_EveryOneIsReplayedOrLeftOutForAReason(t *testing.T) {
	known := map[string]bool{}
	for _, c := range append(asRxe, lossy...) {
		known[c.name] = true
	}
	for _, c := range notAsRxe {
		known[c.name] = true
	}
	for name := range leftOut {
		known[name] = true
	}
	files, err := filepath.Glob(filepath.Join("..", "bth", "testdata", "captures", "*.pcap"))
	if err != nil || len(files) < 60 {
		t.Fatalf("%d captures: %v", len(files), err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".pcap")
		if ps := capturedPackets(t, name); len(ps) > 0 && ps[0].Opcode.Service() == bth.RC && !known[name] {
			t.Errorf("%s has RC packets and is not mentioned", name)
		}
	}
}

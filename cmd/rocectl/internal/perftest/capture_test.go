package perftest

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/go-roce/roce/cmd/rocectl/internal/oob"
)

// said is what the two ends of a captured exchange wrote, message by message: perftest writes each in one segment.
type said struct{ client, server [][]byte }

func capturedExchange(t *testing.T, name string) said {
	t.Helper()
	f, err := os.Open(filepath.Join("../../../../bth/testdata/captures", name+".pcap"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var s said
	next := make(map[layers.TCPPort]uint32) // sequence number by source port
	for {
		frame, _, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return s
		}
		if err != nil {
			t.Fatal(err)
		}
		p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
		tcp, ok := p.Layer(layers.LayerTypeTCP).(*layers.TCP)
		if !ok || len(tcp.Payload) == 0 {
			continue
		}
		if n, ok := next[tcp.SrcPort]; ok && int32(tcp.Seq-n) < 0 {
			continue // sent again
		}
		next[tcp.SrcPort] = tcp.Seq + uint32(len(tcp.Payload))
		if tcp.DstPort == oob.DefaultPort {
			s.client = append(s.client, tcp.Payload)
		} else {
			s.server = append(s.server, tcp.Payload)
		}
	}
}

// lengths of messages, which tell them apart.
func lengths(messages [][]byte) []int {
	n := make([]int, len(messages))
	for i, m := range messages {
		n[i] = len(m)
	}
	return n
}

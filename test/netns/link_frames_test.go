//go:build linux

package netns

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/link"
)

// header is what leads a test frame: all that the link's filter and the way looks at.
type header struct {
	dst, src [6]byte
	from, to netip.Addr
	vlan     []byte // tags, between the addresses and the EtherType
	proto    byte   // 0 means UDP
	fragment uint16 // IPv4: flags and offset
	options  int    // IPv4: bytes of options
	port     uint16 // 0 means 4791
	checksum bool   // fill in the UDP checksum; RoCE senders leave it 0
}

// frame builds a frame of a header and payload, with correct lengths and checksum.
func (h header) frame(payload []byte) []byte {
	proto, port := byte(17), uint16(4791)
	if h.proto != 0 {
		proto = h.proto
	}
	if h.port != 0 {
		port = h.port
	}
	udp := binary.BigEndian.AppendUint16(nil, 0xC123)
	udp = binary.BigEndian.AppendUint16(udp, port)
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(payload)))
	udp = append(udp, 0, 0)
	udp = append(udp, payload...)
	if h.checksum {
		pseudo := append(append(h.from.AsSlice(), h.to.AsSlice()...), 0, proto, 0, udp[5])
		pseudo[len(pseudo)-2] = udp[4]
		binary.BigEndian.PutUint16(udp[6:], internetChecksum(append(pseudo, udp...)))
	}

	b := append(append(append([]byte{}, h.dst[:]...), h.src[:]...), h.vlan...)
	if h.to.Is4() {
		b = append(b, 0x08, 0x00)
		ip := make([]byte, 20+h.options)
		ip[0] = 0x40 | byte(len(ip)/4)
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+len(udp)))
		binary.BigEndian.PutUint16(ip[6:], 0x4000|h.fragment)
		if h.fragment != 0 {
			binary.BigEndian.PutUint16(ip[6:], h.fragment)
		}
		ip[8], ip[9] = 64, proto
		copy(ip[12:], h.from.AsSlice())
		copy(ip[16:], h.to.AsSlice())
		for i := 20; i < len(ip); i++ {
			ip[i] = 1 // no operation
		}
		binary.BigEndian.PutUint16(ip[10:], internetChecksum(ip))
		return append(append(b, ip...), udp...)
	}
	b = append(b, 0x86, 0xDD)
	ip := make([]byte, 40)
	ip[0], ip[6], ip[7] = 0x60, proto, 64
	binary.BigEndian.PutUint16(ip[4:], uint16(len(udp)))
	copy(ip[8:], h.from.AsSlice())
	copy(ip[24:], h.to.AsSlice())
	return append(append(b, ip...), udp...)
}

// internetChecksum is that of RFC 1071, over an even number of bytes.
func internetChecksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xFFFF {
		sum = sum>>16 + sum&0xFFFF
	}
	return ^uint16(sum)
}

// between leads frames from one host to the other, over IPv4 or IPv6.
func between(from, to *host, v6 bool) header {
	h := header{dst: to.mac(), src: from.mac(), from: from.v4(), to: to.v4()}
	if v6 {
		h.from, h.to = from.v6(), to.v6()
	}
	return h
}

// pattern returns n bytes that depend on the seed.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)*7 + seed
	}
	return b
}

// send sends whole frames in one batch, waiting for room.
func send(t testing.TB, l link.Link, frames ...[]byte) {
	t.Helper()
	q := l.Queues()[0]
	for len(frames) > 0 {
		fs := make([]link.Frame, len(frames))
		n := q.Alloc(fs)
		for i := range fs[:n] {
			fs[i].Data = fs[i].Data[:copy(fs[i].Data, frames[i])]
			if len(fs[i].Data) < len(frames[i]) {
				t.Fatalf("a leased buffer has no room for %d bytes", len(frames[i]))
			}
		}
		q.Submit(fs[:n])
		if err := q.Flush(); err != nil {
			t.Fatal(err)
		}
		if frames = frames[n:]; n == 0 {
			if err := q.Wait(clock.System().Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// receive takes copies of up to n frames, waiting up to the given time for the next.
func receive(t testing.TB, l link.Link, n int, patience time.Duration) [][]byte {
	t.Helper()
	q := l.Queues()[0]
	var got [][]byte
	fs := make([]link.Frame, 16)
	deadline := clock.System().Now().Add(patience)
	for len(got) < n {
		k, err := q.Recv(fs[:min(len(fs), n-len(got))])
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range fs[:k] {
			got = append(got, append([]byte{}, f.Data...))
		}
		q.Release(fs[:k])
		if k > 0 {
			deadline = clock.System().Now().Add(patience)
			continue
		}
		if !clock.System().Now().Before(deadline) {
			break
		}
		if err := q.Wait(deadline); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

package link

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// Whatever bytes come, cutting neither panics nor loses or invents payload, and
// every packet has the header's length in its own length fields.
func FuzzAppendSegment(f *testing.F) {
	v4 := append(make([]byte, 12), 0x08, 0x00, 0x45, 0, 0, 60, 0xFF, 0xFF, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2)
	v4 = append(v4, 0xC0, 0, 0x12, 0xB7, 0, 40, 1, 2)
	v6 := append(make([]byte, 12), 0x81, 0x00, 0, 5, 0x86, 0xDD, 0x60, 0, 0, 0, 0, 40, 17, 64)
	v6 = append(append(v6, make([]byte, 32)...), 0xC0, 0, 0x12, 0xB7, 0, 40, 1, 2)
	f.Add(append(v4, make([]byte, 100)...), uint16(32))
	f.Add(append(v6, make([]byte, 100)...), uint16(33))
	f.Add(v4, uint16(1))
	f.Add([]byte{}, uint16(1))
	f.Fuzz(func(t *testing.T, frame []byte, segment uint16) {
		l, ok := findUDP(frame)
		if !ok || segment == 0 || l.segments(frame, int(segment)) > 1000 {
			return
		}
		if l.end(frame) < l.payload || l.end(frame) > len(frame) {
			t.Fatalf("the payload of %d bytes from %d ends at %d", len(frame), l.payload, l.end(frame))
		}
		before := bytes.Clone(frame)
		var joined []byte
		for i := range l.segments(frame, int(segment)) {
			p := l.appendSegment(nil, frame, int(segment), i)
			if n := len(p) - l.payload; n == 0 || n > int(segment) {
				t.Fatalf("packet %d has %d bytes of payload", i, n)
			}
			if got := int(binary.BigEndian.Uint16(p[l.udp+4:])); got != (len(p)-l.udp)&0xFFFF {
				t.Fatalf("packet %d: UDP length %d of %d", i, got, len(p)-l.udp)
			}
			if again, ok := findUDP(p); !ok || again != l {
				t.Fatalf("packet %d: layout %+v, %v, of %+v", i, again, ok, l)
			}
			joined = append(joined, p[l.payload:]...)
		}
		if !bytes.Equal(joined, frame[l.payload:]) {
			t.Fatal("the payloads together are not the super-frame's")
		}
		if !bytes.Equal(before, frame) {
			t.Fatal("the super-frame was changed")
		}
	})
}

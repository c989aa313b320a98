package bth_test

import (
	"fmt"
	"testing"

	"github.com/go-roce/roce/bth"
)

// benchmarkSizes are payload bytes: an ACK-like packet, and two path MTUs.
var benchmarkSizes = []int{64, 1024, 4096}

// benchmarkFrame returns a WRITE ONLY of size bytes of payload.
func benchmarkFrame(b *testing.B, kind string, size int) (frame []byte, encap *bth.Encap, h *bth.Headers) {
	b.Helper()
	var c bth.ICRC
	encap = newEncap(b, testPaths[kind])
	headers := sampleHeaders(bth.RCWriteOnly)
	payload, _ := payloadOf(size)
	return buildFrame(&c, encap, &headers, payload, 1), encap, &headers
}

func BenchmarkDecode(b *testing.B) {
	for _, kind := range []string{"IPv4", "IPv6"} {
		frame, _, _ := benchmarkFrame(b, kind, 1024)
		b.Run(kind, func(b *testing.B) {
			var (
				e bth.Envelope
				p bth.Packet
			)
			b.ReportAllocs()
			for b.Loop() {
				if e.Decode(frame) != bth.DropNone || p.Decode(&e, e.IB) != bth.DropNone {
					b.Fatal("dropped")
				}
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	for _, kind := range []string{"IPv4", "IPv6"} {
		for _, size := range benchmarkSizes {
			frame, _, _ := benchmarkFrame(b, kind, size)
			b.Run(fmt.Sprintf("%s/%d", kind, size), func(b *testing.B) {
				var (
					e bth.Envelope
					c bth.ICRC
				)
				if d := e.Decode(frame); d != bth.DropNone {
					b.Fatal(d)
				}
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if !c.Verify(&e, e.IB, 0) {
						b.Fatal("wrong ICRC")
					}
				}
			})
		}
	}
}

// BenchmarkVerifyAck is the packet that comes most often when sending.
func BenchmarkVerifyAck(b *testing.B) {
	var (
		e bth.Envelope
		c bth.ICRC
	)
	if d := e.Decode(vector(b, "V2").frame); d != bth.DropNone {
		b.Fatal(d)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !c.Verify(&e, e.IB, 0) {
			b.Fatal("wrong ICRC")
		}
	}
}

// BenchmarkCRC is the floor under Verify and Build: the CRC of the payload alone.
func BenchmarkCRC(b *testing.B) {
	for _, size := range benchmarkSizes {
		payload, _ := payloadOf(size)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				bth.UpdateICRC(0, payload)
			}
		})
	}
}

// BenchmarkBuild writes headers and ICRC round a payload that is in place.
func BenchmarkBuild(b *testing.B) {
	for _, kind := range []string{"IPv4", "IPv6"} {
		for _, size := range benchmarkSizes {
			frame, encap, h := benchmarkFrame(b, kind, size)
			b.Run(fmt.Sprintf("%s/%d", kind, size), func(b *testing.B) {
				var c bth.ICRC
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					n := encap.Put(frame, len(frame)-encap.Len(), 1)
					h.AppendTo(frame[:n])
					end := len(frame) - bth.ICRCLen
					bth.PutICRC(frame[end:], c.StartPacket(encap, len(frame)-n, 1, frame[n:end]))
				}
			})
		}
	}
}

// BenchmarkVerifySuperFrame is per packet of 15 that came in one frame.
func BenchmarkVerifySuperFrame(b *testing.B) {
	var (
		e bth.Envelope
		c bth.ICRC
	)
	frame, segment := superFrame(&c, newEncap(b, testPaths["IPv4"]), 15, 4096, 4096, 1, true)
	if d := e.Decode(frame); d != bth.DropNone {
		b.Fatal(d)
	}
	b.SetBytes(4096)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if !c.Verify(&e, e.IB[i*segment:(i+1)*segment], i) {
			b.Fatal("wrong ICRC")
		}
		i = (i + 1) % 15
	}
}

package bth_test

import (
	"encoding/hex"
	"fmt"
	"net/netip"

	"github.com/go-roce/roce/bth"
)

// Decode a frame that Soft-RoCE sent: an acknowledgement.
func ExamplePacket_DecodeFrame() {
	frame, _ := hex.DecodeString("52540000000a52540000000b080045000030209f40004011060e0a0700020a070001" +
		"c14412b7001c0000" + "1100ffff0000001200001000" + "1f000001" + "0c5de988")
	icrc, packet := new(bth.ICRC), new(bth.Packet)
	if drop := packet.DecodeFrame(icrc, frame); drop != bth.DropNone {
		fmt.Println(drop)
		return
	}
	fmt.Println(packet.Src, packet)
	// Output: 10.7.0.2 RC_ACKNOWLEDGE QP 0x000012 PSN 0x001000 ACK MSN 1
}

// Build a SEND ONLY of five bytes.
func ExampleEncap() {
	encap, err := bth.NewEncap(bth.Path{
		SrcMAC: [6]byte{0x52, 0x54, 0, 0, 0, 0x0a}, DstMAC: [6]byte{0x52, 0x54, 0, 0, 0, 0x0b},
		Src: netip.MustParseAddr("10.7.0.1"), Dst: netip.MustParseAddr("10.7.0.2"),
		SrcPort: bth.SourcePort(0, 0x12, 0x12),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	payload := []byte("hello")
	headers := bth.Headers{Header: bth.Header{
		Opcode: bth.RCSendOnly, PKey: bth.DefaultPKey, DestQP: 0x12, PSN: 0x1000, AckReq: true, Pad: 3,
	}}
	frame := headers.AppendTo(make([]byte, encap.Len()))
	frame = append(append(frame, payload...), 0, 0, 0)
	encap.Put(frame, len(frame)-encap.Len()+bth.ICRCLen, 0)
	crc := new(bth.ICRC).Start(frame[encap.L3():])
	frame = append(frame, 0, 0, 0, 0)
	bth.PutICRC(frame[len(frame)-bth.ICRCLen:], crc)
	fmt.Printf("%x\n", frame[encap.Len():])
	// Output: 0430ffff000000128000100068656c6c6f000000e162db05
}

package transport

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/go-roce/roce/bth"
)

func TestRC_EveryOperationMovesItsBytes(t *testing.T) {
	for _, mtu := range []int{256, 1024, 4096} {
		for _, size := range []int{0, 1, 3, 4, 255, 256, 257, 1023, 1024, 1025, 4096, 4097, 65536} {
			p := newPair(t, func(o *pairOptions) { o.mtu = mtu; o.psn = 0xFFFFFE })
			fill(p.a.mem[:size], byte(size))
			addr, key := p.b.at(0x20000)
			p.recv(p.b, 100, 0x10000, 65536)
			p.send(p.a, SendWR{ID: 1, Opcode: WRSend, Flags: Signaled, SGL: p.a.sge(0, size)})
			p.send(p.a, SendWR{ID: 2, Opcode: WRWrite, Flags: Signaled, SGL: p.a.sge(0, size), RemoteAddr: addr, RKey: key})
			p.recv(p.b, 101, 0, 0)
			p.send(p.a, SendWR{ID: 3, Opcode: WRWriteImm, Flags: Signaled, SGL: p.a.sge(0, size), RemoteAddr: addr + 0x20000, RKey: key, Imm: 0xAABBCCDD})
			p.send(p.a, SendWR{ID: 4, Opcode: WRRead, Flags: Signaled, SGL: p.a.sge(0x80000, size), RemoteAddr: addr, RKey: key})
			p.settle()
			p.wantDone(p.a, "1 SUCCESS", "2 SUCCESS", "3 SUCCESS", "4 SUCCESS")
			if len(p.b.done) != 2 || p.b.done[0].ByteLen != uint32(size) || p.b.done[1].Imm != 0xAABBCCDD || p.b.done[1].ByteLen != uint32(size) {
				t.Fatalf("mtu %d size %d: receive completions %+v", mtu, size, p.b.done)
			}
			for name, got := range map[string][]byte{
				"SEND": p.b.mem[0x10000:], "WRITE": p.b.mem[0x20000:], "WRITE_IMM": p.b.mem[0x40000:], "READ": p.a.mem[0x80000:],
			} {
				if !bytes.Equal(got[:size], p.a.mem[:size]) {
					t.Fatalf("mtu %d size %d: %s moved the wrong bytes", mtu, size, name)
				}
			}
			if r := p.a.qp.Counters().Retransmits; r != 0 {
				t.Fatalf("mtu %d size %d: %d retransmits on a clean wire", mtu, size, r)
			}
		}
	}
}

func TestRC_Atomics(t *testing.T) {
	p := newPair(t, nil)
	addr, key := p.b.at(64)
	binary.NativeEndian.PutUint64(p.b.mem[64:], 40)
	p.send(p.a, SendWR{ID: 1, Opcode: WRFetchAdd, Flags: Signaled, SGL: p.a.sge(0, 8), RemoteAddr: addr, RKey: key, CompareAdd: 2})
	p.send(p.a, SendWR{ID: 2, Opcode: WRCompareSwap, Flags: Signaled, SGL: p.a.sge(8, 8), RemoteAddr: addr, RKey: key, CompareAdd: 42, Swap: 7})
	p.send(p.a, SendWR{ID: 3, Opcode: WRCompareSwap, Flags: Signaled, SGL: p.a.sge(16, 8), RemoteAddr: addr, RKey: key, CompareAdd: 42, Swap: 8})
	p.settle()
	p.wantDone(p.a, "1 SUCCESS", "2 SUCCESS", "3 SUCCESS")
	for i, want := range []uint64{40, 42, 7} {
		if got := binary.NativeEndian.Uint64(p.a.mem[8*i:]); got != want {
			t.Errorf("atomic %d returned %d, want %d", i, got, want)
		}
	}
	if got := binary.NativeEndian.Uint64(p.b.mem[64:]); got != 7 {
		t.Errorf("the word holds %d, want 7", got)
	}
}

func TestRC_LossOfEveryPacketOnceIsRecovered(t *testing.T) {
	for k := range 40 {
		p := newPair(t, func(o *pairOptions) { o.mtu = 256 })
		n := 0
		p.tamper = func(*end, *bth.Packet) int {
			if n++; n-1 == k {
				return 0
			}
			return 1
		}
		fill(p.a.mem[:2000], 3)
		addr, key := p.b.at(0x20000)
		for i := range 4 {
			p.recv(p.b, uint64(i), 0x40000+0x1000*i, 0x1000)
		}
		p.send(p.a, SendWR{ID: 1, Opcode: WRSend, Flags: Signaled, SGL: p.a.sge(0, 1000)})
		p.send(p.a, SendWR{ID: 2, Opcode: WRRead, Flags: Signaled, SGL: p.a.sge(0x80000, 2000), RemoteAddr: addr + 0x10000, RKey: key})
		p.send(p.a, SendWR{ID: 3, Opcode: WRWrite, Flags: Signaled, SGL: p.a.sge(0, 2000), RemoteAddr: addr, RKey: key})
		p.send(p.a, SendWR{ID: 4, Opcode: WRFetchAdd, Flags: Signaled, SGL: p.a.sge(0x90000, 8), RemoteAddr: addr + 0x8000, RKey: key, CompareAdd: 1})
		p.send(p.a, SendWR{ID: 5, Opcode: WRSend, Flags: Signaled, SGL: p.a.sge(0, 700)})
		p.send(p.a, SendWR{ID: 6, Opcode: WRRead, Flags: Signaled, SGL: p.a.sge(0x88000, 600), RemoteAddr: addr, RKey: key})
		p.settle()
		p.wantDone(p.a, "1 SUCCESS", "2 SUCCESS", "3 SUCCESS", "4 SUCCESS", "5 SUCCESS", "6 SUCCESS")
		p.wantDone(p.b, "0 SUCCESS", "1 SUCCESS")
		if !bytes.Equal(p.b.mem[0x20000:0x20000+2000], p.a.mem[:2000]) || !bytes.Equal(p.b.mem[0x41000:0x41000+700], p.a.mem[:700]) ||
			!bytes.Equal(p.a.mem[0x88000:0x88000+600], p.a.mem[:600]) {
			t.Fatalf("packet %d lost: wrong bytes", k)
		}
		if got := binary.NativeEndian.Uint64(p.b.mem[0x28000:]); got != 1 {
			t.Fatalf("packet %d lost: FETCH_ADD ran %d times", k, got)
		}
	}
}

func TestRC_DataPathDoesNotAllocate(t *testing.T) {
	p := newPair(t, nil)
	addr, key := p.b.at(0x20000)
	var out Out
	var c Completion
	var pkt bth.Packet
	var frame [8192]byte
	exchange := func(from, to *QP) (n int) {
		for from.PollTransmit(0, &out) {
			pkt = bth.Packet{Headers: out.Headers, Flags: out.Opcode.Flags(), Src: to.attr.AV.Dst, Dst: to.attr.AV.Src}
			pkt.Payload = frame[:0]
			for _, b := range out.Payload {
				pkt.Payload = append(pkt.Payload, b...)
			}
			if d := to.HandlePacket(0, &pkt); d != bth.DropNone {
				t.Fatal(d)
			}
			n++
		}
		for from.PollCompletion(&c) {
			n++
		}
		return n
	}
	wrs := []SendWR{
		{Opcode: WRSend, Flags: Signaled, SGL: p.a.sge(0, 3000)},
		{Opcode: WRWrite, Flags: Signaled, SGL: p.a.sge(0, 3000), RemoteAddr: addr, RKey: key},
		{Opcode: WRRead, Flags: Signaled, SGL: p.a.sge(0, 3000), RemoteAddr: addr, RKey: key},
		{Opcode: WRFetchAdd, Flags: Signaled, SGL: p.a.sge(0, 8), RemoteAddr: addr, RKey: key},
		{Opcode: WRSend, Flags: Signaled | Inline, Inline: make([]byte, 16)},
	}
	recv := RecvWR{SGL: p.b.sge(0x40000, 4096)}
	once := func() {
		for i := range wrs {
			if err := p.b.qp.PostRecv(&recv); err != nil {
				t.Fatal(err)
			}
			if err := p.a.qp.PostSend(&wrs[i]); err != nil {
				t.Fatal(err)
			}
			for exchange(p.a.qp, p.b.qp)+exchange(p.b.qp, p.a.qp) > 0 {
			}
		}
		// READ, WRITE and atomic left their receives: use them up.
		for range 3 {
			if err := p.a.qp.PostSend(&wrs[0]); err != nil {
				t.Fatal(err)
			}
			for exchange(p.a.qp, p.b.qp)+exchange(p.b.qp, p.a.qp) > 0 {
			}
		}
	}
	once()
	if n := testing.AllocsPerRun(100, once); n != 0 {
		t.Fatalf("%v allocations for eight work requests, want none", n)
	}
}


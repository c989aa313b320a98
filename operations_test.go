package roce_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/go-roce/roce"
)

// Every operation, by every length that is a border of something, in both ways to
// make progress, over IPv4 and IPv6, in small and large packets.
func TestOperations_MoveTheRightBytes(t *testing.T) {
	for _, manual := range []bool{false, true} {
		for _, mtu := range []int{256, 1024, 4096} {
			for _, ipv6 := range []bool{false, true} {
				t.Run(fmt.Sprintf("manual=%v/mtu=%d/ipv6=%v", manual, mtu, ipv6), func(t *testing.T) {
					t.Parallel()
					r := rig{ipv6: ipv6, mem: 2 * 80 << 10, tweak: func(r *roce.Remote) { r.PathMTU = mtu }}
					r.dev.Manual = manual
					r.qp = roce.QPConfig{SendSGE: 4, RecvSGE: 4, MaxInline: 300}
					a, b := newPair(t, r)
					o := &operations{a: a, b: b, rnd: rand.New(rand.NewPCG(1, uint64(mtu)))}
					if manual {
						o.drive = []*end{a, b}
					}
					for _, n := range []int{0, 1, 2, 3, 4, 5, 8, 255, 257, mtu - 1, mtu, mtu + 1, mtu + 3, 3 * mtu, 5*mtu + 2, 16*mtu + 1} {
						o.send(t, n)
						o.write(t, n)
						o.read(t, n)
					}
					o.atomics(t)
					o.inline(t)
					o.invalidate(t)
					clean(t, a, b)
				})
			}
		}
	}
}

// operations carries out work requests from a to b and checks what they did.
type operations struct {
	a, b  *end
	drive []*end
	rnd   *rand.Rand
	imm   uint32
}

// fresh fills both regions with new random bytes.
func (o *operations) fresh() {
	for _, e := range []*end{o.a, o.b} {
		for b := e.mr.Bytes(); len(b) >= 8; b = b[8:] {
			binary.NativeEndian.PutUint64(b, o.rnd.Uint64())
		}
	}
	o.imm++
}

// split names n bytes from off on by up to four pieces.
func (o *operations) split(e *end, off, n int) []roce.SGE {
	var sgl []roce.SGE
	for len(sgl) < 3 && n > 1 {
		k := o.rnd.IntN(n)
		sgl = append(sgl, e.mr.SGE(off, k))
		off, n = off+k, n-k
	}
	return append(sgl, e.mr.SGE(off, n))
}

// moved fails unless n bytes at offset 8 of to are those at offset 100 of from, and
// the bytes around them are as they were.
func moved(t *testing.T, what string, n int, to, before, from []byte) {
	t.Helper()
	want := append([]byte(nil), before...)
	copy(want[8:8+n], from[100:])
	if !bytes.Equal(to, want) {
		t.Fatalf("%s of %d bytes left the wrong bytes", what, n)
	}
}

func (o *operations) send(t *testing.T, n int) {
	t.Helper()
	for _, op := range []roce.WROpcode{roce.WRSend, roce.WRSendImm} {
		o.fresh()
		before := append([]byte(nil), o.b.mr.Bytes()...)
		if _, err := o.b.qp.PostRecv(roce.RecvWR{ID: 7, SGL: o.split(o.b, 8, n)}); err != nil {
			t.Fatal(err)
		}
		o.a.send(t, roce.SendWR{ID: 9, Opcode: op, SGL: o.split(o.a, 100, n), Imm: o.imm, Flags: roce.Solicited})
		r, s := o.b.succeed(t, o.drive...), o.a.succeed(t, o.drive...)
		moved(t, "a SEND", n, o.b.mr.Bytes(), before, o.a.mr.Bytes())
		want := roce.Completion{ID: 7, QPN: o.b.qp.QPN(), Opcode: roce.WCRecv, ByteLen: uint32(n), SrcQP: o.a.qp.QPN(), Recv: true, Solicited: true, Retired: 1}
		if op == roce.WRSendImm {
			want.Flags, want.Imm = roce.WCWithImm, o.imm
		}
		if r != want {
			t.Fatalf("receive completion\n %+v, want\n %+v", r, want)
		}
		if s.ID != 9 || s.Opcode != roce.WCSend || s.QPN != o.a.qp.QPN() || s.Recv {
			t.Fatalf("send completion %+v", s)
		}
	}
}

func (o *operations) write(t *testing.T, n int) {
	t.Helper()
	for _, op := range []roce.WROpcode{roce.WRWrite, roce.WRWriteImm} {
		o.fresh()
		before := append([]byte(nil), o.b.mr.Bytes()...)
		if op == roce.WRWriteImm {
			if _, err := o.b.qp.PostRecv(roce.RecvWR{ID: 3}); err != nil {
				t.Fatal(err)
			}
		}
		o.a.send(t, roce.SendWR{Opcode: op, SGL: o.split(o.a, 100, n), Imm: o.imm, RemoteAddr: o.b.mr.Addr() + 8, RKey: o.b.mr.Key()})
		if op == roce.WRWriteImm {
			r := o.b.succeed(t, o.drive...)
			if r.ID != 3 || r.Opcode != roce.WCRecvImm || r.Imm != o.imm || r.ByteLen != uint32(n) {
				t.Fatalf("completion of a WRITE with immediate %+v", r)
			}
		}
		if s := o.a.succeed(t, o.drive...); s.Opcode != roce.WCWrite {
			t.Fatalf("completion %+v", s)
		}
		moved(t, "a WRITE", n, o.b.mr.Bytes(), before, o.a.mr.Bytes())
	}
}

func (o *operations) read(t *testing.T, n int) {
	t.Helper()
	o.fresh()
	before := append([]byte(nil), o.a.mr.Bytes()...)
	o.a.send(t, roce.SendWR{Opcode: roce.WRRead, SGL: o.split(o.a, 8, n), RemoteAddr: o.b.mr.Addr() + 100, RKey: o.b.mr.Key()})
	if s := o.a.succeed(t, o.drive...); s.Opcode != roce.WCRead || s.ByteLen != uint32(n) {
		t.Fatalf("completion %+v", s)
	}
	moved(t, "a READ", n, o.a.mr.Bytes(), before, o.b.mr.Bytes())
}

func (o *operations) atomics(t *testing.T) {
	t.Helper()
	o.fresh()
	o.b.mr.StoreUint64(16, 1000)
	do := func(op roce.WROpcode, compareAdd, swap, wantOriginal, wantAfter uint64) {
		t.Helper()
		o.a.send(t, roce.SendWR{Opcode: op, SGL: []roce.SGE{o.a.mr.SGE(24, 8)}, RemoteAddr: o.b.mr.Addr() + 16, RKey: o.b.mr.Key(), CompareAdd: compareAdd, Swap: swap})
		o.a.succeed(t, o.drive...)
		if got := o.a.mr.LoadUint64(24); got != wantOriginal {
			t.Fatalf("the original value was %d, want %d", got, wantOriginal)
		}
		if got := o.b.mr.LoadUint64(16); got != wantAfter {
			t.Fatalf("the value became %d, want %d", got, wantAfter)
		}
	}
	do(roce.WRFetchAdd, 5, 0, 1000, 1005)
	do(roce.WRCompareSwap, 7, 42, 1005, 1005)
	do(roce.WRCompareSwap, 1005, 42, 1005, 42)
	do(roce.WRFetchAdd, ^uint64(0), 0, 42, 41)
}

func (o *operations) inline(t *testing.T) {
	t.Helper()
	for _, n := range []int{0, 1, 299, 300} {
		o.fresh()
		before := append([]byte(nil), o.b.mr.Bytes()...)
		data := append([]byte(nil), o.a.mr.Bytes()[100:100+n]...)
		o.a.send(t, roce.SendWR{Opcode: roce.WRWrite, Flags: roce.Inline, Inline: data, RemoteAddr: o.b.mr.Addr() + 8, RKey: o.b.mr.Key()})
		clear(data) // it was copied
		o.a.succeed(t, o.drive...)
		moved(t, "an inline WRITE", n, o.b.mr.Bytes(), before, o.a.mr.Bytes())
	}
}

func (o *operations) invalidate(t *testing.T) {
	t.Helper()
	mr, err := o.b.pd.RegisterMemory(make([]byte, 8), allAccess)
	if err != nil {
		t.Fatal(err)
	}
	o.b.recv(t, 0, 8)
	o.a.send(t, roce.SendWR{Opcode: roce.WRSendInv, SGL: []roce.SGE{o.a.mr.SGE(0, 8)}, InvKey: mr.Key()})
	if r := o.b.succeed(t, o.drive...); r.Flags != roce.WCWithInv || r.InvKey != mr.Key() {
		t.Fatalf("completion %+v", r)
	}
	o.a.succeed(t, o.drive...)
	if err := mr.Deregister(); err != nil {
		t.Fatal(err)
	}
}

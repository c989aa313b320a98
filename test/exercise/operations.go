package exercise

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/go-roce/roce"
)

// OperationsMemory is the bytes of memory that Operations needs at both ends for a path MTU.
func OperationsMemory(mtu int) int { return 16*mtu + 1024 }

// OperationsQP are the queue pairs that Operations needs.
var OperationsQP = roce.QPConfig{SendSGE: 4, RecvSGE: 4, MaxInline: 300}

// Operations carries out every operation from a to b, which are connected with the given path MTU, by
// every length that is a border of something. Ends that drive themselves manually are
// driven.
func Operations(t testing.TB, a, b *End, mtu int) {
	t.Helper()
	o := &operations{a: a, b: b, rnd: rand.New(rand.NewPCG(1, uint64(mtu)))}
	if a.Dev.Info().Manual {
		o.drive = []*End{a, b}
	}
	for _, n := range []int{0, 1, 2, 3, 4, 5, 8, 255, 257, mtu - 1, mtu, mtu + 1, mtu + 3, 3 * mtu, 5*mtu + 2, 16*mtu + 1} {
		o.send(t, n)
		o.write(t, n)
		o.read(t, n)
	}
	o.atomics(t)
	o.inline(t)
	o.invalidate(t, mtu)
}

// operations carries out work requests from a to b and checks what they did.
type operations struct {
	a, b  *End
	drive []*End
	rnd   *rand.Rand
	imm   uint32
}

// around is how much of a region an operation of n bytes could touch if it went wrong.
func around(e *End, n int) int { return min(e.MR.Len(), n+512) &^ 7 }

// fresh fills both regions, as far as n bytes matter, with new random bytes. Over a bad
// link a late duplicate of a READ may look at them meanwhile.
func (o *operations) fresh(n int) {
	for _, e := range []*End{o.a, o.b} {
		for off := 0; off < around(e, n); off += 8 {
			e.MR.StoreUint64(off, o.rnd.Uint64())
		}
	}
	o.imm++
}

// split names n bytes from off on by up to four pieces.
func (o *operations) split(e *End, off, n int) []roce.SGE {
	var sgl []roce.SGE
	for len(sgl) < 3 && n > 1 {
		k := o.rnd.IntN(n)
		sgl = append(sgl, e.MR.SGE(off, k))
		off, n = off+k, n-k
	}
	return append(sgl, e.MR.SGE(off, n))
}

// snapshot copies what of an End's region n bytes could touch. The peer may be writing to it without a
// completion here.
func snapshot(e *End, n int) []byte {
	b := make([]byte, 0, around(e, n))
	for off := 0; off < around(e, n); off += 8 {
		b = binary.NativeEndian.AppendUint64(b, e.MR.LoadUint64(off))
	}
	return b
}

// moved fails unless n bytes at offset 8 of to are those at offset 100 of from, and
// the bytes around them are as they were.
func moved(t testing.TB, what string, n int, to *End, before []byte, from *End) {
	t.Helper()
	want := append([]byte(nil), before...)
	copy(want[8:8+n], snapshot(from, n)[100:])
	if !bytes.Equal(snapshot(to, n), want) {
		t.Fatalf("%s of %d bytes left the wrong bytes", what, n)
	}
}

func (o *operations) send(t testing.TB, n int) {
	t.Helper()
	for _, op := range []roce.WROpcode{roce.WRSend, roce.WRSendImm} {
		o.fresh(n)
		before := snapshot(o.b, n)
		if _, err := o.b.QP.PostRecv(roce.RecvWR{ID: 7, SGL: o.split(o.b, 8, n)}); err != nil {
			t.Fatal(err)
		}
		o.a.Send(t, roce.SendWR{ID: 9, Opcode: op, SGL: o.split(o.a, 100, n), Imm: o.imm, Flags: roce.Solicited})
		r, s := o.b.Succeed(t, o.drive...), o.a.Succeed(t, o.drive...)
		moved(t, "a SEND", n, o.b, before, o.a)
		want := roce.Completion{ID: 7, QPN: o.b.QP.QPN(), Opcode: roce.WCRecv, ByteLen: uint32(n), SrcQP: o.a.QP.QPN(), Recv: true, Solicited: true, Retired: 1}
		if op == roce.WRSendImm {
			want.Flags, want.Imm = roce.WCWithImm, o.imm
		}
		if r != want {
			t.Fatalf("receive completion\n %+v, want\n %+v", r, want)
		}
		if s.ID != 9 || s.Opcode != roce.WCSend || s.QPN != o.a.QP.QPN() || s.Recv {
			t.Fatalf("send completion %+v", s)
		}
	}
}

func (o *operations) write(t testing.TB, n int) {
	t.Helper()
	for _, op := range []roce.WROpcode{roce.WRWrite, roce.WRWriteImm} {
		o.fresh(n)
		before := snapshot(o.b, n)
		if op == roce.WRWriteImm {
			if _, err := o.b.QP.PostRecv(roce.RecvWR{ID: 3}); err != nil {
				t.Fatal(err)
			}
		}
		o.a.Send(t, roce.SendWR{Opcode: op, SGL: o.split(o.a, 100, n), Imm: o.imm, RemoteAddr: o.b.MR.Addr() + 8, RKey: o.b.MR.Key()})
		if op == roce.WRWriteImm {
			r := o.b.Succeed(t, o.drive...)
			if r.ID != 3 || r.Opcode != roce.WCRecvImm || r.Imm != o.imm || r.ByteLen != uint32(n) {
				t.Fatalf("completion of a WRITE with immediate %+v", r)
			}
		}
		if s := o.a.Succeed(t, o.drive...); s.Opcode != roce.WCWrite {
			t.Fatalf("completion %+v", s)
		}
		moved(t, "a WRITE", n, o.b, before, o.a)
	}
}

func (o *operations) read(t testing.TB, n int) {
	t.Helper()
	o.fresh(n)
	before := snapshot(o.a, n)
	o.a.Send(t, roce.SendWR{Opcode: roce.WRRead, SGL: o.split(o.a, 8, n), RemoteAddr: o.b.MR.Addr() + 100, RKey: o.b.MR.Key()})
	if s := o.a.Succeed(t, o.drive...); s.Opcode != roce.WCRead || s.ByteLen != uint32(n) {
		t.Fatalf("completion %+v", s)
	}
	moved(t, "a READ", n, o.a, before, o.b)
}

func (o *operations) atomics(t testing.TB) {
	t.Helper()
	o.fresh(0)
	o.b.MR.StoreUint64(16, 1000)
	do := func(op roce.WROpcode, compareAdd, swap, wantOriginal, wantAfter uint64) {
		t.Helper()
		o.a.Send(t, roce.SendWR{Opcode: op, SGL: []roce.SGE{o.a.MR.SGE(24, 8)}, RemoteAddr: o.b.MR.Addr() + 16, RKey: o.b.MR.Key(), CompareAdd: compareAdd, Swap: swap})
		o.a.Succeed(t, o.drive...)
		if got := o.a.MR.LoadUint64(24); got != wantOriginal {
			t.Fatalf("the original value was %d, want %d", got, wantOriginal)
		}
		if got := o.b.MR.LoadUint64(16); got != wantAfter {
			t.Fatalf("the value became %d, want %d", got, wantAfter)
		}
	}
	do(roce.WRFetchAdd, 5, 0, 1000, 1005)
	do(roce.WRCompareSwap, 7, 42, 1005, 1005)
	do(roce.WRCompareSwap, 1005, 42, 1005, 42)
	do(roce.WRFetchAdd, ^uint64(0), 0, 42, 41)
}

func (o *operations) inline(t testing.TB) {
	t.Helper()
	for _, n := range []int{0, 1, 299, 300} {
		o.fresh(n)
		before := snapshot(o.b, n)
		data := snapshot(o.a, n)[100 : 100+n]
		o.a.Send(t, roce.SendWR{Opcode: roce.WRWrite, Flags: roce.Inline, Inline: data, RemoteAddr: o.b.MR.Addr() + 8, RKey: o.b.MR.Key()})
		clear(data) // it was copied
		o.a.Succeed(t, o.drive...)
		moved(t, "an inline WRITE", n, o.b, before, o.a)
	}
}

func (o *operations) invalidate(t testing.TB, mtu int) {
	t.Helper()
	for _, n := range []int{8, mtu + 8} {
		mr, err := o.b.PD.RegisterMemory(make([]byte, 8), AllAccess)
		if err != nil {
			t.Fatal(err)
		}
		o.b.Recv(t, 0, n)
		o.a.Send(t, roce.SendWR{Opcode: roce.WRSendInv, SGL: []roce.SGE{o.a.MR.SGE(0, n)}, InvKey: mr.Key()})
		if r := o.b.Succeed(t, o.drive...); r.Flags != roce.WCWithInv || r.InvKey != mr.Key() {
			t.Fatalf("completion of a SEND with invalidate %+v", r)
		}
		o.a.Succeed(t, o.drive...)
		if err := mr.Deregister(); err != nil {
			t.Fatal(err)
		}
	}
}

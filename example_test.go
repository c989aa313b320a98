package roce_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/link"
)

// Two devices in one process, joined by a wire in memory: one writes into the other.
func ExampleOpenLink() {
	ctx := context.Background()
	here, there := link.NewMemPair(link.MemOptions{})
	a, b := must(roce.OpenLink(ctx, here, nil)), must(roce.OpenLink(ctx, there, nil))
	defer a.Close()
	defer b.Close()

	pdA, pdB := a.AllocPD(), b.AllocPD()
	from := must(pdA.RegisterMemory([]byte("hello, RDMA"), 0))
	to := must(pdB.RegisterMemory(make([]byte, 11), roce.LocalWrite|roce.RemoteWrite))
	cq := must(a.CreateCQ(1))
	qpA := must(pdA.CreateQP(roce.QPConfig{SendCQ: cq, SendDepth: 1}))
	qpB := must(pdB.CreateQP(roce.QPConfig{Access: roce.RemoteWrite}))
	connect(ctx, qpA, qpB)

	must(qpA.PostSend(roce.SendWR{
		Opcode: roce.WRWrite, Flags: roce.Signaled, SGL: []roce.SGE{from.SGE(0, 11)},
		RemoteAddr: to.Addr(), RKey: to.Key(),
	}))
	done := make([]roce.Completion, 1)
	for cq.Poll(done) == 0 {
	}
	fmt.Println(done[0].Status, string(to.Bytes()))
	// Output: SUCCESS hello, RDMA
}

// A SEND goes where the receiver said before, by PostRecv.
func ExampleQP_PostRecv() {
	client, server := twoPeers()
	defer client.dev.Close()
	defer server.dev.Close()

	must(server.qp.PostRecv(roce.RecvWR{ID: 1, SGL: []roce.SGE{server.mr.SGE(0, 64)}}))
	copy(client.mr.Bytes(), "a message")
	must(client.qp.PostSend(roce.SendWR{ID: 2, Opcode: roce.WRSendImm, Imm: 7, SGL: []roce.SGE{client.mr.SGE(0, 9)}}))

	c := server.wait()
	fmt.Printf("receive %d: %q, immediate %d\n", c.ID, server.mr.Bytes()[:c.ByteLen], c.Imm)
	// Output: receive 1: "a message", immediate 7
}

// A READ fetches the peer's memory; the peer's program takes no part in it.
func ExampleQP_PostSend_read() {
	client, server := twoPeers()
	defer client.dev.Close()
	defer server.dev.Close()

	copy(server.mr.Bytes(), "to be read")
	must(client.qp.PostSend(roce.SendWR{
		Opcode: roce.WRRead, Flags: roce.Signaled, SGL: []roce.SGE{client.mr.SGE(16, 10)},
		RemoteAddr: server.mr.Addr(), RKey: server.mr.Key(),
	}))
	c := client.wait()
	fmt.Println(c.Status, string(client.mr.Bytes()[16:26]))
	// Output: SUCCESS to be read
}

// Atomics act on 8 bytes of the peer's memory, in its byte order, and return what was there.
func ExampleQP_PostSend_atomics() {
	client, server := twoPeers()
	defer client.dev.Close()
	defer server.dev.Close()

	server.mr.StoreUint64(0, 40)
	wr := roce.SendWR{Flags: roce.Signaled, SGL: []roce.SGE{client.mr.SGE(0, 8)}, RemoteAddr: server.mr.Addr(), RKey: server.mr.Key()}

	wr.Opcode, wr.CompareAdd = roce.WRFetchAdd, 2
	must(client.qp.PostSend(wr))
	client.wait()
	fmt.Println("it was", client.mr.LoadUint64(0), "and is", server.mr.LoadUint64(0))

	wr.Opcode, wr.CompareAdd, wr.Swap = roce.WRCompareSwap, 42, 1
	must(client.qp.PostSend(wr))
	client.wait()
	fmt.Println("it was", client.mr.LoadUint64(0), "and is", server.mr.LoadUint64(0))
	// Output:
	// it was 40 and is 42
	// it was 42 and is 1
}

// A work request that fails says why.
func ExampleQP_Explain() {
	client, server := twoPeers()
	defer client.dev.Close()
	defer server.dev.Close()

	must(client.qp.PostSend(roce.SendWR{
		Opcode: roce.WRWrite, SGL: []roce.SGE{client.mr.SGE(0, 8)},
		RemoteAddr: server.mr.Addr() + 60, RKey: server.mr.Key(), // the region has 64 bytes
	}))
	err := client.qp.Explain(client.wait())
	// REM_ACCESS_ERR (10): QP 0x34f2a1 to 10.77.0.2 QP 0x7f3b02: the peer refused the remote key, ...
	var failed *roce.WorkError
	if errors.As(err, &failed) {
		fmt.Println(failed.Completion.Status)
	}
	// Output: REM_ACCESS_ERR
}

// With Manual the program drives the device itself: nothing runs in the background.
func ExampleConfig_manual() {
	ctx := context.Background()
	here, there := link.NewMemPair(link.MemOptions{})
	a := must(roce.OpenLink(ctx, here, &roce.Config{Manual: true}))
	b := must(roce.OpenLink(ctx, there, &roce.Config{Manual: true}))
	defer a.Close()
	defer b.Close()

	cq := must(a.CreateCQ(1))
	qpA := must(a.AllocPD().CreateQP(roce.QPConfig{SendCQ: cq, SendDepth: 1}))
	qpB := must(b.AllocPD().CreateQP(roce.QPConfig{Access: roce.RemoteWrite}))
	connect(ctx, qpA, qpB)
	must(qpA.PostSend(roce.SendWR{Opcode: roce.WRWrite, Flags: roce.Signaled})) // of no bytes
	done := make([]roce.Completion, 1)
	for cq.Poll(done) == 0 { // drives a
		b.Progress()
	}
	fmt.Println(done[0].Status)
	// Output: SUCCESS
}

// peer is one of two connected ends with 64 bytes of memory.
type peer struct {
	dev *roce.Device
	cq  *roce.CQ
	qp  *roce.QP
	mr  *roce.MR
}

func twoPeers() (a, b *peer) {
	ctx := context.Background()
	here, there := link.NewMemPair(link.MemOptions{})
	a, b = newPeer(ctx, here), newPeer(ctx, there)
	connect(ctx, a.qp, b.qp)
	return a, b
}

func newPeer(ctx context.Context, l link.Link) *peer {
	const access = roce.RemoteWrite | roce.RemoteRead | roce.RemoteAtomic
	p := &peer{dev: must(roce.OpenLink(ctx, l, nil))}
	pd := p.dev.AllocPD()
	p.cq = must(p.dev.CreateCQ(16))
	p.mr = must(pd.RegisterMemory(make([]byte, 64), roce.LocalWrite|access))
	p.qp = must(pd.CreateQP(roce.QPConfig{SendCQ: p.cq, RecvCQ: p.cq, SendDepth: 8, RecvDepth: 8, Access: access}))
	return p
}

// wait sleeps until there is a completion.
func (p *peer) wait() roce.Completion {
	var c [1]roce.Completion
	for p.cq.Poll(c[:]) == 0 {
		if err := p.cq.Wait(context.Background()); err != nil {
			log.Fatal(err)
		}
	}
	return c[0]
}

// connect joins two queue pairs. Two programs would tell each other Local over
// a connection of some other kind.
func connect(ctx context.Context, a, b *roce.QP) {
	for _, end := range [][2]*roce.QP{{a, b}, {b, a}} {
		peer := end[1].Local()
		if err := end[0].Connect(ctx, roce.Remote{Addr: peer.Addr, QPN: peer.QPN, PSN: peer.PSN}); err != nil {
			log.Fatal(err)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

package roce_test

import (
	"context"
	"fmt"
	"log"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/link"
)

// Two devices in one process, joined by a wire in memory: one writes into the other.
func ExampleOpenLink() {
	ctx := context.Background()
	here, there := link.NewMemPair(link.MemOptions{})
	a, _ := roce.OpenLink(ctx, here, nil)
	b, _ := roce.OpenLink(ctx, there, nil)
	defer a.Close()
	defer b.Close()

	source, target := []byte("hello, RDMA"), make([]byte, 11)
	pdA, pdB := a.AllocPD(), b.AllocPD()
	mrA, _ := pdA.RegisterMemory(source, 0)
	mrB, _ := pdB.RegisterMemory(target, roce.LocalWrite|roce.RemoteWrite)
	cq, _ := a.CreateCQ(1)
	qpA, _ := pdA.CreateQP(roce.QPConfig{SendCQ: cq, SendDepth: 1})
	qpB, _ := pdB.CreateQP(roce.QPConfig{Access: roce.RemoteWrite})
	if err := connect(ctx, qpA, qpB); err != nil {
		log.Fatal(err)
	}

	_, _ = qpA.PostSend(roce.SendWR{
		Opcode: roce.WRWrite, Flags: roce.Signaled, SGL: []roce.SGE{mrA.SGE(0, 11)},
		RemoteAddr: mrB.Addr(), RKey: mrB.Key(),
	})
	var done [1]roce.Completion
	_ = cq.Wait(ctx)
	cq.Poll(done[:])
	fmt.Println(done[0].Status, string(target))
	// Output: SUCCESS hello, RDMA
}

// connect joins two queue pairs, which in real life tell each other Local over a
// connection of some other kind.
func connect(ctx context.Context, a, b *roce.QP) error {
	for _, end := range [][2]*roce.QP{{a, b}, {b, a}} {
		peer := end[1].Local()
		if err := end[0].Connect(ctx, roce.Remote{Addr: peer.Addr, QPN: peer.QPN, PSN: peer.PSN}); err != nil {
			return err
		}
	}
	return nil
}

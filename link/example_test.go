package link_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/go-roce/roce/clock"
	"github.com/go-roce/roce/link"
)

// Send a frame from one device of the process to another.
func ExampleNewMemPair() {
	a, b := link.NewMemPair(link.MemOptions{})
	defer a.Close()
	defer b.Close()
	route, err := a.Resolve(context.Background(), netip.Addr{}, netip.MustParseAddr("10.77.0.2"))
	if err != nil {
		fmt.Println(err)
		return
	}
	frames := make([]link.Frame, 1)
	tx := a.Queues()[0]
	if tx.Alloc(frames) == 0 {
		return // full: Wait until there is room
	}
	f := &frames[0]
	n := copy(f.Data, route.DstMAC[:])
	n += copy(f.Data[n:], route.SrcMAC[:])
	n += copy(f.Data[n:], "\x88\xb5hello") // an EtherType for experiments
	f.Data = f.Data[:n]
	tx.Submit(frames)
	if err := tx.Flush(); err != nil {
		fmt.Println(err)
		return
	}

	rx := b.Queues()[0]
	if err := rx.Wait(clock.Never); err != nil {
		fmt.Println(err)
		return
	}
	if n, _ := rx.Recv(frames); n == 1 {
		fmt.Printf("%s\n", frames[0].Data[14:])
		rx.Release(frames[:n])
	}
	// Output: hello
}

// Lose the second packet, whatever it is, and mark 1 % of the others as having met congestion.
func ExampleNewImpaired() {
	a, _ := link.NewMemPair(link.MemOptions{})
	im, err := link.ParseImpairment("ce=1%,seed=7")
	if err != nil {
		fmt.Println(err)
		return
	}
	im.Rules = append(im.Rules, link.Rule{Nth: 2, Action: link.ActionLose})
	l := link.NewImpaired(a, im, nil)
	defer l.Close()
	fmt.Println(im, len(im.Rules))
	// Output: ce=1%,seed=7 1
}

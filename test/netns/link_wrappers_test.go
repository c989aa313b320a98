//go:build linux

package netns

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/go-roce/roce/link"
)

// countPackets reads a capture and returns how many packets each interface number and comment has.
func countPackets(t *testing.T, file []byte) map[string]int {
	t.Helper()
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for {
		_, _, opts, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			return counts
		}
		if err != nil {
			t.Fatal(err)
		}
		counts["all"]++
		for _, c := range opts.Comments {
			counts[c]++
		}
	}
}

// A tap, the impairment and another tap on a real link that gathers: the outer tap
// shows what was sent, the inner one what went out, and exactly that arrives.
func TestRaw_WrappersStack(t *testing.T) {
	lab := newLab(t, 4200)
	b := lab.b.open(link.Options{})
	var outerFile, innerFile bytes.Buffer
	inner := link.NewTap(lab.a.open(link.Options{}), &innerFile, nil)
	impaired := link.NewImpaired(inner, link.Impairment{Loss: 0.1, Dup: 0.1, Reorder: 0.1, Corrupt: 0.1, Delay: 100 * time.Microsecond, Seed: 1}, nil)
	outer := link.NewTap(impaired, &outerFile, nil)

	head := between(lab.a, lab.b, false)
	const frames = 2000
	came := make(chan int)
	go func() { came <- len(receive(t, b, 2*frames, 500*time.Millisecond)) }()
	q := outer.Queues()[0]
	fs := make([]link.Frame, 32)
	for sent := 0; sent < frames; {
		n := q.Alloc(fs[:min(len(fs), frames-sent)])
		for i := range fs[:n] {
			whole := head.frame(pattern(3000, byte(sent)))
			fs[i].Data = fs[i].Data[:copy(fs[i].Data, whole[:70])]
			fs[i].Gather = [][]byte{whole[70:1000], whole[1000:]}
			sent++
		}
		q.Submit(fs[:n])
		if err := q.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err := q.Flush(); err != nil { // until the last one's delay is over
			t.Fatal(err)
		}
	}
	arrived := <-came
	if err := outer.Close(); err != nil {
		t.Fatal(err)
	}
	c := impaired.Counts()
	out := frames - int(c.Lost) + int(c.Duplicated)
	if c.Packets != frames || c.Lost < 100 || c.Duplicated < 100 || c.Reordered < 100 || c.Corrupted < 100 {
		t.Errorf("hardly anything was impaired: %+v", c)
	}
	sent, gone := countPackets(t, outerFile.Bytes()), countPackets(t, innerFile.Bytes())
	if sent["all"] != frames || gone["all"] != out || arrived != out {
		t.Errorf("%d sent, %d went out and %d arrived, want %d, %d and %d", sent["all"], gone["all"], arrived, frames, out, out)
	}
	if gone["impairment: duplicate"] != int(c.Duplicated) || gone["impairment: corrupted"] == 0 || gone["impairment: reordered"] != int(c.Reordered) {
		t.Errorf("the inner tap remarks %v, counted %+v", gone, c)
	}
}

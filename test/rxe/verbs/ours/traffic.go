package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/go-roce/roce"
)

// patience is the longest time between two completions that are owed. rxe alone needs a second to run out of retries.
const patience = 20 * time.Second

// A tally counts the completions of an endpoint and prints them.
type tally struct {
	*endpoint
	out                     io.Writer
	sends, received, failed int
}

var opcodes = map[string]roce.WROpcode{
	"send": roce.WRSend, "send-imm": roce.WRSendImm, "write": roce.WRWrite, "write-imm": roce.WRWriteImm,
	"read": roce.WRRead, "fadd": roce.WRFetchAdd, "cas": roce.WRCompareSwap,
}

// post posts operation i; its local bytes are those of slot.
func (t *tally) post(i, slot int) error {
	opcode, ok := opcodes[t.op]
	if !ok {
		return fmt.Errorf("no operation called %q", t.op)
	}
	wr := roce.SendWR{
		ID: uint64(i), Opcode: opcode, SGL: []roce.SGE{t.local.SGE(slot*t.size, t.size)}, Imm: immediate(i),
		RemoteAddr: t.peer.address, RKey: roce.Key(t.peer.rkey), CompareAdd: 1, Swap: uint64(i) + 1,
	}
	if !t.atomic() {
		wr.RemoteAddr += uint64(slot) * uint64(t.size)
	}
	if t.op == "cas" {
		wr.CompareAdd = uint64(i)
	}
	if i == 0 {
		switch t.fault {
		case "rkey":
			wr.RKey ^= 0x10101
		case "bounds":
			wr.RemoteAddr = t.peer.address + t.peer.length - uint64(t.size) + 8
		case "wrap":
			wr.RemoteAddr = math.MaxUint64 - 7
		}
	}
	_, err := t.qp.PostSend(wr)
	return err
}

// immediate is the immediate data of message i. The twin in C puts the number into it as it lies in memory.
func immediate(i int) uint32 {
	return binary.BigEndian.Uint32(binary.NativeEndian.AppendUint32(nil, uint32(i)))
}

// postReceives posts all receives, into memory that begins at offset at of the local region.
func (t *tally) postReceives(at int) error {
	for i := range t.receives {
		wr := roce.RecvWR{ID: uint64(i), SGL: []roce.SGE{t.local.SGE(at+i*t.receiveSize, t.receiveSize)}}
		if _, err := t.qp.PostRecv(wr); err != nil {
			return err
		}
	}
	return nil
}

// collect takes the completions there are.
func (t *tally) collect() {
	var wcs [32]roce.Completion
	for n := t.cq.Poll(wcs[:]); n > 0; n = t.cq.Poll(wcs[:]) {
		for _, wc := range wcs[:n] {
			queue := "send"
			if wc.Recv {
				queue = "recv"
				t.received++
			} else {
				t.sends++
			}
			if !t.stream || wc.Status != roce.StatusSuccess {
				fmt.Fprintf(t.out, "wc %s %d %s\n", queue, wc.ID, wc.Status)
			}
			if wc.Status != roce.StatusSuccess {
				t.failed++
			}
			if err := t.qp.Explain(wc); err != nil && wc.Status != roce.StatusWRFlushErr {
				fmt.Fprintln(os.Stderr, err)
			}
			if t.verify && wc.Status == roce.StatusSuccess && wc.Flags&roce.WCWithImm != 0 && wc.Imm != immediate(int(wc.ID)) {
				fmt.Fprintln(t.out, "immediate wrong")
			}
		}
	}
}

// await collects completions until enough, which must not take longer than patience after the last one.
func (t *tally) await(ctx context.Context, enough func() bool) error {
	for t.collect(); !enough(); t.collect() {
		ctx, cancel := context.WithTimeout(ctx, patience)
		err := t.cq.Wait(ctx)
		cancel()
		if err != nil {
			return fmt.Errorf("a completion is missing after %d sends and %d receives: %w", t.sends, t.received, err)
		}
	}
	return nil
}

// drain flushes what is still posted, and sees that nothing completes twice.
func (t *tally) drain(ctx context.Context, sends int) error {
	if err := t.qp.Modify(ctx, &roce.Attr{Mask: roce.AttrState, State: roce.StateErr}); err != nil {
		return err
	}
	if err := t.await(ctx, func() bool { return t.received >= t.receives }); err != nil {
		return err
	}
	time.Sleep(100 * time.Millisecond)
	if t.collect(); t.sends != sends || t.received != t.receives {
		return fmt.Errorf("%d completions for %d sends, %d for %d receives", t.sends, sends, t.received, t.receives)
	}
	return nil
}

func (t *tally) request(ctx context.Context) error {
	if t.op != "read" && !t.atomic() {
		t.fill(t.local.Bytes())
	}
	if err := t.postReceives(t.count * t.size); err != nil {
		return err
	}
	if _, err := t.heard.ReadString('\n'); err != nil {
		return fmt.Errorf("the other end is not ready: %w", err)
	}
	posted, err := t.postAll(ctx)
	if err != nil {
		return err
	}
	if !t.stream {
		if _, err := io.WriteString(t.line, "done\n"); err != nil {
			return err
		}
	}
	if err := t.drain(ctx, posted); err != nil {
		return err
	}
	switch {
	case t.verify && t.op == "read":
		t.printVerdict(t.filled(t.local.Bytes()))
	case t.verify && t.atomic():
		t.printVerdict(t.originals())
	}
	return nil
}

// postAll posts the operations and returns once all have completed: --count of them, or with --stream until one fails.
func (t *tally) postAll(ctx context.Context) (posted int, err error) {
	for {
		for posted-t.sends < outstanding && (t.stream && t.failed == 0 || !t.stream && posted < t.count) {
			if err := t.post(posted, posted%t.count); err != nil {
				return posted, err
			}
			posted++
		}
		if t.sends == posted {
			return posted, nil
		}
		completed := t.sends
		if err := t.await(ctx, func() bool { return t.sends > completed }); err != nil {
			return posted, err
		}
	}
}

// originals checks what the atomics found: each what the one before it left.
func (t *tally) originals() error {
	for i := range t.count {
		if found := binary.NativeEndian.Uint64(t.local.Bytes()[8*i:]); found != uint64(i) {
			return fmt.Errorf("atomic %d found %d", i, found)
		}
	}
	return nil
}

func (t *tally) respond(ctx context.Context, before []byte) error {
	if t.late == 0 {
		if err := t.postReceives(0); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(t.line, "ready\n"); err != nil {
		return err
	}
	if t.late > 0 {
		time.Sleep(time.Duration(t.late) * time.Millisecond)
		if err := t.postReceives(0); err != nil {
			return err
		}
	}
	if err := t.line.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	_, _ = t.heard.ReadString('\n') // "done", or the other end is no more: nothing comes any longer
	if err := t.drain(ctx, 0); err != nil {
		return err
	}
	switch {
	case t.verify:
		t.printVerdict(t.regionRight())
	case bytes.Equal(before, t.region.Bytes()):
		fmt.Fprintln(t.out, "region untouched")
	default:
		fmt.Fprintln(t.out, "region changed")
	}
	return nil
}

// regionRight checks what the operations of a verified script leave at the responder.
func (t *tally) regionRight() error {
	switch {
	case t.atomic():
		if v := binary.NativeEndian.Uint64(t.region.Bytes()); v != uint64(t.count) {
			return fmt.Errorf("%d atomics left %d", t.count, v)
		}
		return nil
	case strings.HasPrefix(t.op, "send"):
		return t.filled(t.local.Bytes())
	}
	return t.filled(t.region.Bytes())
}

func (t *tally) printVerdict(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		fmt.Fprintln(t.out, "data wrong")
		return
	}
	fmt.Fprintln(t.out, "data right")
}

// printEvents prints the asynchronous events there were.
func (t *tally) printEvents() {
	for {
		select {
		case e, ok := <-t.device.Events():
			if !ok {
				return
			}
			fmt.Fprintf(t.out, "event %v\n", e.Type)
			fmt.Fprintln(os.Stderr, e.Text)
		default:
			return
		}
	}
}

// printCounters prints how often this end sent something again, and to stderr all there is to say about why.
func (t *tally) printCounters(ctx context.Context) error {
	c, err := t.qp.Counters(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "retransmits %d\n", c.Retransmits)
	if c.Retransmits != 0 {
		fmt.Fprintf(os.Stderr, "counters: %+v\n", t.device.Counters())
	}
	return nil
}

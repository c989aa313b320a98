package main

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/go-roce/roce/bth"
)

// attempts is how often a cell may be run that failed for a reason which is shown not to be ours.
const attempts = 3

// retriesTake is a time in which all retries of an ACK timeout of 67 ms run out.
const retriesTake = 400 * time.Millisecond

// excuse says what else than our end made the trial fail, "" if nothing did: the cell is run again then, and must pass
// in the end. Each excuse has to be measured, or seen in the packets.
func (t *trial) excuse(err error, stood time.Duration) string {
	c := t.cell
	switch {
	case c.Link == "clean" && onlyResent(err) && stood >= stallLimit:
		return fmt.Sprintf("the machine stood still for %v", stood.Round(time.Millisecond))
	case c.Link == "clean" && t.victim() == nil && t.ranOutOfRetries() && stood >= retriesTake:
		return fmt.Sprintf("retries ran out while the machine stood still for %v", stood.Round(time.Millisecond))
	case t.lastACKLost():
		return "the ACK of the last message was lost, and the end that could have repeated it had ended"
	}
	if psn, yes := restartedWrongly(t.pcap, &t.bed.peer); yes {
		return fmt.Sprintf("rxe restarted a message wrongly at PSN %d", psn)
	}
	return ""
}

// onlyResent reports whether nothing else is wrong than that our end sent something again.
func onlyResent(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all := joined.Unwrap()
		return len(all) == 1 && onlyResent(all[0])
	}
	var resent *resentError
	return errors.As(err, &resent)
}

func (t *trial) ranOutOfRetries() bool {
	for _, p := range []*process{t.ours, t.peer} {
		if p != nil && p.done() && strings.Contains(p.stdout.String()+p.stderr.String(), "RETRY_EXC_ERR") {
			return true
		}
	}
	return false
}

// lastACKLost: an end of a pingpong ends when it has what it waits for. If the ACK that it sent last does not arrive,
// nobody is left to send it again, and the other end cannot know that its message did. Neither can two originals.
func (t *trial) lastACKLost() bool {
	if t.cell.Tool != "ibv_rc_pingpong" || t.cell.Link != "loss" || t.ours == nil || t.peer == nil {
		return false
	}
	served := func(p *process) bool { return p.done() && p.status() == 0 }
	return served(t.peer) && t.ranOutOfRetries() || served(t.ours) && !served(t.peer)
}

// restartedWrongly looks for a fault of rxe's requester, seen with Linux 6.1. When its timer runs out while an ACK that
// ends one message and begins the next is being looked at, rxe takes the next for sent: it sends an ONLY packet without
// payload with the PSN of the FIRST, and then the message again, shifted by one PSN. The responder has taken wrong bytes
// by then, and at the message's end refuses the packet too many. No cell asks for empty messages.
func restartedWrongly(pcap string, peer *end) (psn bth.PSN, yes bool) {
	f, err := os.Open(pcap)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	frames, err := pcapgo.NewNgReader(bufio.NewReader(f), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		return 0, false
	}
	var p bth.Packet
	var crc bth.ICRC
	for {
		frame, _, err := frames.ZeroCopyReadPacketData()
		if err != nil { // the end, or where the file was cut off with its writer
			return 0, false
		}
		if p.DecodeFrame(&crc, frame) == bth.DropNone && sentBy(p.Src, peer) && emptyOnly(&p) {
			return p.PSN, true
		}
	}
}

func sentBy(src netip.Addr, e *end) bool { return src == e.v4 || src == e.v6 }

func emptyOnly(p *bth.Packet) bool {
	switch p.Opcode {
	case bth.RCSendOnly, bth.RCSendOnlyImm, bth.RCWriteOnly, bth.RCWriteOnlyImm:
		return len(p.Payload) == 0
	}
	return false
}

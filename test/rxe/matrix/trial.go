package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// grace is how long one end may take to notice that the other has failed.
const grace = 5 * time.Second

// A trial is one run of one cell.
type trial struct {
	cell       *Cell
	bed        *bed
	ours, peer *process
	pcap       string
	counted    map[string]int64 // the counters before
	log        strings.Builder  // what goes beside the outputs of a failed cell
}

// runCell runs the cell and says what was wrong, nil if nothing was.
func (m *matrix) runCell(c *Cell, port int) (t *trial, err error) {
	t = &trial{cell: c, bed: m.bed, counted: m.bed.peer.counters(), pcap: filepath.Join(m.scratch, "ours.pcap")}
	if err := m.bed.impair(c.Link); err != nil {
		return t, err
	}
	deadline := time.Now().Add(m.limit)
	ours := run{cell: c, at: &m.bed.ours, port: port, bin: m.bin, pcap: t.pcap}
	peer := run{cell: c, at: &m.bed.peer, port: port, bin: m.bin}
	if m.baseline {
		stop, err := t.capture(&m.bed.ours)
		if err != nil {
			return t, err
		}
		defer stop()
	}
	server, client := &ours, &peer
	if c.Role == "client" {
		server, client = &peer, &ours
	}
	client.host = server.at.v4.String() // perftest 4.5 has no IPv6 in its TCP exchange, whatever the GIDs are
	if m.baseline {
		client.host = "127.0.0.1"
	}
	defer t.end()
	for _, r := range []*run{server, client} {
		args, p := r.original(), &t.peer
		if r == &ours {
			p = &t.ours
			if !m.baseline {
				args = r.ours()
			}
		}
		fmt.Fprintln(&t.log, strings.Join(args, " "))
		if *p, err = startProcess(args); err != nil {
			return t, err
		}
		if r == server {
			if err := (*p).listen(port, deadline); err != nil {
				(*p).kill()
				return t, fmt.Errorf("%s %w: %s", t.name(*p), err, lastLine((*p).stderr.String()))
			}
		}
	}
	if t.victim() != nil {
		return t, t.judgeSurvivor(m.baseline, deadline)
	}
	t.settle(deadline)
	return t, t.judge(m.baseline)
}

// settle waits until both ends have ended by themselves, the deadline, or the grace after one of them has failed.
func (t *trial) settle(deadline time.Time) {
	for _, p := range []*process{t.ours, t.peer} {
		if p == nil {
			continue
		}
		other := t.other(p)
		for !p.wait(time.Now().Add(20 * time.Millisecond)) {
			if other != nil && other.done() && other.status() != 0 {
				deadline = earlier(deadline, time.Now().Add(grace))
				other = nil
			}
			if time.Now().After(deadline) {
				break
			}
		}
	}
}

// end leaves no process behind. One of ours that is still running is hanging: its goroutines are worth reading.
func (t *trial) end() {
	if t.peer != nil {
		t.peer.kill()
	}
	if t.ours != nil {
		t.ours.dump()
	}
}

func (t *trial) other(p *process) *process {
	if p == t.ours {
		return t.peer
	}
	return t.ours
}

func (t *trial) name(p *process) string {
	if p == t.ours {
		return "ours"
	}
	return "the peer"
}

// judge compares what both ends said with what the cell wants.
func (t *trial) judge(baseline bool) error {
	var errs []error
	for _, p := range []*process{t.ours, t.peer} {
		if !p.done() {
			errs = append(errs, fmt.Errorf("%s did not end", t.name(p)))
		} else if p.status() != 0 {
			errs = append(errs, fmt.Errorf("%s exited with %d: %s", t.name(p), p.status(), lastLine(p.stderr.String()+p.stdout.String())))
		}
	}
	if errs != nil {
		return errors.Join(errs...)
	}
	c := t.cell
	if c.Tool == verbsTool {
		return errors.Join(t.judgeScript(t.ours, baseline), t.judgeScript(t.peer, baseline))
	}
	errs = append(errs, judgeOriginal(c, c.Role == "client", t.peer.stdout.String()))
	if baseline {
		errs = append(errs, judgeOriginal(c, c.Role == "server", t.ours.stdout.String()))
	} else if r, err := parseReport(t.ours.stdout.String()); err != nil {
		errs = append(errs, err)
	} else {
		errs = append(errs, r.judge(c))
	}
	return errors.Join(errs...)
}

// judgeScript compares the lines of one end of a verbs cell with its expectation. Between two rxe ends there is none:
// the statuses are to be read, not judged.
func (t *trial) judgeScript(p *process, baseline bool) error {
	if baseline {
		return nil
	}
	text := t.cell.Responder
	if (p == t.ours) == (t.cell.Role == "client") {
		text = t.cell.Requester
	}
	e, err := parseExpectation(text)
	if err != nil {
		return err
	}
	if err := e.check(p.stdout.String()); err != nil {
		return fmt.Errorf("%s: %w", t.name(p), err) // wraps a resentError as it is
	}
	if p == t.ours {
		return judgeExplanations(p.stdout.String(), p.stderr.String())
	}
	return nil
}

// victim is the end that the cell wants killed in the middle, nil where none.
func (t *trial) victim() *process {
	switch t.cell.Op {
	case "killed-peer":
		return t.peer
	case "killed-ours":
		return t.ours
	}
	return nil
}

// judgeSurvivor kills the victim once packets flow, and wants the other end to end in time and say why.
func (t *trial) judgeSurvivor(baseline bool, deadline time.Time) error {
	victim := t.victim()
	survivor := t.other(victim)
	for t.packets() < 300 {
		if victim.wait(time.Now().Add(10*time.Millisecond)) || survivor.done() || time.Now().After(deadline) {
			return fmt.Errorf("packets did not flow: %s", lastLine(survivor.stderr.String()+victim.stderr.String()))
		}
	}
	victim.kill()
	killed := time.Now()
	if !survivor.wait(earlier(deadline, killed.Add(15*time.Second))) {
		return fmt.Errorf("%s hung after the other end was killed", t.name(survivor))
	}
	fmt.Fprintf(&t.log, "%s ended %.1f s after the other was killed\n", t.name(survivor), time.Since(killed).Seconds())
	if t.cell.Tool == verbsTool {
		if survivor.status() != 0 {
			return fmt.Errorf("%s exited with %d: %s", t.name(survivor), survivor.status(), lastLine(survivor.stderr.String()))
		}
		return t.judgeScript(survivor, baseline)
	}
	if survivor.status() != 1 {
		return fmt.Errorf("%s exited with %d after the other end was killed, want 1", t.name(survivor), survivor.status())
	}
	return judgeWords(survivor.stderr.String())
}

// packets is how many packets rxe has sent and received since the cell began.
func (t *trial) packets() int64 {
	now := t.bed.peer.counters()
	return now["sent_pkts"] + now["rcvd_pkts"] - t.counted["sent_pkts"] - t.counted["rcvd_pkts"]
}

// capture records what crosses the end's interface where no program of ours writes a --pcap.
func (t *trial) capture(at *end) (stop func(), err error) {
	p, err := startProcess(at.inside([]string{"tcpdump", "-i", at.iface, "-s", "256", "-U", "-w", t.pcap, "udp port 4791"}))
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(5 * time.Second); ; {
		if info, err := os.Stat(t.pcap); err == nil && info.Size() > 0 { // its header is written once it captures
			break
		}
		if p.wait(time.Now().Add(10*time.Millisecond)) || time.Now().After(deadline) {
			p.kill()
			return nil, fmt.Errorf("tcpdump does not capture: %s", lastLine(p.stderr.String()))
		}
	}
	return func() { p.interrupt() }, nil
}

// save writes everything there is to know about the trial into dir.
func (t *trial) save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	now := t.bed.peer.counters()
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if d := now[name] - t.counted[name]; d != 0 {
			fmt.Fprintf(&t.log, "%s %+d\n", name, d)
		}
	}
	files := map[string][]byte{"log": []byte(t.log.String())}
	for name, p := range map[string]*process{"ours": t.ours, "peer": t.peer} {
		if p != nil {
			files[name+".stdout"], files[name+".stderr"] = p.stdout.Bytes(), p.stderr.Bytes()
		}
	}
	if pcap, err := os.ReadFile(t.pcap); err == nil {
		files["ours.pcap"] = pcap
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// lastLine is what a program said last: of original programs that is the reason.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

package transport

import (
	"time"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/clock"
)

// probe measures round trips and knows when to ask the peer, by sending the oldest
// unacknowledged request again, what has become of it. It is legal towards every peer, for
// whom it is a duplicate, and finds out about lost tails and lost NAKs in about a round trip
// where the ACK timeout takes many milliseconds. It neither costs a retry nor moves that timeout.
type probe struct {
	at   clock.Time
	sent uint32 // in a row, without progress

	// last is the PSN last asked about.
	last bth.PSN
	// asked is since when the peer has owed an answer, answered how long it took when it was probed.
	asked    clock.Time
	answered time.Duration

	srtt, rttvar time.Duration // RFC 6298
	// peaks are the longest round trips of this period, which began at period, and the one before:
	// a peer may be off its processor now and then.
	peaks  [2]time.Duration
	period clock.Time
	timing bool // a packet is being timed: psn, since since
	psn    bth.PSN
	since  clock.Time
	// knownLost: the packet sent again next is known to be lost, not late, so it may be timed.
	knownLost bool
}

func (p *probe) reset() { *p = probe{at: clock.Never} }

// time begins to measure a round trip with the packet just sent, unless one is being measured.
func (p *probe) time(psn bth.PSN, now clock.Time) {
	if !p.timing {
		p.timing, p.psn, p.since = true, psn, now
	}
}

// timeAgain is time for a packet that was sent before. Only if that is known to be lost can
// its answer be told from a late answer to the first (Karn's rule).
func (p *probe) timeAgain(psn bth.PSN, now clock.Time) {
	p.timing = false
	if p.knownLost {
		p.knownLost = false
		p.time(psn, now)
	}
}

// progress is told that everything before una is acknowledged.
func (p *probe) progress(now clock.Time, una bth.PSN) {
	if p.sent > 0 {
		p.answered = now.Sub(p.asked)
	}
	p.sent = 0
	p.asked = now
	if !p.timing || !p.psn.Before(una) {
		return
	}
	p.timing = false
	rtt := now.Sub(p.since)
	if p.srtt == 0 {
		p.srtt, p.rttvar = rtt, rtt/2
	}
	p.rttvar += ((rtt - p.srtt).Abs() - p.rttvar) / 4
	p.srtt += (rtt - p.srtt) / 8
	p.notePeak(now, rtt)
}

// peakPeriod is how long, once or twice, an exceptionally long round trip is remembered.
const peakPeriod = 5 * time.Second

func (p *probe) notePeak(now clock.Time, rtt time.Duration) {
	if now.Sub(p.period) > peakPeriod {
		p.period, p.peaks = now, [2]time.Duration{0, p.peaks[0]}
	}
	p.peaks[0] = max(p.peaks[0], rtt)
}

// answeredTwice is told of a second answer to what was probed: the first was late, not lost, so
// that is how long an answer may take.
func (p *probe) answeredTwice(now clock.Time, psn bth.PSN) {
	if p.answered > 0 && !psn.Before(p.last) {
		p.notePeak(now, p.answered)
		p.answered = 0
	}
}

// patience of a probe: how much longer than measured an answer may take.
const (
	// cleanPatience stretches the shortest wait while nothing has been lost: silence is then rather
	// a peer that is off its processor, for a few milliseconds where it shares that.
	cleanPatience = 16
	// readPatience stretches the wait for a READ, whose responses queue behind others.
	readPatience = 2
	// probeBackoff limits how often the wait is doubled.
	probeBackoff = 6
	// firstProbe divides the ACK timeout into the wait before anything was measured.
	firstProbe = 8
)

// probeDeadline returns when to probe unless the peer answers.
func (q *QP) probeDeadline(now clock.Time) clock.Time {
	r := &q.req
	p := &r.probe
	floor := q.cfg.Recovery.Probe
	if floor == 0 || r.rnrWait || r.una == r.high {
		return clock.Never
	}
	var wait time.Duration
	switch {
	case p.srtt == 0:
		wait = max(AckTimeout(q.attr.Timeout)/firstProbe, floor)
	case r.recovering || r.losses != nil && r.losses.asked.has(r.una):
		// What was sent again is back within a round trip or gone: no need for the floor.
		wait = p.srtt + max(4*p.rttvar, p.srtt/4)
	default:
		wait = max(p.srtt+4*p.rttvar, 2*p.peaks[0], 2*p.peaks[1])
		wait = max(wait, q.shortestProbe())
		if q.sq.at(r.compl).op == WRRead {
			wait *= readPatience
		}
	}
	return now.Add(wait << min(p.sent, probeBackoff))
}

// lossyFor is for how many packets after a loss silence is more likely another than a slow peer.
const lossyFor = 4096

// shortestProbe returns how long to be patient at least.
func (q *QP) shortestProbe() time.Duration {
	l := q.req.losses
	switch {
	case l == nil || !l.any:
		return cleanPatience * q.cfg.Recovery.Probe
	case dist(l.hole, q.req.una) < lossyFor:
		return 0
	}
	return q.cfg.Recovery.Probe
}

// sendProbe asks about the oldest request.
func (q *QP) sendProbe(now clock.Time) {
	r := &q.req
	p := &r.probe
	p.at = clock.Never
	if q.State() == StateErr || r.rnrWait || r.una == r.high {
		return
	}
	// Unless a resend is under way, which asks by itself.
	if n := dist(r.una, r.next); n == dist(r.una, r.high) || n >= r.window.size {
		q.ctr.Probes++
		l := q.lossesSoFar()
		if l.asked.has(r.una) {
			r.window.lost(lostAgain)
		}
		switch {
		case l.peer == peerHolds:
			q.repairGap(r.una)
		case r.una == p.last.Next() && r.una == l.repaired:
			// The peer had the last one asked about, and nothing behind it.
			q.goBack(r.una)
		case r.recovering:
			q.try(r.una, false)
		default:
			q.repair(r.una, 1)
		}
		p.last = r.una
		p.sent++
	}
	p.at = q.probeDeadline(now)
}

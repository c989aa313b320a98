package link

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Impairment is what goes wrong on purpose with the RoCEv2 packets an endpoint sends.
// Each packet is judged by itself, also inside super-frames; other frames
// pass. The zero Impairment changes nothing.
//
// The verdicts on a queue's packets follow from Seed and the packets' order alone, so
// they are the same in every run; and changing one probability leaves the others' verdicts as they were.
type Impairment struct {
	// Loss, Dup, Reorder, Corrupt and CE are the probabilities, 0 to 1, that a packet
	// is lost; is sent twice; is overtaken by the next one to three, or comes a
	// millisecond later if there are none; has one bit of its UDP
	// payload inverted; is marked as having met congestion (RFC 3168, whatever its ECN bits were).
	Loss, Dup, Reorder, Corrupt, CE float64
	// Delay is how long every packet takes on the way.
	Delay time.Duration
	// Rate is the bandwidth in bit/s, counting Ethernet frames without FCS; 0 is unlimited.
	// What the rate and the delay hold back is bounded: beyond it Alloc leases
	// nothing, and nothing is lost.
	Rate uint64
	// Seed begins the sequence of verdicts.
	Seed uint64
	// Rules hit chosen packets, on top of the probabilities.
	Rules []Rule
}

// Rule does one thing to packets it matches.
type Rule struct {
	// Match picks packets, given the whole frame from the Ethernet header on, which it must
	// neither keep nor change. nil matches all.
	Match func(frame []byte) bool
	// Nth restricts the rule to the n-th match on a queue, counted from 1; 0 means every match.
	Nth int
	// Action is what happens to the packet.
	Action Action
	// Delay is for ActionDelay.
	Delay time.Duration
}

// Action is what a rule does.
type Action uint8

// Actions of rules. All but ActionDelay do what the fields of [Impairment] of that name do.
const (
	ActionLose Action = iota
	ActionDuplicate
	ActionReorder
	ActionCorrupt
	ActionMarkCE
	ActionDelay // hold it back for Rule.Delay while others pass
)

// Active reports whether the impairment does anything at all.
func (i Impairment) Active() bool {
	return i.Loss > 0 || i.Dup > 0 || i.Reorder > 0 || i.Corrupt > 0 || i.CE > 0 ||
		i.Delay > 0 || i.Rate > 0 || len(i.Rules) > 0
}

// impairmentKeys are the words of ParseImpairment, in the order of String.
var impairmentKeys = []string{"loss", "dup", "reorder", "corrupt", "delay", "rate", "ce", "seed"}

// ParseImpairment reads an impairment such as
//
//	loss=1%,dup=0.1%,reorder=0.5%,corrupt=0.01%,delay=1ms,rate=1Gbit,ce=1%,seed=7
//
// Each word may be left out. Probabilities are percentages, or fractions of 1
// without the sign; the delay has Go's units; the rate has bit, kbit, Mbit or Gbit (10^3, not 2^10).
func ParseImpairment(spec string) (Impairment, error) {
	var im Impairment
	var seen []string
	for word := range strings.SplitSeq(spec, ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		key, value, ok := strings.Cut(word, "=")
		if !ok || !slices.Contains(impairmentKeys, key) {
			return Impairment{}, fmt.Errorf("impairment %q is not one of %s=VALUE", word, strings.Join(impairmentKeys, ", "))
		}
		if slices.Contains(seen, key) {
			return Impairment{}, fmt.Errorf("impairment %s is given twice", key)
		}
		seen = append(seen, key)
		if err := im.set(key, value); err != nil {
			return Impairment{}, fmt.Errorf("impairment %q: %w", word, err)
		}
	}
	return im, nil
}

func (i *Impairment) set(key, value string) (err error) {
	switch key {
	case "loss":
		i.Loss, err = parseProbability(value)
	case "dup":
		i.Dup, err = parseProbability(value)
	case "reorder":
		i.Reorder, err = parseProbability(value)
	case "corrupt":
		i.Corrupt, err = parseProbability(value)
	case "ce":
		i.CE, err = parseProbability(value)
	case "delay":
		if i.Delay, err = time.ParseDuration(value); err != nil || i.Delay < 0 {
			err = fmt.Errorf("a delay is a time such as 1ms or 250us")
		}
	case "rate":
		i.Rate, err = parseRate(value)
	case "seed":
		if i.Seed, err = strconv.ParseUint(value, 0, 64); err != nil {
			err = fmt.Errorf("a seed is a whole number below 2^64")
		}
	}
	return err
}

func parseProbability(s string) (float64, error) {
	number, percent := strings.CutSuffix(s, "%")
	p, err := strconv.ParseFloat(number, 64)
	if percent {
		p /= 100
	}
	if err != nil || !(p >= 0 && p <= 1) {
		return 0, fmt.Errorf("a probability is a percentage such as 0.5%%, or a fraction such as 0.005")
	}
	return p, nil
}

// rateUnits are the units of a rate; bit last, because it ends the others.
var rateUnits = []struct {
	name string
	bits uint64
}{{"Gbit", 1e9}, {"Mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}

func parseRate(s string) (uint64, error) {
	for _, u := range rateUnits {
		number, ok := strings.CutSuffix(strings.ToLower(s), strings.ToLower(u.name))
		if !ok {
			continue
		}
		r, err := strconv.ParseFloat(number, 64)
		r = math.Round(r * float64(u.bits))
		if err != nil || !(r >= 1 && r <= 1e15) {
			break
		}
		return uint64(r), nil
	}
	return 0, fmt.Errorf("a rate is a number with bit, kbit, Mbit or Gbit, such as 2.5Gbit")
}

// String returns what ParseImpairment reads; rules are not in it.
func (i Impairment) String() string {
	var words []string
	add := func(key, value string) { words = append(words, key+"="+value) }
	percent := func(key string, p float64) {
		if p > 0 {
			add(key, strconv.FormatFloat(p*100, 'g', 10, 64)+"%")
		}
	}
	percent("loss", i.Loss)
	percent("dup", i.Dup)
	percent("reorder", i.Reorder)
	percent("corrupt", i.Corrupt)
	if i.Delay > 0 {
		add("delay", i.Delay.String())
	}
	for _, u := range rateUnits {
		if i.Rate > 0 && i.Rate%u.bits == 0 {
			add("rate", strconv.FormatUint(i.Rate/u.bits, 10)+u.name)
			break
		}
	}
	percent("ce", i.CE)
	if i.Seed > 0 {
		add("seed", strconv.FormatUint(i.Seed, 10))
	}
	return strings.Join(words, ",")
}

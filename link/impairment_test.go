package link_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-roce/roce/link"
)

func TestParseImpairment(t *testing.T) {
	im, err := link.ParseImpairment("loss=1%,dup=0.1%,reorder=0.5%,corrupt=0.01%,delay=1ms,rate=1Gbit,ce=1%,seed=7")
	if err != nil {
		t.Fatal(err)
	}
	if im.Loss != 0.01 || im.Dup != 0.001 || im.Reorder != 0.005 || im.Corrupt != 0.0001 || im.CE != 0.01 ||
		im.Delay != time.Millisecond || im.Rate != 1e9 || im.Seed != 7 || !im.Active() {
		t.Errorf("got %+v", im)
	}
	for spec, want := range map[string]string{
		"":                          "",
		"loss=1%":                   "loss=1%",
		"loss=0.25":                 "loss=25%",
		" loss=100% , seed=0x10 ":   "loss=100%,seed=16",
		"rate=2.5gbit":              "rate=2500Mbit",
		"rate=1500kbit":             "rate=1500kbit",
		"rate=1000Mbit":             "rate=1Gbit",
		"rate=9bit,":                "rate=9bit",
		"ce=0.001%,delay=250us":     "delay=250µs,ce=0.001%",
		"seed=18446744073709551615": "seed=18446744073709551615",
	} {
		im, err := link.ParseImpairment(spec)
		if err != nil || im.String() != want {
			t.Errorf("%q: %q, %v, want %q", spec, im, err, want)
		}
		again, err := link.ParseImpairment(im.String())
		if err != nil || again.String() != im.String() {
			t.Errorf("%q does not survive its own text: %q, %v", spec, again, err)
		}
	}
	if im, _ := link.ParseImpairment("seed=3"); im.Active() {
		t.Error("a seed alone is active")
	}
	for spec, word := range map[string]string{
		"loss":            "loss, dup, reorder",
		"lose=1%":         "lose=1%",
		"loss=1%,loss=2%": "twice",
		"loss=101%":       "percentage",
		"loss=-1%":        "percentage",
		"loss=nan":        "percentage",
		"loss=1%%":        "percentage",
		"delay=5":         "such as 1ms",
		"delay=-1ms":      "such as 1ms",
		"rate=5":          "Gbit",
		"rate=0bit":       "Gbit",
		"rate=xGbit":      "Gbit",
		"rate=1e9Gbit":    "Gbit",
		"seed=-1":         "whole number",
	} {
		if _, err := link.ParseImpairment(spec); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: error %v, want one with %q", spec, err, word)
		}
	}
}

func FuzzParseImpairment(f *testing.F) {
	f.Add("loss=1%,dup=0.1%,reorder=0.5%,corrupt=0.01%,delay=1ms,rate=1Gbit,ce=1%,seed=7")
	f.Fuzz(func(t *testing.T, spec string) {
		im, err := link.ParseImpairment(spec)
		if err != nil {
			return
		}
		again, err := link.ParseImpairment(im.String())
		if err != nil {
			t.Fatalf("%q became %q, which is refused: %v", spec, im, err)
		}
		if again.String() != im.String() {
			t.Fatalf("%q became %q and then %q", spec, im, again)
		}
	})
}

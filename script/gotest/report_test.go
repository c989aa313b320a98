package main

import (
	"slices"
	"strings"
	"testing"
)

// stream is a run of three packages: a has a test of each outcome, b a test that
// a time-out cut off, c does not compile.
const stream = `{"Action":"run","Package":"a","Test":"TestOK"}
{"Action":"output","Package":"a","Test":"TestOK","Output":"said by a test that passes\n"}
{"Action":"pass","Package":"a","Test":"TestOK"}
{"Action":"run","Package":"a","Test":"TestSkip"}
{"Action":"output","Package":"a","Test":"TestSkip","Output":"=== RUN   TestSkip\n"}
{"Action":"output","Package":"a","Test":"TestSkip","Output":"    a_test.go:9: needs root: run it so\n"}
{"Action":"output","Package":"a","Test":"TestSkip","Output":"--- SKIP: TestSkip (0.00s)\n"}
{"Action":"skip","Package":"a","Test":"TestSkip"}
{"Action":"run","Package":"a","Test":"TestBad"}
{"Action":"output","Package":"a","Test":"TestBad","Output":"    a_test.go:12: got 1, want 2\n"}
{"Action":"fail","Package":"a","Test":"TestBad"}
{"Action":"fail","Package":"a","Elapsed":0.25}
{"Action":"run","Package":"b","Test":"TestSlow"}
{"Action":"output","Package":"b","Test":"TestSlow","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"b","Elapsed":60}
{"Action":"build-output","ImportPath":"c","Output":"c.go:3: undefined: x\n"}
{"Action":"fail","Package":"c","FailedBuild":"c"}
{"Action":"run","Package":"d","Test":"TestD"}
{"Action":"pass","Package":"d","Test":"TestD"}
{"Action":"pass","Package":"d","Elapsed":1.5}
{"Action":"skip","Package":"nothing/to/test"}
`

func TestReport_ShowsFailuresWholeAndTheRestInALine(t *testing.T) {
	var b strings.Builder
	outcomes, err := report(&b, strings.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	const want = `FAIL a TestBad
         a_test.go:12: got 1, want 2
FAIL a 0.2 s
FAIL b TestSlow did not end
     panic: test timed out
FAIL b 60.0 s
c.go:3: undefined: x
FAIL c does not compile
ok   d 1.5 s, 1 tests
`
	if b.String() != want {
		t.Errorf("report:\n%s\nwant:\n%s", b.String(), want)
	}
	wantOutcomes := []outcome{
		{"pass", "a.TestOK", ""},
		{"skip", "a.TestSkip", "needs root: run it so"},
		{"fail", "a.TestBad", ""},
		{"pass", "d.TestD", ""},
	}
	if !slices.Equal(outcomes, wantOutcomes) {
		t.Errorf("outcomes %q, want %q", outcomes, wantOutcomes)
	}
}

func TestOutcomes_SurviveTheFile(t *testing.T) {
	in := []outcome{{"skip", "a.TestX", "no root"}, {"pass", "a.TestY/sub", ""}}
	var b strings.Builder
	if err := writeOutcomes(&b, in); err != nil {
		t.Fatal(err)
	}
	out, err := readOutcomes(strings.NewReader(b.String()))
	if err != nil || !slices.Equal(in, out) {
		t.Errorf("read %q, %v; want %q", out, err, in)
	}
	if _, err := readOutcomes(strings.NewReader("pass a.TestX\n")); err == nil {
		t.Error("a line without tabs was taken")
	}
}

func TestSummarize(t *testing.T) {
	pass, fail, skip := outcome{"pass", "a.TestX", ""}, outcome{"fail", "a.TestX", ""}, outcome{"skip", "a.TestX", "no root"}
	for _, tc := range []struct {
		name   string
		in     []outcome
		strict bool
		want   string
		failed bool
	}{
		{"a test is counted once over the runs", []outcome{pass, pass}, true, "tests: 1 passed, 0 failed, 0 skipped\n", false},
		{"skipped, then passed", []outcome{skip, pass}, true, "tests: 1 passed, 0 failed, 0 skipped\n", false},
		{"passed, then skipped", []outcome{pass, skip}, true, "tests: 1 passed, 0 failed, 0 skipped\n", false},
		{"one failure outweighs a pass", []outcome{pass, fail, pass}, false, "tests: 0 passed, 1 failed, 0 skipped\n", true},
		{"skipped is named", []outcome{skip}, false, "skipped a.TestX: no root\ntests: 0 passed, 0 failed, 1 skipped\n", false},
		{"strict fails for a skipped one", []outcome{skip, skip}, true, "skipped a.TestX: no root\ntests: 0 passed, 0 failed, 1 skipped\n", true},
		{"nothing ran", nil, false, "tests: 0 passed, 0 failed, 0 skipped\n", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b strings.Builder
			err := summarize(&b, tc.in, tc.strict)
			if b.String() != tc.want || (err != nil) != tc.failed {
				t.Errorf("printed %q, error %v; want %q, failed %v", b.String(), err, tc.want, tc.failed)
			}
		})
	}
}

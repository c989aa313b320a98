package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A run that broke off is taken up where it stopped: what passed is known, what failed or was cut short is not.
func TestResultsResume(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results.tsv")
	first, err := openResults(name, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []result{
		{"pass", "a", time.Second, ""},
		{"fail", "b", time.Second, "ours did not end"},
		{"fail", "c", time.Second, "once"},
		{"pass", "c", time.Second, ""},
	} {
		if err := first.add(r); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := first.file.WriteString("pass\td"); err != nil { // the machine stopped here
		t.Fatal(err)
	}
	first.file.Close()

	resumed, err := openResults(name, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := resumed.add(result{"pass", "e", time.Second, ""}); err != nil {
		t.Fatal(err)
	}
	resumed.file.Close()
	again, err := openResults(name, true)
	if err != nil {
		t.Fatal(err)
	}
	defer again.file.Close()
	if !again.passed["e"] {
		t.Error("what passed after the resumption is not known")
	}
	for id, want := range map[string]bool{"a": true, "b": false, "c": true, "d": false} {
		if resumed.passed[id] != want {
			t.Errorf("passed[%s] = %v, want %v", id, resumed.passed[id], want)
		}
	}

	fresh, err := openResults(name, false)
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.file.Close()
	if text, err := os.ReadFile(name); err != nil || len(text) != 0 || len(fresh.passed) != 0 {
		t.Errorf("a run that does not resume begins with %q, %v, %v", text, fresh.passed, err)
	}
}

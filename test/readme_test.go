package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadme_FirstProgramPrintsWhatItSays runs the README's program, the first block
// of Go, and compares with the block behind it.
func TestReadme_FirstProgramPrintsWhatItSays(t *testing.T) {
	program, want := firstProgram(t)
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", file)
	cmd.Dir = ".." // whose module it imports
	if got, err := cmd.CombinedOutput(); err != nil || string(got) != want {
		t.Errorf("it printed %q (%v), the README says %q", got, err, want)
	}
}

func TestReadme_FirstProgramIsFormatted(t *testing.T) {
	program, _ := firstProgram(t)
	cmd := exec.Command("gofmt", "-d")
	cmd.Stdin = strings.NewReader(program)
	if diff, err := cmd.CombinedOutput(); err != nil || len(diff) > 0 {
		t.Errorf("gofmt: %v\n%s", err, diff)
	}
}

func firstProgram(t *testing.T) (program, output string) {
	t.Helper()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```go\n(.*?)```\n\n```\n(.*?)```").FindSubmatch(readme)
	if m == nil {
		t.Fatal("the README has no Go program with a block of output behind it")
	}
	return string(m[1]), string(m[2])
}

// TestDocs_LinksLeadSomewhere follows the relative links of the documents.
func TestDocs_LinksLeadSomewhere(t *testing.T) {
	code := regexp.MustCompile("(?s)```.*?```")
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	documents, err := filepath.Glob("../*.md")
	if err != nil || len(documents) < 4 {
		t.Fatalf("found the documents %q, %v", documents, err)
	}
	for _, document := range documents {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(code.ReplaceAll(text, nil), -1) {
			if _, err := os.Stat(filepath.Join("..", string(m[1]))); err != nil {
				t.Errorf("%s: %v", document, err)
			}
		}
	}
}

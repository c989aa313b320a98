// Package test holds what is tested across packages. The architecture test keeps
// the picture in ARCHITECTURE.md true: who may import whom, what a pure package
// must not do, where unsafe may be, that there is no cgo.
package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/go-roce/roce"

// rule is what a package may import, beside the standard library.
type rule struct {
	// pure: no I/O, no clock, no lock, no goroutine.
	pure bool
	// imports are packages of this module, relative to it. A "/..." ends a subtree.
	imports []string
	// modules are the other modules that may be linked in by it, also indirectly.
	modules []string
}

// Modules, by what they are for.
var (
	systemModules  = []string{"golang.org/x/sys", "github.com/vishvananda/netlink", "github.com/vishvananda/netns"}
	pcapModules    = []string{"github.com/gopacket/gopacket", "golang.org/x/net"}
	commandModules = []string{"github.com/spf13/cobra", "github.com/spf13/pflag"}
	displayModules = []string{
		"github.com/HdrHistogram/hdrhistogram-go", "github.com/schollz/progressbar/v3",
		"github.com/mitchellh/colorstring", "github.com/rivo/uniseg", "golang.org/x/term",
	}
	linkModules = slices.Concat(systemModules, pcapModules)
	toolModules = slices.Concat(linkModules, commandModules, displayModules)
)

// rules has a row for every package: one without is a fault too, so that whoever
// adds a package decides where it stands.
var rules = map[string]rule{
	"clock":             {pure: true},
	"bth":               {pure: true},
	"memreg":            {pure: true},
	"transport":         {pure: true, imports: []string{"bth", "clock", "memreg"}},
	"internal/ring":     {},
	"internal/doorbell": {modules: []string{"golang.org/x/sys"}},
	"link":              {imports: []string{"clock", "internal/doorbell"}, modules: linkModules},
	"xdp":               {imports: []string{"clock", "link", "internal/doorbell"}, modules: linkModules},
	"internal/engine":   {imports: []string{"bth", "clock", "memreg", "transport", "link", "internal/ring"}, modules: linkModules},
	".": {
		imports: []string{"bth", "clock", "memreg", "transport", "link", "internal/engine"},
		modules: linkModules,
	},
	"cmd/...": {
		imports: []string{".", "bth", "link", "cmd/..."},
		modules: toolModules,
	},
	"script/...": {},
	"test":       {},
	"test/...": {
		imports: []string{".", "bth", "clock", "memreg", "transport", "link", "internal/engine", "test/..."},
		modules: toolModules,
	},
}

// realClock is the one file of the pure packages that may read the time.
const realClock = "clock/real.go"

// platforms are those whose files `go list` resolves: imports differ by system.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/arm64"}

func TestArch_SourceFiles(t *testing.T) {
	files := 0
	walk(t, func(name string, text []byte) {
		if path.Ext(name) != ".go" {
			return
		}
		files++
		for _, v := range checkSource(name, text, rules) {
			t.Error(v)
		}
	})
	if files < 50 {
		t.Errorf("only %d Go files were seen: is this the root of the module?", files)
	}
}

func TestArch_LinkedPackages(t *testing.T) {
	for _, platform := range platforms {
		packages := listDeps(t, platform)
		if _, ok := packages[module]; !ok {
			t.Fatalf("go list for %s does not know %s", platform, module)
		}
		for _, v := range checkLinked(packages, rules) {
			t.Errorf("%s: %s", platform, v)
		}
	}
}

func TestArch_NothingReadsOutsideTheTree(t *testing.T) {
	walk(t, func(name string, text []byte) {
		for _, v := range checkText(name, text) {
			t.Error(v)
		}
	})
}

// walk calls f for every file of the module, by its name relative to the root.
// Built things, test data and nested modules are none of its business.
func walk(t *testing.T, f func(name string, text []byte)) {
	t.Helper()
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name == ".git" || name == "bin" || name == "test/rxe/out" || d.Name() == "testdata" {
				return fs.SkipDir
			}
			if _, err := fs.Stat(root, path.Join(name, "go.mod")); err == nil && name != "." {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular():
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		f(filepath.ToSlash(name), text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// listDeps returns what `go list` says of every package of the module and all they link, by import path.
func listDeps(t *testing.T, platform string) map[string]linked {
	t.Helper()
	goos, goarch, _ := strings.Cut(platform, "/")
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Module,Deps,CgoFiles", "./...")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s for %s: %v\n%s", cmd, platform, err, stderr.String())
	}
	packages := map[string]linked{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p linked
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(fmt.Errorf("the output of go list: %w", err))
		}
		packages[p.ImportPath] = p
	}
}

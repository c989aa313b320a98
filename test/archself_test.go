package test

import (
	"strings"
	"testing"
)

// The checks themselves are tested on made-up files: a check that finds nothing in
// a clean tree might as well be broken.

func TestArchCheck_Source(t *testing.T) {
	for _, tc := range []struct {
		name, file, source string
		want               string // part of the one fault; "" for none
	}{
		{"an arrow of the picture", "transport/x.go", `import "github.com/go-roce/roce/bth"`, ""},
		{"an arrow backwards", "bth/x.go", `import "github.com/go-roce/roce/transport"`, "bth must not import github.com/go-roce/roce/transport"},
		{"a pure package on a link", "transport/x.go", `import "github.com/go-roce/roce/link"`, "must not import"},
		{"the root below itself", "internal/engine/x.go", `import "github.com/go-roce/roce"`, "must not import"},
		{"the tool on the engine", "cmd/rocectl/x.go", `import "github.com/go-roce/roce/internal/engine"`, "must not import"},
		{"the tool on its own parts", "cmd/rocectl/x.go", `import "github.com/go-roce/roce/cmd/rocectl/internal/oob"`, ""},
		{"a name that only begins alike", "transport/x.go", `import "github.com/go-roce/roce/bthx"`, "must not import"},
		{"a test is free", "bth/x_test.go", `import "github.com/go-roce/roce/transport"`, ""},
		{"a module of the link's", "link/x.go", `import "golang.org/x/sys/unix"`, ""},
		{"a module of nobody's", "link/x.go", `import "example.com/handy"`, "must not import example.com/handy"},
		{"a module in a pure package", "bth/x.go", `import "golang.org/x/sys/cpu"`, "must not import"},
		{"a build constraint hides nothing", "bth/x.go", "//go:build plan9\n\npackage bth\nimport \"net\"", "must not import net"},
		{"net", "memreg/x.go", `import "net"`, "must not import net"},
		{"net/http", "memreg/x.go", `import "net/http"`, "must not import net/http"},
		{"net/netip", "memreg/x.go", `import "net/netip"`, ""},
		{"os", "clock/x.go", `import "os"`, "must not import os"},
		{"os/signal", "clock/x.go", `import "os/signal"`, "must not import os/signal"},
		{"syscall", "transport/x.go", `import "syscall"`, "must not import syscall"},
		{"sync", "transport/x.go", `import "sync"`, "must not import sync"},
		{"sync/atomic", "transport/x.go", `import "sync/atomic"`, ""},
		{"context", "transport/x.go", `import "context"`, "must not import context"},
		{"a lock elsewhere", "link/x.go", `import "sync"`, ""},
		{"time for durations", "bth/x.go", "import \"time\"\nvar _ = time.Second", ""},
		{"time.Now", "bth/x.go", "import \"time\"\nvar _ = time.Now()", "does not call time.Now"},
		{"time.Now as a value", "bth/x.go", "import \"time\"\nvar now = time.Now", "does not call time.Now"},
		{"time by another name", "bth/x.go", "import t \"time\"\nvar _ = t.NewTimer(0)", "does not call time.NewTimer"},
		{"time without a name", "bth/x.go", "import . \"time\"\nvar _ = Now()", "must keep its name"},
		{"Now of something else", "bth/x.go", "import \"time\"\nvar _ time.Duration\nvar _ = c.Now()", ""},
		{"the real clock", "clock/real.go", "import \"time\"\nvar _ = time.Now()", ""},
		{"another file of its package", "clock/other.go", "import \"time\"\nvar _ = time.Now()", "does not call time.Now"},
		{"a goroutine", "transport/x.go", "func f() { go f() }", "starts no goroutine"},
		{"a goroutine in the real clock", "clock/real.go", "func f() { go f() }", "starts no goroutine"},
		{"a goroutine elsewhere", "internal/engine/x.go", "func f() { go f() }", ""},
		{"unsafe", "memreg/x.go", `import "unsafe"`, "unsafe in a file"},
		{"unsafe in a test", "memreg/x_test.go", `import "unsafe"`, "unsafe in a file"},
		{"unsafe where the name says so", "link/ring_unsafe_linux.go", `import "unsafe"`, ""},
		{"cgo", "link/x.go", `import "C"`, "cgo"},
		{"cgo in a test", "link/x_test.go", `import "C"`, "cgo"},
		{"a package without a row", "novel/x.go", `import "fmt"`, "novel has no row"},
		{"a subtree with a row", "cmd/rocectl/internal/novel/x.go", `import "fmt"`, ""},
		{"not Go", "bth/x.go", "func (", "expected"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			source := tc.source
			if !strings.Contains(source, "package ") {
				source = "package p\n" + source
			}
			expectFault(t, checkSource(tc.file, []byte(source), rules), tc.want)
		})
	}
}

func TestArchCheck_Linked(t *testing.T) {
	in := func(path string) *struct{ Path string } { return &struct{ Path string }{path} }
	const sys, odd = "golang.org/x/sys/unix", "example.com/odd"
	for _, tc := range []struct {
		name string
		of   linked
		want string
	}{
		{"the standard library", linked{ImportPath: module + "/bth", Deps: []string{"fmt", "os"}}, ""},
		{"a pure package of pure ones", linked{ImportPath: module + "/transport", Deps: []string{module + "/bth"}}, ""},
		{"a pure package by way of a link", linked{ImportPath: module + "/transport", Deps: []string{module + "/link"}}, "links github.com/go-roce/roce/link"},
		{"a module it may link", linked{ImportPath: module + "/link", Deps: []string{sys}}, ""},
		{"a module by a back door", linked{ImportPath: module, Deps: []string{odd}}, "links example.com/odd"},
		{"a module in a pure package", linked{ImportPath: module + "/bth", Deps: []string{sys}}, "links golang.org/x/sys"},
		{"cgo", linked{ImportPath: module + "/link", CgoFiles: []string{"x.go"}}, "uses cgo"},
		{"a package without a row", linked{ImportPath: module + "/novel"}, "novel has no row"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			packages := map[string]linked{
				"fmt": {ImportPath: "fmt", Standard: true}, "os": {ImportPath: "os", Standard: true},
				sys: {ImportPath: sys, Module: in("golang.org/x/sys")}, odd: {ImportPath: odd, Module: in(odd)},
			}
			packages[tc.of.ImportPath] = tc.of
			expectFault(t, checkLinked(packages, rules), tc.want)
		})
	}
}

func TestArchCheck_Text(t *testing.T) {
	outside := "../" + "shared"
	expectFault(t, checkText("a.sh", []byte("one\ncat "+outside+"/x\n")), "a.sh:2: names "+outside)
	expectFault(t, checkText("a.sh", []byte("cat ../share/x\n")), "")
	expectFault(t, checkText("a.bin", []byte("\x00"+outside)), "")
}

// expectFault fails unless there is exactly one fault and it has the words, or none when there are no words.
func expectFault(t *testing.T, found []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(found) > 0:
		t.Errorf("found %q, want nothing", found)
	case want != "" && (len(found) != 1 || !strings.Contains(found[0], want)):
		t.Errorf("found %q, want one fault with %q", found, want)
	}
}

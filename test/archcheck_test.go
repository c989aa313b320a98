package test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// linked is what `go list -deps -json` says of a package.
type linked struct {
	ImportPath string
	Standard   bool
	Module     *struct{ Path string }
	Deps       []string
	CgoFiles   []string
}

// checkSource returns what a file, named relative to the module, has that the
// rules forbid. It looks at the text alone, so build constraints hide nothing.
func checkSource(name string, text []byte, rules map[string]rule) []string {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	fault := func(at token.Pos, format string, args ...any) {
		found = append(found, fmt.Sprintf("%s: %s", files.Position(at), fmt.Sprintf(format, args...)))
	}
	dir := path.Dir(name)
	r, known := ruleFor(dir, rules)
	if !known {
		fault(file.Package, "package %s has no row in the table of rules", dir)
	}
	test := strings.HasSuffix(name, "_test.go")
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			fault(spec.Pos(), "%v", err)
			continue
		}
		switch {
		case imported == "C":
			fault(spec.Pos(), "cgo")
		case imported == "unsafe" && !strings.Contains(path.Base(name), "_unsafe"):
			fault(spec.Pos(), "unsafe in a file whose name does not say _unsafe")
		case test:
			// A test may import what it likes: nobody links it.
		case ours(imported):
			if !matches(relative(imported), r.imports) {
				fault(spec.Pos(), "%s must not import %s", dir, imported)
			}
		case external(imported):
			if moduleOf(imported, r.modules) == "" {
				fault(spec.Pos(), "%s must not import %s", dir, imported)
			}
		case r.pure && impure(imported):
			fault(spec.Pos(), "pure package %s must not import %s", dir, imported)
		}
	}
	if r.pure && !test {
		checkPure(file, name, fault)
	}
	return found
}

// checkPure finds goroutines and readings of the clock.
func checkPure(file *ast.File, name string, fault func(token.Pos, string, ...any)) {
	time := "" // what the file calls package time
	for _, spec := range file.Imports {
		if spec.Path.Value != `"time"` {
			continue
		}
		time = "time"
		if spec.Name != nil {
			time = spec.Name.Name
		}
		if time == "." {
			fault(spec.Pos(), "package time must keep its name, so that its use can be seen")
		}
	}
	clockReaders := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			fault(n.Pos(), "a pure package starts no goroutine")
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if ok && x.Name == time && slices.Contains(clockReaders, n.Sel.Name) && name != realClock {
				fault(n.Pos(), "a pure package is told the time; it does not call time.%s", n.Sel.Name)
			}
		}
		return true
	})
}

// checkLinked returns which packages of the module link, directly or not, what their rule does not have.
func checkLinked(packages map[string]linked, rules map[string]rule) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		if !ours(name) {
			continue
		}
		if len(packages[name].CgoFiles) > 0 {
			found = append(found, fmt.Sprintf("%s uses cgo: %v", name, packages[name].CgoFiles))
		}
		r, known := ruleFor(relative(name), rules)
		if !known {
			found = append(found, fmt.Sprintf("package %s has no row in the table of rules", relative(name)))
		}
		for _, dep := range packages[name].Deps {
			d := packages[dep]
			switch {
			case d.Standard:
			case ours(dep):
				if dr, _ := ruleFor(relative(dep), rules); r.pure && !dr.pure {
					found = append(found, fmt.Sprintf("pure package %s links %s, which is not", name, dep))
				}
			case d.Module == nil || !slices.Contains(r.modules, d.Module.Path):
				found = append(found, fmt.Sprintf("%s links %s, which is in none of its modules", name, dep))
			}
		}
	}
	return found
}

// checkText finds the name of a directory that lies beside some checkouts, with
// reference material in it: a tree that reads it works nowhere else.
func checkText(name string, text []byte) []string {
	if bytes.IndexByte(text, 0) >= 0 {
		return nil // not text
	}
	const outside = "../" + "shared"
	i := bytes.Index(text, []byte(outside))
	if i < 0 {
		return nil
	}
	line := 1 + bytes.Count(text[:i], []byte("\n"))
	return []string{fmt.Sprintf("%s:%d: names %s, which is not part of the project", name, line, outside)}
}

// ruleFor returns the row for a package: its own, or that of the nearest subtree around it.
func ruleFor(dir string, rules map[string]rule) (rule, bool) {
	if r, ok := rules[dir]; ok {
		return r, true
	}
	for tree := dir; tree != "."; tree = path.Dir(tree) {
		if r, ok := rules[tree+"/..."]; ok {
			return r, true
		}
	}
	return rule{}, false
}

// matches reports whether a package is in a list of packages and subtrees.
func matches(dir string, list []string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		tree, isTree := strings.CutSuffix(entry, "/...")
		return dir == tree || isTree && strings.HasPrefix(dir, tree+"/")
	})
}

// impure reports whether a package of the standard library does, or is for, what a pure package must not.
func impure(imported string) bool {
	if imported == "net/netip" || imported == "sync/atomic" {
		return false
	}
	first, _, _ := strings.Cut(imported, "/")
	return slices.Contains([]string{"net", "os", "syscall", "sync", "context", "log", "plugin", "testing"}, first)
}

func ours(imported string) bool {
	return imported == module || strings.HasPrefix(imported, module+"/")
}

// external reports whether an import path is of another module: those begin with a host name.
func external(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return strings.Contains(first, ".")
}

// relative names a package of the module relative to it, "." being its root.
func relative(imported string) string {
	if imported == module {
		return "."
	}
	return strings.TrimPrefix(imported, module+"/")
}

// moduleOf returns which of the modules a package is in, "" for none.
func moduleOf(imported string, modules []string) string {
	for _, m := range modules {
		if imported == m || strings.HasPrefix(imported, m+"/") {
			return m
		}
	}
	return ""
}

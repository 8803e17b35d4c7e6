// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/disco-sim/disco"

// tree is a folder of files and the lists that the rules read. The real one is read from the module's root; the
// fixtures of the rules' own tests are texts in testdata.
type tree struct {
	files      []file
	others     map[string]string // text of the files that aren't Go: documents, assembler, C, scripts
	layers     string
	imports    []ban
	kernel     map[string]string   // packages that may make system calls, with the reason
	pure       map[string][]string // packages whose results depend on their inputs only, and what they don't import
	wide       []string            // packages whose lines aren't wrapped yet
	exceptions string
}

type file struct {
	pkg  string // folder from the module's root
	path string
	test bool
	ast  *ast.File
	fset *token.FileSet
	text []byte
}

// finding is one breach of a rule. Exceptions are looked up by the name of the rule and by where: a file, or "file:
// function".
type finding struct {
	where string
	text  string
}

// findings are what a rule has found.
type findings []finding

func (f *findings) add(where, format string, args ...any) {
	*f = append(*f, finding{where, fmt.Sprintf(format, args...)})
}

// rules, by the name that an exception gives.
var rules = map[string]func(*tree) findings{
	"layers":      checkLayers,
	"bans":        checkBans,
	"kernel":      checkKernel,
	"pure":        checkPure,
	"unsafe":      checkUnsafe,
	"sizes":       checkSizes,
	"width":       checkWidth,
	"docs":        checkDocs,
	"table":       checkTable,
	"leftovers":   checkLeftovers,
	"sync points": checkSyncPoints,
	"limits":      checkLimits,
	"leaks":       checkLeaks,
	"wall clock":  checkWallClock,
	"licence":     checkLicence,
}

// parse adds a Go file to the house.
func (t *tree) parse(name string, text []byte) error {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	if err != nil {
		return err
	}
	t.files = append(t.files, file{path.Dir(name), name, strings.HasSuffix(name, "_test.go"), tree, fset, text})
	return nil
}

// readTree reads the module's tree; modules inside it are not part of it.
func readTree(root string) (*tree, error) {
	t := &tree{others: map[string]string{}}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		if d.IsDir() {
			_, nested := os.Stat(filepath.Join(p, "go.mod"))
			if rel != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || nested == nil) {
				return filepath.SkipDir
			}
			return nil
		}
		rel = filepath.ToSlash(rel)
		if !slices.Contains([]string{".go", ".s", ".c", ".h", ".sh", ".md"}, path.Ext(rel)) {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if path.Ext(rel) != ".go" {
			t.others[rel] = string(text)
			return nil
		}
		return t.parse(rel, text)
	})
	return t, err
}

var moduleTree = sync.OnceValues(func() (*tree, error) {
	t, err := readTree(filepath.Join("..", ".."))
	if err != nil {
		return nil, err
	}
	if len(t.files) < 20 {
		return nil, fmt.Errorf("found %d Go files: the walk is broken", len(t.files))
	}
	t.layers, t.imports, t.kernel, t.pure = layers, bans, kernelPackages, pure
	t.wide, t.exceptions = notYetWrapped, exceptions
	return t, nil
})

// files are all Go files of the module.
func files(t *testing.T) []file {
	t.Helper()
	m, err := moduleTree()
	if err != nil {
		t.Fatal(err)
	}
	return m.files
}

// packages are the folders that hold a package, whether or not all of it are tests.
func (t *tree) packages() map[string]bool {
	all := map[string]bool{}
	for _, f := range t.files {
		all[f.pkg] = true
	}
	return all
}

// imports gives the import paths of a file, each with its place.
func imports(f file) map[string]token.Position {
	m := map[string]token.Position{}
	for _, s := range f.ast.Imports {
		p, _ := strconv.Unquote(s.Path.Value)
		m[p] = f.fset.Position(s.Pos())
	}
	return m
}

// importNames gives the names by which a file calls the packages that it imports. A package without a name of
// its own in the import is called by the last part of its path that is no version.
func importNames(f file) map[string]string {
	names := map[string]string{}
	for _, s := range f.ast.Imports {
		p, _ := strconv.Unquote(s.Path.Value)
		name := path.Base(p)
		if regexp.MustCompile(`^v[0-9]+$`).MatchString(name) {
			name = path.Base(path.Dir(p))
		}
		if s.Name != nil {
			name = s.Name.Name
		}
		names[name] = p
	}
	return names
}

// calledName is e.g. os.ReadFile.
func calledName(call *ast.CallExpr) string {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := s.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return x.Name + "." + s.Sel.Name
}

// judge gives what breaks a rule and is no exception, and what is wrong with the exceptions to it.
func (t *tree) judge(rule string) (broken []string) {
	used := map[string]bool{} // by the exception's place
	for line := range strings.Lines(t.exceptions) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, rest, _ := strings.Cut(line, " | ")
		where, reason, ok := strings.Cut(rest, " | ")
		if !ok || strings.TrimSpace(reason) == "" || rules[name] == nil {
			broken = append(broken, fmt.Sprintf("exceptions: %q is not of the form rule | place | reason", line))
		} else if name == rule {
			used[where] = false
		}
	}
	for _, f := range rules[rule](t) {
		path, _, _ := strings.Cut(f.where, ": ")
		excused := false
		for _, where := range []string{f.where, path} {
			if _, ok := used[where]; ok {
				used[where], excused = true, true
			}
		}
		if !excused {
			broken = append(broken, f.text)
		}
	}
	for _, where := range slices.Sorted(maps.Keys(used)) {
		if !used[where] {
			broken = append(broken,
				fmt.Sprintf("exceptions: nothing in %q breaks the rule %q any more: delete the line", where, rule))
		}
	}
	return broken
}

// TestRules holds every rule against the module.
func TestRules(t *testing.T) {
	m, err := moduleTree()
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		t.Run(rule, func(t *testing.T) {
			for _, broken := range m.judge(rule) {
				t.Error(broken)
			}
		})
	}
}

// section finds the heads of a fixture's files and lists.
var section = regexp.MustCompile(`(?m)^-- (.+) --\n`)

// fixture reads a small tree: first lines "rule: NAME" and "want: part of a finding", then files and lists, each
// under a line "-- name --".
func fixture(text string) (t *tree, rule string, want []string, err error) {
	t = &tree{others: map[string]string{}, kernel: map[string]string{}, pure: map[string][]string{}}
	heads := section.FindAllStringSubmatchIndex(text, -1)
	if heads == nil {
		return nil, "", nil, fmt.Errorf("no file in the fixture")
	}
	for line := range strings.Lines(text[:heads[0][0]]) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "rule":
			rule = value
		case "want":
			want = append(want, value)
		}
	}
	for i, head := range heads {
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		if err := t.put(text[head[2]:head[3]], text[head[1]:end]); err != nil {
			return nil, "", nil, err
		}
	}
	return t, rule, want, nil
}

// put adds a section of a fixture.
func (t *tree) put(name, body string) error {
	lists := strings.Split(strings.TrimSpace(body), "\n")
	switch {
	case name == "layers":
		t.layers = body
	case name == "exceptions":
		t.exceptions = body
	case name == "not yet wrapped":
		t.wide = lists
	case name == "kernel":
		for _, line := range lists {
			pkg, reason, _ := strings.Cut(line, ":")
			t.kernel[pkg] = strings.TrimSpace(reason)
		}
	case name == "pure":
		for _, line := range lists {
			pkg, list, _ := strings.Cut(line, ": ")
			t.pure[pkg] = strings.Fields(list)
		}
	case name == "bans":
		for _, line := range lists {
			path, packages, _ := strings.Cut(line, ": ")
			t.imports = append(t.imports, ban{path, strings.Fields(packages), "it is banned"})
		}
	case path.Ext(name) == ".go":
		return t.parse(name, []byte(body))
	default:
		t.others[name] = body
	}
	return nil
}

// TestRulesCanFail: every rule finds what breaks it in a tree that is made for that, and nothing else.
func TestRulesCanFail(t *testing.T) {
	texts, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	for _, name := range texts {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			m, rule, want, err := fixture(string(text))
			if err != nil || rules[rule] == nil {
				t.Fatalf("rule %q: %v", rule, err)
			}
			tried[rule] = tried[rule] || len(want) > 0
			found := m.judge(rule)
			for _, part := range want {
				i := slices.IndexFunc(found, func(s string) bool { return strings.Contains(s, part) })
				if i < 0 {
					t.Errorf("nothing says %q", part)
					continue
				}
				found = slices.Delete(found, i, i+1)
			}
			for _, more := range found {
				t.Errorf("not wanted: %s", more)
			}
		})
	}
	for rule := range rules {
		if !tried[rule] {
			t.Errorf("no file in testdata breaks the rule %q", rule)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/disco-sim/disco"

// floors is the import policy: room, ':' and the rooms that it may import besides
// itself. A '+' before a line takes in all that another line allows. Adding an edge
// needs a reason in the commit that adds it; docs/ARCHITECTURE.md draws the house.
const floors = `
# Ground floor: knows nobody.
internal/invariants:
internal/race:
internal/interleave:
internal/leaktest:
internal/ci:
internal/aligned:
internal/script:
internal/infile:
internal/printable:
internal/nearest:
internal/wire:
envelope:

# Memory. ring works on a byte slice and doesn't map, sleep or know envelopes, so that
# it can be tested on the heap, where the race detector sees it. shm knows no records.
shm: internal/infile internal/invariants internal/interleave internal/race internal/aligned
ring: internal/invariants internal/interleave internal/race internal/aligned
internal/counters: shm internal/invariants internal/race internal/aligned
internal/idle: internal/invariants internal/interleave

# Transport: moves bytes and knows nothing of simulation.
internal/lane: envelope ring shm internal/invariants internal/interleave internal/race internal/aligned
egress: envelope ring shm internal/lane internal/counters internal/invariants internal/race internal/aligned
ingress: envelope ring shm internal/lane internal/counters internal/invariants internal/race internal/aligned
router: envelope internal/nearest
ipc: envelope ring shm internal/lane egress ingress internal/invariants internal/aligned
internal/linktest: envelope ring shm internal/lane egress ingress router internal/counters internal/invariants internal/aligned

# Simulation: orders events and knows nothing of memory, clocks or networks.
node: envelope internal/invariants
internal/trace: node envelope internal/invariants

# What a scenario file means. Models know node's interface and no transport.
scenario: node internal/infile internal/nearest internal/printable
internal/gml: scenario internal/printable
internal/table:
model/measure:
model/modeltest: node scenario envelope
model/phold: node scenario internal/table
model/devstone: node scenario internal/table
model/queueing: node scenario model/measure internal/table internal/invariants
model/service: node scenario envelope internal/invariants internal/table model/measure
model/network: internal/gml node scenario model/measure internal/table internal/invariants

# Which worker hosts which node: graphs, nothing else.
internal/partition: node

# The hall: both wings meet in worker and nowhere else.
internal/worker: internal/wire envelope shm ring internal/lane internal/counters internal/idle egress ingress router node internal/trace scenario internal/invariants internal/interleave internal/race
internal/launch: internal/worker internal/partition node internal/trace scenario shm internal/lane internal/counters internal/infile internal/invariants internal/printable
internal/launch/launchtest: node scenario
internal/sweep: scenario

# The doors.
app: internal/launch internal/sweep internal/partition internal/worker node scenario internal/trace internal/counters shm model/service internal/invariants internal/printable internal/table
cmd/disco-run: app model/service model/network model/phold model/devstone model/queueing
cmd/disco-bench: perf/bench perf/peers
perf: *
internal/policy:
internal/docs:
internal/tiny: app internal/launch/launchtest
`

// bans are imports that only some rooms may have, each with its reason.
var bans = []struct {
	imports string // the path, or a prefix ending in /
	rooms   []string
	reason  string
}{
	{"golang.org/x/sys/", []string{"shm", "internal/launch", "perf/chaos"}, "system calls live in two rooms, so that the rest can be tested without a kernel; chaos takes the kernel away from them"},
	{"google.golang.org/grpc", []string{"bridge", "metastore", "perf"}, "gRPC is the bridge's business"},
	{"net", []string{"internal/launch", "shm", "ipc", "perf", "bridge"}, "only who joins processes opens sockets"},
	{"net/http", []string{"perf"}, "nothing here is a web server"},
	{"os/exec", []string{"internal/launch", "perf"}, "only the launcher starts processes"},
	{"math/rand", nil, "math/rand has a global generator: take a node's own stream (Simproc.Source)"},
	{"reflect", nil, "layouts and types are known when disco is compiled"},
	{"log", nil, "disco reports by errors, counters and log/slog"},
}

// pure rooms may not see the world: their results depend on nothing but their inputs.
var pure = map[string][]string{
	"node":           {"time", "os", "net", "io/ioutil", "log/slog", "sync", "runtime"},
	"envelope":       {"time", "os", "net", "sync", "log/slog"},
	"ring":           {"time", "os", "net", "log/slog"},
	"model/service":  {"time", "os", "net", "log/slog", "sync"},
	"model/phold":    {"time", "os", "net", "log/slog", "sync"},
	"model/devstone": {"time", "os", "net", "log/slog", "sync"},
	"model/queueing": {"time", "os", "net", "log/slog", "sync"},

	// All models: what a scenario refers to is attached to it (scenario.Kind).
	"model": {"time", "os", "io/fs", "net", "log/slog", module + "/internal/infile"},
}

type file struct {
	room string // folder from the module's root
	path string
	test bool
	ast  *ast.File
	fset *token.FileSet
	text []byte
}

// files parses every Go file of the module; modules inside it are not part of it.
func files(t *testing.T) []file {
	t.Helper()
	root := filepath.Join("..", "..")
	var all []file
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
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		tree, err := parser.ParseFile(fset, filepath.ToSlash(rel), text, parser.ParseComments)
		if err != nil {
			return err
		}
		all = append(all, file{path.Dir(filepath.ToSlash(rel)), filepath.ToSlash(rel), strings.HasSuffix(p, "_test.go"), tree, fset, text})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("found %d Go files: the walk is broken", len(all))
	}
	return all
}

// allowed parses floors.
func allowed(t *testing.T) map[string][]string {
	t.Helper()
	rooms := map[string][]string{}
	for _, line := range strings.Split(floors, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		room, list, ok := strings.Cut(line, ":")
		if !ok || rooms[room] != nil {
			t.Fatalf("floors: bad line %q", line)
		}
		rooms[room] = append([]string{room}, strings.Fields(list)...)
	}
	return rooms
}

func imports(f file) map[string]token.Position {
	m := map[string]token.Position{}
	for _, s := range f.ast.Imports {
		p, _ := strconv.Unquote(s.Path.Value)
		m[p] = f.fset.Position(s.Pos())
	}
	return m
}

func TestFloors(t *testing.T) {
	rooms := allowed(t)
	for _, f := range files(t) {
		list, known := rooms[f.room]
		if !known && strings.HasPrefix(f.room, "perf/") {
			list, known = []string{"*"}, true
		}
		if !known && strings.HasPrefix(f.room, "examples/") {
			list, known = []string{"app", "scenario", "node", "envelope", "shm", "egress", "ingress", "ipc", "model/service"}, true
		}
		if !known {
			t.Errorf("%s: room %q is not in the import policy: add a line to floors, with a reason", f.path, f.room)
			continue
		}
		for p, pos := range imports(f) {
			to, ours := strings.CutPrefix(p, module+"/")
			if !ours || slices.Contains(list, to) || slices.Contains(list, "*") {
				continue
			}
			// Tests may look further, but not up from the ground.
			if f.test && (rooms[to] != nil && !slices.Contains(rooms[to], f.room)) {
				continue
			}
			t.Errorf("%s: %s may not import %s: see floors in internal/policy", pos, f.room, to)
		}
	}
}

func TestBans(t *testing.T) {
	for _, f := range files(t) {
		if f.test {
			continue
		}
		for p, pos := range imports(f) {
			for _, b := range bans {
				if p != b.imports && !strings.HasPrefix(p, b.imports+"/") && !(strings.HasSuffix(b.imports, "/") && strings.HasPrefix(p, b.imports)) {
					continue
				}
				if p == "math/rand/v2" || b.imports == "net" && p != "net" || b.imports == "log" && p != "log" {
					continue
				}
				if !slices.ContainsFunc(b.rooms, func(r string) bool { return f.room == r || strings.HasPrefix(f.room, r+"/") }) {
					t.Errorf("%s: %s may not import %s: %s", pos, f.room, p, b.reason)
				}
			}
			if slices.Contains(pure[f.room], p) || isModel(f.room) && slices.Contains(pure["model"], p) {
				t.Errorf("%s: %s may not import %s: what it does depends only on what it is given", pos, f.room, p)
			}
			if p == "unsafe" && !strings.HasSuffix(f.path, "_unsafe.go") {
				t.Errorf("%s: unsafe stands only in files named *_unsafe.go, so that it can be found", pos)
			}
			if p == "C" {
				t.Errorf("%s: no cgo: disco builds with Go alone", pos)
			}
		}
		if f.room == "node" || f.room == "envelope" || f.room == "ring" {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if g, ok := n.(*ast.GoStmt); ok {
					t.Errorf("%s: %s starts no goroutine", f.fset.Position(g.Pos()), f.room)
				}
				return true
			})
		}
	}
}

// isModel tells whether a package is a kind of scenario; modeltest belongs to their tests.
func isModel(room string) bool {
	return strings.HasPrefix(room, "model/") && room != "model/modeltest"
}

const (
	functionLinesMax = 70
	fileLinesMax     = 600
)

func TestSizes(t *testing.T) {
	for _, f := range files(t) {
		lines := bytes.Count(f.text, []byte("\n"))
		if !f.test && lines > fileLinesMax {
			t.Errorf("%s has %d lines, at most %d: one noun a file", f.path, lines, fileLinesMax)
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || f.test {
				continue
			}
			from, to := f.fset.Position(fn.Pos()).Line, f.fset.Position(fn.End()).Line
			if n := to - from + 1; n > functionLinesMax {
				t.Errorf("%s:%d: %s has %d lines, at most %d fit a screen", f.path, from, fn.Name.Name, n, functionLinesMax)
			}
		}
	}
}

// Every package says what it is and what it guarantees; every exported name says what
// it is for.
func TestDocs(t *testing.T) {
	docs := map[string]string{}
	for _, f := range files(t) {
		if f.test {
			continue
		}
		if f.ast.Doc != nil {
			docs[f.room] += f.ast.Doc.Text()
		} else if _, ok := docs[f.room]; !ok {
			docs[f.room] = ""
		}
		for _, d := range f.ast.Decls {
			undocumented(t, f, d)
		}
	}
	for room, doc := range docs {
		command := strings.HasPrefix(room, "cmd/") || strings.HasPrefix(room, "examples/") || strings.HasPrefix(room, "perf/")
		if doc == "" {
			t.Errorf("%s has no package comment", room)
		} else if !command && !strings.Contains(doc, "Guarantee") {
			t.Errorf("%s: the package comment doesn't say what the package guarantees (a paragraph that begins with \"Guarantee:\")", room)
		}
	}
}

func undocumented(t *testing.T, f file, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || exportedReceiver(d)) {
			t.Errorf("%s: %s has no comment", f.fset.Position(d.Pos()), d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.IsExported() && d.Doc == nil && ts.Doc == nil {
				t.Errorf("%s: %s has no comment", f.fset.Position(ts.Pos()), ts.Name.Name)
			}
			if vs, ok := s.(*ast.ValueSpec); ok && vs.Names[0].IsExported() && d.Doc == nil && vs.Doc == nil && vs.Comment == nil {
				t.Errorf("%s: %s has no comment", f.fset.Position(vs.Pos()), vs.Names[0].Name)
			}
		}
	}
}

func exportedReceiver(d *ast.FuncDecl) bool {
	x := d.Recv.List[0].Type
	if s, ok := x.(*ast.StarExpr); ok {
		x = s.X
	}
	if g, ok := x.(*ast.IndexExpr); ok {
		x = g.X
	}
	id, ok := x.(*ast.Ident)
	return ok && id.IsExported()
}

// Leftovers that a finished house doesn't have.
func TestLeftovers(t *testing.T) {
	words := []string{"TO" + "DO", "FIX" + "ME", "XX" + "X", "not " + "implemented"}
	for _, f := range files(t) {
		for i, line := range strings.Split(string(f.text), "\n") {
			for _, w := range words {
				if strings.Contains(line, w) {
					t.Errorf("%s:%d: %q is left over", f.path, i+1, w)
				}
			}
		}
	}
}

// Every named edge of memory ordering stands at both ends at least.
func TestSyncPoints(t *testing.T) {
	const tag = "SYNC" + " POINT "
	seen := map[string][]string{}
	for _, f := range files(t) {
		if f.test {
			continue
		}
		for i, line := range strings.Split(string(f.text), "\n") {
			_, rest, ok := strings.Cut(line, tag)
			if !ok {
				continue
			}
			name := strings.FieldsFunc(rest, func(r rune) bool { return !(r == '-' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9') })
			if len(name) > 0 {
				seen[name[0]] = append(seen[name[0]], fmt.Sprintf("%s:%d", f.path, i+1))
			}
		}
	}
	if len(seen) == 0 {
		t.Fatal("no named ordering edge found: the search is broken")
	}
	names := make([]string, 0, len(seen))
	for n := range seen {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		if len(seen[n]) < 2 {
			t.Errorf("ordering edge %q is named at one end only: %s", n, seen[n][0])
		}
	}
}

// Every file that a person, a flag or a scenario names is read by internal/infile, which
// bounds what it reads and refuses what is no file. What others may read whole are the
// kernel's own files, whose names stand in the code.
func TestFilesAreReadWithALimit(t *testing.T) {
	for _, f := range files(t) {
		if f.test || f.room == "internal/infile" || f.room == "internal/script" || f.room == "model/modeltest" {
			continue // the last two belong to tests
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch name := calledName(call); name {
			case "os.ReadFile":
				if kernelFile(call.Args[0]) {
					return true
				}
				fallthrough
			case "io.ReadAll", "ioutil.ReadAll", "ioutil.ReadFile":
				t.Errorf("%s: %s reads without a limit: use internal/infile", f.fset.Position(call.Pos()), name)
			}
			return true
		})
	}
}

// The tests of every package fail when they leave something behind.
func TestLeaksAreLookedFor(t *testing.T) {
	looks := map[string]bool{}
	for _, f := range files(t) {
		if !f.test {
			continue
		}
		looks[f.room] = looks[f.room] || f.room == "internal/leaktest"
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == "TestMain" {
				ast.Inspect(fn, func(n ast.Node) bool {
					call, ok := n.(*ast.CallExpr)
					looks[f.room] = looks[f.room] || ok && calledName(call) == "leaktest.Main"
					return true
				})
			}
		}
	}
	for room, ok := range looks {
		if !ok {
			t.Errorf("%s: no TestMain calls leaktest.Main: goroutines, descriptors, processes and files that its tests leave behind go unnoticed", room)
		}
	}
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

// kernelFile tells whether a path begins in /proc or /sys by the code itself.
func kernelFile(path ast.Expr) bool {
	if call, ok := path.(*ast.CallExpr); ok && calledName(call) == "filepath.Join" {
		path = call.Args[0]
	}
	text, ok := path.(*ast.BasicLit)
	return ok && (strings.HasPrefix(text.Value, `"/proc`) || strings.HasPrefix(text.Value, `"/sys`))
}

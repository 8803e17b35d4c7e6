// SPDX-License-Identifier: Apache-2.0

// Package hazard reads a model's source for what makes its results depend on more than its input: the clock, random
// numbers that aren't its streams, the order of maps, package variables that functions change, goroutines.
//
// Guarantee: it opens Go files only, in the folders of those that it is given, and changes nothing. It finds what it
// knows the form of, and no more: what it lists may be harmless, and what is at fault may be missing. Source that
// can't be found or read gives no findings.
//
//	for _, f := range hazard.Find(hazard.FilesOf(scenario)) {
//		fmt.Println(f.File, f.Line, f.What)
//	}
package hazard

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/disco-sim/disco/internal/infile"
)

// Kind is what sort of hazard one is.
type Kind string

// The kinds.
const (
	Clock     Kind = "clock"
	Random    Kind = "random numbers"
	MapOrder  Kind = "order of a map"
	Shared    Kind = "shared variable"
	Goroutine Kind = "goroutine"
)

// Finding is one place.
type Finding struct {
	Kind Kind   `json:"kind"`
	File string `json:"file"`
	Line int    `json:"line"`
	What string `json:"what"`
}

// filesMax bounds how many files of a folder are read, and fileMax their size in bytes.
const (
	filesMax = 1000
	fileMax  = 8 << 20
)

// FilesOf is the files with the methods of a value's type, as the compiler named them.
func FilesOf(v any) []string {
	t := reflect.TypeOf(v)
	var files []string
	for i := range t.NumMethod() {
		pc := t.Method(i).Func.Pointer()
		if file, _ := runtime.FuncForPC(pc).FileLine(pc); !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files
}

// Find reads the packages of some files. What is in these files comes alone, unless there is nothing.
func Find(files []string) []Finding {
	var all, near []Finding
	var seen, paths []string
	for _, file := range files {
		name, ok := locate(file)
		if !ok {
			continue
		}
		paths = append(paths, name)
		if folder := filepath.Dir(name); !slices.Contains(seen, folder) {
			seen = append(seen, folder)
			all = append(all, findIn(folder, strings.HasSuffix(name, "_test.go"))...)
		}
	}
	for _, f := range all {
		if slices.Contains(paths, f.File) {
			near = append(near, f)
		}
	}
	if len(near) > 0 {
		all = near
	}
	slices.SortFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return slices.Compact(all)
}

// locate finds a file that the compiler has named. Where it was told to leave out folders (-trimpath), the name begins
// with a module's path, and the file is looked for in the modules of this folder and those above it.
func locate(file string) (string, bool) {
	if filepath.IsAbs(file) {
		_, err := os.Stat(file)
		return file, err == nil
	}
	folder, err := os.Getwd()
	for err == nil {
		if rest, ok := inModule(folder, file); ok {
			path := filepath.Join(folder, rest)
			_, err := os.Stat(path)
			return path, err == nil
		}
		if filepath.Dir(folder) == folder {
			break
		}
		folder = filepath.Dir(folder)
	}
	return "", false
}

// inModule is the rest of a file's name behind the path of the module in a folder.
func inModule(folder, file string) (rest string, ok bool) {
	text, err := readFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "module" {
			return strings.CutPrefix(file, strings.Trim(f[1], `"`)+"/")
		}
	}
	return "", false
}

// readFile reads a file of ordinary size.
func readFile(path string) ([]byte, error) {
	return infile.Read(path, infile.Kind{Name: "Go source", BytesMax: fileMax})
}

// findIn reads the package in a folder.
func findIn(folder string, tests bool) []Finding {
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(names) > filesMax {
		return nil
	}
	fset := token.NewFileSet()
	packages := map[string][]*ast.File{}
	for _, name := range names {
		text, err := readFile(name)
		if err != nil || !tests && strings.HasSuffix(name, "_test.go") {
			continue
		}
		if f, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution); err == nil {
			packages[f.Name.Name] = append(packages[f.Name.Name], f)
		}
	}
	var all []Finding
	for _, files := range packages {
		all = append(all, newReader(fset, files).find(files)...)
	}
	return all
}

// emptyImports is an importer whose packages have nothing in them: what comes from others has no type then, which is
// enough to see the package's own variables and maps, and which package a name is from.
type emptyImports struct{}

var version = regexp.MustCompile(`^v[0-9]+$`)

// Import implements types.Importer.
func (emptyImports) Import(name string) (*types.Package, error) {
	base := path.Base(name)
	if version.MatchString(base) {
		base = path.Base(path.Dir(name))
	}
	p := types.NewPackage(name, base)
	p.MarkComplete()
	return p, nil
}

// reader finds hazards in one package.
type reader struct {
	fset *token.FileSet
	info types.Info
	all  []Finding
}

func newReader(fset *token.FileSet, files []*ast.File) *reader {
	r := &reader{fset: fset, info: types.Info{Types: map[ast.Expr]types.TypeAndValue{},
		Uses: map[*ast.Ident]types.Object{}}}
	cfg := types.Config{Importer: emptyImports{}, Error: func(error) {}} // there are many, as imports are empty
	_, _ = cfg.Check("model", fset, files, &r.info)
	return r
}

func (r *reader) add(at ast.Node, kind Kind, what string) {
	p := r.fset.Position(at.Pos())
	r.all = append(r.all, Finding{kind, p.Filename, p.Line, what})
}

// find looks into all functions but main and init.
func (r *reader) find(files []*ast.File) []Finding {
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || fn.Recv == nil && (fn.Name.Name == "main" || fn.Name.Name == "init") {
				continue
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				r.node(n)
				return true
			})
		}
	}
	return r.all
}

// node looks at one place.
func (r *reader) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.GoStmt:
		r.add(n, Goroutine, "starts a goroutine, and when that runs depends on the machine: a handler or process does "+
			"all its work itself")
	case *ast.SelectStmt:
		if len(n.Body.List) > 1 {
			r.add(n, Goroutine, "select takes any of its cases that are ready")
		}
	case *ast.RangeStmt:
		r.rangeOver(n)
	case *ast.CallExpr:
		r.call(n)
	case *ast.AssignStmt:
		for _, left := range n.Lhs {
			if n.Tok != token.DEFINE {
				r.changed(left)
			}
		}
	case *ast.IncDecStmt:
		r.changed(n.X)
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			r.changed(n.X)
		}
	}
}

// rangeOver looks for maps.
func (r *reader) rangeOver(n *ast.RangeStmt) {
	const what = "ranges over a map, whose order is another one each time: sort the keys first, or keep a slice"
	if t := r.info.TypeOf(n.X); t != nil {
		if _, ok := t.Underlying().(*types.Map); ok {
			r.add(n, MapOrder, what)
			return
		}
	}
	if call, ok := n.X.(*ast.CallExpr); ok {
		if pkg, _ := r.imported(call.Fun); pkg == "maps" {
			r.add(n, MapOrder, what)
		}
	}
}

// imported is the package and name of what comes from another package.
func (r *reader) imported(e ast.Expr) (pkg, name string) {
	if s, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			if p, ok := r.info.Uses[x].(*types.PkgName); ok {
				return p.Imported().Path(), s.Sel.Name
			}
		}
	}
	return "", ""
}

// call looks for the clock, random numbers, and methods of package variables.
func (r *reader) call(n *ast.CallExpr) {
	pkg, name := r.imported(n.Fun)
	switch pkg {
	case "time":
		if slices.Contains([]string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick",
			"Sleep"}, name) {
			r.add(n, Clock, "calls time."+name+": simulated time is Context.Now, or Simproc.Now")
		}
	case "math/rand", "math/rand/v2":
		if !strings.HasPrefix(name, "New") {
			r.add(n, Random, "calls rand."+name+", which all nodes share and no seed repeats: draw from the node's "+
				"own streams")
		}
	case "crypto/rand":
		r.add(n, Random, "calls crypto/rand."+name+", which no seed repeats: draw from the node's own streams")
	}
	if s, ok := n.Fun.(*ast.SelectorExpr); ok && pkg == "" {
		if v := r.packageVariable(s.X); v != nil && pointed(v.Type()) {
			r.share(s.X, v)
		}
	}
}

// pointed reports whether a method of a value of a type may change it.
func pointed(t types.Type) bool {
	switch t.Underlying().(type) {
	case *types.Interface, *types.Signature, *types.Slice:
		return false
	}
	return true
}

// changed looks at what is assigned to, or whose address is taken.
func (r *reader) changed(e ast.Expr) {
	if v := r.packageVariable(e); v != nil {
		r.share(e, v)
	}
}

func (r *reader) share(at ast.Node, v *types.Var) {
	r.add(at, Shared, "changes the package variable "+v.Name()+", which all nodes of a worker share: make it in the "+
		"setup function (or NewHandler), or send its value in an event")
}

// packageVariable is the variable of the package that an expression begins with; nil where it begins otherwise.
func (r *reader) packageVariable(e ast.Expr) *types.Var {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			v, ok := r.info.Uses[x].(*types.Var)
			if !ok || v.Pkg() == nil || v.Parent() != v.Pkg().Scope() {
				return nil
			}
			return v
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

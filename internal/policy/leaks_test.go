// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Who imports a public package can use all that it exports: no exported signature, field, method or variable mentions
// a type of an internal package, which its users can't name. Commands, examples and measurements export nothing.
func TestNoInternalTypesLeak(t *testing.T) {
	for _, f := range files(t) {
		first, _, _ := strings.Cut(f.pkg, "/")
		private := slices.Contains([]string{"internal", "cmd", "examples", "perf"}, first) && f.pkg != "perf/phold"
		if f.test || private {
			continue
		}
		for _, leak := range internalTypes(f) {
			t.Error(leak)
		}
	}
}

// internalTypes lists what in the exported declarations of a file is of an internal package.
func internalTypes(f file) (found []string) {
	internal := map[string]bool{}
	for _, s := range f.ast.Imports {
		p, _ := strconv.Unquote(s.Path.Value)
		if name := p[strings.LastIndex(p, "/")+1:]; strings.HasPrefix(p, module+"/internal/") {
			if s.Name != nil {
				name = s.Name.Name
			}
			internal[name] = true
		}
	}
	var look func(name string, t ast.Node)
	look = func(name string, t ast.Node) {
		ast.Inspect(t, func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncType); ok {
				look(name, signature(f))
				return false
			}
			if field, ok := n.(*ast.Field); ok && len(field.Names) > 0 && !exportedField(field) {
				return false
			}
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := s.X.(*ast.Ident); ok && internal[x.Name] {
				found = append(found, fmt.Sprintf(
					"%s: %s shows %s.%s, which users of %s can't name: take a public type",
					f.fset.Position(s.Pos()), name, x.Name, s.Sel.Name, f.pkg))
			}
			return true
		})
	}
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d)) {
				look(d.Name.Name, d.Type)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.IsExported() {
					look(ts.Name.Name, ts.Type)
				}
				if vs, ok := s.(*ast.ValueSpec); ok && vs.Names[0].IsExported() && vs.Type != nil {
					look(vs.Names[0].Name, vs.Type)
				}
			}
		}
	}
	return found
}

// signature is a function's type without the names of its parameters, which may be small.
func signature(t *ast.FuncType) ast.Node {
	all := &ast.FieldList{}
	for _, list := range []*ast.FieldList{t.TypeParams, t.Params, t.Results} {
		if list != nil {
			for _, f := range list.List {
				all.List = append(all.List, &ast.Field{Type: f.Type})
			}
		}
	}
	return all
}

// exportedField tells whether a field of a struct or a method of an interface can be seen from outside.
func exportedField(f *ast.Field) bool {
	for _, n := range f.Names {
		if n.IsExported() {
			return true
		}
	}
	return false
}

// The canaries of TestNoInternalTypesLeak.
func TestInternalTypesAreFound(t *testing.T) {
	for line, want := range map[string]int{
		`type T struct { F *lane.Sender }`:                      1,
		`type T struct { f *lane.Sender; N int }`:               0,
		`type T struct { lane.Sender }`:                         1,
		`type T interface { M(x lane.Sender) other.Config }`:    2,
		`type T = lane.Sender`:                                  1,
		`type t struct { F *lane.Sender }`:                      0,
		`func F(a int, b map[string][]lane.Sender) {}`:          1,
		`func F() (*lane.Sender, error) { return nil, nil }`:    1,
		`func F() { var s lane.Sender; _ = s }`:                 0,
		`func (t *T) M(f func(lane.Sender)) {}`:                 1,
		`func (t *t) M(f func(lane.Sender)) {}`:                 0,
		`var E lane.Sender`:                                     1,
		`var E = lane.ErrClosed`:                                0,
		`func F[S lane.Sender](s S) {}`:                         1,
		`type T struct { F func(x *lane.Sender) (y int, _ S) }`: 1,
	} {
		fset := token.NewFileSet()
		text := fmt.Sprintf("package x\nimport (\n%q\nother %q\n)\n%s\n",
			module+"/internal/lane", module+"/internal/launch", line)
		tree, err := parser.ParseFile(fset, "x.go", text, 0)
		if err != nil {
			t.Fatal(err)
		}
		if found := internalTypes(file{path: "x.go", pkg: "x", ast: tree, fset: fset}); len(found) != want {
			t.Errorf("%s: found %v, want %d", line, found, want)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// glossary is what docs/GLOSSARY.md says about names.
type glossary struct {
	packages map[string][]string // by word of an exported name: who may use it
	instead  map[string]string   // by word that no name uses: what to write
}

// parseGlossary reads the tables of a page. A table counts by its header: "word | … | in exported names of", or
// "word | instead". A first cell may hold several words, separated by commas. Cells of several words name no
// identifier.
func parseGlossary(page string) (g glossary, err error) {
	g = glossary{map[string][]string{}, map[string]string{}}
	kind := ""
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			kind = ""
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		last := cells[len(cells)-1]
		if cells[0] == "word" {
			kind = last
			continue
		}
		if strings.HasPrefix(cells[0], "---") {
			continue
		}
		for word := range strings.SplitSeq(cells[0], ",") {
			word = strings.ToLower(strings.TrimSpace(word))
			if g.packages[word] != nil || g.instead[word] != "" {
				return g, fmt.Errorf("%q has two rows", word)
			}
			switch {
			case kind == "in exported names of" && len(cells) == 3 && last != "":
				g.packages[word] = strings.Fields(last)
			case kind == "instead" && len(cells) == 2 && last != "":
				g.instead[word] = last
			default:
				return g, fmt.Errorf("the row of %q doesn't fit its table", word)
			}
		}
	}
	return g, nil
}

// splitName gives the words of an identifier in lower case: BoundOfHTTPLane is bound, of, http, lane.
func splitName(name string) (words []string) {
	runes := []rune(name)
	start := 0
	for i := 1; i <= len(runes); i++ {
		if i < len(runes) && runes[i] != '_' {
			lowerToUpper := !unicode.IsUpper(runes[i-1]) && unicode.IsUpper(runes[i])
			lastOfCapitals := unicode.IsUpper(runes[i-1]) && unicode.IsUpper(runes[i]) &&
				i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if !lowerToUpper && !lastOfCapitals {
				continue
			}
		}
		if word := strings.Trim(string(runes[start:i]), "_"); word != "" {
			words = append(words, strings.ToLower(word))
		}
		start = i
	}
	return words
}

// singular gives the forms under which a word may stand in the glossary.
func singular(word string) []string {
	return []string{word, strings.TrimSuffix(word, "s"), strings.TrimSuffix(word, "es")}
}

// declared is a name of a package, or a field or method of one, written Type.Name.
type declared struct {
	pkg      string // without internal/
	name     string
	exported bool
	pos      token.Position
}

// declarations lists the names that a file declares for its package.
func declarations(f file) (all []declared) {
	pkg := strings.TrimPrefix(f.pkg, "internal/")
	add := func(owner string, ids ...*ast.Ident) {
		for _, id := range ids {
			d := declared{pkg, id.Name, id.IsExported(), f.fset.Position(id.Pos())}
			if owner != "" {
				d.name, d.exported = owner+"."+id.Name, d.exported && ast.IsExported(owner)
			}
			all = append(all, d)
		}
	}
	for _, decl := range f.ast.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			add(receiver(decl), decl.Name)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					add("", spec.Names...)
				case *ast.TypeSpec:
					add("", spec.Name)
					for _, m := range members(spec.Type) {
						add(spec.Name.Name, m...)
					}
				}
			}
		}
	}
	return all
}

// receiver names the type that a method belongs to; it is empty for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	x := fn.Recv.List[0].Type
	if s, ok := x.(*ast.StarExpr); ok {
		x = s.X
	}
	switch g := x.(type) {
	case *ast.IndexExpr:
		x = g.X
	case *ast.IndexListExpr:
		x = g.X
	}
	return x.(*ast.Ident).Name
}

// members lists the fields of a struct or the methods of an interface.
func members(x ast.Expr) (names [][]*ast.Ident) {
	var list []*ast.Field
	switch x := x.(type) {
	case *ast.StructType:
		list = x.Fields.List
	case *ast.InterfaceType:
		list = x.Methods.List
	}
	for _, field := range list {
		names = append(names, field.Names)
	}
	return names
}

// mayUse reports whether a declaration stands in a row's list of packages.
func mayUse(d declared, list []string) bool {
	owner, _, _ := strings.Cut(d.name, ".")
	return slices.ContainsFunc(list, func(p string) bool {
		return p == "*" || p == d.pkg || p == d.pkg+"."+owner ||
			strings.HasSuffix(p, "/") && strings.HasPrefix(d.pkg, p)
	})
}

// against says why a declaration breaks the glossary; it is empty for one that doesn't.
func (g glossary) against(d declared, test bool) string {
	last := d.name[strings.LastIndex(d.name, ".")+1:]
	for _, word := range splitName(last) {
		if instead, ok := g.instead[word]; ok {
			return fmt.Sprintf("no name uses %q; instead: %s", word, instead)
		}
		if test || !d.exported {
			continue
		}
		for _, form := range singular(word) {
			if list, ok := g.packages[form]; ok && !mayUse(d, list) {
				return fmt.Sprintf("%q is a word of %s, with one meaning", form, strings.Join(list, ", "))
			}
		}
	}
	return ""
}

func readGlossary(t *testing.T) glossary {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "GLOSSARY.md"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := parseGlossary(string(page))
	if err != nil {
		t.Fatalf("docs/GLOSSARY.md: %v", err)
	}
	if len(g.packages) < 40 || len(g.instead) < 10 {
		t.Fatalf("docs/GLOSSARY.md: found %d and %d words: the tables aren't read", len(g.packages), len(g.instead))
	}
	return g
}

func TestGlossary(t *testing.T) {
	g := readGlossary(t)
	packages := map[string]bool{"*": true, "–": true}
	for _, f := range files(t) {
		if strings.HasPrefix(f.pkg, "examples/") {
			continue // models of their authors, with words of their own
		}
		for _, d := range declarations(f) {
			owner, _, _ := strings.Cut(d.name, ".")
			for _, p := range []string{d.pkg, d.pkg + "." + owner, d.pkg[:strings.Index(d.pkg+"/", "/")] + "/"} {
				packages[p] = true
			}
			if why := g.against(d, f.test); why != "" {
				t.Errorf("%s: %s.%s: %s (docs/GLOSSARY.md)", d.pos, d.pkg, d.name, why)
			}
		}
	}
	for word, list := range g.packages {
		for _, p := range list {
			if !packages[p] {
				t.Errorf("docs/GLOSSARY.md: the row of %q names %q, which is no package and no name of one", word, p)
			}
		}
	}
}

// Each of these breaks a rule, or just doesn't.
func TestGlossaryIsHeldAgainstNames(t *testing.T) {
	g, err := parseGlossary("| word | meaning | in exported names of |\n|---|---|---|\n" +
		"| bound | … | node model/ |\n| null message | … | – |\n| gvt | … | – |\n| part | … | lane.Stats |\n\n" +
		"| word | instead |\n|---|---|\n| tell, told | send |\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		d    declared
		test bool
		ok   bool
	}{
		{declared{pkg: "node", name: "Bound", exported: true}, false, true},
		{declared{pkg: "lane", name: "Bounds", exported: true}, false, false},
		{declared{pkg: "lane", name: "Sender.OutBound", exported: true}, false, false},
		{declared{pkg: "lane", name: "bound"}, false, true},
		{declared{pkg: "model/phold", name: "Bound", exported: true}, false, true},
		{declared{pkg: "lane", name: "Stats.InParts", exported: true}, false, true},
		{declared{pkg: "lane", name: "Parts", exported: true}, false, false},
		{declared{pkg: "lane", name: "TestBounds", exported: true}, true, true},
		{declared{pkg: "node", name: "GVT", exported: true}, false, false},
		{declared{pkg: "node", name: "tellPeer"}, false, false},
		{declared{pkg: "node", name: "TestIsTold", exported: true}, true, false},
		{declared{pkg: "node", name: "intellect"}, false, true},
	} {
		if why := g.against(c.d, c.test); (why == "") != c.ok {
			t.Errorf("%+v: found %q, want a rule broken: %v", c.d, why, !c.ok)
		}
	}
	for _, bad := range []string{
		"| word | instead |\n| a | b |\n| a | c |\n",
		"| word | instead |\n| a |\n",
		"| word | meaning | in exported names of |\n| a | b | |\n",
	} {
		if _, err := parseGlossary(bad); err == nil {
			t.Errorf("%q has no error", bad)
		}
	}
	if got := strings.Join(splitName("BoundOfHTTPLane_x2"), " "); got != "bound of http lane x2" {
		t.Errorf("splitName: found %q", got)
	}
}

// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	functionLinesMax = 70
	fileLinesMax     = 600
	columnsMax       = 120
	columnsOfTab     = 4
	licenceLine      = "// SPDX-License-Identifier: Apache-2.0\n\n"
)

// notYetWrapped lists the packages that have lines of more than 120 columns. The list only shrinks: a package without
// such lines fails the test until it is taken off.
var notYetWrapped = []string{}

// checkSizes: a function fits a screen, and a file has one subject.
func checkSizes(t *tree) (broken findings) {
	for _, f := range t.files {
		if f.test {
			continue
		}
		if lines := bytes.Count(f.text, []byte("\n")); lines > fileLinesMax {
			broken.add(f.path, "%s has %d lines, at most %d: one noun a file", f.path, lines, fileLinesMax)
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			from, to := f.fset.Position(fn.Pos()).Line, f.fset.Position(fn.End()).Line
			if n := to - from + 1; n > functionLinesMax {
				broken.add(f.path+": "+fn.Name.Name, "%s:%d: %s has %d lines, at most %d fit a screen",
					f.path, from, fn.Name.Name, n, functionLinesMax)
			}
		}
	}
	return broken
}

// checkWidth: lines end at 120 columns, where a tab is 4 wide.
func checkWidth(t *tree) (broken findings) {
	wide := map[string]bool{}
	for _, f := range t.files {
		number := 0
		for line := range strings.Lines(string(f.text)) {
			number++
			line = strings.TrimSuffix(line, "\n")
			columns := len([]rune(line)) + strings.Count(line, "\t")*(columnsOfTab-1)
			if columns <= columnsMax {
				continue
			}
			wide[f.pkg] = true
			if !slices.Contains(t.wide, f.pkg) {
				broken.add(f.path, "%s:%d: %d columns, at most %d", f.path, number, columns, columnsMax)
			}
		}
	}
	for _, pkg := range t.wide {
		if !wide[pkg] {
			broken.add(pkg, "notYetWrapped: no line of %s is too long any more: take it off the list", pkg)
		}
	}
	return broken
}

// packageDocs gives the package comment of every package. One that consists of tests may have it there.
func (t *tree) packageDocs() map[string]string {
	all := map[string]string{}
	code := map[string]bool{}
	for _, f := range t.files {
		code[f.pkg] = code[f.pkg] || !f.test
	}
	for _, f := range t.files {
		if f.test && code[f.pkg] {
			continue
		}
		all[f.pkg] += f.ast.Doc.Text()
	}
	return all
}

// checkDocs: every package says what it is and what it guarantees, and every exported name what it is for. What a
// command guarantees stands in docs.
func checkDocs(t *tree) (broken findings) {
	commands := map[string]bool{}
	for _, f := range t.files {
		commands[f.pkg] = commands[f.pkg] || f.ast.Name.Name == "main"
		if f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			for _, name := range undocumented(d) {
				broken.add(f.path, "%s: %s has no comment", f.fset.Position(name.Pos()), name.Name)
			}
		}
	}
	docs := t.packageDocs()
	for _, pkg := range slices.Sorted(maps.Keys(docs)) {
		switch text := docs[pkg]; {
		case text == "":
			broken.add(pkg, "%s has no package comment", pkg)
		case !commands[pkg] && !strings.Contains(text, "Guarantee"):
			broken.add(pkg, "%s: the package comment has no paragraph that begins with Guarantee:", pkg)
		}
	}
	return broken
}

// undocumented names what a declaration exports without a comment.
func undocumented(d ast.Decl) (names []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || exportedReceiver(d)) {
			names = append(names, d.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.IsExported() && d.Doc == nil && ts.Doc == nil {
				names = append(names, ts.Name)
			}
			vs, ok := s.(*ast.ValueSpec)
			if ok && vs.Names[0].IsExported() && d.Doc == nil && vs.Doc == nil && vs.Comment == nil {
				names = append(names, vs.Names[0])
			}
		}
	}
	return names
}

// exportedReceiver reports whether a method belongs to an exported type.
func exportedReceiver(d *ast.FuncDecl) bool { return ast.IsExported(receiver(d)) }

// citation is a remark in parentheses, which may contain full stops.
var citation = regexp.MustCompile(`\s*\([^()]*\)`)

// purpose is what the first sentence of a package comment says about the package, without remarks in parentheses.
func purpose(comment string) string {
	sentence := strings.TrimSuffix(new(doc.Package).Synopsis(citation.ReplaceAllString(comment, "")), ".")
	for _, kind := range []string{"Package ", "Command "} {
		if rest, ok := strings.CutPrefix(sentence, kind); ok {
			_, sentence, _ = strings.Cut(rest, " ")
		}
	}
	return sentence
}

// checkTable holds the table "Packages" of docs/ARCHITECTURE.md against the packages: each has one row, whose second
// cell is its purpose.
func checkTable(t *tree) (broken findings) {
	const page = "docs/ARCHITECTURE.md"
	_, table, _ := strings.Cut(t.others[page], "\n## Packages\n")
	table, _, _ = strings.Cut(table, "\n## ")
	docs := t.packageDocs()
	seen := map[string]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.HasPrefix(line, "| `") {
			continue
		}
		pkg, says := strings.Trim(cells[1], " `"), strings.TrimSpace(cells[2])
		want, exists := docs[pkg]
		switch {
		case !exists:
			broken.add(page, "%s: there is no package %q", page, pkg)
		case seen[pkg]:
			broken.add(page, "%s: %s has two rows", page, pkg)
		case says != purpose(want):
			broken.add(page, "%s: the row of %s says %q, the package comment %q", page, pkg, says, purpose(want))
		}
		seen[pkg] = true
	}
	for _, pkg := range slices.Sorted(maps.Keys(docs)) {
		if !seen[pkg] {
			broken.add(page, "%s: no row for the package | `%s` | %s | |", page, pkg, purpose(docs[pkg]))
		}
	}
	return broken
}

// checkLeftovers finds what a finished house doesn't have.
func checkLeftovers(t *tree) (broken findings) {
	words := []string{"TO" + "DO", "FIX" + "ME", "XX" + "X", "not " + "implemented"}
	for _, f := range t.files {
		for i, line := range strings.Split(string(f.text), "\n") {
			for _, w := range words {
				if strings.Contains(line, w) {
					broken.add(f.path, "%s:%d: %q is left over", f.path, i+1, w)
				}
			}
		}
	}
	return broken
}

// syncName is the name of an edge of memory ordering, at the start of a text.
var syncName = regexp.MustCompile(`^[a-z0-9-]+`)

// checkSyncPoints: every named edge of memory ordering stands at both ends at least.
func checkSyncPoints(t *tree) (broken findings) {
	const tag = "SYNC" + " POINT "
	seen := map[string][]string{}
	for _, f := range t.files {
		if f.test {
			continue
		}
		for i, line := range strings.Split(string(f.text), "\n") {
			_, rest, ok := strings.Cut(line, tag)
			if !ok {
				continue
			}
			if name := syncName.FindString(rest); name != "" {
				seen[name] = append(seen[name], fmt.Sprintf("%s:%d", f.path, i+1))
			}
		}
	}
	for _, n := range slices.Sorted(maps.Keys(seen)) {
		if len(seen[n]) < 2 {
			broken.add(seen[n][0], "ordering edge %q is named at one end only: %s", n, seen[n][0])
		}
	}
	return broken
}

// checkLimits: every file that a person, a flag or a scenario names is read by internal/infile, which bounds what it
// reads and refuses what is no file. What others may read whole are the kernel's own files, whose names stand in the
// code.
func checkLimits(t *tree) (broken findings) {
	for _, f := range t.files {
		if f.test {
			continue
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
				broken.add(f.path, "%s: %s reads without a limit: use internal/infile",
					f.fset.Position(call.Pos()), name)
			}
			return true
		})
	}
	return broken
}

// kernelFile tells whether a path begins in /proc or /sys by the code itself.
func kernelFile(path ast.Expr) bool {
	if call, ok := path.(*ast.CallExpr); ok && calledName(call) == "filepath.Join" {
		path = call.Args[0]
	}
	text, ok := path.(*ast.BasicLit)
	return ok && (strings.HasPrefix(text.Value, `"/proc`) || strings.HasPrefix(text.Value, `"/sys`))
}

// checkLeaks: the tests of every package fail when they leave something behind.
func checkLeaks(t *tree) (broken findings) {
	looks := map[string]bool{}
	for _, f := range t.files {
		if !f.test {
			continue
		}
		looks[f.pkg] = looks[f.pkg] || false
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Name.Name != "TestMain" {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				looks[f.pkg] = looks[f.pkg] || ok && strings.HasPrefix(calledName(call), "leaktest.Main")
				return true
			})
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(looks)) {
		if !looks[pkg] {
			broken.add(pkg, "%s: no TestMain calls leaktest.Main: what its tests leave behind goes unnoticed", pkg)
		}
	}
	return broken
}

// checkLicence: every file says under which licence it may be used, because files are copied one at a time.
func checkLicence(t *tree) (broken findings) {
	add := func(name, text string) {
		if !strings.HasPrefix(text, licenceLine) {
			broken.add(name, "%s:1: the file must begin with %q and an empty line",
				name, strings.TrimSpace(licenceLine))
		}
	}
	for _, f := range t.files {
		add(f.path, string(f.text))
	}
	for name, text := range t.others {
		switch path.Ext(name) {
		case ".s", ".c", ".h":
			add(name, text)
		case ".sh":
			_, text, _ = strings.Cut(text, "\n") // the interpreter's line
			if !strings.HasPrefix(text, "#"+strings.TrimPrefix(strings.TrimSpace(licenceLine), "//")+"\n") {
				broken.add(name, "%s:2: the script's second line must be that of its licence", name)
			}
		}
	}
	return broken
}

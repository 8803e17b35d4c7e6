// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	verb     = regexp.MustCompile(`%(\[\d+\])?[a-z]`)
	explains = regexp.MustCompile("(?m)^\\* `([^`]*)`")
	blank    = regexp.MustCompile(`\s+`)
)

// TestErrors holds docs/errors.md against the messages of package sim, both ways: each of them is explained there, and
// the page has no others.
func TestErrors(t *testing.T) {
	page, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for _, m := range explains.FindAllStringSubmatch(string(page), -1) {
		explained[blank.ReplaceAllString(m[1], " ")] = false
	}
	for _, message := range simMessages(t) {
		if _, ok := explained[message]; !ok {
			t.Errorf("docs/errors.md doesn't explain %q", message)
		}
		explained[message] = true
	}
	for message, known := range explained {
		if !known {
			t.Errorf("docs/errors.md explains %q, which package sim doesn't have", message)
		}
	}
}

// simMessages are the formats of what package sim refuses in a model, with … for each verb.
func simMessages(t *testing.T) (all []string) {
	files, err := filepath.Glob("../../sim/*.go")
	if err != nil || len(files) < 10 {
		t.Fatal(err, files)
	}
	for _, file := range files {
		// What is wrong with tags and files has its place in the message, and docs/sim.md for the rest.
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(filepath.Base(file), "param") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			text := strings.ReplaceAll(verb.ReplaceAllString(messageOf(n), "…"), "`", "")
			if strings.Contains(text, " ") && !strings.HasPrefix(text, "…/…: …") || text == "Priority(NaN)" {
				all = append(all, text)
			}
			return true
		})
	}
	if len(all) < 50 {
		t.Fatalf("only %d messages found", len(all))
	}
	return all
}

// messageOf is the format of a failure or misuse, or of an error that begins with the package's name.
func messageOf(n ast.Node) string {
	switch n := n.(type) {
	case *ast.CallExpr:
		f, ok := n.Fun.(*ast.SelectorExpr)
		if !ok || len(n.Args) == 0 {
			return ""
		}
		switch text := literal(n.Args[0]); {
		case f.Sel.Name == "misuse", f.Sel.Name == "Errorf" && strings.HasPrefix(text, "sim: ") &&
			!strings.HasSuffix(text, "%w"):
			return text
		}
	case *ast.CompositeLit:
		if of, ok := n.Type.(*ast.Ident); ok && of.Name == "failure" && len(n.Elts) > 0 {
			e := n.Elts[0]
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				e = kv.Value
			}
			return literal(e)
		}
	}
	return ""
}

// literal is the text of string literals that are added up, also as the first argument of a call.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, _ := strconv.Unquote(e.Value)
		return s
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	case *ast.CallExpr:
		if len(e.Args) > 0 {
			return literal(e.Args[0])
		}
	}
	return ""
}

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
	verb     = regexp.MustCompile(`%(\[\d+\])?(\.\d)?[a-z]`)
	explains = regexp.MustCompile("(?m)^\\* `([^`]*)`")
	blank    = regexp.MustCompile(`\s+`)
)

// TestErrors holds docs/errors.md against the messages of package sim and of what it shows of others, both ways: each
// of them is explained there, and the page has no others. That each is provoked is a test of package sim.
func TestErrors(t *testing.T) {
	page, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for _, m := range explains.FindAllStringSubmatch(string(page), -1) {
		explained[blank.ReplaceAllString(m[1], " ")] = false
	}
	for _, message := range allMessages(t) {
		if _, ok := explained[message]; !ok {
			t.Errorf("docs/errors.md doesn't explain %q", message)
		}
		explained[message] = true
	}
	for message, known := range explained {
		if !known {
			t.Errorf("docs/errors.md explains %q, which nobody is told", message)
		}
	}
}

// sources are the files with messages, and what finds them there.
var sources = map[string]func(n ast.Node) string{
	"../../sim/*.go":            messageOf,
	"../../sim/dist/*.go":       distMessage,
	"../../internal/plain/*.go": typeMessage,
	"../../node/levels.go":      cycleMessage,
}

// never are messages of which the compiler has a word to say first: a value of more than 1 GB has no place on a stack.
var never = map[string]bool{
	"…: … can't travel: it has … bytes, at most … fit in an event":             true,
	"…: … can't travel: it has more than … bytes, which don't fit in an event": true,
	"…: it has … bytes or elements, at most … can travel":                      true,
}

// allMessages are the formats of what a model is refused, with … for each verb.
func allMessages(t *testing.T) (all []string) {
	for pattern, find := range sources {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(err, pattern)
		}
		before := len(all)
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
				text := strings.ReplaceAll(verb.ReplaceAllString(find(n), "…"), "`", "")
				wraps := strings.HasPrefix(text, "…/…: …") // what Server.misuse and its like put around a message
				if strings.Contains(text, " ") && !wraps && !never[text] || text == "Priority(NaN)" {
					all = append(all, text)
				}
				return true
			})
		}
		if len(all) == before {
			t.Fatalf("%s: no message found", pattern)
		}
	}
	if len(all) < 80 {
		t.Fatalf("only %d messages found", len(all))
	}
	return all
}

// messageOf is the format of a failure or misuse, or of an error that begins with the package's name.
func messageOf(n ast.Node) string {
	switch name, args := calledWith(n); {
	case name == "misuse":
		return literal(args[0])
	case name == "failure":
		return literal(args[0])
	case name == "Errorf":
		if text := literal(args[0]); strings.HasPrefix(text, "sim: ") && !strings.HasSuffix(text, "%w") {
			return text
		}
	}
	return ""
}

// distMessage is what a distribution panics with.
func distMessage(n ast.Node) string {
	if name, args := calledWith(n); name == "refused" || name == "Error" {
		return literal(args[0])
	}
	return ""
}

// typeMessage says what is wrong with the type of an event, or what its own methods have done.
func typeMessage(n ast.Node) string {
	if list, ok := n.(*ast.ValueSpec); ok && list.Names[0].Name == "hasAddress" {
		return "%s: %s can't travel: " + literal(list.Values[0])
	}
	if pair, ok := n.(*ast.KeyValueExpr); ok {
		text := literal(pair.Value)
		if of, ok := pair.Key.(*ast.SelectorExpr); ok && text != "" && of.X.(*ast.Ident).Name == "reflect" {
			return "%s: %s can't travel: " + text
		}
	}
	switch name, args := calledWith(n); name {
	case "refuse":
		if text := literal(args[2]); text != "" {
			return "%s: %s can't travel: " + text
		}
	case "Fault":
		return literal(args[0])
	case "Errorf":
		if text := literal(args[0]); strings.HasPrefix(text, "%s: UnmarshalBinary") {
			return text
		}
	}
	return ""
}

// cycleMessage is what package node says of links that only a model can mend.
func cycleMessage(n ast.Node) string {
	if name, args := calledWith(n); name == "Errorf" {
		return literal(args[0])
	}
	return ""
}

// calledWith is the name of a function or type, and what it is given.
func calledWith(n ast.Node) (name string, args []ast.Expr) {
	var of ast.Expr
	switch n := n.(type) {
	case *ast.CallExpr:
		of, args = n.Fun, n.Args
	case *ast.CompositeLit:
		of, args = n.Type, n.Elts
	}
	if len(args) == 0 {
		return "", nil
	}
	if kv, ok := args[0].(*ast.KeyValueExpr); ok {
		args = []ast.Expr{kv.Value}
	}
	switch of := of.(type) {
	case *ast.Ident:
		return of.Name, args
	case *ast.SelectorExpr:
		return of.Sel.Name, args
	}
	return "", nil
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

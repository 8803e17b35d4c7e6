// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// What a run does must not depend on the wall clock, which somebody may set back an hour
// meanwhile. Go's time.Now carries a reading of the monotonic clock too, and Sub, Since,
// Until, comparisons, timers and deadlines use that one. So a run is safe as long as
// nothing looks at the wall part: that is what these names do.
var wallClock = []string{
	"Unix", "UnixNano", "UnixMilli", "UnixMicro", "Format", "AppendFormat", "UTC", "Local",
	"Weekday", "YearDay", "Clock", "ModTime",
	"Gettimeofday", "ClockGettime", "ClockSettime", "TimerfdCreate", "CLOCK_REALTIME", "FUTEX_CLOCK_REALTIME",
}

// wallReaders are the functions that may look at the wall clock, each with its reason.
var wallReaders = map[string]string{
	"ipc/dial.go: introduce":                    "a deadline that is long past on every clock",
	"internal/launch/postmortem.go: postMortem": "the name of a file",
	"internal/launch/postmortem.go: autopsy":    "the head of a text",
}

// wallClockUses lists what in a file looks at the wall clock.
func wallClockUses(f file) (found []string) {
	if !slices.ContainsFunc(f.ast.Imports, func(s *ast.ImportSpec) bool {
		return s.Path.Value == `"time"` || s.Path.Value == `"syscall"` || s.Path.Value == `"os"` || strings.HasSuffix(s.Path.Value, `/unix"`)
	}) {
		return nil
	}
	for _, d := range f.ast.Decls {
		where := f.path
		if fn, ok := d.(*ast.FuncDecl); ok {
			where += ": " + fn.Name.Name
		}
		if wallReaders[where] != "" {
			continue
		}
		ast.Inspect(d, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			wall := slices.Contains(wallClock, s.Sel.Name)
			// Two rooms have a Format of their own, which is no method of a time.
			if x, ok := s.X.(*ast.Ident); ok && wall && s.Sel.Name == "Format" && slices.Contains([]string{"counters", "lane"}, x.Name) {
				wall = false
			}
			// Rounding, and a way through text or a map, leave nothing but the wall part.
			if c, ok := s.X.(*ast.CallExpr); ok && calledName(c) == "time.Now" {
				wall = wall || !slices.Contains([]string{"Sub", "Add", "Before", "After", "Compare", "Equal", "IsZero"}, s.Sel.Name)
			}
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains([]string{"Date", "Parse", "ParseInLocation"}, s.Sel.Name) {
				wall = true
			}
			if wall {
				found = append(found, fmt.Sprintf("%s: %s", f.fset.Position(s.Pos()), s.Sel.Name))
			}
			return true
		})
	}
	return found
}

func TestNothingDependsOnTheWallClock(t *testing.T) {
	for _, f := range files(t) {
		if f.test || strings.HasPrefix(f.path, "perf/") || strings.HasPrefix(f.path, "examples/") {
			continue
		}
		for _, use := range wallClockUses(f) {
			t.Errorf("%s looks at the wall clock, which may be set back: use differences of time.Now, or say in wallReaders why not", use)
		}
	}
}

// The canaries: each of these looks at the wall clock.
func TestWallClockIsFound(t *testing.T) {
	for line, want := range map[string]int{
		`_ = time.Now().UnixNano()`:                                     1,
		`_ = time.Now().Round(0)`:                                       1,
		`_ = time.Now().Format("x")`:                                    1,
		`s := time.Now(); _ = s.Unix()`:                                 1,
		`i, _ := os.Stat("x"); _ = i.ModTime()`:                         1,
		`_ = time.Date(1, 1, 1, 1, 1, 1, 1, nil)`:                       1,
		`s := time.Now(); _ = time.Since(s) + time.Now().Sub(s)`:        0,
		`<-time.After(time.Second)`:                                     0,
		`s := time.Now().Add(1); _ = s.Before(time.Now()); _ = os.Args`: 0,
	} {
		fset := token.NewFileSet()
		text := "package x\nimport (\n\"os\"\n\"time\"\n)\nfunc f() { " + line + " }\n"
		tree, err := parser.ParseFile(fset, "x.go", text, 0)
		if err != nil {
			t.Fatal(err)
		}
		if found := wallClockUses(file{path: "x.go", ast: tree, fset: fset}); len(found) != want {
			t.Errorf("%s: found %v, want %d uses", line, found, want)
		}
	}
}

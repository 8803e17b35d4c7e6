// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
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

// wallMakers are functions of time that make times without a reading of the monotonic clock.
var wallMakers = []string{"Date", "Parse", "ParseInLocation"}

// clockPackage reports whether names of a package may be in wallClock.
func clockPackage(path string) bool {
	return path == "time" || path == "syscall" || path == "os" || strings.HasSuffix(path, "/unix")
}

// wallClockUses lists what in a file looks at the wall clock.
func wallClockUses(f file) (found findings) {
	names := importNames(f)
	if !slices.ContainsFunc(slices.Collect(maps.Values(names)), clockPackage) {
		return nil
	}
	for _, d := range f.ast.Decls {
		where := f.path
		if fn, ok := d.(*ast.FuncDecl); ok {
			where += ": " + fn.Name.Name
		}
		ast.Inspect(d, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			wall := slices.Contains(wallClock, s.Sel.Name)
			x, _ := s.X.(*ast.Ident)
			if x != nil {
				// A function of another package that has the name of one of time's methods.
				from, imported := names[x.Name]
				wall = wall && (!imported || clockPackage(from))
				wall = wall || from == "time" && slices.Contains(wallMakers, s.Sel.Name)
			}
			// Rounding, and a way through text or a map, leave nothing but the wall part.
			if c, ok := s.X.(*ast.CallExpr); ok && calledName(c) == "time.Now" {
				monotonic := []string{"Sub", "Add", "Before", "After", "Compare", "Equal", "IsZero"}
				wall = wall || !slices.Contains(monotonic, s.Sel.Name)
			}
			if wall {
				found.add(where, "%s: %s looks at the wall clock, which may be set back: "+
					"use differences of time.Now, or say in exceptions why not", f.fset.Position(s.Pos()), s.Sel.Name)
			}
			return true
		})
	}
	return found
}

// checkWallClock looks at all but the tests.
func checkWallClock(t *tree) (broken findings) {
	for _, f := range t.files {
		if !f.test {
			broken = append(broken, wallClockUses(f)...)
		}
	}
	return broken
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

// SPDX-License-Identifier: Apache-2.0

package hazard

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// In source every line that ends in a comment of a kind has a finding of that kind, and no other line has any.
const source = `package model

import (
	crypto "crypto/rand"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

type names map[string]int

type node struct {
	known names
	own   int
	rng   *rand.Rand
}

var total int
var last struct{ at [2]float64 }
var calls atomic.Int64
var limit = 3

func init() { total = 1 }

func (n *node) work(other map[int]bool, texts []string) {
	n.own++
	total++ // shared variable
	last.at[n.own] = 1 // shared variable
	calls.Add(1) // shared variable
	take(&total) // shared variable
	_ = limit + total
	for range n.known { // order of a map
	}
	for range other { // order of a map
	}
	for range maps.Keys(other) { // order of a map
	}
	for range slices.Sorted(maps.Keys(other)) {
	}
	for range texts {
	}
	_ = time.Second
	_ = time.Now() // clock
	n.own = rand.IntN(3) // random numbers
	n.own = n.rng.IntN(3)
	n.rng = rand.New(rand.NewPCG(1, 2))
	_, _ = crypto.Read(nil) // random numbers
	go take(nil) // goroutine
	total := 3
	total++
}

func take(*int) {}
`

func TestFind(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "model.go")
	if err := os.WriteFile(file, []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "broken.go"), []byte("package model\nfunc {"), 0o666); err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for i, line := range strings.Split(source, "\n") {
		if _, kind, ok := strings.Cut(line, " // "); ok {
			want = append(want, fmt.Sprintf("%d %s", i+1, kind))
		}
	}
	for _, f := range Find([]string{file, file}) {
		got = append(got, fmt.Sprintf("%d %s", f.Line, f.Kind))
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if f := Find([]string{filepath.Join(folder, "none.go"), "example.org/nowhere/x.go"}); len(f) != 0 {
		t.Errorf("found %v in files that don't exist", f)
	}
}

// The files of a type are found whether or not the compiler leaves out folders.
func TestFilesOf(t *testing.T) {
	files := FilesOf(emptyImports{})
	if len(files) != 1 {
		t.Fatalf("found %q", files)
	}
	if path, ok := locate(files[0]); !ok || filepath.Base(path) != "hazard.go" || !filepath.IsAbs(path) {
		t.Errorf("%q is %q", files, path)
	}
}

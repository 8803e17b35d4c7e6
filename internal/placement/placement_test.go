// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// Names become indices of the graph; nodes that aren't named are left out, and no file pins
// nothing.
func TestResolve(t *testing.T) {
	g := structure(t, &node.Graph{Simprocs: []string{"x"}, Nodes: []node.Node{{Name: "a"}, {Name: "b"}, {Name: "c"}}})
	path := filepath.Join(t.TempDir(), "placement.yml")
	if err := os.WriteFile(path, []byte("c: 0\na: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pins, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := pins.Resolve(g, 2); err != nil || !maps.Equal(got, map[int]int32{2: 0, 0: 1}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := (*Pins)(nil).Resolve(g, 2); err != nil || got != nil {
		t.Errorf("no pins: %v, %v", got, err)
	}
	_, err = pins.Resolve(g, 1)
	want := "placement.yml:2:4: a: found worker 1, want 0, the only worker of this run"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("one worker: %v, want %q", err, want)
	}
}

// Every mistake is found at once, with its place.
func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"a: 0\na: 1\n":     "p.yml:2:1: a: found the node a second time (the first is on line 1), want every node once",
		"a: one\n":         `p.yml:1:4: a: found "one", want the number of a worker, 0 for the first`,
		"a: [0]\n":         "p.yml:1:4: a: found a list, want the number of a worker",
		"- a\n":            "want one line `node: worker` a node",
		"a: 0\nb: x\nc:\n": "p.yml:3:3",
	} {
		_, err := Parse("p.yml", []byte(text))
		var problems scenario.Problems
		if !errors.As(err, &problems) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// What can be parsed can be resolved or is refused.
func FuzzParse(f *testing.F) {
	f.Add([]byte("a: 0\nb: 1\n"))
	f.Add([]byte("a: [0]\n? b\n"))
	g := structure(f, &node.Graph{Simprocs: []string{"x"}, Nodes: []node.Node{{Name: "a"}, {Name: "b"}}})
	f.Fuzz(func(t *testing.T, text []byte) {
		pins, err := Parse("p.yml", text)
		if err != nil {
			return
		}
		pinned, err := pins.Resolve(g, 2)
		for i, w := range pinned {
			if err != nil || i < 0 || i > 1 || w < 0 || w > 1 {
				t.Fatalf("node %d on worker %d, %v", i, w, err)
			}
		}
	})
}

func structure(t testing.TB, g *node.Graph) *node.Structure {
	t.Helper()
	s, err := node.Compile(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

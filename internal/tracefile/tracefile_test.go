// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/trace"
	"github.com/disco-sim/disco/node"
)

// Two workers write two replications, the second of which was interrupted: the file has all
// records in the total order, up to where the second one is complete, and appears only then.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "trace.txt")
	g := &node.Graph{Simprocs: []string{"p"}, Nodes: []node.Node{{Name: "a"}, {Name: "b"}}}
	files, err := Open(path, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	var replications []Replication
	for index, reached := range []float64{100, 3} {
		for w := range 2 {
			out := trace.NewWriter(files.Of(w))
			for epoch := range 5 {
				out.Wakeup(0, 0, node.SimprocID(w), float64(epoch+w))
			}
			if err := out.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		mark, err := files.Mark()
		if err != nil {
			t.Fatal(err)
		}
		replications = append(replications, Replication{Index: index, Section: files.Section(mark-1, mark),
			Reached: reached})
	}
	if n := Bytes(replications); n <= 0 || n != 2*Bytes(replications[:1]) {
		t.Errorf("%d bytes, of which the first replication has %d", n, Bytes(replications[:1]))
	}
	if err := Write(context.Background(), path, g, replications); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.NewReplacer("A", "\ta/p\twakeup\n", "B", "\tb/p\twakeup\n")
	want := lines.Replace("# replication 0\n0A1A1B2A2B3A3B4A4B5B# replication 1\n0A1A1B2A2B")
	if string(text) != want {
		t.Errorf("the trace is\n%s\nwant\n%s", text, want)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v: want the trace alone", entries, err)
	}
}

// A trace whose context has ended is not written.
func TestWriteEnds(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "trace.txt")
	g := &node.Graph{Simprocs: []string{"p"}, Nodes: []node.Node{{Name: "a"}}}
	files, err := Open(path, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	out := trace.NewWriter(files.Of(0))
	for epoch := range 1 << 17 { // ctx is looked at now and then
		out.Wakeup(0, 0, 0, float64(epoch))
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	mark, err := files.Mark()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err = Write(ctx, path, g, []Replication{{Section: files.Section(mark-1, mark), Reached: math.Inf(1)}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v: want no file", entries, err)
	}
}

// Without a path there is no trace, and nothing to collect.
func TestNoTrace(t *testing.T) {
	files, err := Open("", 2)
	if err != nil || files.Of(1) != nil {
		t.Fatalf("%v, %v", files.Of(1), err)
	}
	if mark, err := files.Mark(); err != nil || Bytes([]Replication{{Section: files.Section(-1, mark)}}) != 0 {
		t.Errorf("mark %d, %v", mark, err)
	}
	files.Close()
}

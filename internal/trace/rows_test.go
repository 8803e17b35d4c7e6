// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/trace"
	"github.com/disco-sim/disco/node"
)

// recording is a model of four nodes, of which each records as many rows each second as its number says, and one more.
type recording struct{ graph *node.Graph }

func newRecording() *recording {
	return &recording{&node.Graph{Simprocs: []string{"p"}, Nodes: []node.Node{{Name: "a"}, {Name: "b"}, {Name: "c"},
		{Name: "d"}}}}
}

func (m *recording) Graph() *node.Graph { return m.graph }

func (m *recording) NewHandler(*node.Simproc) (node.Handler, error) { return m, nil }

func (m *recording) Handle(p *node.Simproc, _ []node.Event) error {
	for i := range p.NodeIndex() + 1 {
		if p.Recording() {
			p.Record(node.Row{uint64(i), 5: 1 << 63})
		}
	}
	return p.Wakeup(p.Now() + 1)
}

// rowsFile is what one of two workers records up to a horizon.
func rowsFile(t testing.TB, worker int, horizon float64) []byte {
	t.Helper()
	m := newRecording()
	g, err := node.Compile(m.graph, nil)
	if err != nil {
		t.Fatal(err)
	}
	placed, err := g.Place([]int32{0, 1, 1, 0}, 2)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := placed.Plan(worker, nil)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w := trace.NewRowWriter(&file)
	e, err := node.NewEngine(plan, node.Config{Model: m, Seed: 1, Horizon: horizon, Records: &w.Log})
	if err != nil {
		t.Fatal(err)
	}
	for e.Ready() {
		if _, err := e.Run(100, math.Inf(1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// TestRows: the rows of two workers come in the total order, those of one call in the order in which they were
// recorded, over several chunks.
func TestRows(t *testing.T) {
	const seconds = 2000
	var readers []*trace.Reader
	for worker := range 2 {
		file := rowsFile(t, worker, seconds)
		r, err := trace.NewReader(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		readers = append(readers, r)
	}
	var at, id, i int
	err := trace.MergeRows(readers, func(r *node.Recorded) error {
		want := node.Recorded{Epoch: float64(at), Simproc: node.SimprocID(id), Row: node.Row{uint64(i), 5: 1 << 63}}
		if *r != want {
			return fmt.Errorf("found %+v, want %+v", r, want)
		}
		if i++; i > id {
			i, id = 0, id+1
		}
		if id == 4 {
			at, id = at+1, 0
		}
		return nil
	})
	if err != nil || at != seconds {
		t.Fatalf("%v at %d", err, at)
	}
}

// TestRowsDamaged: what isn't as it was written is an error that says so.
func TestRowsDamaged(t *testing.T) {
	file := rowsFile(t, 0, 3)
	for want, change := range map[string]func(b []byte) []byte{
		"rows of class":   func(b []byte) []byte { binary.LittleEndian.PutUint32(b[4:], 63); return b },
		"that fits":       func(b []byte) []byte { return b[:len(b)-1] },
		"at epoch NaN":    func(b []byte) []byte { binary.LittleEndian.PutUint64(b[8:], 0x7ff8<<48); return b },
		"behind one at 2": func(b []byte) []byte { binary.LittleEndian.PutUint64(b[8:], 1<<62); return b },
	} {
		b := change(bytes.Clone(file))
		r, err := trace.NewReader(bytes.NewReader(b), int64(len(b)))
		if err == nil {
			err = trace.MergeRows([]*trace.Reader{r}, func(*node.Recorded) error { return nil })
		}
		if !errors.Is(err, trace.ErrCorrupt) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestRecordingTakesNoMemory: a row that is recorded, and one that isn't, allocates nothing.
func TestRecordingTakesNoMemory(t *testing.T) {
	m := newRecording()
	g, err := node.Compile(m.graph, nil)
	if err != nil {
		t.Fatal(err)
	}
	placed, err := g.Place(make([]int32, 4), 1)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := placed.Plan(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, recorded := range []bool{false, true} {
		cfg := node.Config{Model: m, Seed: 1, Horizon: 1e9}
		w := trace.NewRowWriter(discarded{})
		if recorded {
			cfg.Records = &w.Log
		}
		e, err := node.NewEngine(plan, cfg)
		if err != nil {
			t.Fatal(err)
		}
		run := func() {
			if _, err := e.Run(10_000, math.Inf(1)); err != nil {
				t.Fatal(err)
			}
		}
		run()
		if n := testing.AllocsPerRun(5, run); n > 0 {
			t.Errorf("recorded: %v: %v allocations in 10,000 calls", recorded, n)
		}
	}
}

type discarded struct{}

func (discarded) Write(b []byte) (int, error) { return len(b), nil }

// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// clocks is a model of clocks that tick once in so many seconds. It is read from a file like
//
//	model: clocks
//	clocks: 3
//	period: 0.5
//	horizon: 10
type clocks struct {
	number          int
	period, horizon float64
}

// kind is what a program's main registers.
func kind() scenario.Kind {
	return scenario.Kind{Name: "clocks", Load: load}
}

func load(doc *scenario.Document, opt scenario.Options) (scenario.Scenario, error) {
	r := scenario.NewReader(doc)
	root := r.Root("clocks", "period", "horizon")
	m := &clocks{
		number:  root.Field("clocks").Int(scenario.Between(1, 1000)),
		period:  root.Field("period").Float(scenario.MoreThan(0)),
		horizon: root.Field("horizon").Float(scenario.MoreThan(0)),
	}
	if opt.Horizon > 0 { // --horizon
		m.horizon = opt.Horizon
	}
	return m, r.Err()
}

func (m *clocks) Name() string     { return "clocks" }
func (m *clocks) Horizon() float64 { return m.horizon }

func (m *clocks) Graph() *node.Graph {
	g := &node.Graph{Simprocs: []string{"hand"}}
	for i := range m.number {
		g.Nodes = append(g.Nodes, node.Node{Name: fmt.Sprintf("clock-%d", i)})
	}
	return g
}

func (m *clocks) NewHandler(*node.Simproc) (node.Handler, error) { return &hand{period: m.period}, nil }

// hand is the state of one clock.
type hand struct {
	period float64
	ticks  uint64
}

// Handle is called at epoch 0, and when it has asked for it.
func (h *hand) Handle(p *node.Simproc, _ []node.Event) error {
	h.ticks++
	return p.Wakeup(p.Now() + h.period)
}

// Report is what the results are made of, wherever the clock was simulated.
func (h *hand) Report(*node.Simproc) ([]byte, error) {
	return binary.LittleEndian.AppendUint64(nil, h.ticks), nil
}

// ticks is the results, and adds them up.
type ticks struct {
	Ticks uint64 `json:"ticks"`
}

func (m *clocks) Accumulate() scenario.Accumulator { return &ticks{} }

func (s *ticks) Add(r scenario.Replication) error {
	for _, part := range r.Reports {
		s.Ticks += binary.LittleEndian.Uint64(part)
	}
	return nil
}

func (s *ticks) Summary() (scenario.Summary, error) { return s, nil }

func (s *ticks) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%d ticks\n", s.Ticks)
	return err
}

// A program with a model of its own has all commands of disco-run. Its main is one line, app.Main(kind()); here Run
// does the same without ending the process. examples/mymodel is a whole program.
func Example() {
	file := strings.NewReader("model: clocks\nclocks: 3\nperiod: 0.5\nhorizon: 10\n")
	var out strings.Builder
	args := []string{"clocks", "run", "-", "--workers", "2", "--transport", "inproc", "--json", "-"}
	status := app.Run(args, file, &out, os.Stderr, kind())

	var run struct {
		Workers int
		Results ticks
	}
	if err := json.Unmarshal([]byte(out.String()), &run); err != nil {
		fmt.Println(err)
	}
	fmt.Println("status", status, "-", run.Workers, "workers -", run.Results.Ticks, "ticks")

	// A mistake in a file ends with status 2 and a message that says where it is.
	bad := strings.NewReader("model: clocks\nclocks: many\nperiod: 1\nhorizon: 9\n")
	status = app.Run([]string{"clocks", "validate", "-"}, bad, os.Stdout, os.Stdout, kind())
	fmt.Println("status", status)
	// Output:
	// status 0 - 2 workers - 60 ticks
	// standard input:2:9: clocks: found the text "many", want a whole number from 1 to 1000
	// clocks: 1 problem: nothing was run
	// status 2
}

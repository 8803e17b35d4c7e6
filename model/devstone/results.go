// SPDX-License-Identifier: Apache-2.0

package devstone

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/model/overview"
	"github.com/disco-sim/disco/scenario"
)

// Results is what a run has counted, over all replications: the JSON "results".
type Results struct {
	Type       string `json:"type"`
	Width      int    `json:"width"`
	Depth      int    `json:"depth"`
	Pulses     int    `json:"pulses"` // of one replication
	Components int    `json:"components"`
	Links      int    `json:"links"`

	Transitions uint64 `json:"transitions"` // DEVStone's count of events
	PerPulse    uint64 `json:"transitions_per_pulse"`
	Expected    uint64 `json:"expected"` // transitions, by the type's formula; 0 for an interrupted run
	Messages    uint64 `json:"messages"` // between components, inputs and the generator
	Outputs     uint64 `json:"outputs"`  // that came out of the outermost model
	Interrupted bool   `json:"interrupted"`

	course *measure.Course // of all components; nil: no time series were asked for
}

// Accumulate adds up what the components have counted. A count that is not the
// formula's is an error: nothing in the model is random.
func (m *Model) Accumulate() scenario.Accumulator {
	p := m.params
	t := &tally{m: m, r: Results{Type: p.Type, Width: p.Width, Depth: p.Depth, Pulses: p.Pulses,
		Links: len(m.wiring.graph.Links)}}
	for n := 1; n < len(m.wiring.graph.Nodes); n++ {
		if !m.wiring.input[n] {
			t.r.Components++
		}
	}
	if n := m.windows(); n > 0 {
		t.r.course = measure.NewCourse(m.Horizon(), n, 1)
	}
	return t
}

// tally implements scenario.Accumulator.
type tally struct {
	m            *Model
	r            Results
	replications uint64
}

// Add reads the reports of one replication.
func (t *tally) Add(rep scenario.Replication) error {
	r, wiring := &t.r, t.m.wiring
	t.replications++
	r.course.Begin(rep.Reached)
	r.Interrupted = r.Interrupted || rep.Reached < rep.Horizon
	for n := 1; n < len(wiring.graph.Nodes); n++ {
		if n >= len(rep.Reports) || len(rep.Reports[n]) < reportBytes ||
			r.course == nil && len(rep.Reports[n]) > reportBytes {
			return fmt.Errorf("devstone: replication %d: the report of %q is missing or is not %d bytes", rep.Index,
				wiring.graph.Nodes[n].Name, reportBytes)
		}
		transitions := binary.LittleEndian.Uint64(rep.Reports[n])
		r.Transitions += transitions
		// Counts have exact sums, so that one set of windows does for all components.
		if err := r.course.Read(0, fields, rep.Reports[n][reportBytes:]); err != nil {
			return fmt.Errorf("devstone: replication %d: the report of %q: %w", rep.Index,
				wiring.graph.Nodes[n].Name, err)
		}
		r.Messages += binary.LittleEndian.Uint64(rep.Reports[n][8:])
		if n == wiring.leaf || t.m.params.Type == HO && wiring.level[n] == 1 {
			r.Outputs += transitions
		}
	}
	return nil
}

// Summary compares the sum with the formula.
func (t *tally) Summary() (scenario.Summary, error) {
	if t.replications == 0 {
		return nil, errors.New("devstone: no replication to summarize")
	}
	r, p := &t.r, t.m.params
	pulses := t.replications * uint64(p.Pulses)
	if !r.Interrupted {
		r.Expected = pulses * p.expected()
		if r.Transitions != r.Expected {
			return nil, fmt.Errorf("devstone: %d transitions, want %d: a defect of disco", r.Transitions, r.Expected)
		}
	}
	r.PerPulse = r.Transitions / pulses
	return r, nil
}

// WriteText writes the results for people.
func (r *Results) WriteText(w io.Writer) error { return overview.WriteTables(w, r.tables()) }

// tables are all that there is to show, in the order of tableNames.
func (r *Results) tables() []overview.Table {
	return []overview.Table{{Name: "counts", Write: r.writeCounts}}
}

func (r *Results) writeCounts(b *bufio.Writer) {
	t := table.New(40, fmt.Sprintf("DEVStone %s", r.Type), "")
	t.Row("width", table.Count(int64(r.Width)))
	t.Row("depth", table.Count(int64(r.Depth)))
	t.Row("components", table.Count(int64(r.Components)))
	t.Row("links", table.Count(int64(r.Links)))
	t.Row("pulses", table.Count(int64(r.Pulses)))
	t.Row("transitions", table.Count(int64(r.Transitions)))
	t.Row("transitions of a pulse", table.Count(int64(r.PerPulse)))
	if r.Expected > 0 {
		t.Row("expected", table.Count(int64(r.Expected)))
	}
	t.Row("messages", table.Count(int64(r.Messages)))
	t.Row("outputs", table.Count(int64(r.Outputs)))
	if r.Interrupted {
		t.Row("INTERRUPTED", "before the end")
	}
	t.Write(b)
}

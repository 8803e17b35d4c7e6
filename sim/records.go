// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

var _ scenario.Recorder = (*Model)(nil)

// record records a value that a tally was given: the statistic's place at the node, and the value.
func (t *Tally) record(x float64) {
	at := slices.Index(t.n.stats.list, statistic(t))
	t.n.proc.Record(node.Row{uint64(at), math.Float64bits(x)})
}

// Columns of records.
const (
	recordStatistic = iota
	recordNode
	recordAt
	recordValue
	recordUnit
)

// RecordColumns implements scenario.Recorder: a row is a value that a tally was given
// behind the warm-up.
func (m *Model) RecordColumns() []scenario.RecordColumn {
	entry := func(n int) *schemaEntry { return m.schema.entries[n] }
	return []scenario.RecordColumn{
		{Name: "statistic", Type: scenario.RecordName, NameOf: func(n int) string {
			name := entry(n).name
			return name[strings.IndexByte(name, '/')+1:]
		}},
		{Name: "node", Type: scenario.RecordName, NameOf: m.nodeName}, {Name: "at_s", Type: scenario.RecordNumber},
		{Name: "value", Type: scenario.RecordNumber},
		{Name: "unit", Type: scenario.RecordName, NameOf: func(n int) string { return entry(n).unit }},
	}
}

// values makes rows of what tallies were given.
type values struct{ m *Model }

// Records implements scenario.Recorder.
func (m *Model) Records(float64) scenario.Records { return values{m} }

// Take implements scenario.Records.
func (v values) Take(r *node.Recorded, w scenario.RecordWriter) error {
	m := v.m
	if err := m.Check(); err != nil {
		return err
	}
	list := m.schema.lists[r.Simproc]
	if r.Row[0] >= uint64(len(list)) {
		return fmt.Errorf("at %v s: found a value of statistic %d, want one of 0 to %d", r.Epoch, r.Row[0],
			len(list)-1)
	}
	entry := int(list[r.Row[0]])
	w.Name(recordStatistic, entry)
	w.Name(recordNode, int(r.Simproc)/len(m.layers))
	w.Number(recordAt, r.Epoch)
	w.Number(recordValue, math.Float64frombits(r.Row[1]))
	if m.schema.entries[entry].unit != "" {
		w.Name(recordUnit, entry)
	}
	return w.Row()
}

// End implements scenario.Records.
func (values) End(scenario.RecordWriter) error { return nil }

// SPDX-License-Identifier: Apache-2.0

// Package scenario reads scenario files: YAML, with the line and column of
// everything that is wrong, and hands them to the kind of scenario that they ask
// for. It contains no model; a model's own Go package reads its own fields with the
// Reader of this one.
//
// Guarantee: reading a file ends in bounded time and memory whatever its bytes
// are; a file at fault is never read half: either Err is nil and every value was
// found in the range that its reader asked for, or the error is a Problems that
// lists all that is wrong, each with file, line, column, field, what was found
// and what is wanted.
//
//	doc, err := scenario.ReadFile("pond.yml")
//	r := scenario.NewReader(doc)
//	root := r.Root("width", "fish")
//	width := root.Field("width").Int(scenario.Between(1, 1000))
//	for _, f := range root.Field("fish").List() {
//		s := f.Section("name", "weight")
//		name, weight := s.Field("name").Text(), s.Field("weight").FloatOr(1, scenario.MoreThan(0))
//	}
//	err = r.Err() // Problems, or nil
//
// The YAML itself is read by go.yaml.in/yaml/v3, the maintained continuation of
// gopkg.in/yaml.v3 by the YAML organisation: its node tree keeps line, column,
// style and aliases of every value, which decoding into Go structures loses.
// docs/scenario.md is the page for people who write files.
package scenario

import (
	"fmt"
	"io"
	"math"

	"github.com/disco-sim/disco/external"
	"github.com/disco-sim/disco/node"
)

// Headliner is a Scenario with figures that belong beside the run's own: programs add
// them to the top level of their JSON. Names must not be those of the run.
type Headliner interface {
	Headline() map[string]any
}

// Describer is a Scenario that can say what its events mean, for people who look for a mistake. It is asked in the
// process that leads the run, after Graph.
type Describer interface {
	// DescribeEvent is an event's data in the model's words, in one line.
	DescribeEvent(data []byte) string
}

// Sourcer is a Scenario whose code isn't where its methods are.
type Sourcer interface {
	// SourceFiles is the Go files with the model's code, as the compiler has named them.
	SourceFiles() []string
}

// Ender is a Scenario whose handlers hold what the end of the process alone would free, such as coroutines.
type Ender interface {
	// End frees it. A worker that is a goroutine calls it when it ends, however its run has ended, on its own thread.
	End()
}

// Asker is a Scenario whose handlers ask the outside world (node.Simproc.External).
type Asker interface {
	// Externals are what they ask, the same in every process of a run. The functions are called in workers, which may
	// be on other machines.
	Externals() []external.External
}

// Options are what the command line may change about a scenario.
type Options struct {
	// Horizon is the simulated time at which the run ends, in seconds. 0 takes the
	// file's own. It must be finite and > 0 otherwise.
	Horizon float64

	// Series has the model record how its figures develop over simulated time, where that costs something (Serial).
	// Results don't depend on it, but what handlers save and report does.
	Series bool
}

// Validate reports an option that no scenario can follow.
func (o Options) Validate() error {
	if o.Horizon == 0 || (o.Horizon > 0 && !math.IsInf(o.Horizon, 1)) {
		return nil
	}
	return &OptionError{"horizon", fmt.Sprint(o.Horizon), "a finite number of seconds > 0, or 0 for the file's own"}
}

// AtMost reports a horizon that is longer than a kind allows.
func (o Options) AtMost(seconds float64) error {
	if err := o.Validate(); err != nil || o.Horizon <= seconds {
		return err
	}
	return &OptionError{"horizon", fmt.Sprint(o.Horizon),
		fmt.Sprintf("a number of simulated seconds > 0 and <= %v", seconds)}
}

// OptionError is an option that the scenario can't follow.
type OptionError struct {
	Option      string // its name on the command line
	Found, Want string
}

// Error is the option, what was found and what is wanted.
func (e *OptionError) Error() string {
	return fmt.Sprintf("scenario: %s: found %s, want %s", e.Option, e.Found, e.Want)
}

// Scenario is a model that was read from a file, with what a run needs besides.
type Scenario interface {
	node.Model

	// Name is for people and for the results' "scenario".
	Name() string

	// Horizon is the simulated time at which the run ends: finite, > 0.
	Horizon() float64

	// Accumulate begins the results of a run, in the launcher.
	Accumulate() Accumulator
}

// Accumulator makes a run's results of its replications, one at a time: a run may have
// 100,000 of them. It is used by one goroutine at a time.
type Accumulator interface {
	// Add takes in what a replication has left. Replications come in the order of their
	// indices, whichever ended first; an interrupted run leaves some out. rep.Reports must
	// not be kept, and what is kept should hardly grow with the number of replications:
	// add them up, and where samples are wanted, take those of measure.Groups. An error
	// ends the run.
	Add(rep Replication) error

	// Summary makes the results. It is called at most once, after the last Add, of which
	// there was one.
	Summary() (Summary, error)
}

// Gatherer is an Accumulator that takes the reports of a replication one by one, while others are still made: a run
// with many nodes ends earlier then, and keeps no reports. A launcher may do without, and call Add alone.
type Gatherer interface {
	Accumulator

	// Begin begins a replication, when all before it were added. rep has no Reports yet.
	Begin(rep Replication)

	// Take takes the report of the simproc with a dense id, in any order, and doesn't keep its memory. It isn't
	// called for simprocs without a report. Add with the same Replication, without Reports, follows when all that
	// there are were taken. An error ends the run.
	Take(simproc int, report []byte) error
}

// Reserver is a Gatherer with much memory for what it adds up. The system gives memory when it is first written, and
// takes longer for that than a report takes to be added: Reserve has it given beforehand, while workers simulate.
type Reserver interface {
	Gatherer

	// Reserve writes the next stretch of that memory, for a millisecond or so, and reports whether there is more. It is
	// called before the first Begin, as long as there is nothing else to do; perhaps never, or not to the end.
	Reserve() (more bool)
}

// Checker is a Scenario whose structure has to be worked out before it is known to be good. Check is asked for in the
// process that leads the run, between Load and Graph (GraphOf does that); workers don't need it.
type Checker interface {
	Check() error
}

// GraphOf is a scenario's structure, or what a Checker finds wrong with it.
func GraphOf(s Scenario) (*node.Graph, error) {
	if c, ok := s.(Checker); ok {
		if err := c.Check(); err != nil {
			return nil, err
		}
	}
	return s.Graph(), nil
}

// Tabular is a Scenario whose results are a table as well, which programs write as CSV.
type Tabular interface {
	// Table is the head and the rows, each as long as the head, of what the Accumulator of this scenario has made.
	Table(results Summary) [][]string
}

// Series is how one figure develops over simulated time.
type Series struct {
	Name   string    // of the figure, such as throughput
	Of     string    // the box, link or group that it is about; "" is the whole
	Unit   string    // of the values, such as requests/s; "" is a number
	Edges  []float64 // simulated seconds at which windows begin and end: one more than there are values
	Values []float64 // by window; NaN where there is none
}

// SeriesOfMax is of how many boxes, links and so on, the first in the order of the file, there are time series: those
// of the whole are about all of them.
const SeriesOfMax = 1000

// Serial is a Summary with time series.
type Serial interface {
	Summary

	// Series yields them one by one, always in the same order; none where a model records them only for Options.Series
	// and that wasn't given.
	Series(yield func(*Series) bool)
}

// Recorder is a Scenario whose handlers record what they simulate, thing by thing, where that is asked for
// (node.Simproc.Record): of that come rows, each about a request, say. What is simulated must not depend on it.
type Recorder interface {
	Scenario

	// RecordColumns are those of a row.
	RecordColumns() []RecordColumn

	// Records begins the rows of a replication, which was simulated up to a time.
	Records(reached float64) Records
}

// RecordColumn is a column of what is recorded.
type RecordColumn struct {
	Name string // with its unit, such as waited_s
	Type RecordType

	// NameOf gives the text of a number, 0 or above, where Type is RecordName: always the same.
	NameOf func(number int) string
}

// RecordType is what the values of a column are.
type RecordType uint8

// Types of columns.
const (
	RecordInt RecordType = iota
	RecordNumber
	RecordName // a text that many rows have, given by its number
)

// Records makes rows of what handlers have recorded. Memory should grow with what is under way at a time only.
type Records interface {
	// Take takes what was recorded, in the total order of the calls of handlers, all before the time that was reached,
	// and writes the rows that are known with it. It doesn't keep r.
	Take(r *node.Recorded, w RecordWriter) error

	// End writes the rows of what hasn't ended.
	End(w RecordWriter) error
}

// RecordWriter takes rows: a value for each column that has one, then Row.
type RecordWriter interface {
	Int(column int, x int64)
	Number(column int, x float64)
	Name(column, number int)
	Row() error
}

// Span is a stretch of simulated time in which something was as it isn't usually: an outage, say.
type Span struct {
	Name     string
	From, To float64  // seconds
	Targets  []string // ids of the boxes and links (Drawing) that it was about
}

// Eventful is a Summary that knows when such things happened, in all replications.
type Eventful interface {
	Spans() []Span
}

// Sizer is a Scenario that knows what it takes of the machine's memory, so that a run for which there isn't enough is
// refused before its nodes are made. Memory is asked for after Load and must be cheap.
type Sizer interface {
	Memory() Memory
}

// Memory is what a model takes beside what the engine takes for nodes, links and events.
type Memory struct {
	NodeBytes   int   // of a node's handlers and what they keep, on the worker that hosts it; the mean of all nodes
	ResultBytes int   // of a node's results in the launcher, beyond 240 for each of its simprocs
	Pending     int64 // most events that are pending at a time, of all nodes
	EventBytes  int   // data of one of them
	PackedBytes int64 // of what Packer.Pack writes, about
	WorkerBytes int64 // of what every worker of a packed scenario has of it, whatever it hosts
}

// Noter is a Scenario that has remarks for the person who wrote the file: what is
// allowed there but has no effect, or is probably not meant (Reader.Notes). Programs
// write them to standard error, one a line, and go on.
type Noter interface {
	Notes() []string
}

// Replication is what one repetition of the experiment has left.
type Replication struct {
	Index   int      // 0 … R-1
	Horizon float64  // the horizon asked for
	Reached float64  // simulated time really reached; Horizon unless interrupted
	Reports [][]byte // report of every simproc, by its dense id; nil where none
}

// Summary is a scenario's results: text for people, and encoding/json gives the
// "results" of the JSON output.
type Summary interface {
	WriteText(w io.Writer) error
}

// Streamer is a Summary that may be too large to be made as JSON in memory: programs write it in parts.
type Streamer interface {
	Summary

	// WriteJSON writes the bytes that json.MarshalIndent makes of it. Of an error of w it returns that.
	WriteJSON(w io.Writer, prefix, indent string) error
}

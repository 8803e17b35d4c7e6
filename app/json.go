// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/disco-sim/disco/internal/latency"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/scenario"
)

// document is the JSON output. Names and order of the fields down to Results are promised; further ones may be
// added. It never holds NaN or infinities, which JSON can't express.
type document struct {
	Scenario        string  `json:"scenario"`
	Seed            uint64  `json:"seed"`
	Replications    int     `json:"replications"`
	Workers         int     `json:"workers"`
	Transport       string  `json:"transport"`
	HorizonSeconds  float64 `json:"horizon_s"`
	Events          uint64  `json:"events"`
	WallSeconds     float64 `json:"wall_s"`
	EventsPerSecond float64 `json:"events_per_s"`
	TraceHash       string  `json:"trace_hash"` // empty for an interrupted run
	Results         any     `json:"results"`    // null when nothing was simulated

	SoFar          bool    `json:"so_far,omitempty"`    // the run goes on: results are those of an interruption here
	ReachedSeconds float64 `json:"reached_s,omitempty"` // … in the replication under way, simulated

	Ended           string             `json:"ended"` // horizon, interrupted, memory, partial, or not yet
	Interrupted     bool               `json:"interrupted"`
	File            string             `json:"file"`
	Set             []scenario.Setting `json:"set,omitempty"`          // put into the file, a sweep's point too
	Graph           string             `json:"graph_digest,omitempty"` // of what came of a database
	Version         string             `json:"version"`
	Activations     uint64             `json:"activations"`
	SetupSeconds    float64            `json:"setup_s"`
	Spread          string             `json:"spread"` // nodes, or replications
	Placement       placementRow       `json:"placement"`
	PerReplication  []replicationRow   `json:"per_replication"`
	PerWorker       []workerRow        `json:"per_worker"`
	WorkersWanted   int                `json:"workers_wanted"`
	Processors      int                `json:"processors"` // that the run could use, or --processors
	TuningInEffect  worker.Tuning      `json:"tuning"`
	NumNodes        int                `json:"nodes"`
	NumLinks        int                `json:"links"`
	NumSimprocsEach int                `json:"simprocs_per_node"`
	LatencySeconds  float64            `json:"latency_s,omitempty"` // of a promise between two threads, measured
	Phases          launch.Phases      `json:"phases"`
	Machines        []machineRow       `json:"machines,omitempty"` // of a run over several

	Only    string `json:"only,omitempty"`    // first and last replication that were simulated, where not all were
	Missing []int  `json:"missing,omitempty"` // replications that no part had (merge --partial)

	Checkpoints *savingRow   `json:"checkpoints,omitempty"`
	Resumed     []resumedRow `json:"resumed,omitempty"` // what replications began with, other than their begin
	Variant     *variantRow  `json:"variant,omitempty"` // of a run that goes on from another one's checkpoint

	eventsBefore, callsBefore uint64 // in the run that this one goes on with

	Moves *movesRow `json:"rebalance,omitempty"` // nodes that moved while the run went on

	Recoveries []launch.Recovery `json:"recoveries,omitempty"` // times that the run went back

	Figures   []figureRow `json:"figures,omitempty"`    // of two replications or more: each by itself
	NoFigures []string    `json:"no_figures,omitempty"` // about those of --figure that there aren't

	Warmup *warmupRow `json:"warmup,omitempty"` // that was found (warmup: auto)

	Requirements []requirementRow `json:"requirements,omitempty"` // of --require
	Exports      map[string]any   `json:"exports,omitempty"`      // of merge --export, by the figure's name

	Until *untilRow `json:"until,omitempty"` // what came of --until

	Speedup    *float64    `json:"speedup_vs_sequential,omitempty"` // with --compare: the median of the rounds
	Comparison *comparison `json:"compare,omitempty"`
}

// placementRow is about the workers that simulate a replication together.
type placementRow struct {
	Partition string  `json:"partition"`   // method of the placement
	Balance   float64 `json:"balance"`     // expected work of the busiest worker over the mean
	Cut       float64 `json:"cut"`         // share of the expected traffic between workers
	Lookahead float64 `json:"lookahead_s"` // least lookahead between workers, on a cycle; 0: none

	// Predicted from the scenario's rates; 0: not known.
	Rounds   float64 `json:"predicted_rounds_per_event"` // rounds of promises between workers
	Slowdown float64 `json:"predicted_slowdown"`         // time over that of one worker
	Saved    float64 `json:"predicted_saved"`            // time over this if empty workers had nodes too; 1: none is
}

type replicationRow struct {
	Replication     int     `json:"replication"`
	ReachedSeconds  float64 `json:"reached_s"`
	Interrupted     bool    `json:"interrupted"`
	Events          uint64  `json:"events"`
	Activations     uint64  `json:"activations"`
	WallSeconds     float64 `json:"wall_s"`
	EventsPerSecond float64 `json:"events_per_s"`
	TraceHash       string  `json:"trace_hash"`
}

type workerRow struct {
	Worker int    `json:"worker"`
	Nodes  int    `json:"nodes"`
	Events uint64 `json:"events"`
	worker.Stats

	// Coupling is what this worker has to do while the simulated time moves by the lookahead, in units of the
	// latency of a promise; 0: not known, or no worker waits.
	Coupling float64 `json:"coupling,omitempty"`
}

// jsonIndent is that of all JSON output.
const jsonIndent = "  "

// writeJSON writes the document of one run.
func (p *program) writeJSON(o *order, l *launch.Launch, d *document) error {
	j, err := newJSON(l, d)
	if err != nil {
		return err
	}
	return p.write("--json", o.json, j.writeTo)
}

// jsonText is a document as JSON: a text, and where there are results that are written in parts these and what follows
// them.
type jsonText struct {
	before, after []byte
	results       scenario.Streamer
}

func (j *jsonText) writeTo(w io.Writer) error {
	if _, err := w.Write(j.before); err != nil || j.results == nil {
		return err
	}
	if err := j.results.WriteJSON(w, jsonIndent, jsonIndent); err != nil {
		return err
	}
	_, err := w.Write(j.after)
	return err
}

// newJSON is the document of one run.
func newJSON(l *launch.Launch, d *document) (*jsonText, error) {
	results, streamed := d.Results.(scenario.Streamer)
	if streamed {
		d.Results = nil
	}
	text, err := encode(d)
	if err != nil {
		return nil, err
	}
	if h, ok := l.Scenario().(scenario.Headliner); ok {
		headline, err := encode(h.Headline())
		if err != nil {
			return nil, err
		}
		// One object out of two: neither is empty.
		text = append(append(bytes.TrimSuffix(text, []byte("\n}\n")), ','), headline[1:]...)
	}
	if !streamed {
		return &jsonText{before: text}, nil
	}
	// A line's end stands in no text of JSON, so this is the field itself.
	const field = "\n" + jsonIndent + `"results": `
	before, after, ok := bytes.Cut(text, []byte(field+"null"))
	if !ok {
		panic("app: a document without results")
	}
	d.Results = results
	return &jsonText{before: append(before, field...), results: results, after: after}, nil
}

// write writes an output to a file, whole or not at all, or to standard output.
func (p *program) write(flag, path string, writeTo func(io.Writer) error) error {
	if path == "-" {
		if err := writeTo(p.stdout); p.stdout.failed() == nil { // Run reports its errors
			return jsonError(err)
		}
		return nil
	}
	file, err := outfile.Create(path)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	if err := writeTo(file); err != nil {
		file.Abort()
		if number := (*json.UnsupportedValueError)(nil); errors.As(err, &number) {
			return jsonError(err)
		}
		return fmt.Errorf("%s: %s can't be written: %w", flag, path, err)
	}
	if err := file.Commit(); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}

// encode gives the text of a document. Numbers that JSON can't express can only be in the model's own results.
func encode(d any) ([]byte, error) {
	text, err := json.MarshalIndent(d, "", jsonIndent)
	if err != nil {
		return nil, jsonError(err)
	}
	return append(text, '\n'), nil
}

// jsonError is the error about a number that JSON can't express; nil stays nil.
func jsonError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the model's results can't be written as JSON: %w: its numbers must be finite", err)
}

func newDocument(o *order, l *launch.Launch, out *launch.Outcome) *document {
	d := &document{
		Scenario:       l.Scenario().Name(),
		Seed:           o.config.Seed,
		Replications:   o.config.Replications,
		Workers:        l.Workers(),
		Transport:      l.Transport(),
		HorizonSeconds: l.Scenario().Horizon(),
		Events:         out.Events,
		WallSeconds:    out.WallSeconds,
		TraceHash:      out.TraceHash,
		Ended:          "horizon",
		Interrupted:    out.Interrupted,
		File:           o.file,
		Set:            l.Set(),
		Graph:          l.GraphDigest(),
		Version:        Version(),
		Activations:    out.Activations,
		SetupSeconds:   out.SetupSeconds,
		Phases:         out.Phases,
		Machines:       machinesOf(l),
		Spread:         l.Spread(),
		Placement: placementRow{string(l.Partition()), finite(l.Placement().Balance()), finite(l.Placement().Cut),
			finite(l.Placement().Lookahead), finite(l.Placement().Rounds), finite(l.Placement().Slowdown),
			finite(l.Placement().Saved)},
		WorkersWanted:   o.config.Workers,
		Processors:      l.Processors(),
		TuningInEffect:  l.Tuning(),
		NumNodes:        l.Structure().NumNodes(),
		NumLinks:        l.Structure().NumLinks(),
		NumSimprocsEach: len(l.Structure().Simprocs()),
		PerReplication:  []replicationRow{},
	}
	if out.Summary != nil {
		d.Results = out.Summary
	}
	if d.Checkpoints = o.saving.row(out.Checkpoints); d.Checkpoints != nil && o.saving.resumed != nil {
		d.Resumed = o.saving.resumed.rows()
	}
	d.Recoveries, d.Moves = out.Recoveries, newMovesRow(out.Moves)
	d.Warmup = o.warmup
	if d.Until = o.until.row(o.config.Replications); d.Until != nil {
		d.Replications = len(out.Replications) // as though so many had been asked for
	}
	d.Variant = cmp.Or(o.whatIf.row(l.Scenario()), o.merging.variant(l.Scenario()))
	d.end(o, out)
	for _, r := range out.Replications {
		before, calls := o.savedBefore(r.Index)
		d.eventsBefore, d.callsBefore = d.eventsBefore+before, d.callsBefore+calls
		d.PerReplication = append(d.PerReplication, replicationRow{
			r.Index, finite(r.Reached), r.Interrupted, r.Events, r.Activations, r.WallSeconds,
			perSecond(r.Events-min(before, r.Events), r.WallSeconds), r.TraceHash,
		})
	}
	d.EventsPerSecond = perSecond(out.Events-min(d.eventsBefore, out.Events), out.WallSeconds)
	for _, w := range out.Workers {
		d.PerWorker = append(d.PerWorker, workerRow{Worker: w.Worker, Nodes: w.Nodes, Events: w.Events, Stats: w.Stats})
	}
	return d
}

// end fills in how the run has ended, and which of its replications it is about.
func (d *document) end(o *order, out *launch.Outcome) {
	if only := o.config.Only; only != nil {
		d.Only, d.Replications = fmt.Sprintf("%d-%d", only.First, only.Last), 1+only.Last-only.First
	}
	switch {
	case !out.Interrupted:
	case o.merging != nil:
		d.Ended, d.Interrupted, d.Missing, d.Replications = "partial", false, o.merging.missing, len(out.Replications)
	case out.Full:
		d.Ended = "memory"
	default:
		d.Ended = "interrupted"
	}
}

// savedBefore is what had happened in a replication before this run went on with it: events, and calls of handlers.
func (o *order) savedBefore(replication int) (events, calls uint64) {
	if from := o.config.Resume; from != nil && replication < len(from.From) && from.From[replication] != nil {
		m := from.From[replication]
		return m.Events, m.Activations
	}
	return 0, 0
}

// couple measures the latency and computes the workers' coupling, where workers wait for each other.
func (d *document) couple(l *launch.Launch, out *launch.Outcome) error {
	lookahead := finite(l.Placement().Lookahead)
	if l.Spread() == launch.SpreadReplications || len(d.PerWorker) < 2 || lookahead == 0 {
		return nil
	}
	var err error
	if d.LatencySeconds, err = latency.Measure(); err != nil {
		return fmt.Errorf("the latency can't be measured: %w", err)
	}
	simulated := 0.0
	for _, r := range out.Replications {
		simulated += r.Reached
	}
	for i := range d.PerWorker {
		w := &d.PerWorker[i]
		w.Coupling = latency.Coupling(lookahead, float64(w.Events)/simulated, d.LatencySeconds,
			float64(w.Events)/w.WorkingSeconds)
	}
	return nil
}

// finite replaces by 0 what JSON can't express.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

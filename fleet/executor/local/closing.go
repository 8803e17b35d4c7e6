// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/internal/infile"
)

// partsList is the file of a closing job that lists the directories of the parts, one a line.
const partsList = "parts.txt"

// stepClosing is the step of errors about a closing job.
const stepClosing = "putting parts together"

// exitUnmet is the exit status of results that aren't as they are to be.
const exitUnmet = 3

// prepareParts brings the parts of a closing job to this machine.
func (l *Local) prepareParts(ctx context.Context, j *executor.Job) error {
	dir := l.folder(j)
	var places []string
	for _, p := range j.Pieces() {
		places = append(places, j.PlaceOf(p))
	}
	var err error
	if l.o.Bring != nil {
		places, err = l.o.Bring(ctx, j, filepath.Join(dir, "parts"))
		if err != nil && j.OwnPlace {
			err = &executor.OwnError{Why: err}
		}
	}
	if len(j.Closing.Sweep) > 0 {
		for i, p := range j.Pieces()[:len(places)] {
			places[i] = strconv.Itoa(p.Point) + "\t" + places[i]
		}
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, "scenario"), 0o700) // where a process is started
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, partsList), []byte(strings.Join(places, "\n")+"\n"), 0o600)
	}
	if err != nil {
		return fmt.Errorf("local: the parts of step %d of %s: %w", j.Attempt.Step, j.Experiment, err)
	}
	return nil
}

// close is the attempt at a closing piece, from its begin to its end.
func (r *run) close() executor.Outcome {
	began := time.Now()
	dir := r.l.folder(r.job)
	var records []string
	if r.job.Closing.InFull { // they can't be left out
		records = []string{"--records", "--out", filepath.Join(dir, "out")}
	}
	state, err := r.process1(slices.Concat([]string{"merge", "--parts", filepath.Join(dir, partsList), "--progress",
		"json", "--json", filepath.Join(dir, "result.json")}, r.job.Closing.MergeArgs(), records))
	if left := r.endRest(); left != nil {
		return r.failed(fleet.ErrorMachine, stepEnding, left.Error())
	}
	switch {
	case err == nil && state != nil && state.ExitCode() == 0:
		return r.closed(began)
	case err == nil && state != nil && state.ExitCode() == exitUnmet && !r.wasStopped():
		text := r.lastLines()
		if failed := r.output.failure(); failed != nil {
			text = failed.Text
		}
		return r.failed(fleet.ErrorRequire, stepClosing, text)
	}
	out, again := r.outcomeOf(state, err, began)
	if again != "" { // nobody writes to places whose parts are whole
		return r.failed(fleet.ErrorMachine, stepClosing, again)
	}
	return out
}

// closingPoint is what is read of the results of merge about a point.
type closingPoint struct {
	Hash    string         `json:"trace_hash"`
	Events  uint64         `json:"events"`
	Point   map[string]any `json:"point"`
	Exports map[string]any `json:"exports"`
}

// closingResults are what is read of the results of merge: those of a sweep have a row for each point.
type closingResults struct {
	closingPoint
	Rows []closingPoint `json:"rows"`
}

// found is what a point exports, with the settings of its sweep.
func (p *closingPoint) found() fleet.Found {
	all := fleet.Found{}
	maps.Copy(all, p.Exports)
	for key, x := range p.Point {
		if yes, is := x.(bool); is {
			x = strconv.FormatBool(yes)
		}
		all[key] = x
	}
	return all
}

// closed reads the results of a step.
func (r *run) closed(began time.Time) executor.Outcome {
	text, err := infile.Read(filepath.Join(r.l.folder(r.job), "result.json"), resultsKind)
	var found closingResults
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	points := []fleet.Found{found.found()}
	if len(found.Rows) > 0 {
		points = nil
		all := sha256.New()
		for i := range found.Rows {
			row := &found.Rows[i]
			points = append(points, row.found())
			fmt.Fprintln(all, row.Hash)
			found.Events += row.Events
		}
		found.Hash = hex.EncodeToString(all.Sum(nil))
	}
	if err == nil && found.Hash == "" {
		err = errors.New("there is no trace hash among them")
	}
	if err != nil {
		return r.failed(fleet.ErrorMachine, stepClosing, fmt.Sprintf("the parts were put together, but the results "+
			"can't be read: %v", err))
	}
	outputs, texts, err := r.job.Closing.Outputs(points)
	if err != nil { // it would be so on any machine
		return r.failed(fleet.ErrorModel, stepClosing, err.Error())
	}
	return executor.Outcome{Kept: &fleet.Kept{Hash: found.Hash, Events: found.Events,
		Wall: time.Since(began).Seconds()}, Outputs: outputs, Texts: texts}
}

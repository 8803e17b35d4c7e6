// SPDX-License-Identifier: Apache-2.0

// Package submission is what a program that simulates hands over to the program that submits: a scenario that it has
// read and checked as a run would, with the files that it refers to, and the points of its sweep.
//
// Guarantee: what Read returns is what Write was given, whole, or an error; no file is read beyond its bounds.
//
// The one that submits has no models, and the one that simulates has no clients of stores.
package submission

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/disco-sim/disco/internal/infile"
)

// Command is what a program calls itself to check a scenario for whoever submits it; Into is the flag with the folder.
// Named is the name of a scenario that was read from a pipe, and comes from standard input.
const (
	Command = "submission"
	Into    = "into"
	Named   = "named"

	// EndsOnly is among the arguments of a model that can't be saved; Ends is the flag that says so beforehand.
	EndsOnly = "--checkpoint-ends"
	Ends     = "ends"
)

// Bounds, which leave room for the submission's own.
const (
	textMax     = AttachedMax
	manifestMax = 64 << 20
	filesMax    = 1000
)

// Bounds of what travels to the machines of a fleet.
const (
	FileMax     = 8 << 20  // bytes of a file
	AttachedMax = 64 << 20 // of all files that a scenario refers to
)

// Submission is a scenario, checked at each point.
type Submission struct {
	File         string     `json:"file"` // the scenario's, as it was named: - for standard input
	Args         []string   `json:"args"` // of run
	Sweep        []string   `json:"sweep"`
	Points       [][]string `json:"points"`            // settings KEY=VALUE
	Until        []string   `json:"until,omitempty"`   // as --until has it: Replications are then the most
	Figures      []string   `json:"figures,omitempty"` // that are to be known of each replication, beside those
	Replications int        `json:"replications"`
	Workers      int        `json:"workers"`
	Horizon      float64    `json:"horizon_s,omitempty"` // of the first point
	Files        []string   `json:"files"`               // names of what the scenario refers to

	Text     []byte   `json:"-"`
	Attached [][]byte `json:"-"` // by file
}

// manifest is the file of what isn't a file of its own.
const manifest = "submission.json"

func textPath(dir string) string            { return filepath.Join(dir, "text") }
func attachedPath(dir string, i int) string { return filepath.Join(dir, strconv.Itoa(i)) }

// Write writes a submission into a folder that is there and empty. The manifest comes last.
func Write(dir string, s *Submission) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	errs := []error{os.WriteFile(textPath(dir), s.Text, 0o600)}
	for i, data := range s.Attached {
		errs = append(errs, os.WriteFile(attachedPath(dir, i), data, 0o600))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifest), text, 0o600)
}

// Read reads what Write has written.
func Read(dir string) (*Submission, error) {
	text, err := infile.Read(filepath.Join(dir, manifest),
		infile.Kind{Name: "a checked scenario", BytesMax: manifestMax})
	if err != nil {
		return nil, err
	}
	s := &Submission{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s: %w", manifest, err)
	}
	if len(s.Files) > filesMax {
		return nil, fmt.Errorf("the scenario refers to %d files, at most %d can be submitted", len(s.Files), filesMax)
	}
	if s.Text, err = infile.Read(textPath(dir), infile.Kind{Name: "a scenario", BytesMax: textMax}); err != nil {
		return nil, err
	}
	for i := range s.Files {
		data, err := infile.Read(attachedPath(dir, i), infile.Kind{Name: "a file of a scenario", BytesMax: textMax})
		if err != nil {
			return nil, err
		}
		s.Attached = append(s.Attached, data)
	}
	return s, nil
}

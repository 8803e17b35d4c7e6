// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"

	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/node"
)

// scratch is the file of nodes that have left memory (Tuning.Resident). It has no name, so nothing is left of it
// however the worker ends.
type scratch struct {
	file *os.File
	dir  string
}

// CollectPercent is by how much a heap may grow beyond what is in use before garbage is collected (GOGC), where memory
// is short: what nodes that leave it have left behind is garbage.
const CollectPercent = 25

// openScratch opens it where the kernel keeps files on a disk; nil: it isn't wanted.
func openScratch(setup *Setup) (*scratch, error) {
	if setup.Tuning.Resident == 0 {
		return nil, nil
	}
	dir, err := outfile.ScratchDir()
	if err != nil {
		return nil, noScratch(err)
	}
	s := &scratch{dir: dir}
	if s.file, err = outfile.Temporary(dir); err != nil {
		return nil, noScratch(outfile.Error(dir, err))
	}
	if !setup.OneProcess && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(CollectPercent)
	}
	return s, nil
}

func noScratch(err error) error {
	return &wrongError{fmt.Errorf("worker: a file for nodes that leave memory: %w", &placeError{err})}
}

// WriteAt implements node.StateFile.
func (s *scratch) WriteAt(b []byte, at int64) (int, error) {
	n, err := s.file.WriteAt(b, at)
	return n, s.error(err)
}

// ReadAt implements node.StateFile.
func (s *scratch) ReadAt(b []byte, at int64) (int, error) {
	n, err := s.file.ReadAt(b, at)
	return n, s.error(err)
}

// error names the folder, because the file has no name.
func (s *scratch) error(err error) error {
	var system *fs.PathError
	if !errors.As(err, &system) {
		return err
	}
	return fmt.Errorf("temporary file in %s: %w (TMPDIR names another folder; with a larger --resident fewer nodes "+
		"leave memory)", s.dir, system.Err)
}

// resident is what a new Engine's nodes may take of memory: this worker's part of what all of them may; nil: no bound.
func (s *scratch) resident(bytes int64, plan *node.Plan) *node.Resident {
	if s == nil {
		return nil
	}
	share := float64(bytes) * float64(plan.NumHosted()) / float64(plan.NumSimprocs())
	return &node.Resident{Bytes: max(int64(share), 1), File: s}
}

// empty takes away what the last replication has left.
func (s *scratch) empty() error {
	if s == nil {
		return nil
	}
	return s.error(s.file.Truncate(0))
}

func (s *scratch) close() error {
	if s == nil {
		return nil
	}
	return s.file.Close()
}

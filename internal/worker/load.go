// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/node"
)

// resume is what a replication begins with: the bundle that the launcher has written to the worker's file before
// Prepare. It has all nodes of this worker, and perhaps others.
func resume(p *Prepare, from *os.File, nodes int) *node.Resume {
	return &node.Resume{Epoch: p.Epoch, Fresh: p.Varied && p.Replication > 0, Varied: p.Varied,
		Each: func(load, pending func(n int, encoded []byte) error) error {
			if from == nil {
				return errors.New("worker: a saved state is to be loaded, but no file came with setup")
			}
			info, err := from.Stat()
			if err != nil {
				return fmt.Errorf("worker: file with the saved state: %w", err)
			}
			return checkpoint.ReadBundle(io.NewSectionReader(from, 0, info.Size()), int64(nodes),
				func(c checkpoint.Chunk, data []byte) error {
					switch c.Kind {
					case checkpoint.Nodes:
						return checkpoint.EachNode(&c, data, load)
					case checkpoint.Pending:
						return checkpoint.EachNode(&c, data, pending)
					}
					return fmt.Errorf("worker: found a chunk of kind %v in the saved state, want %v or %v", c.Kind,
						checkpoint.Nodes, checkpoint.Pending)
				})
		}}
}

// errWrong is what errors unwrap to that are about what was asked for, not about a defect.
var errWrong = errors.New("worker: wrong use")

// wrongError is an error that unwraps to errWrong and has its own text.
type wrongError struct{ err error }

func (e *wrongError) Error() string   { return e.err.Error() }
func (e *wrongError) Unwrap() []error { return []error{errWrong, e.err} }

// wrongUse says what to do about an Engine that can't be made of what is to be saved and loaded; of a run that does
// neither, errors are a model's.
func (r *replications) wrongUse(err error, restores bool) error {
	var none *node.NoStateError
	unsaved := errors.As(err, &none)
	if text := r.unsavedRuns(restores); unsaved && text != "" {
		err = fmt.Errorf("%w; %s, the model runs as it is", err, text)
	}
	saves := r.saver != nil || r.moves != nil || r.scratch != nil
	if unsaved || saves && !errors.Is(err, node.ErrModel) {
		return &wrongError{err}
	}
	return err
}

// unsavedRuns says by which flags a model runs whose handlers can't be saved; "": none are known. A run that goes on
// with a state has no such way.
func (r *replications) unsavedRuns(restores bool) string {
	if restores {
		return ""
	}
	var flags []string
	if r.scratch != nil {
		flags = append(flags, "without --resident")
	}
	if r.moves != nil {
		flags = append(flags, "without --rebalance")
	}
	if r.saver != nil {
		flags = append(flags, "with --checkpoint-ends, which keeps the end of each replication and no checkpoints")
	}
	return strings.Join(flags, " and ")
}

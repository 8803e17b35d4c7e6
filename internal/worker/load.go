// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"io"
	"os"

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
func wrongUse(err error, saves, leaves bool) error {
	var none *node.NoStateError
	switch {
	case errors.As(err, &none) && leaves:
		return &wrongError{fmt.Errorf("%w, or run it without --resident and without checkpoints", err)}
	case errors.As(err, &none):
		return &wrongError{fmt.Errorf("%w, or run it without checkpoints", err)}
	case (saves || leaves) && !errors.Is(err, node.ErrModel):
		return &wrongError{err}
	}
	return err
}

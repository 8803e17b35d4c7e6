// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"os"

	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/shm"
)

// IsWorker reports whether a launcher started this process as a worker. Then Serve is
// all that it has to do.
func IsWorker() bool { return workerproc.IsWorker() }

// Serve runs a worker process, from what its launcher handed it to its exit status. The kinds must be those of the
// launcher.
func Serve(reg scenario.Registry) int {
	if err := serve(reg); err != nil {
		// The launcher has received the error and shows it, unless it is gone.
		return 1
	}
	return 0
}

func serve(reg scenario.Registry) error {
	files, control, err := workerproc.Inherit()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return err
	}
	stop, err := startProfile(os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return err
	}
	defer stop()
	// Nothing is closed when a model panics: its worker's other threads run on until the
	// process has written why it ends.
	a := &attached{files: files}
	err = worker.Serve(control, reg, a.attach)
	a.close()
	return err
}

// attached is what a worker process has mapped.
type attached struct {
	files    []*os.File
	segments []*shm.Segment
	trace    *os.File
}

// attach maps what was handed over, in the order of memory.files. Files of segments
// are closed as soon as they are mapped.
func (a *attached) attach(setup *worker.Setup) (worker.Segments, *os.File, error) {
	plan, err := worker.SegmentLayout(setup.Workers, setup.Tuning)
	if err != nil {
		return worker.Segments{}, nil, err
	}
	n, self := setup.Workers, setup.Worker
	want := 2*n + 2*(n-1)
	if setup.Trace != "" {
		want++
	}
	if len(a.files) != want {
		return worker.Segments{}, nil, fmt.Errorf("launch: worker %d of %d was handed %d descriptors, want %d",
			self, n, len(a.files), want)
	}
	s := worker.Segments{
		Boards: make([]*shm.Segment, n), Pools: make([]*shm.Segment, n),
		Out: make([]*shm.Segment, n), In: make([]*shm.Segment, n),
	}
	for w := range n {
		want := shm.Want{ReadOnly: w != self}
		if want.ReadOnly {
			want.WritableBytes = worker.BoardShared()
		}
		s.Boards[w], err = a.next(err, plan.Board, want)
	}
	for w := range n {
		s.Pools[w], err = a.next(err, plan.Pool, shm.Want{ReadOnly: w != self})
	}
	for _, lanes := range [][]*shm.Segment{s.Out, s.In} {
		for w := range n {
			if w != self {
				lanes[w], err = a.next(err, plan.Lane, shm.Want{})
			}
		}
	}
	if err != nil {
		return worker.Segments{}, nil, err
	}
	if setup.Trace != "" {
		a.trace, a.files = a.files[0], nil
	}
	return s, a.trace, nil
}

// next maps the next file, unless an earlier one failed.
func (a *attached) next(before error, cfg shm.Config, want shm.Want) (*shm.Segment, error) {
	if before != nil {
		return nil, before
	}
	f := a.files[0]
	a.files = a.files[1:]
	want.Kind, want.Size = cfg.Kind, cfg.Size
	s, err := shm.Attach(f, want)
	if err != nil {
		return nil, fmt.Errorf("launch: segment %s: %w", cfg.Name, errors.Join(err, f.Close()))
	}
	a.segments = append(a.segments, s)
	return s, f.Close()
}

// close frees everything. The worker must not use it any more.
func (a *attached) close() {
	// The process is about to end, which frees what Close can't.
	_ = closeAll(a.segments)
	for _, f := range a.files {
		f.Close()
	}
	if a.trace != nil {
		a.trace.Close()
	}
}

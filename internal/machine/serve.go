// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"fmt"
	"os"

	"github.com/disco-sim/disco/internal/selfprofile"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/shm"
)

// Serve runs a worker process (workerproc.IsWorker), from what it was handed to its exit status. The kinds must be
// those of the launcher.
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
	files, stop, err := startProfile(os.Args[2:], files)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return err
	}
	defer stop()
	defer selfprofile.Serve()()
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
	own      []*os.File // that the worker reads and writes
}

// attach maps what was handed over, in the order of Memory.files. Files of segments
// are closed as soon as they are mapped.
func (a *attached) attach(setup *worker.Setup) (worker.Segments, worker.Files, error) {
	plan, err := worker.SegmentLayout(setup.Workers, setup.Tuning)
	if err != nil {
		return worker.Segments{}, worker.Files{}, err
	}
	n, self := setup.Workers, setup.Worker
	if err := checkListed(setup); err != nil {
		return worker.Segments{}, worker.Files{}, err
	}
	want := 1 + n + len(setup.Pools) + len(setup.Out) + len(setup.In) + setup.NumFiles()
	if len(a.files) != want {
		return worker.Segments{}, worker.Files{}, fmt.Errorf("machine: worker %d of %d was handed %d "+
			"descriptors, want %d", self, n, len(a.files), want)
	}
	input, err := a.input()
	s := worker.Segments{
		Input:  input,
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
	for _, w := range setup.Pools {
		s.Pools[w], err = a.next(err, plan.Pool, shm.Want{ReadOnly: int(w) != self, Partial: true})
	}
	for _, l := range setup.Out {
		s.Out[l.Peer], err = a.nextLane(err, &plan, l)
	}
	for _, l := range setup.In {
		s.In[l.Peer], err = a.nextLane(err, &plan, l)
	}
	if err != nil {
		return worker.Segments{}, worker.Files{}, err
	}
	files := worker.Files{}
	a.own, a.files = a.files, nil
	return s, files, files.Take(setup, a.own)
}

// input maps and reads the input. It stays mapped until the worker has ended, because what its model
// has read may point into it.
func (a *attached) input() (*worker.Input, error) {
	s, err := a.next(nil, shm.Config{Name: "disco-input", Kind: worker.KindInput}, shm.Want{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	return worker.ReadInput(s.Body())
}

// checkListed refuses lists of segments that don't rise, or name workers that there aren't: one named twice would
// take the place of the first, which nobody would unmap, and a lane to oneself would wait for itself.
func checkListed(setup *worker.Setup) error {
	for _, list := range []struct {
		of    string
		peers []int32
		own   bool // this worker's own may be among them
	}{
		{"pools", setup.Pools, true}, {"lanes to peers", peersOf(setup.Out), false},
		{"lanes from peers", peersOf(setup.In), false},
	} {
		next := int32(0)
		for i, w := range list.peers {
			if w < next || int(w) >= setup.Workers || int(w) == setup.Worker && !list.own {
				return fmt.Errorf("machine: worker %d of %d was handed %s of workers %v: number %d of them is out of "+
					"place, want numbers that rise, 0 to %d", setup.Worker, setup.Workers, list.of, list.peers, i,
					setup.Workers-1)
			}
			next = w + 1
		}
	}
	return nil
}

func peersOf(lanes []worker.LaneSize) []int32 {
	peers := make([]int32, len(lanes))
	for i, l := range lanes {
		peers[i] = l.Peer
	}
	return peers
}

// nextLane maps the next file as a lane.
func (a *attached) nextLane(before error, plan *worker.Layout, l worker.LaneSize) (*shm.Segment, error) {
	cfg, err := plan.LaneOf(l.RingBytes)
	return a.next(errors.Join(before, err), cfg, shm.Want{})
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
		return nil, fmt.Errorf("machine: segment %s: %w", cfg.Name, errors.Join(err, f.Close()))
	}
	a.segments = append(a.segments, s)
	return s, f.Close()
}

// close frees everything. The worker must not use it any more.
func (a *attached) close() {
	// The process is about to end, which frees what Close can't.
	_ = closeAll(a.segments)
	for _, f := range append(a.files, a.own...) {
		f.Close()
	}
}

func closeAll(segments []*shm.Segment) error {
	var errs []error
	for _, s := range segments {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

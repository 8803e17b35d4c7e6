// SPDX-License-Identifier: Apache-2.0

// Package agent is the fleet's side of a member of the cluster: what its servers do when the leader asks them for the
// partitions of a piece.
//
// Guarantee: an attempt is started only where the store says that it counts, and that its gang is this machine's. Its
// end is in a report before its servers are free, and stays there until the leader has taken it. A server that has
// given an attempt up has no process of it.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/internal/circuit"
	"github.com/disco-sim/disco/internal/table"
)

// Store is what an agent reads and writes: a *fleet.Client.
type Store interface {
	Show(ctx context.Context, id string) (*fleet.Experiment, error)
	Piece(ctx context.Context, id string, p fleet.PieceID) (fleet.PieceAt, error)
	PutReport(ctx context.Context, member, id string, p fleet.PieceID, r fleet.Report) error
	PutLog(ctx context.Context, id string, a fleet.AttemptID, text []byte) error
	PutVitals(ctx context.Context, member string, v fleet.Vitals) error
}

var _ Store = (*fleet.Client)(nil)

// Options are what an agent works with.
type Options struct {
	Member   string // its name in the cluster
	Store    Store
	Executor executor.Executor // closed by Close

	// Place gives the address where a piece's part and checkpoints are kept.
	Place func(spec *fleet.Spec, p fleet.PieceID) string

	// Runs are those over several machines that this one takes. nil: it has no part of gangs of several machines.
	Runs Runs

	Progress time.Duration // between two reports of an attempt that runs; 1 s if 0
	Log      time.Duration // between two writings of its log; 5 s if 0
	Sweep    time.Duration // between two sweeps of the executor; 120 s if 0
	Vitals   time.Duration // between two looks at how the machine is; fleet.VitalsEvery if 0

	Ways   Ways              // to other machines; nil: they aren't measured
	Labels map[string]string // of this machine, by which those are chosen that are measured where there are many
	Pairs  time.Duration     // between two measurements, on average; 5 s if 0
	// Trouble is why the store isn't asked now; nil: nobody knows, or it is.
	Trouble func() error
	Report  func(err error)  // gets what goes wrong where no caller waits; any goroutine calls it
	Now     func() time.Time // for people; time.Now if nil
}

// Runs are the runs over several machines that a machine takes.
type Runs interface {
	// End returns when nothing is left here of the run of a name, which has some time to end by itself.
	End(ctx context.Context, name string) error
}

// Agent is that of one member. Any goroutine may call its methods.
type Agent struct {
	o       Options
	closed  context.Context // ends with Close
	cancel  context.CancelFunc
	waiters sync.WaitGroup // goroutines of attempts, and the one that sweeps

	starts circuit.Circuit // whether the executor starts what it is given

	trouble   string // the store's last, and when; of the goroutine that writes vitals
	troubleAt time.Time

	ways      *waysTable
	vitalsNow chan chan struct{} // has vitals written, and what it gets closed then

	mu    sync.Mutex
	hosts map[cluster.Assignment]*server // which server has which partition
	works map[attemptName]*work          // what the executor has
}

// attemptName is by what an executor knows an attempt.
type attemptName struct{ experiment, replication string }

// New makes an agent, which sweeps from then on until Close.
func New(o Options) *Agent {
	o.Progress, o.Log = cmp.Or(o.Progress, time.Second), cmp.Or(o.Log, 5*time.Second)
	o.Sweep = cmp.Or(o.Sweep, 120*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	a := &Agent{o: o, hosts: map[cluster.Assignment]*server{}, works: map[attemptName]*work{},
		ways: newWaysTable(o.Member), vitalsNow: make(chan chan struct{})}
	a.closed, a.cancel = context.WithCancel(context.Background())
	a.o.Vitals = cmp.Or(a.o.Vitals, fleet.VitalsEvery)
	a.waiters.Go(a.sweep)
	a.waiters.Go(a.sendVitals)
	if a.o.Pairs = cmp.Or(o.Pairs, waysEvery); o.Ways != nil {
		a.waiters.Go(a.measureWays)
	}
	return a
}

// sweep ends from time to time what nobody owns.
func (a *Agent) sweep() {
	tick := time.NewTicker(a.o.Sweep)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-a.closed.Done():
			return
		}
		ended, err := a.o.Executor.Sweep(a.closed)
		switch {
		case a.closed.Err() != nil:
			return
		case err != nil:
			a.o.Report(err)
		case ended > 0:
			a.o.Report(fmt.Errorf("ended %s of attempts that no server of %s has",
				table.Plural(ended, "process"), a.o.Member))
		}
	}
}

// Close ends all attempts and the executor. The member should have left, so that its servers have given up what they
// had.
func (a *Agent) Close(ctx context.Context) error {
	a.cancel()
	err := a.o.Executor.Close(ctx)
	a.waiters.Wait()
	return err
}

// Runner makes what does the work of a slot, for cluster.Options.
func (a *Agent) Runner(_ int, r *cluster.Reporter) cluster.Runner {
	return &server{a: a, ended: r.Ended}
}

// ErrOld is the error about an assignment that isn't the piece's present attempt.
var ErrOld = errors.New("the store says that this attempt doesn't count")

// attempt is what an assignment names.
func attempt(as cluster.Assignment) (a fleet.AttemptID, err error) {
	return fleet.ParseAttemptID(as.Replication)
}

// job makes the job of an attempt, if that counts. final: the error would be the same on any machine.
func (a *Agent) job(ctx context.Context, w *work) (final bool, err error) {
	as, id := w.as, w.id
	p, err := a.o.Store.Piece(ctx, as.Experiment, id.PieceID)
	if err != nil {
		return false, err
	}
	if p.Attempt != id.Attempt || !p.State.Holds() || len(p.Gang) == 0 || p.Gang[0].Member != a.o.Member {
		return false, fmt.Errorf("%w: %s: found attempt %d, %v, of %v", ErrOld, as.String(), p.Attempt, p.State,
			p.Gang)
	}
	e, err := a.o.Store.Show(ctx, as.Experiment)
	if err != nil {
		return errors.Is(err, fleet.ErrGone), err
	}
	if e.Spec == nil {
		return true, errors.Join(e.Malformed...)
	}
	j, err := executor.NewJob(e.Spec, id, a.o.Place(e.Spec, id.PieceID))
	if err != nil {
		return true, err
	}
	if final, err := a.fillIn(ctx, e.Spec, &p.Piece, j); err != nil {
		return final, err
	}
	j.Machines = machines(p.Gang)
	if len(j.Machines) > 0 && a.o.Runs == nil {
		return false, fmt.Errorf("the gang of piece %v has servers of %d machines, and this one takes no runs "+
			"over several: want --listen", id.PieceID, len(j.Machines))
	}
	w.job = j
	return false, nil
}

// host notes which server has a partition.
func (a *Agent) host(as cluster.Assignment, s *server) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hosts[as] = s
}

// leave is host's end, unless another server has the partition by now.
func (a *Agent) leave(as cluster.Assignment, s *server) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hosts[as] == s {
		delete(a.hosts, as)
	}
}

// endAll says to all servers of an attempt that it has ended.
func (a *Agent) endAll(as cluster.Assignment, err error) {
	a.mu.Lock()
	var all []*server
	for other, s := range a.hosts {
		if other.Experiment == as.Experiment && other.Replication == as.Replication {
			all = append(all, s)
			delete(a.hosts, other)
		}
	}
	a.mu.Unlock()
	for _, s := range all {
		s.ended(err)
	}
}

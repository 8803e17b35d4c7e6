// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/agent"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/fleet/executor/local"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/mem"
)

// programVariable makes this program one that runs scenarios.
const programVariable = "DISCO_AGENT_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		app.MainWith(nil, launchtest.Kind())
	}
	leaktest.Main(m)
}

// fixture is a group with one member, whose leader is the test.
type fixture struct {
	*testing.T
	ctx    context.Context
	server *mem.Server
	own    *mem.Client // the agent's connection
	store  *metastore.Store
	client *fleet.Client
	view   *cluster.View
	agent  *agent.Agent
	member *cluster.Membership
	work   string

	mu       sync.Mutex
	problems []error
}

// setUp makes one with three servers.
func setUp(t *testing.T) *fixture {
	return setUpWith(t, func(e executor.Executor) executor.Executor { return e })
}

// setUpAs is setUp with other options.
func setUpAs(t *testing.T, change func(o *agent.Options)) *fixture {
	return setUpLike(t, func(e executor.Executor) executor.Executor { return e }, change)
}

// setUpWith is setUp; wrap gives the executor that the agent has.
func setUpWith(t *testing.T, wrap func(executor.Executor) executor.Executor) *fixture {
	return setUpLike(t, wrap, func(*agent.Options) {})
}

func setUpLike(t *testing.T, wrap func(executor.Executor) executor.Executor, change func(o *agent.Options)) *fixture {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	f := &fixture{T: t, ctx: ctx, server: mem.NewServer(time.Hour), work: filepath.Join(t.TempDir(), "work")}
	f.own = f.server.NewClient()
	f.store = f.open(f.server.NewClient())
	t.Cleanup(func() { f.must(f.store.Close()) })
	theirs := f.open(f.own)
	t.Cleanup(func() { f.must(theirs.Close()) })
	own, err := fleet.New(ctx, theirs, fleet.Options{})
	f.must(err)
	f.client, err = fleet.New(ctx, f.store, fleet.Options{})
	f.must(err)
	l, err := local.Open(ctx, local.Options{Program: "/proc/self/exe", Work: f.work, Owner: "test/h1",
		Env: []string{programVariable + "=1"}, Grace: 5 * time.Second, Fetch: own.Blob})
	f.must(err)
	o := agent.Options{Member: "h1", Store: own, Executor: wrap(l), Progress: 20 * time.Millisecond,
		Log: 20 * time.Millisecond, Sweep: 50 * time.Millisecond, Vitals: 20 * time.Millisecond, Report: f.report,
		Place: func(s *fleet.Spec, p fleet.PieceID) string { return filepath.Join(s.Place, s.ID, p.String()) }}
	change(&o)
	f.agent = agent.New(o)
	f.member, err = cluster.Join(ctx, theirs, cluster.Options{Name: "h1", Version: "1", Slots: 3,
		Runner: f.agent.Runner, Report: f.report})
	f.must(err)
	f.view, err = cluster.Open(ctx, f.store)
	f.must(err)
	t.Cleanup(f.view.Close)
	return f
}

func (f *fixture) open(b metastore.Backend) *metastore.Store {
	s, err := metastore.New(f.ctx, b, metastore.Options{Group: "test", Base: append(cluster.Base(), fleet.Base()...),
		Report: f.report})
	f.must(err)
	return s
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) report(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.problems = append(f.problems, err)
}

// end ends the member and the agent, and holds that nothing is left.
func (f *fixture) end() {
	f.Helper()
	f.must(f.member.Leave(f.ctx))
	f.must(f.agent.Close(f.ctx))
	if left, err := filepath.Glob(filepath.Join(f.work, "runs", "*")); err != nil || len(left) > 0 {
		f.Errorf("left: %q, %v", left, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.problems {
		f.Errorf("reported: %v", p)
	}
}

// submit submits an experiment of one piece on two servers.
func (f *fixture) submit(text string) string {
	f.Helper()
	return f.submitTo(f.TempDir(), text)
}

func (f *fixture) submitTo(place, text string) string {
	f.Helper()
	id, _, err := f.client.Submit(f.ctx, &fleet.Submission{Key: fmt.Sprint(time.Now()), Name: "tiny", User: "me",
		Version: "1", Place: place, Priority: fleet.Normal, Steps: []fleet.SubmittedStep{{
			Step:     fleet.Step{Name: "tiny", File: "tiny.yml", Points: [][]string{{}}, Replications: 1, Workers: 2},
			Scenario: []byte(text)}}})
	f.must(err)
	return id
}

var piece fleet.PieceID

// dispatch writes an attempt at the piece for the first two servers.
func (f *fixture) dispatch(id string, attempt int, servers ...string) {
	f.Helper()
	to := fleet.Piece{State: fleet.Dispatched, Attempt: attempt, Token: 1}
	for _, name := range servers {
		s, ok := f.view.Server(name)
		if !ok {
			f.Fatalf("there is no server %s", name)
		}
		member, _, _ := strings.Cut(name, "-")
		to.Gang = append(to.Gang, fleet.Server{Name: name, Member: member, Incarnation: s.Incarnation})
	}
	f.must(f.store.Put(f.ctx, fmt.Sprintf("fleet/pieces/%s/%v", id, piece), to))
}

// ask asks a server for states, one after the other, and returns the last ack.
func (f *fixture) ask(server, id string, attempt, partition int, states ...cluster.State) (ack cluster.Ack) {
	f.Helper()
	as := &cluster.Assignment{Experiment: id, Replication: fleet.AttemptID{Attempt: attempt}.String(),
		Partition: partition}
	for _, state := range states {
		var err error
		ack, err = f.view.Ask(f.ctx, server, state, as, "the test")
		f.must(err)
	}
	return ack
}

// applied holds that a request was done.
func (f *fixture) applied(ack cluster.Ack) {
	f.Helper()
	if ack.Phase != cluster.Applied {
		f.Fatalf("found the ack %+v, want it applied", ack)
	}
}

// begin brings an attempt of two servers so far that it simulates.
func (f *fixture) begin(id string, attempt int) {
	f.Helper()
	f.dispatch(id, attempt, "h1-0", "h1-1")
	for partition, server := range []string{"h1-0", "h1-1"} {
		f.applied(f.ask(server, id, attempt, partition, cluster.Reserved, cluster.Ready))
	}
	for partition, server := range []string{"h1-0", "h1-1"} {
		f.applied(f.ask(server, id, attempt, partition, cluster.Active))
	}
}

// await waits for a report.
func (f *fixture) await(id string, what string, ok func(*fleet.Report) bool) *fleet.Report {
	f.Helper()
	for {
		r, err := f.client.Report(f.ctx, "h1", id, piece)
		f.must(err)
		if r != nil && ok(&r.Report) {
			return &r.Report
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-f.ctx.Done():
			f.Fatalf("%s doesn't come: the report is %+v", what, r)
		}
	}
}

func is(s fleet.PieceState) func(*fleet.Report) bool {
	return func(r *fleet.Report) bool { return r.State == s }
}

// simulates is a report of a run that has handled events.
func simulates(r *fleet.Report) bool { return r.State == fleet.Running && r.Progress.Events > 0 }

// free waits until servers are available.
func (f *fixture) free(servers ...string) {
	f.Helper()
	f.must(f.view.Await(f.ctx, func() bool {
		for _, name := range servers {
			if s, ok := f.view.Server(name); !ok || s.State != cluster.Available {
				return false
			}
		}
		return true
	}))
}

const slow = "{node: 2, at: 1, how: slow}"

// TestFinished: an end is reported with its hash, then all servers of the gang are free, and the log is there.
func TestFinished(t *testing.T) {
	f := setUp(t)
	id := f.submit(launchtest.Scenario(6, 20, ""))
	f.begin(id, 1)
	r := f.await(id, "the end", is(fleet.Finished))
	f.free("h1-0", "h1-1")
	if r.Kept.Hash == "" || r.Kept.Events == 0 || r.Attempt != 1 || r.Error != nil {
		t.Errorf("found %+v", r)
	}
	log, err := f.client.Log(f.ctx, id, fleet.AttemptID{Attempt: 1})
	if err != nil || !strings.Contains(log, "trace hash "+r.Kept.Hash) {
		t.Errorf("found the log %q, %v, want the hash", log, err)
	}
	f.end()
}

// TestFailed: a model's error is final, and its message and trace are in the report.
func TestFailed(t *testing.T) {
	f := setUp(t)
	id := f.submit(launchtest.Scenario(6, 20, "{node: 2, at: 1, how: panic}"))
	f.begin(id, 1)
	r := f.await(id, "the end", is(fleet.Failed))
	f.free("h1-0", "h1-1")
	if e := r.Error; e.Type != fleet.ErrorModel || e.Where != "h1" || !strings.Contains(e.Trace, "panic") {
		t.Errorf("found %+v", e)
	}
	if s, _ := f.view.Server("h1-0"); s.Last == nil || s.Last.Result != cluster.PartitionFailed {
		t.Errorf("found %+v, want that the partition has failed", s.Last)
	}
	f.end()
}

// TestPaused: a run that is paused has no process, and goes on from where it was, to the same end.
func TestPaused(t *testing.T) {
	f := setUp(t)
	text := launchtest.Scenario(6, 60, slow)
	whole := f.submit(text)
	f.begin(whole, 1)
	want := f.await(whole, "the end", is(fleet.Finished)).Kept
	f.free("h1-0", "h1-1")
	id := f.submit(text)
	f.begin(id, 1)
	f.await(id, "progress", simulates)
	for partition, server := range []string{"h1-1", "h1-0"} {
		f.applied(f.ask(server, id, 1, 1-partition, cluster.Paused))
	}
	p := f.await(id, "the pause", is(fleet.Paused))
	if p.Progress.Events == 0 {
		t.Errorf("found %+v", p)
	}
	for partition, server := range []string{"h1-0", "h1-1"} {
		f.applied(f.ask(server, id, 1, partition, cluster.Active))
	}
	got := f.await(id, "the end", is(fleet.Finished)).Kept
	if got.Hash != want.Hash || got.Events != want.Events {
		t.Errorf("found %+v, want %+v", got, want)
	}
	f.end()
}

// TestGivenUp: in each state; afterwards another attempt ends in the same place.
func TestGivenUp(t *testing.T) {
	f := setUp(t)
	id := f.submit(launchtest.Scenario(6, 60, slow))
	for attempt, states := range [][]cluster.State{{cluster.Reserved}, {cluster.Reserved, cluster.Ready},
		{cluster.Reserved, cluster.Ready, cluster.Active},
		{cluster.Reserved, cluster.Ready, cluster.Active, cluster.Paused}} {
		f.dispatch(id, attempt+1, "h1-0")
		f.applied(f.ask("h1-0", id, attempt+1, 0, states...))
		f.applied(f.ask("h1-0", id, attempt+1, 0, cluster.Terminated))
		f.free("h1-0")
		if attempt > 0 {
			r := f.await(id, "that it was given up", is(fleet.Canceled))
			if r.Attempt != attempt+1 {
				t.Errorf("found %+v of attempt %d", r, attempt+1)
			}
		}
	}
	f.begin(id, 5)
	f.await(id, "the end", is(fleet.Finished))
	f.end()
}

// TestSameName: a server that is given an attempt which another one of this agent still has, as after a store that has
// lost all it had, begins when that one has given it up, and keeps its files.
func TestSameName(t *testing.T) {
	f := setUp(t)
	id := f.submit(launchtest.Scenario(6, 60, slow))
	f.dispatch(id, 1, "h1-0")
	f.applied(f.ask("h1-0", id, 1, 0, cluster.Reserved, cluster.Ready, cluster.Active))
	f.await(id, "that it simulates", simulates)
	f.dispatch(id, 1, "h1-1")
	f.applied(f.ask("h1-1", id, 1, 0, cluster.Reserved))
	ready := make(chan cluster.Ack)
	go func() { ready <- f.ask("h1-1", id, 1, 0, cluster.Ready) }()
	select {
	case ack := <-ready:
		t.Fatalf("found the ack %+v while the other server has the attempt", ack)
	case <-time.After(300 * time.Millisecond): // it isn't begun, however late that is
	}
	f.applied(f.ask("h1-0", id, 1, 0, cluster.Terminated))
	f.applied(<-ready)
	f.applied(f.ask("h1-1", id, 1, 0, cluster.Active))
	f.free("h1-0", "h1-1")
	f.end()
}

// TestOld: what doesn't count isn't begun, and says nothing; what can never be begun is a final failure.
func TestOld(t *testing.T) {
	f := setUp(t)
	id := f.submit(launchtest.Scenario(6, 20, ""))
	f.applied(f.ask("h1-0", id, 1, 0, cluster.Reserved))
	if ack := f.ask("h1-0", id, 1, 0, cluster.Ready); ack.Phase != cluster.Failed ||
		!strings.Contains(ack.Error, "doesn't count") {
		t.Errorf("found %+v for a piece that was never promised", ack)
	}
	f.dispatch(id, 3, "h1-0")
	f.applied(f.ask("h1-0", id, 2, 0, cluster.Reserved))
	if ack := f.ask("h1-0", id, 2, 0, cluster.Ready); ack.Phase != cluster.Failed {
		t.Errorf("found %+v for an older attempt", ack)
	}
	if r, err := f.client.Report(f.ctx, "h1", id, piece); err != nil || r != nil {
		t.Errorf("found the report %+v, %v", r, err)
	}
	f.applied(f.ask("h1-0", id, 3, 0, cluster.Reserved))
	blob := f.store.DeleteTree(f.ctx, "fleet/blobs")
	if ack := f.ask("h1-0", id, 3, 0, cluster.Ready); blob != nil || ack.Phase != cluster.Failed {
		t.Errorf("found %+v, %v, without the scenario", ack, blob)
	}
	r := f.await(id, "that it couldn't be begun", is(fleet.Held))
	if r.Error.Type != fleet.ErrorMachine || r.Error.Step != "fetching" {
		t.Errorf("found %+v", r.Error)
	}
	f.end()
}

// TestStoreAway: an end that can't be reported holds its servers until it can.
func TestStoreAway(t *testing.T) {
	f := setUp(t)
	id := f.submit(launchtest.Scenario(6, 30, slow))
	f.begin(id, 1)
	f.await(id, "progress", simulates)
	f.own.Disconnect()
	time.Sleep(3 * time.Second) // the run ends meanwhile, as a rule; it is right in any case
	f.own.Reconnect()
	f.await(id, "the end", is(fleet.Finished))
	f.free("h1-0", "h1-1")
	f.mu.Lock()
	f.problems = nil // that the store was away
	f.mu.Unlock()
	f.end()
}

// TestEnd: a member that leaves ends what it has at a checkpoint, and says so.
func TestEnd(t *testing.T) {
	f := setUp(t)
	id := f.submit(launchtest.Scenario(6, 100000, slow))
	f.begin(id, 1)
	f.await(id, "progress", simulates)
	f.end()
	f.await(id, "that it was given up", is(fleet.Canceled))
	e, err := f.client.Show(f.ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	points, err := filepath.Glob(filepath.Join(e.Spec.Place, id, "0.0.0", "points", "*"))
	if err != nil || len(points) == 0 {
		t.Errorf("found no checkpoint, %v", errors.Join(err))
	}
}

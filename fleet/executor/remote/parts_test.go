// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/fleet/executor/remote"
)

// threeMachines are an executor with three machines, of which a, with most room, has no program until repair is called,
// and a clock that the test moves.
func threeMachines(t *testing.T) (e *remote.Remote, later func(time.Duration), repair func()) {
	t.Helper()
	work, file := filepath.Join(t.TempDir(), "work"), filepath.Join(t.TempDir(), "program")
	broken := append([]string{"env", fileVariable + "=" + file}, hostCommand(work)...)
	o := options(t)
	o.Machines = []remote.Machine{{Name: "a", Slots: 8, Command: broken},
		{Name: "b", Slots: 4, Command: hostCommand(work)}, {Name: "c", Slots: 4, Command: hostCommand(work)}}
	o.Slots = 16
	var passed atomic.Int64
	began := time.Now()
	o.Now = func() time.Time { return began.Add(time.Duration(passed.Load())) }
	return open(t, o), func(d time.Duration) { passed.Add(int64(d)) }, func() {
		self, err := os.Executable()
		if err == nil {
			err = os.Symlink(self, file)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// fails has a job fail at the machine that starts nothing.
func fails(t *testing.T, e *remote.Remote, j *executor.Job, elsewhere bool) {
	t.Helper()
	if err := e.Prepare(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	r, err := e.Start(j)
	if err != nil {
		t.Fatal(err)
	}
	ends(t, r)
	if out := r.Outcome(); out.Behind != "a" || out.Elsewhere != elsewhere {
		t.Fatalf("found the part %q, elsewhere %v, want a, %v", out.Behind, out.Elsewhere, elsewhere)
	}
	if err := e.Release(j); err != nil {
		t.Error(err)
	}
}

// TestBrokenMachine: one of three machines that starts nothing costs no try: its pieces go to the others, which stay
// open; behind three failures it is given nothing, behind a wait one piece at a time, and all when three have started.
func TestBrokenMachine(t *testing.T) {
	e, later, repair := threeMachines(t)
	defer closes(t, e)
	vitals := func() (v fleet.Vitals) {
		e.Vitals(&v)
		return v
	}
	for n := range 3 {
		j := newJob(t, fmt.Sprint("x", n))
		fails(t, e, j, true)
		next := *j
		next.Attempt.Attempt++
		stops(t, e, &next) // elsewhere
	}
	v := vitals()
	if v.Lacks != 8 || len(v.Away) != 1 || !strings.Contains(v.Away["a"], "program") || v.Refuses != "" {
		t.Errorf("found %+v, want that a is away, with 8 servers", v)
	}
	stops(t, e, newJob(t, "y")) // nothing is tried at a
	later(10 * time.Second)
	if v := vitals(); v.Away != nil {
		t.Errorf("found %+v, want a trial", v)
	}
	trial := newJob(t, "z")
	if err := e.Prepare(t.Context(), trial); err != nil {
		t.Fatal(err)
	}
	other := newJob(t, "beside")
	stops(t, e, other) // one at a time at a
	fails(t, e, trial, true)
	later(10 * time.Second)
	if v := vitals(); v.Lacks != 8 { // for twice as long
		t.Errorf("found %+v behind a trial that has failed", v)
	}
	later(10 * time.Second)
	repair()
	for n := range 3 {
		stops(t, e, newJob(t, fmt.Sprint("repaired", n)))
	}
	first, second := newJob(t, "first"), newJob(t, "second")
	for _, j := range []*executor.Job{first, second} {
		j.Workers = 3
		if err := e.Prepare(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	third := newJob(t, "third") // 2 are free at a, and 4 at b and c, where both would be if a were away
	third.Workers = 4
	if err := e.Prepare(t.Context(), third); err != nil {
		t.Errorf("a takes no more than one: %v", err)
	}
}

// stops has a job run, and ends it.
func stops(t *testing.T, e *remote.Remote, j *executor.Job) {
	t.Helper()
	if err := runs(t, e, j).Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := e.Release(j); err != nil {
		t.Error(err)
	}
}

// TestOwnErrors: what is the experiment's own keeps no machine from what others have submitted: a place of its own that
// can't be used, a scenario that isn't in the store any more.
// A place of the group's counts.
func TestOwnErrors(t *testing.T) {
	lost := digest("nobody has this")
	o := options(t)
	work := filepath.Join(t.TempDir(), "work")
	o.Machines = []remote.Machine{{Name: "a", Slots: 4, Command: hostCommand(work)},
		{Name: "b", Slots: 4, Command: hostCommand(work)}}
	o.Fetch = func(ctx context.Context, d fleet.Digest) ([]byte, error) {
		if d == lost {
			return nil, fmt.Errorf("the blob: %w", fleet.ErrNoBlob)
		}
		return fetch(ctx, d)
	}
	e := open(t, o)
	defer closes(t, e)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := func(name string, own bool) *executor.Job {
		j := newJob(t, name)
		j.Place, j.OwnPlace = filepath.Join(file, "place"), own
		return j
	}
	away := func() map[string]string {
		var v fleet.Vitals
		e.Vitals(&v)
		return v.Away
	}
	for n := range 8 {
		j := newJob(t, fmt.Sprint("lost", n))
		j.Text = lost
		if err := e.Prepare(t.Context(), j); !executor.IsOwn(err) {
			t.Fatalf("found %v, want an error of the experiment", err)
		}
		endsOwn(t, e, wrong(fmt.Sprint("wrong", n), true), true)
	}
	if all := away(); all != nil {
		t.Errorf("found %v behind faults of experiments", all)
	}
	for n := range 8 { // each of the group's place is that of all
		endsOwn(t, e, wrong(fmt.Sprint("group", n), false), false)
	}
	if all := away(); len(all) == 0 {
		t.Error("machines that reach no place of the group are given more")
	}
}

// endsOwn has a job fail before it does anything, by a fault of the experiment or of the machine.
func endsOwn(t *testing.T, e *remote.Remote, j *executor.Job, own bool) {
	t.Helper()
	err := e.Prepare(t.Context(), j)
	if refused := (*executor.RefusedError)(nil); !own && errors.As(err, &refused) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Start(j)
	if err != nil {
		t.Fatal(err)
	}
	ends(t, r)
	if out := r.Outcome(); out.Own != own || own && (out.Behind != "" || out.Elsewhere) {
		t.Errorf("found %+v, want an error of the experiment: %v", out, own)
	}
	if err := e.Release(j); err != nil {
		t.Error(err)
	}
}

// TestBrokenPiece: a piece that no machine starts counts as tried from the second one on, whatever they are.
func TestBrokenPiece(t *testing.T) {
	e, later, _ := threeMachines(t)
	defer closes(t, e)
	j := newJob(t, "x")
	fails(t, e, j, true)
	j.Workers = 8 // no other one has as much room
	later(time.Second)
	fails(t, e, j, false)
}

// TestNoRoom: what finds no room now is refused, and counts as no try; what will never find any isn't.
func TestNoRoom(t *testing.T) {
	e, _, _ := threeMachines(t)
	defer closes(t, e)
	large := newJob(t, "large")
	large.Workers = 8
	if err := e.Prepare(t.Context(), large); err != nil {
		t.Fatal(err)
	}
	next, refused := *large, (*executor.RefusedError)(nil)
	next.Experiment = "next"
	if err := e.Prepare(t.Context(), &next); !errors.As(err, &refused) {
		t.Errorf("found %v, want it refused", err)
	}
	next.Workers = 9
	if err := e.Prepare(t.Context(), &next); err == nil || errors.As(err, &refused) {
		t.Errorf("found %v, want an error that counts", err)
	}
}

// TestWithout: schedulers are told which nodes to leave out.
func TestWithout(t *testing.T) {
	slurm := remote.Slurm{Host: []string{"h"}}
	if all := slurm.Command("n", 2, []string{"n1", "n2"}); !slices.Contains(all, "--exclude=n1,n2") {
		t.Errorf("found %q", all)
	}
	if all := slurm.Command("n", 2, nil); slices.ContainsFunc(all, func(w string) bool {
		return strings.HasPrefix(w, "--exclude")
	}) {
		t.Errorf("found %q", all)
	}
	kubernetes := remote.Kubernetes{Image: "i", Host: []string{"h"}}
	text := strings.Join(kubernetes.Command("n", 2, []string{"n1", "n2"}), " ")
	for _, want := range []string{`{"key":"metadata.name","operator":"NotIn","values":["n1"]}`, `"values":["n2"]`,
		`{"name":"DISCO_NODE","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}}`} {
		if !strings.Contains(text, want) {
			t.Errorf("found %s, want %s in it", text, want)
		}
	}
	kubernetes.Pod = []byte(`{"affinity":{"podAffinity":{}}}`)
	if text := strings.Join(kubernetes.Command("n", 2, []string{"n1"}), " "); strings.Contains(text, "NotIn") {
		t.Errorf("found %s, want one's own affinity", text)
	}
}

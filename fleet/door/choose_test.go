// SPDX-License-Identifier: Apache-2.0

package door

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/mem"
)

// like is a site of two machines of four servers that has answered, as far from the door as its store is.
func like(name string, trip time.Duration, change func(s *site)) *site {
	s := &site{Site: Site{Name: name}, seen: 0, failing: never, experiments: map[string]*fleet.Experiment{},
		machines: []Machine{{Name: name + "1", Version: "v", Servers: 4, Free: 4},
			{Name: name + "2", Version: "v", Servers: 4, Free: 4}}}
	for range tripsKept {
		s.trips = append(s.trips, trip)
	}
	change(s)
	return s
}

// wanted is an experiment that is to be given to a site.
func wanted() *fleet.Experiment {
	return &fleet.Experiment{ID: "260101-000000-abc123", Spec: &fleet.Spec{ID: "260101-000000-abc123", Version: "v",
		Steps: []fleet.Step{{Text: fleet.Digest{SHA256: "text"}, Points: make([][]string, 1), Replications: 3,
			Workers: 2}}}}
}

// had is what a site had of it before, which has begun there and ended.
func had(e *fleet.Experiment) *fleet.Experiment {
	spec := *e.Spec
	spec.Home = &fleet.Home{ID: e.ID, Epoch: 1, Door: "d"}
	now := time.Now()
	return &fleet.Experiment{ID: fleet.SiteID(e.ID, 1), Spec: &spec,
		Wish: &fleet.Wish{Want: fleet.WantCancel}, Standing: &fleet.Standing{Ended: true, Began: &now}}
}

// TestChoose: of two sites that are alike but for one thing, that thing decides, and the reason says so. a is the first
// by name, and so is taken where nothing decides.
func TestChoose(t *testing.T) {
	const near, far = time.Millisecond, 30 * time.Millisecond
	same := func(*site) {}
	for name, c := range map[string]struct {
		a, b func(s *site)
		far  time.Duration // of a
		want string
		says string // of a
	}{
		"nothing":  {same, same, near, "a", "a: HEALTHY: 8 of 8 servers free, 0 pieces wait, score 1 = 0 + 1 - 0"},
		"distance": {same, same, far, "b", "score 30 = 0 + 30 - 0"},
		"load":     {func(s *site) { s.machines[0].Free = 0 }, same, near, "b", "score 51 = 50 + 1 - 0"},
		"a queue":  {func(s *site) { s.waiting = 2 }, same, near, "b", "2 pieces wait, score 26 = 25 + 1 - 0"},
		"no free server, however near and warm": {func(s *site) { s.machines[0].Free, s.machines[1].Free = 0, 0 },
			func(s *site) { s.trips[0] = time.Second }, near, "b", "a: BUSY: 0 of 8 servers free"},
		"as many wait as are free": {func(s *site) { s.waiting = 8 }, same, near, "b", "a: BUSY: 8 of 8"},
		"machines that are missing": {func(s *site) { s.Least = 5 },
			func(s *site) { s.machines[0].Free, s.machines[1].Free = 0, 0 }, near, "b", "a: DEGRADED: 8 of 8"},
		"machines that aren't well": {func(s *site) {
			s.Least, s.machines[0].Unwell, s.machines[1].Unwell = 3, true, true
		}, same, near, "b", "a: DEGRADED: 0 of 8"},
		"servers of a machine that isn't well aren't free": {func(s *site) { s.machines[0].Unwell = true }, same, near,
			"b", "a: HEALTHY: 4 of 8"},
		"it doesn't answer": {func(s *site) { s.failing, s.why = 5, "no route" }, same, near, "b",
			"a: UNHEALTHY: it doesn't answer: no route"},
		"it wasn't seen": {func(s *site) { s.seen = never }, same, near, "b", "a: UNHEALTHY: it wasn't seen yet"},
		"no machine": {func(s *site) { s.machines = nil }, same, near, "b",
			"a: UNHEALTHY: it has no machine that simulates"},
		"the program": {func(s *site) { s.machines[0].Version, s.machines[1].Version = "w", "w" }, same, near, "b",
			"a: UNHEALTHY: none of its 2 machines has the program and the labels"},
		"too small machines": {func(s *site) { s.machines[0].Servers, s.machines[1].Servers = 1, 1 }, same, near, "b",
			"a: UNHEALTHY: a piece wants 2 of one machine's servers, and the largest has 1"},
		"it failed there": {func(s *site) { s.Name = "failed" }, same, near, "b", "failed: UNHEALTHY: it failed there"},
		"what was there before runs still": {func(s *site) {
			x := had(wanted())
			x.Standing.Ended = false
			s.experiments[x.ID] = x
		}, same, near, "b", "a: UNHEALTHY: what was given to it before hasn't ended there"},
		"its data is there": {same, func(s *site) { x := had(wanted()); s.experiments[x.ID] = x }, near, "b",
			"a: HEALTHY: 8 of 8 servers free, 0 pieces wait, score 1 = 0 + 1 - 0"},
		"nothing of it had begun there": {same, func(s *site) {
			x := had(wanted())
			x.Standing.Began = nil
			s.experiments[x.ID] = x
		}, near, "a", "a: HEALTHY"},
		"its scenario is there": {same, func(s *site) { s.all = []fleet.Experiment{*wanted()} }, near, "b",
			"a: HEALTHY"},
	} {
		t.Run(name, func(t *testing.T) {
			d := New(Options{Rules: Rules{}})
			d.sites = []*site{like("a", c.far, c.a), like("b", near, c.b)}
			all, why := d.choose(wanted(), &fleet.Route{Tried: []fleet.Tried{{Site: "failed", Failed: true},
				{Site: "a"}}})
			if all[0].site.Name != c.want || !strings.Contains(why, c.says) {
				t.Errorf("found %s: %s\nwant %s: %s", all[0].site.Name, why, c.want, c.says)
			}
		})
	}
}

// The data of an experiment with a place that all reach is at no site: only the scenario counts there.
func TestChooseByPlace(t *testing.T) {
	e := wanted()
	e.Spec.Place = "/shared"
	d := New(Options{})
	d.sites = []*site{like("a", time.Millisecond, func(*site) {}),
		like("b", time.Millisecond, func(s *site) { x := had(e); s.experiments[x.ID] = x })}
	if all, why := d.choose(e, &fleet.Route{}); all[0].site.Name != "a" {
		t.Errorf("found %s: %s", all[0].site.Name, why)
	}
}

// slow is a backend whose calls take long, by a clock of the test's.
type slow struct {
	*mem.Client
	clock *time.Duration
	takes time.Duration
}

func (b *slow) Commit(ctx context.Context, conds []metastore.Cond, ops []metastore.Op) error {
	*b.clock += b.takes
	return b.Client.Commit(ctx, conds, ops)
}

// TestDistance: how far a site is, is what a commit to its store takes, by the door's own clock; what varies counts
// with two deviations, and what was long ago doesn't.
func TestDistance(t *testing.T) {
	var clock time.Duration
	b := &slow{Client: mem.NewServer(time.Minute).NewClient(), clock: &clock}
	store, err := metastore.New(t.Context(), b, metastore.Options{Group: "g", Base: fleet.Base()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	client, err := fleet.New(t.Context(), store, fleet.Options{By: "door"})
	if err != nil {
		t.Fatal(err)
	}
	d := New(Options{ID: "d", Elapsed: func() time.Duration { return clock }, Report: func(err error) { t.Error(err) },
		Sites: []Site{{Name: "a", Open: func(context.Context) (*Access, error) {
			return &Access{Client: client, Machines: func(context.Context) ([]Machine, error) { return nil, nil }}, nil
		}}}})
	s := d.sites[0]
	for _, step := range []struct {
		takes [2]time.Duration // of every other call
		want  float64          // ms
	}{{[2]time.Duration{5 * time.Millisecond, 5 * time.Millisecond}, 5},
		{[2]time.Duration{10 * time.Millisecond, 30 * time.Millisecond}, 20 + 2*10}, {[2]time.Duration{}, 0}} {
		for i := range tripsKept {
			b.takes = step.takes[i%2]
			d.visit(t.Context(), s)
		}
		if got := s.distance(); got < step.want-0.01 || got > step.want+0.01 {
			t.Errorf("%v: found %v ms, want %v", step.takes, got, step.want)
		}
	}
}

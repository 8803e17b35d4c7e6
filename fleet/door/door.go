// SPDX-License-Identifier: Apache-2.0

// Package door gives experiments that were submitted in one group, their home, to groups of other stores, its sites,
// and takes their results home: which site fits, what becomes of an experiment whose site is gone, and what counts.
//
// docs/sites.md has the words, the rules and the invariants.
//
// Guarantee: what was accepted at home ends there once, whatever sites or doors are lost; each piece's result is taken
// once, from the site that the experiment's route names at that moment.
package door

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/metastore"
)

// Site is a group of another store.
type Site struct {
	Name string
	// Least is how many machines it should have: with fewer than half of them it is degraded. 0: any number will do.
	Least int
	// Open connects to it, or gives the connection that is there. One goroutine calls it at a time.
	Open func(ctx context.Context) (*Access, error)
}

// Access is a site that is connected.
type Access struct {
	Client *fleet.Client
	// Machines are those that simulate there, and aren't drained.
	Machines func(ctx context.Context) ([]Machine, error)
	// Take brings the part of a piece home, where it isn't in a place that all sites reach, and says where it is then.
	// Doing it again is no error.
	Take func(ctx context.Context, home *fleet.Spec, p fleet.PieceID, k *fleet.Kept) (place string, err error)
}

// Machine is a machine of a site.
type Machine struct {
	Name, Version string
	Labels        map[string]string
	Servers, Free int
	Unwell        bool // its site's leader places nothing on it now: it is full, or stuck
}

// Rules are how long a door waits for what. Zero values are the defaults that docs/sites.md names.
type Rules struct {
	Pass   time.Duration // between two looks at everything
	Call   time.Duration // for which a site may take to answer
	Away   time.Duration // for which a site may not answer before others get its experiments; half of it is its beat
	Queued time.Duration // for which an experiment waits at a busy site while another one has free servers
	Keep   int           // experiments that have ended
	Least  time.Duration // for which one stays all the same: a retry of its submission may come
	Sweep  time.Duration // between two looks for what belongs to no experiment
	Unused time.Duration // for which a blob is kept that no experiment names

	Admission fleet.Admission // of what is submitted at home
}

func (r Rules) withDefaults() Rules {
	r.Pass = cmp.Or(r.Pass, time.Second)
	r.Call = cmp.Or(r.Call, 5*time.Second)
	r.Away = cmp.Or(r.Away, 2*time.Minute)
	r.Queued = cmp.Or(r.Queued, time.Minute)
	r.Keep = cmp.Or(r.Keep, 1_000)
	r.Least = cmp.Or(r.Least, 300*time.Second)
	r.Sweep = cmp.Or(r.Sweep, 10*time.Minute)
	r.Unused = cmp.Or(r.Unused, time.Hour)
	return r
}

// Options are what a door works with.
type Options struct {
	Name  string // of this process, for people
	ID    string // the name of the home's tree: all doors of a home have the same one
	Home  *fleet.Client
	Sites []Site
	Rules Rules

	// Sweep removes the parts at home of experiments that aren't there any more; nil: there are none.
	Sweep func(ctx context.Context) error

	Report func(err error) // gets what goes wrong; any goroutine calls it

	// What a simulation replaces. Elapsed never goes back; Now is for people; Each calls f(0) to f(n-1), at once unless
	// it is given; Within bounds one call of a site.
	Elapsed func() time.Duration
	Now     func() time.Time
	Each    func(n int, f func(i int))
	Within  func(context.Context) (context.Context, context.CancelFunc)
}

// never is a time that hasn't been.
const never = -1

// Door is what one leader of a home knows. One goroutine calls Pass.
type Door struct {
	o     Options
	sites []*site

	mu       sync.Mutex               // what follows, while sites are followed at once
	troubles map[string]trouble       // by experiment: what keeps it from getting on where it is
	taken    map[string]int           // by experiment: pieces that are FINISHED at home
	leaving  []leaving                // experiments that are to be given to others
	said     map[string]bool          // what was reported
	ended    map[string]time.Duration // since when an experiment has been seen ended
	turn     int                      // whose turn is first, among experiments of a site
	swept    time.Duration            // when it was looked at what is left of nothing
	unused   map[fleet.BlobAt]time.Duration
	orphans  map[string]time.Duration
	load     load
	guards   []metastore.Cond // of the pass
}

// trouble is what is wrong with an experiment at its site.
type trouble struct {
	epoch uint64
	what  string
	since time.Duration
}

// leaving is an experiment that is to be given to another site.
type leaving struct {
	e      *fleet.Experiment
	why    string
	quiet  bool              // mirror has told people why
	failed *fleet.Experiment // what it came to at its site; nil: it hasn't ended there
}

// site is what a door knows of a site.
type site struct {
	Site
	access      *Access
	seen        time.Duration // when it has answered last
	failing     time.Duration // since when it doesn't
	why         string        // it doesn't
	machines    []Machine
	experiments map[string]*fleet.Experiment // of this door, by the id there
	all         []fleet.Experiment
	waiting     int // pieces that wait there
	trips       []time.Duration
}

// New makes the door of a leader.
func New(o Options) *Door {
	o.Rules = o.Rules.withDefaults()
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Each == nil {
		o.Each = each
	}
	if o.Within == nil {
		o.Within = func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, o.Rules.Call, fmt.Errorf("it hasn't answered for %v", o.Rules.Call))
		}
	}
	d := &Door{o: o, troubles: map[string]trouble{}, taken: map[string]int{}, said: map[string]bool{},
		ended: map[string]time.Duration{}}
	for _, s := range o.Sites {
		d.sites = append(d.sites, &site{Site: s, seen: never, failing: never})
	}
	slices.SortFunc(d.sites, func(a, b *site) int { return cmp.Compare(a.Name, b.Name) })
	return d
}

// each calls f of all numbers below n at once.
func each(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// report reports a problem, once in a row.
func (d *Door) report(err error) {
	d.mu.Lock()
	text := err.Error()
	again := d.said[text]
	if len(d.said) >= 1_000 {
		clear(d.said)
	}
	d.said[text] = true
	d.mu.Unlock()
	if !again {
		d.o.Report(err)
	}
}

// site is that of a name; nil: there is none any more.
func (d *Door) site(name string) *site {
	for _, s := range d.sites {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// there tells whether the site has answered in this pass.
func (s *site) there() bool { return s.seen != never && s.failing == never }

// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/disco-sim/disco/scenario"
)

// KindName is what a file's `model:` has for a service scenario.
const KindName = "service"

// Defaults of the schema, for fields that a file leaves out.
const (
	defaultHorizonSeconds      = 3600
	defaultSamplePeriodSeconds = 0.01
	defaultWindowSeconds       = 60
	defaultDropout             = 0.01
	defaultCores               = 1
	defaultRAM                 = 1024 // MB
)

// Limits of the schema. Those without a reason here are what files of this schema
// have always been held to.
const (
	horizonSecondsMin      = 5
	windowSecondsMin       = 1
	windowSecondsMax       = 120
	samplePeriodSecondsMin = 0.001
	samplePeriodSecondsMax = 0.1
	coresMin               = 1
	ramMin                 = 256 // MB

	// secondsMax bounds every time: some 31 years, at which a float64 still distinguishes
	// times a tenth of a microsecond apart.
	secondsMax = 1e9

	// logMax bounds mean and variance of log_normal, which are those of the
	// logarithm: e^20 seconds are 15 years, and even a draw nine standard deviations
	// out is far from the end of float64.
	logMax = 20

	coresMax  = 1 << 20
	ramMax    = 1e9 // MB
	usersMax  = 1e9
	perMinMax = 1e9
	rateMax   = 1e7 // requests a second, users × requests a minute / 60
	idMax     = 100 // characters

	serversMax = 10_000_000     // of all groups together
	edgesMax   = 2 * serversMax // likewise: one to each server, and one from it
)

// loader reads one file into a Spec. Reading comes first and checks every field by
// itself; the rules about the whole (validate_*.go) then work on what was read
// well, so that one mistake is one problem and yet all mistakes are found.
type loader struct {
	r    *scenario.Reader
	spec *Spec

	generator   scenario.Value // its id; likewise below
	client      scenario.Value
	balancers   []balancerAt // parallel to spec.Balancers
	servers     []serverAt   // entries, in the order of the file
	groups      map[string]*serverAt
	edges       []*edgeAt  // parallel to spec.Edges; those of a group share one
	edgeEntries []*edgeAt  // each once
	events      []eventAt  // outages and spikes in the order of the file
	outagesAt   []*eventAt // parallel to spec.Outages

	fileHorizon    float64 // total_simulation_time; 0: not read well
	idsMissing     bool    // a box has no good id, so an unknown id may be that one
	edgesMissing   bool    // an edge has no good ends, so a missing edge may be that one
	idsDoubtful    bool    // a member of a group and another box have one id, so nobody knows which is meant
	serversMissing bool    // there is no server at all, which is a problem of its own

	boxes   []boxAt // parallel to spec.topology.boxes
	edgeIDs names   // in spec.Edges

	complained map[*scenario.Value]bool // ids of boxes without an edge
}

// boxAt is where in the file a box is, and what its edges and coverage have shown.
type boxAt struct {
	id           *scenario.Value // members of a group share one
	coveredBy    int32           // the balancer that covers it; -1: none
	balancerEdge int32           // the latest edge that leads to it from a balancer; -1: none
	covers       int32           // of a balancer: how many boxes
	outRefused   bool            // one of its edges was refused: a missing one is no further mistake
	doubtful     bool            // of a balancer: one of its server_covered was refused
}

// serverAt is one entry of the servers: a server, or a group of them.
type serverAt struct {
	id           scenario.Value
	name         string // "" where it was refused
	first, count int    // its servers, by index in spec.Servers; count is 0 for a server of its own
}

// size is the number of servers.
func (s *serverAt) size() int { return max(1, s.count) }

// balancerAt is where in the file a balancer is.
type balancerAt struct {
	id      scenario.Value
	covered []scenario.Value // items of server_covered
	names   []string         // their texts; "" where one was refused
	derived bool             // server_covered is left out or empty: it covers what its edges lead to
	refused bool             // something about server_covered was refused
}

// edgeAt is one entry of the edges: an edge, or one for each member of a group.
type edgeAt struct {
	id, source, target scenario.Value
	name               string // its id, "" where that was refused
	first, count       int    // its edges, by index in spec.Edges; count is 0 for an edge of its own
	refused            bool   // one of its edges was: the others are no further mistakes
}

// Load reads a service scenario and checks every rule of docs/scenario-service.md.
// The error is a scenario.Problems with all that is wrong where the file is at
// fault.
//
// opt.Horizon replaces the file's total_simulation_time as the end of the run; the
// file is held to its own rules all the same, so whether a file is valid never
// depends on the command line. Its events stay as they are: what would happen at
// or after the end of the run does not happen.
func Load(doc *scenario.Document, opt scenario.Options) (*Spec, error) {
	if err := opt.AtMost(secondsMax); err != nil {
		return nil, err
	}
	base := filepath.Base(doc.File())
	l := &loader{
		r:      scenario.NewReader(doc),
		groups: make(map[string]*serverAt),
		spec:   &Spec{Name: strings.TrimSuffix(base, filepath.Ext(base))},
	}
	root := l.r.Root("warmup", "rqs_input", "topology_graph", "sim_settings", "events")
	root.Field("model").WordOr(KindName, KindName)
	l.readWorkload(root.Field("rqs_input"))
	l.readTopology(root.Field("topology_graph"))
	l.readSettings(root.Field("sim_settings"))
	l.readEvents(root.Field("events").OrNull())
	t := &l.spec.Settings
	t.Warmup, t.Settles = scenario.Warmup(root, doc, opt, l.fileHorizon, 0)
	l.checkGraph()
	l.checkEvents()
	if err := l.r.Err(); err != nil {
		return nil, err
	}
	l.finish(opt)
	return l.spec, nil
}

// finish fills in what follows from a file without problems.
func (l *loader) finish(opt scenario.Options) {
	l.noteUnreachable()
	l.spec.Notes = l.r.Notes()
	l.spec.Series = opt.Series
	l.spec.Settings.Horizon = l.fileHorizon
	if opt.Horizon > 0 {
		l.spec.Settings.Horizon = opt.Horizon
	}
}

func (l *loader) readWorkload(v scenario.Value) {
	s := v.Section("id", "type", "avg_active_users", "avg_request_per_minute_per_user", "user_sampling_window")
	w := &l.spec.Workload
	l.generator = s.Field("id")
	w.ID = l.boxID(l.generator)
	s.Field("type").WordOr("generator", "generator")
	before := l.r.Refusals()
	w.Users = l.count(s.Field("avg_active_users"), usersMax, Poisson, Normal)
	w.RequestsPerMinute = l.count(s.Field("avg_request_per_minute_per_user"), perMinMax, Poisson).Mean
	if rate := w.Users.Mean * w.RequestsPerMinute / 60; rate > rateMax && l.r.Refusals() == before {
		s.Field("avg_active_users").Refuse(fmt.Sprintf("%g users × %g requests a minute, which is %.4g requests a "+
			"second", w.Users.Mean, w.RequestsPerMinute, rate),
			fmt.Sprintf("at most %.0f requests a second", rateMax), "")
	}
	w.SamplingWindow = float64(s.Field("user_sampling_window").IntOr(defaultWindowSeconds,
		scenario.Between(windowSecondsMin, windowSecondsMax)))
}

func (l *loader) readSettings(v scenario.Value) {
	s := v.Section("total_simulation_time", "sample_period_s", "enabled_sample_metrics", "enabled_event_metrics")
	t := &l.spec.Settings
	l.fileHorizon = float64(s.Field("total_simulation_time").IntOr(defaultHorizonSeconds,
		scenario.AtLeast(horizonSecondsMin).AtMost(secondsMax)))
	t.SamplePeriod = s.Field("sample_period_s").FloatOr(defaultSamplePeriodSeconds,
		scenario.Between(samplePeriodSecondsMin, samplePeriodSecondsMax))
	t.Sampled = metrics(s.Field("enabled_sample_metrics"), ReadyQueueLen, EventLoopIOSleep, RAMInUse,
		EdgeConcurrentConnection)
	t.PerRequest = metrics(s.Field("enabled_event_metrics"), RequestClock)
}

// reservedMetric is a name that the schema reserves without a meaning.
const reservedMetric = "llm_cost"

// metrics reads a set of names, all of them where it is left out.
func metrics(v scenario.Value, names ...string) []string {
	if !v.Present() {
		return names
	}
	got := []string{}
	words := names
	if slices.Contains(names, RequestClock) {
		words = append(slices.Clone(names), reservedMetric)
	}
	for _, item := range v.List() {
		switch name := item.Word(words...); {
		case name == reservedMetric:
			item.Note("is accepted and measures nothing")
		case !slices.Contains(got, name):
			got = append(got, name)
		}
	}
	return got
}

// boxID reads the id of a generator, client, balancer or server, each of which
// becomes a node with this name. The result is "" where it was refused.
func (l *loader) boxID(v scenario.Value) string {
	id := v.ID(idMax)
	if id == "self" || strings.Contains(id, "/") {
		v.Refuse(fmt.Sprintf("the id %q", id), `an id that is not "self" and has no "/"`, "")
		id = ""
	}
	if id == "" {
		l.idsMissing = true
	}
	return id
}

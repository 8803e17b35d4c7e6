// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/disco-sim/disco/scenario"
)

// KindName is what a file's `model:` has for a queueing network.
const KindName = "queueing"

// Limits of the schema.
const (
	secondsMax  = 1e9
	secondsMin  = 1e-9 // of a mean: times that a float64 distinguishes at the end of the longest run
	rateMax     = 1e9
	serversMax  = 1 << 20
	bufferMax   = 1 << 30
	initialMax  = 1 << 20
	stationsMax = 1 << 16
	cvMax       = 100
	shapeMax    = 1_000_000
	idMax       = 100 // characters

	// defaultWarmupShare of the horizon is not counted when the file has no warmup.
	defaultWarmupShare = 0.1

	// sumSlack is how far the probabilities of a station may miss 1 and still mean it:
	// thirds and sevenths don't add up to the last bit.
	sumSlack = 1e-9
)

// loader reads one file into a Spec.
type loader struct {
	r     *scenario.Reader
	spec  *Spec
	index map[string]int   // by id
	ids   []scenario.Value // by station
	to    []scenario.Value
}

// Load reads a queueing network and checks every rule of docs/model-queueing.md. The
// error is a scenario.Problems with all that is wrong where the file is at fault.
// opt.Horizon replaces the file's horizon; a warm-up that the file leaves out, or that
// would then fill the whole run, changes in proportion. One that was set beside the file
// and would fill the run is refused.
func Load(doc *scenario.Document, opt scenario.Options) (*Spec, error) {
	if err := opt.AtMost(secondsMax); err != nil {
		return nil, err
	}
	base := filepath.Base(doc.File())
	l := &loader{r: scenario.NewReader(doc), spec: &Spec{Series: opt.Series,
		Name: strings.TrimSuffix(base, filepath.Ext(base))},
		index: make(map[string]int)}
	root := l.r.Root("horizon", "warmup", "transit", "stations")
	root.Field("model").WordOr(KindName, KindName)
	s := l.spec
	s.Horizon = root.Field("horizon").Float(scenario.MoreThan(0).AtMost(secondsMax))
	s.Warmup, s.Settles = scenario.Warmup(root, doc, opt, s.Horizon, defaultWarmupShare)
	s.Transit = root.Field("transit").FloatOr(0, scenario.AtLeast(0).AtMost(secondsMax))
	l.readStations(root.Field("stations"))
	if l.r.Err() == nil {
		l.checkFlow(root.Field("stations"))
	}
	if err := l.r.Err(); err != nil {
		return nil, err
	}
	if opt.Horizon > 0 {
		s.Horizon = opt.Horizon
	}
	return s, nil
}

// readStations reads the ids first, because stations name each other.
func (l *loader) readStations(v scenario.Value) {
	items := v.List()
	if v.IsList() && (len(items) == 0 || len(items) > stationsMax) {
		v.Refuse(fmt.Sprintf("%d stations", len(items)), fmt.Sprintf("1 to %d", stationsMax), "")
		return
	}
	sections := make([]scenario.Section, len(items))
	l.spec.Stations = make([]Station, len(items))
	for i, item := range items {
		sections[i] = item.Section("id", "servers", "service", "buffer", "arrivals", "initial", "to")
		id := sections[i].Field("id")
		name := l.id(id)
		if first, twice := l.index[name]; twice && name != "" {
			id.Refuse(fmt.Sprintf("the id %q a second time (the first is on line %d)", name, l.ids[first].Line()),
				"every id once", "")
		} else {
			l.index[name] = i
		}
		l.ids = append(l.ids, id)
		l.spec.Stations[i].ID = name
	}
	for i, s := range sections {
		l.readStation(&l.spec.Stations[i], s)
	}
}

// id reads the id of a station, which becomes a node with this name.
func (l *loader) id(v scenario.Value) string {
	id := v.ID(idMax)
	switch {
	case id == "self" || strings.Contains(id, "/"):
		v.Refuse(fmt.Sprintf("the id %q", id), `an id that is not "self" and has no "/"`, "")
		return ""
	}
	return id
}

func (l *loader) readStation(st *Station, s scenario.Section) {
	st.Servers = s.Field("servers").IntOr(1, scenario.Between(1, serversMax))
	st.Service = l.dist(s.Field("service"))
	st.Buffer = s.Field("buffer").OrNull().IntOr(Unlimited, scenario.Between(0, bufferMax))
	st.Initial = s.Field("initial").IntOr(0, scenario.Between(0, initialMax))
	if v := s.Field("arrivals").OrNull(); v.Present() {
		d := l.arrivals(v)
		st.Arrivals = &d
	}
	to := s.Field("to").OrNull()
	l.to = append(l.to, to)
	if to.Present() {
		l.routes(st, to)
	}
}

// arrivals reads a rate, for Poisson arrivals, or the distribution of the times
// between.
func (l *loader) arrivals(v scenario.Value) Dist {
	if v.IsMapping() {
		return l.dist(v)
	}
	rate := v.Float(scenario.MoreThan(0).AtMost(rateMax).Or("the distribution of the time between arrivals"))
	if rate == 0 {
		return Dist{Kind: Exponential, Mean: 1} // it was refused
	}
	return Dist{Kind: Exponential, Mean: 1 / rate}
}

// dist reads a distribution, with the fields that its kind has and no others.
func (l *loader) dist(v scenario.Value) Dist {
	mean := scenario.AtLeast(secondsMin).AtMost(secondsMax)
	v = v.Reused("distribution")
	s := v.Section("distribution", "mean", "cv", "shape", "min", "max")
	d := Dist{Kind: s.Field("distribution").Word(distKinds...)}
	used := map[string]bool{"mean": d.Kind != Uniform}
	switch d.Kind {
	case Uniform:
		used["min"], used["max"] = true, true
		d.Min = s.Field("min").Float(scenario.AtLeast(0).AtMost(secondsMax))
		d.Max = s.Field("max").Float(mean)
		d.Mean = (d.Min + d.Max) / 2
		if d.Max > 0 && d.Min >= d.Max {
			s.Field("min").Refuse(fmt.Sprintf("%g, with a max of %g", d.Min, d.Max), "a number below max",
				"for a single value write distribution: constant")
		}
	case Erlang:
		used["shape"] = true
		d.Shape = s.Field("shape").Int(scenario.Between(1, shapeMax))
	case Gamma, LogNormal:
		used["cv"] = true
		d.CV = s.Field("cv").Float(scenario.MoreThan(0).AtMost(cvMax))
	case Hyperexponential:
		used["cv"] = true
		d.CV = s.Field("cv").Float(scenario.AtLeast(1).AtMost(cvMax))
	}
	if used["mean"] {
		d.Mean = s.Field("mean").Float(mean)
	}
	for _, field := range []string{"mean", "cv", "shape", "min", "max"} {
		if f := s.Field(field); d.Kind != "" && f.Present() && !used[field] {
			f.Refuse(field+", which the distribution "+d.Kind+" doesn't have", "only its own parameters",
				"remove the field")
		}
	}
	return d
}

// routes reads the ways on, by the id of the next station.
func (l *loader) routes(st *Station, v scenario.Value) {
	sum := 0.0
	before := l.r.Refusals()
	for _, e := range v.Entries() {
		p := e.Value.Float(scenario.MoreThan(0).AtMost(1))
		next, ok := l.index[e.Name]
		if !ok || e.Name == "" {
			names := make([]string, 0, len(l.index))
			for i := range l.spec.Stations {
				if id := l.spec.Stations[i].ID; id != "" {
					names = append(names, id)
				}
			}
			e.Value.Refuse(fmt.Sprintf("the unknown station %q", e.Name), "the id of a station",
				scenario.Suggest(e.Name, names))
			continue
		}
		st.To = append(st.To, Route{Station: next, Probability: p})
		sum += p
	}
	if l.r.Refusals() > before {
		return
	}
	if sum > 1+sumSlack {
		v.Refuse(fmt.Sprintf("probabilities that add up to %.9g", sum), "at most 1", "")
	}
	st.Stay = sum >= 1-sumSlack
}

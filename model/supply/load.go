// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/sim/dist"
)

// KindName is what a file's `model:` has for a supply network.
const KindName = "supply"

// Limits of the schema.
const (
	secondsMax = 1e9
	secondsMin = 1e-9 // of means, so that simulated time gets on
	rateMax    = 1e9
	placesMax  = 1 << 20 // locations, products, stock points
	moneyMax   = 1e12
	historyMax = 1000 // periods of a moving average
	windowsMax = 1000 // of a calendar
	idMax      = 100  // characters
	timesMax   = 1e7  // reviews of a clock, and breakdowns of a line, in a run

	// defaultWarmupShare of the horizon is not counted when the file has no warmup.
	defaultWarmupShare = 0.1
)

// Fields of the file's sections.
var (
	rootFields = []string{"horizon", "warmup", "period", "products", "locations", "calendars", "links", "production",
		"stock", "demand", "demand_file"}
	placeFields  = []string{"id", "count"}
	siteFields   = []string{"id", "count", "source", "calendar"}
	linkFields   = []string{"from", "to", "products", "lead_time", "order_delay"}
	lineFields   = []string{"at", "products", "time", "queue", "calendar", "failure", "repair"}
	demandFields = []string{"at", "products", "start", "gap", "size"}
	stockFields  = []string{"at", "products", "policy", "up_to", "reorder_point", "quantity", "every", "forecast",
		"lot",
		"initial", "unmet", "costs"}
	forecastFields = []string{"periods", "cover", "safety"}
	costFields     = []string{"holding", "backlog", "lost", "order", "unit", "price", "salvage"}
)

// span is some things of one kind that follow each other.
type span struct{ first, count int }

// names finds things by the names that stand for them in a file: their own, and those of groups. Those of a group's
// members aren't kept but read, as group and number: a million of them take as little as one.
type names struct {
	what     string
	byID     map[string]named
	ids      []string // by index
	seen     []int    // the last call of read that had it
	reads    int
	numbered map[string][]int // numbers behind ids of the file that may be those of a group's members, by the group's
}

// named is what an id of the file stands for.
type named struct {
	span
	line  int
	group bool
}

// loader reads one file into a Spec.
type loader struct {
	r         *scenario.Reader
	spec      *Spec
	products  names
	locations names
	calendars map[string]*Calendar
	problems  scenario.Problems // of the demand file
	all       []int             // products
	points    int
}

// references is the file of demands that a scenario names.
func references(doc *scenario.Document) []scenario.Reference {
	root := scenario.NewReader(doc).Root(rootFields...)
	var all []scenario.Reference
	if v := root.Field("demand_file").OrNull(); v.Present() {
		all = append(all, scenario.Reference{Name: v.Text(), What: "a table of demands in CSV",
			BytesMax: scenario.AttachedBytesMax / 2})
	}
	for _, section := range []string{"links", "production", "demand"} {
		for _, item := range root.Field(section).List() {
			for _, e := range item.Entries() {
				if slices.Contains([]string{"lead_time", "time", "failure", "repair", "gap", "size"}, e.Name) {
					all = append(all, dist.References(e.Value)...)
				}
			}
		}
	}
	return all
}

// Load reads a supply network and checks every rule of docs/scenario-supply.md. The error is a scenario.Problems with
// all that is wrong where a file is at fault. opt.Horizon replaces the file's horizon; a warm-up that the file leaves
// out, or that would then fill the whole run, changes in proportion.
func Load(doc *scenario.Document, opt scenario.Options) (*Spec, error) {
	if err := opt.AtMost(secondsMax); err != nil {
		return nil, err
	}
	base := filepath.Base(doc.File())
	l := &loader{r: scenario.NewReader(doc), spec: &Spec{Name: strings.TrimSuffix(base, filepath.Ext(base))},
		calendars: map[string]*Calendar{}}
	root := l.r.Root(rootFields...)
	root.Field("model").Word(KindName)
	l.times(root, doc, opt)
	l.readCalendars(root.Field("calendars").OrNull())
	l.products = l.places(root.Field("products"), "product", placeFields, nil)
	l.locations = l.places(root.Field("locations"), "location", siteFields, l.readLocation)
	l.spec.Products = l.products.ids
	if l.good() { // what follows refers to these
		l.readStocks(root.Field("stock"))
	}
	if l.good() {
		l.readLines(root.Field("production").OrNull())
		l.readLinks(root.Field("links").OrNull())
		l.readDemands(root.Field("demand").OrNull())
		l.readFile(root.Field("demand_file").OrNull())
	}
	if l.good() {
		l.check(root)
	}
	if err := l.err(); err != nil {
		return nil, err
	}
	l.spec.Notes = l.r.Notes()
	return l.spec, nil
}

func (l *loader) good() bool { return l.r.Refusals() == 0 && len(l.problems) == 0 }

// err joins what is wrong with the scenario and with its file.
func (l *loader) err() error {
	if len(l.problems) == 0 {
		return l.r.Err()
	}
	if all, ok := l.r.Err().(scenario.Problems); ok {
		return append(all, l.problems...)
	}
	return l.problems
}

// times reads the horizon, and what is a part of it.
func (l *loader) times(root scenario.Section, doc *scenario.Document, opt scenario.Options) {
	s := l.spec
	s.Series = opt.Series
	s.Horizon = root.Field("horizon").Float(scenario.MoreThan(0).AtMost(secondsMax))
	s.Warmup, s.Settles = scenario.Warmup(root, doc, opt, s.Horizon, defaultWarmupShare)
	s.Period = root.Field("period").FloatOr(1, scenario.Between(secondsMin, secondsMax))
	if opt.Horizon > 0 {
		s.Horizon = opt.Horizon
	}
	if s.Period > 0 && s.Horizon/s.Period > 1e15 {
		root.Field("period").Refuse(fmt.Sprintf("%g s in a run of %g s", s.Period, s.Horizon),
			"at most 1e15 periods", "")
	}
}

// places reads a list of named things, or of groups of them: {id: shop, count: 3} is shop-1 to shop-3.
func (l *loader) places(v scenario.Value, what string, fields []string,
	each func(s scenario.Section, ids []string)) names {
	n := names{what: what, byID: map[string]named{}, numbered: map[string][]int{}}
	items := v.List()
	if v.IsList() && len(items) == 0 {
		v.Refuse("an empty list", "one "+what+" or more", "")
	}
	for _, item := range items {
		s := item.Section(fields...)
		id, count := n.id(s.Field("id")), 1
		group := s.Field("count").Present()
		if group {
			count = s.Field("count").Int(scenario.Between(1, placesMax))
		}
		if len(n.ids)+count > placesMax {
			s.At().Refuse(fmt.Sprintf("%d of them", len(n.ids)+count), fmt.Sprintf("at most %d", placesMax), "")
			return n
		}
		first := len(n.ids)
		if id == "" {
			continue
		}
		n.add(s.Field("id"), id, named{span{first, count}, s.Field("id").Line(), group})
		n.ids = slices.Grow(n.ids, count)
		for k := range count {
			if group {
				n.ids = append(n.ids, id+"-"+strconv.Itoa(k+1))
			} else {
				n.ids = append(n.ids, id)
			}
		}
		if each != nil {
			each(s, n.ids[first:])
		}
	}
	return n
}

// id reads a name that may be that of a node.
func (n *names) id(v scenario.Value) string {
	id := v.ID(idMax)
	if id == "self" || strings.Contains(id, "/") {
		v.Refuse(fmt.Sprintf("the id %q", id), `an id that is not "self" and has no "/"`, "")
		return ""
	}
	return id
}

// add adds an id of the file, unless it, or one of its group's members, is there already.
func (n *names) add(v scenario.Value, id string, s named) {
	twice := func(id string, line int) {
		v.Refuse(fmt.Sprintf("the id %q a second time (the first is on line %d)", id, line), "every id once", "")
	}
	if _, line, ok := n.find(id); ok {
		twice(id, line)
		return
	}
	if s.group {
		for _, k := range n.numbered[id] {
			if k <= s.count {
				member := id + "-" + strconv.Itoa(k)
				twice(member, n.byID[member].line)
				return
			}
		}
	}
	n.byID[id] = s
	if group, k := memberOf(id); k > 0 {
		n.numbered[group] = append(n.numbered[group], k)
	}
}

// memberOf is the group and the number, from 1, of the member that an id may stand for; 0: none.
func memberOf(id string) (group string, number int) {
	at := strings.LastIndexByte(id, '-')
	k, err := strconv.Atoi(id[at+1:])
	if at < 0 || err != nil || k < 1 || id[at+1:] != strconv.Itoa(k) {
		return "", 0
	}
	return id[:at], k
}

// find is the things that a name stands for, and its line.
func (n *names) find(id string) (s span, line int, ok bool) {
	if e, ok := n.byID[id]; ok {
		return e.span, e.line, true
	}
	group, k := memberOf(id)
	if e := n.byID[group]; e.group && k > 0 && k <= e.count {
		return span{e.first + k - 1, 1}, e.line, true
	}
	return span{}, 0, false
}

// known are some names, for suggestions.
func (n *names) known() []string {
	all := make([]string, 0, len(n.byID))
	for id := range n.byID {
		all = append(all, id)
	}
	slices.Sort(all)
	return all[:min(len(all), 1000)]
}

// read reads a name or a list of names: the things that they stand for, in the order of the file.
func (n *names) read(v scenario.Value) (all []int) {
	items := []scenario.Value{v}
	if v.IsList() {
		items = v.List()
		if len(items) == 0 {
			v.Refuse("an empty list", "the id of a "+n.what+" or of a group, or a list of them", "")
		}
	}
	if n.seen == nil {
		n.seen = make([]int, len(n.ids))
	}
	n.reads++
	for _, item := range items {
		id := item.Text()
		if id == "" {
			continue
		}
		s, _, ok := n.find(id)
		if !ok {
			item.Refuse(fmt.Sprintf("the unknown %s %q", n.what, id), "the id of a "+n.what+" or of a group",
				scenario.Suggest(id, n.known()))
			continue
		}
		for k := range s.count {
			if n.seen[s.first+k] == n.reads {
				item.Refuse(fmt.Sprintf("the %s %q a second time", n.what, n.ids[s.first+k]), "each once", "")
				return nil
			}
			n.seen[s.first+k] = n.reads
			all = append(all, s.first+k)
		}
	}
	return all
}

// set is some of the things of one kind; nil: all.
type set map[int]bool

func (s set) has(n int32) bool { return s == nil || s[int(n)] }

// set reads a name or a list of names, or all where nothing stands there.
func (n *names) set(v scenario.Value) set {
	if !v.OrNull().Present() {
		return nil
	}
	s := set{}
	for _, k := range n.read(v) {
		s[k] = true
	}
	return s
}

func (l *loader) readLocation(s scenario.Section, ids []string) {
	source := s.Field("source").BoolOr(false)
	calendar := l.calendar(s.Field("calendar").OrNull())
	if source && calendar != nil {
		s.Field("calendar").Refuse("a calendar of a source", "none: a source doesn't order", "remove the field")
	}
	for _, id := range ids {
		l.spec.Locations = append(l.spec.Locations, Location{ID: id, Source: source, Calendar: calendar})
	}
}

// calendar reads the name of one.
func (l *loader) calendar(v scenario.Value) *Calendar {
	if !v.Present() {
		return nil
	}
	id := v.Text()
	c, ok := l.calendars[id]
	if !ok && id != "" {
		known := make([]string, 0, len(l.calendars))
		for name := range l.calendars {
			known = append(known, name)
		}
		slices.Sort(known)
		v.Refuse(fmt.Sprintf("the unknown calendar %q", id), "the id of one of calendars", scenario.Suggest(id, known))
	}
	return c
}

func (l *loader) readCalendars(v scenario.Value) {
	if !v.Present() {
		return
	}
	for _, item := range v.List() {
		s := item.Section("id", "cycle", "open")
		id := s.Field("id").ID(idMax)
		if _, twice := l.calendars[id]; twice {
			s.Field("id").Refuse(fmt.Sprintf("the id %q a second time", id), "every id once", "")
		}
		c := &Calendar{Cycle: s.Field("cycle").Float(scenario.Between(1e-6, secondsMax))}
		l.calendars[id] = c
		open := s.Field("open")
		windows := open.List()
		if open.IsList() && (len(windows) == 0 || len(windows) > windowsMax) {
			open.Refuse(fmt.Sprintf("%d windows", len(windows)), fmt.Sprintf("1 to %d", windowsMax), "")
		}
		last := 0.0
		for _, w := range windows {
			s := w.Section("from", "until")
			from := s.Field("from").Float(scenario.AtLeast(0).AtMost(secondsMax))
			until := s.Field("until").Float(scenario.AtLeast(0).AtMost(secondsMax))
			if l.good() && !(from >= last && until > from && until <= c.Cycle) {
				w.Refuse(fmt.Sprintf("a window from %g to %g behind %g", from, until, last), fmt.Sprintf(
					"windows that rise, don't overlap, and end by %g, the cycle", c.Cycle), "")
			}
			last = until
			c.Windows = append(c.Windows, Window{from, until})
		}
	}
}

// seconds reads the distribution of a time that passes: never negative, and never exactly 0, because then what it
// delays would happen at the instant of its cause, and things that cause each other would never end.
func (l *loader) seconds(v scenario.Value) dist.Dist {
	d := dist.Read(v)
	if !d.IsSet() {
		return d
	}
	switch {
	case d.Min() < 0:
		v.Refuse(fmt.Sprintf("%v, which may be below 0", d),
			"a time that is never below 0", "add at_least or min to the distribution")
	case d.CDF(0) > 0:
		v.Refuse(fmt.Sprintf("%v, which may be 0", d), "a time that is never 0", "")
	case !(d.Mean() >= secondsMin && d.Mean() <= secondsMax):
		v.Refuse(fmt.Sprintf("%v with mean %g", d, d.Mean()), fmt.Sprintf("a mean from %g to %g s", secondsMin,
			float64(secondsMax)), "")
	}
	return d
}

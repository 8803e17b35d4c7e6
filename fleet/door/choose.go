// SPDX-License-Identifier: Apache-2.0

package door

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/disco-sim/disco/fleet"
)

// Grade is how well a site does for an experiment; a lower one comes first, whatever the scores.
type Grade uint8

// The grades.
const (
	Healthy   Grade = iota + 1 // it has free servers that would do
	Busy                       // it has none
	Degraded                   // less than half of the machines that it should have are there and well
	Unhealthy                  // it can't be reached, or no machine there would do: it is given nothing
)

// String is the grade in capital letters.
func (c Grade) String() string {
	names := [...]string{"", "HEALTHY", "BUSY", "DEGRADED", "UNHEALTHY"}
	return names[min(int(c), len(names)-1)]
}

// Terms of a score, in points: the lower score is better.
const (
	loadPoints     = 100 // × servers that are promised and pieces that wait / servers
	loadMost       = 1_000
	distanceMost   = 200 // a millisecond of the round trip is a point
	dataPoints     = 50  // its parts and checkpoints are there
	scenarioPoints = 20  // an experiment of the same scenario was there
	tripsKept      = 16
)

// candidate is a site, seen as a place for an experiment.
type candidate struct {
	site  *site
	grade Grade
	score float64
	text  string // why
}

// fit is what of a site would do for an experiment.
func fit(e *fleet.Spec, machines []Machine) (servers, free, largest int) {
	for _, m := range machines {
		if e.Version != "" && m.Version != e.Version {
			continue
		}
		if slices.ContainsFunc(labels(e), func(l [2]string) bool { return m.Labels[l[0]] != l[1] }) {
			continue
		}
		servers, largest = servers+m.Servers, max(largest, m.Servers)
		if !m.Unwell {
			free += m.Free
		}
	}
	return servers, free, largest
}

func labels(e *fleet.Spec) (all [][2]string) {
	for k, v := range e.Labels {
		all = append(all, [2]string{k, v})
	}
	return all
}

// gang is how many servers of one machine an experiment wants.
func gang(e *fleet.Spec) (most int) {
	for _, step := range e.Steps {
		most = max(most, step.Workers, 1)
	}
	return most
}

// lacks says why no machine of a site would do; "" where one does.
func (s *site) lacks(e *fleet.Spec) string {
	_, _, largest := fit(e, s.machines)
	switch {
	case len(s.machines) == 0:
		return "it has no machine that simulates"
	case largest == 0:
		return fmt.Sprintf("none of its %d machines has the program and the labels", len(s.machines))
	case largest < gang(e):
		return fmt.Sprintf("a piece wants %d of one machine's servers, and the largest has %d", gang(e), largest)
	}
	return ""
}

// distance is a bound of the site's round trip: its mean and two deviations, in milliseconds.
func (s *site) distance() float64 {
	var sum, squares float64
	for _, t := range s.trips {
		ms := float64(t) / 1e6
		sum, squares = sum+ms, squares+ms*ms
	}
	n := float64(max(len(s.trips), 1))
	mean := sum / n
	return mean + 2*math.Sqrt(max(0, squares/n-mean*mean))
}

// judge sees a site as a place for an experiment.
func (d *Door) judge(s *site, e *fleet.Experiment, r *fleet.Route) candidate {
	c := candidate{site: s, grade: Unhealthy}
	older := s.older(e)
	switch lacks := ""; {
	case s.failing != never:
		c.text = "it doesn't answer: " + s.why
	case s.seen == never:
		c.text = "it wasn't seen yet"
	case slices.ContainsFunc(r.Tried, func(t fleet.Tried) bool { return t.Failed && t.Site == s.Name }):
		c.text = "it failed there"
	case older != nil && !older.Ended():
		c.text = "what was given to it before hasn't ended there"
	default:
		if lacks = s.lacks(e.Spec); lacks != "" {
			c.text = lacks
			break
		}
		c.grade, c.score, c.text = d.weigh(s, e, older)
	}
	return c
}

// weigh gives a site that would do its grade and its score; older is what it had of the experiment before, or nil.
func (d *Door) weigh(s *site, e, older *fleet.Experiment) (grade Grade, score float64, text string) {
	servers, free, _ := fit(e.Spec, s.machines)
	well := 0
	for _, m := range s.machines {
		if !m.Unwell {
			well++
		}
	}
	switch {
	case 2*well < s.Least:
		grade = Degraded
	case free-s.waiting <= 0:
		grade = Busy
	default:
		grade = Healthy
	}
	load := min(loadMost, loadPoints*float64(servers-free+s.waiting)/float64(servers))
	distance, data := min(distanceMost, s.distance()), 0.0
	if older != nil && older.Standing != nil && older.Standing.Began != nil && e.Spec.Place == "" {
		data += dataPoints
	}
	if s.knows(e.Spec) {
		data += scenarioPoints
	}
	score = load + distance - data
	return grade, score, fmt.Sprintf("%d of %d servers free, %d pieces wait, score %.0f = %.0f + %.0f - %.0f", free,
		servers, s.waiting, score, load, distance, data)
}

// older is what was given to a site before of an experiment: what hasn't ended, or else the newest.
func (s *site) older(e *fleet.Experiment) (found *fleet.Experiment) {
	for _, x := range s.experiments {
		if x.Spec.Home.ID != e.ID {
			continue
		}
		if found == nil || found.Ended() && !x.Ended() || found.Ended() == x.Ended() &&
			x.Spec.Home.Epoch > found.Spec.Home.Epoch {
			found = x
		}
	}
	return found
}

// knows tells whether a site has had an experiment of the same scenario.
func (s *site) knows(e *fleet.Spec) bool {
	return slices.ContainsFunc(s.all, func(x fleet.Experiment) bool {
		return x.Spec != nil && x.Spec.Steps[0].Text == e.Steps[0].Text
	})
}

// choose gives the sites in the order in which an experiment is given to them, the UNHEALTHY ones last, and says why.
func (d *Door) choose(e *fleet.Experiment, r *fleet.Route) (all []candidate, why string) {
	for _, s := range d.sites {
		all = append(all, d.judge(s, e, r))
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.grade, b.grade), cmp.Compare(a.score, b.score),
			strings.Compare(a.site.Name, b.site.Name))
	})
	var lines []string
	for _, c := range all {
		lines = append(lines, fmt.Sprintf("%s: %v: %s", c.site.Name, c.grade, c.text))
	}
	return all, bounded(strings.Join(lines, "; "), fleet.MaxReason)
}

// bounded is a text that may be kept.
func bounded(text string, most int) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	return strings.ToValidUTF8(clean[:min(len(clean), most)], "")
}

// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// How far two machines are from each other is measured by their agents, and is in their vitals. What it is for, and why
// it is measured and not predicted, is in docs/fleet.md, "Distance".

// farAway is the distance of machines between which none was measured: seconds.
const farAway = 1.0

// farBytes are what a round trip takes along: a window's events of a run over machines, more or less.
const farBytes = 16 << 10

// between is what was measured between two machines, from either end.
type between struct {
	roundTrip float64 // seconds, the less of both; 0: not known
	rate      float64 // bytes a second, the less of both; 0: not known
	cut       string  // why one can't reach the other; "": nobody says so
	third     string  // over which the round trip is; "": it was measured
}

// way is what two machines' vitals say of the way between them.
func way(a, b *machine) (w between) {
	for _, pair := range [2][2]*machine{{a, b}, {b, a}} {
		v, name := pair[0].vitals, pair[1].Name
		if v == nil {
			continue
		}
		if x := v.Far[name]; x > 0 && (w.roundTrip == 0 || x < w.roundTrip) {
			w.roundTrip = x
		}
		if x := v.Rates[name]; x > 0 && (w.rate == 0 || x < w.rate) {
			w.rate = x
		}
		if why, is := v.Unreachable[name]; is && w.cut == "" {
			w.cut = fmt.Sprintf("%s can't reach %s: %s", pair[0].Name, name, why)
		}
	}
	return w
}

// between is the way between two machines. Where nobody has measured it, it is the shortest one over a third machine.
func (s *State) between(a, b *machine) between {
	w := way(a, b)
	if w.roundTrip == 0 && w.cut == "" {
		w.third, w.roundTrip = s.thirds.way(s, a.Name, b.Name)
	}
	return w
}

// thirds have the shortest ways over a third machine, between machines where nobody has measured.
type thirds struct {
	at       time.Duration                 // when measured was taken over
	measured map[string]map[string]float64 // round trips by both names
	known    map[[2]string]third
}

// third is such a way: seconds, 0 where there is none.
type third struct {
	name string
	trip float64
}

// thirdsEvery is how often they are made anew, at most: a thousand machines take a quarter of a second.
const thirdsEvery = 10 * time.Second

// way is that between two machines.
func (x *thirds) way(s *State, a, b string) (name string, trip float64) {
	if x.measured == nil || s.now >= x.at+thirdsEvery {
		x.take(s)
	}
	key := [2]string{min(a, b), max(a, b)}
	if was, is := x.known[key]; is {
		return was.name, was.trip
	}
	few, many := x.measured[a], x.measured[b]
	if len(few) > len(many) {
		few, many = many, few
	}
	best := third{}
	for over, one := range few {
		other := many[over]
		sum := one + other
		if other > 0 && (best.trip == 0 || sum < best.trip || sum == best.trip && over < best.name) {
			best = third{over, sum}
		}
	}
	x.known[key] = best
	return best.name, best.trip
}

// take takes over what was measured, from either end.
func (x *thirds) take(s *State) {
	x.at, x.measured, x.known = s.now, map[string]map[string]float64{}, map[[2]string]third{}
	note := func(a, b string, trip float64) {
		if x.measured[a] == nil {
			x.measured[a] = map[string]float64{}
		}
		if was := x.measured[a][b]; was == 0 || trip < was {
			x.measured[a][b] = trip
		}
	}
	for name, m := range s.machines {
		if m.vitals == nil {
			continue
		}
		for other, trip := range m.vitals.Far {
			if trip > 0 {
				note(name, other, trip)
				note(other, name, trip)
			}
		}
	}
}

// seconds is how far two machines are from each other, rounded to a power of two, so that two measurements of one
// network say the same, and labels count among machines that are as far.
func (w *between) seconds() float64 {
	if w.cut != "" || w.roundTrip == 0 {
		return farAway
	}
	x := w.roundTrip
	if w.rate > 0 {
		x += farBytes / w.rate
	}
	return min(farAway, math.Exp2(math.Round(math.Log2(x))))
}

// String is for people.
func (w *between) String() string {
	switch {
	case w.cut != "":
		return w.cut
	case w.roundTrip == 0:
		return "not measured"
	case w.third != "":
		return fmt.Sprintf("not measured, and %.3g ms over %s", 1e3*w.roundTrip, w.third)
	case w.rate == 0:
		return fmt.Sprintf("%.3g ms", 1e3*w.roundTrip)
	}
	return fmt.Sprintf("%.3g ms, %.3g MB/s", 1e3*w.roundTrip, w.rate/1e6)
}

// doubted are the machines of a piece's last attempt, where that has failed on several of them and nobody knows which
// one it was: the way between any two of them may be the fault.
func (p *Piece) doubted() map[string]bool {
	if p == nil || p.Error == nil || p.Error.Type != ErrorMachine || p.Error.Where != "" || p.State.Ended() {
		return nil
	}
	names := map[string]bool{}
	for _, g := range p.Gang {
		names[g.Member] = true
	}
	return names
}

// contender is a machine that may become the next one of a gang, and what it has to do with those that were taken.
type contender struct {
	*machine
	cut   int     // of them can't be with it in one gang, as far as was measured, or their last attempt has failed
	apart float64 // seconds to all of them, together
	near  int     // labels in common with them
}

// beside notes that a machine was taken.
func (c *contender) beside(s *State, taken *machine, doubted map[string]bool) {
	w := s.between(c.machine, taken)
	if w.cut != "" || doubted[c.Name] && doubted[taken.Name] {
		c.cut++
	}
	c.apart += w.seconds()
	c.near += near(c.machine, taken)
}

// cut tells whether one of two machines says that it can't reach the other.
func cut(a, b *machine) bool {
	for _, pair := range [2][2]*machine{{a, b}, {b, a}} {
		if v := pair[0].vitals; v != nil {
			if _, is := v.Unreachable[pair[1].Name]; is {
				return true
			}
		}
	}
	return false
}

// isCut tells whether a machine of a gang is cut off from another one of it: the way is at fault then, and no machine.
func (s *State) isCut(name string, gang []Server) bool {
	m := s.machines[name]
	return m != nil && slices.ContainsFunc(gang, func(g Server) bool {
		other := s.machines[g.Member]
		return other != nil && other != m && cut(m, other)
	})
}

// membersOf are a gang's machines, by the order of its partitions.
func membersOf(gang []Server) (names []string) {
	for _, g := range gang {
		if !slices.Contains(names, g.Member) {
			names = append(names, g.Member)
		}
	}
	return names
}

// whyGang says what a piece's gang of several machines is, or would be now, and what lies between them.
func (s *State) whyGang(t *step, was *Piece) string {
	if t.gang() < 2 {
		return ""
	}
	gang, _ := s.find(t, was)
	verb := "would be"
	if was != nil && was.State.Holds() {
		gang, verb = was.Gang, "is"
	}
	names := membersOf(gang)
	if len(names) < 2 {
		return ""
	}
	var text strings.Builder
	fmt.Fprintf(&text, "its gang %s on %s: of those that are whole the one with the fewest pairs that can't reach "+
		"each other, then the fewest slow machines and machines, the shortest ways, the most labels in common\n", verb,
		strings.Join(names, ", "))
	pairs := 0
	for i, a := range names {
		for _, b := range names[:i] {
			if pairs++; pairs > whyPairs {
				continue
			}
			w := s.between(s.machine(a), s.machine(b))
			fmt.Fprintf(&text, "%-20s %s; labels in common: %d\n", b+" - "+a, &w,
				near(s.machine(a), s.machine(b)))
		}
	}
	if pairs > whyPairs {
		fmt.Fprintf(&text, "and %d pairs more\n", pairs-whyPairs)
	}
	return text.String()
}

// whyPairs bounds what people are shown of the ways in a gang.
const whyPairs = 50

// ReadUnreachable reads which machines of a group say that they can't reach others, and which, for people.
func ReadUnreachable(ctx context.Context, store *metastore.Store) (texts map[string]string, err error) {
	all, _, err := (&Client{store: store}).Vitals(ctx)
	for name, v := range all {
		if text := v.cutOff(); text != "" {
			if texts == nil {
				texts = map[string]string{}
			}
			texts[name] = text
		}
	}
	return texts, err
}

// cutOff says which machines one can't reach; "": it reaches all that it has tried.
func (v *Vitals) cutOff() string {
	names := slices.Sorted(maps.Keys(v.Unreachable))
	switch len(names) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("can't reach %s (%s)", names[0], v.Unreachable[names[0]])
	}
	return fmt.Sprintf("can't reach %s (%s), and %d more", names[0], v.Unreachable[names[0]], len(names)-1)
}

// near is how many labels two machines have in common: those of one rack are near each other when their labels say so.
func near(a, b *machine) (labels int) {
	for key, value := range a.Labels {
		if b.Labels[key] == value {
			labels++
		}
	}
	return labels
}

// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/disco-sim/disco/cluster"
)

// What a leader keeps so that it needn't look at all machines and experiments is compared with the plain computation
// from all of them, which is here alone, in random histories.

var histories = flag.Int("histories", 0, "how many histories TestIndices makes; 0: 60, or 10 with -short")

func TestIndices(t *testing.T) {
	count := *histories
	if count == 0 {
		count = 60
		if testing.Short() {
			count = 10
		}
	}
	var seen struct{ stuck, slow, ill, found, many, warm, drained, trimmed int }
	for seed := *firstSeed; seed < *firstSeed+count && !t.Failed(); seed++ {
		h := newHistory(t, seed)
		h.plain = map[*machine]*judged{}
		for range 300 {
			h.happens()
			if h.compare(); t.Failed() {
				t.Fatalf("history %d, at %v", seed, h.at)
			}
			for _, m := range h.machines {
				seen.stuck += b2i(m.stuck > 0)
				seen.slow += b2i(m.ratio > 0 && m.ratio < paceLeast)
			}
			seen.ill, seen.drained, seen.trimmed = seen.ill+h.ill, seen.drained+len(h.drained), seen.trimmed+h.round
		}
		seen.found, seen.many, seen.warm = seen.found+h.found, seen.many+h.many, seen.warm+h.warmed
	}
	t.Logf("%+v", seen)
	if x := seen; min(x.stuck, x.slow, x.ill, x.found, x.many, x.warm, x.drained, x.trimmed) == 0 {
		t.Error("something was never compared")
	}
}

// compare compares all that is kept with the plain computation.
func (h *history) compare() {
	h.Helper()
	present, open, free := 0, 0, 0
	for _, m := range h.machines {
		present += len(m.servers)
		here := 0
		for _, sv := range m.servers {
			here += b2i(sv.there && sv.State != cluster.Broken && sv.State != cluster.Exited)
		}
		if here != m.here {
			h.Errorf("%s has %d servers here, want %d", m.Name, m.here, here)
		}
		open, free = open+b2i(m.free > 0), free+m.free
	}
	if present != h.present || open != h.State.open || free != h.free {
		h.Errorf("found %d servers, %d machines with %d free ones, want %d, %d, %d", h.present, h.State.open, h.free,
			present, open, free)
	}
	lined := 0
	for _, t := range h.line {
		lined += len(t.queue)
	}
	for _, e := range h.order {
		lined -= b2i(e.lined)
		wants := h.wants(e)
		if !e.filed.unfiled && (e.lined != wants || e.unsure() && !wants && e.waits != never) {
			h.Errorf("%s is in line: %v, want %v", e.ID, e.lined, wants)
		}
		if e.lined && !e.filed.unfiled && (e.lifted > h.now && e.filed.class != h.class(e) || e.lifted == 0) {
			h.Errorf("%s has the class %d in line, want %d", e.ID, e.filed.class, h.class(e))
		}
		if i := h.line.find(e.filed.class, e.User); e.lined && (i < 0 || !slices.Contains(h.line[i].queue, e)) {
			h.Errorf("%s isn't in line", e.ID)
		}
		h.compareDemand(e)
		for _, t := range e.steps {
			h.compareFind(t, nil)
			for _, id := range inOrder(e.pieces) {
				if p := e.pieces[id]; p.step == t && p.State == Waiting {
					h.compareFind(t, &p.Piece)
				}
			}
		}
	}
	if lined != 0 {
		h.Errorf("%d more are in line than there are", lined)
	}
}

func (h *history) compareDemand(e *underway) {
	h.Helper()
	d := h.fresh(e.demand)
	fit, ill, free := 0, []string{}, []string{}
	var fitting []*machine
	for _, name := range slices.Sorted(maps.Keys(h.machines)) {
		m := h.machines[name]
		if h.fits(m, e.demand) != "" {
			continue
		}
		if fit++; !m.isWell() {
			ill = append(ill, name)
		} else if m.free > 0 {
			fitting = append(fitting, m)
		}
	}
	slices.SortStableFunc(fitting, func(a, b *machine) int {
		load := func(m *machine) int { l, _, _, slow := terms(m, e, nil); return l + slow }
		return cmp.Compare(load(a), load(b))
	})
	for _, m := range fitting {
		free = append(free, m.Name)
	}
	want := fmt.Sprint(fit, ill, free)
	if got := fmt.Sprint(d.fit, names(d.ill), names(d.free)); got != want {
		h.Errorf("%s: found %s, want %s", e.ID, got, want)
	}
	for _, t := range e.steps {
		fault := []string{h.fleet[0].Name, "nobody", h.fleet[len(h.fleet)-1].Name, h.fleet[0].Name}[:h.r.IntN(5)]
		x, want := h.sumsBut(t, fault), h.plainSums(t, fault)
		if x.alone != want.alone || x.joined() != want.joined() {
			h.Errorf("%s without %v: found %+v, want %+v", e.ID, fault, x, want)
		}
		if want = h.plainSums(t, nil); h.capacity(t) != max(want.alone, want.joined()) {
			h.Errorf("%s: the capacity is %d, want that of %+v", e.ID, h.capacity(t), want)
		}
	}
}

func names(all []*machine) []string {
	names := []string{}
	for _, m := range all {
		names = append(names, m.Name)
	}
	return names
}

func (s *State) plainSums(t *step, fault []string) (x sums) {
	x.builds = map[string]int{}
	for _, m := range s.machines {
		why := s.fits(m, t.experiment.demand)
		if why != "" && why != "is drained" || slices.Contains(fault, m.Name) {
			continue
		}
		here := 0
		for _, sv := range m.servers {
			if sv.there && sv.State != cluster.Broken && sv.State != cluster.Exited {
				here++
			}
		}
		x.alone = max(x.alone, here)
		if m.together() {
			x.builds[m.build()] += min(here, gangServers)
		}
	}
	return x
}

// compareFind has servers be looked for, in turn for a piece that waits and for one that hasn't begun.
func (h *history) compareFind(t *step, was *Piece) {
	h.Helper()
	got, short := h.find(t, was)
	want := h.plainFind(t, was)
	if !slices.Equal(got, want) {
		h.Errorf("for step %d of %s: found %v, want %v", t.number, t.experiment.ID, got, want)
	}
	if short && want != nil {
		h.Errorf("for step %d of %s there are too few, and it was found %v", t.number, t.experiment.ID, want)
	}
	h.found += b2i(want != nil)
	h.many += b2i(len(membersOf(want)) > 1)
	h.warmed += b2i(want != nil && t.experiment.warm[h.machines[want[0].Member]])
}

// compareLeft fails where something waits that could be placed, behind a Decide that has placed what it could.
func (h *history) compareLeft() {
	h.Helper()
	for _, e := range h.order {
		if !h.wants(e) {
			continue
		}
		if e.again.Len() > 0 {
			if p := e.again.First().Value; h.plainFind(p.step, &p.Piece) != nil {
				h.Errorf("piece %v of %s isn't given servers", p.id, e.ID)
			}
		}
		for _, t := range e.nexts() {
			if h.plainFind(t, nil) != nil {
				h.Errorf("step %d of %s isn't given servers", t.number, e.ID)
			}
		}
	}
}

func (s *State) plainMay(m *machine, t *step, fault []string) bool {
	reserved := s.head != nil && s.head.step != t && !slices.Contains(s.head.fault, m.Name) &&
		s.fits(m, s.head.step.experiment.demand) == ""
	return m.free > 0 && !slices.Contains(fault, m.Name) && s.fits(m, t.experiment.demand) == "" && m.isWell() &&
		!reserved
}

func (s *State) plainFind(t *step, was *Piece) []Server {
	var fault []string
	if was != nil && len(was.Fault) > 0 {
		if x := s.plainSums(t, was.Fault); max(x.alone, x.joined()) >= t.gang() {
			fault = was.Fault
		}
	}
	want, least := t.gang(), 0
	var best *machine
	builds, free := map[string][]*machine{}, map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(s.machines)) {
		m := s.machines[name]
		if !s.plainMay(m, t, fault) {
			continue
		}
		if m.together() {
			builds[m.build()], free[m.build()] = append(builds[m.build()], m), free[m.build()]+min(s.freeOf(m), 64)
		}
		if now := score(m, t.experiment, was); s.freeOf(m) >= want && (best == nil || now < least) {
			best, least = m, now
		}
	}
	if best != nil || want == 1 {
		return s.pick(nil, cmp.Or(best, &machine{}), want)
	}
	var chosen *choice
	for _, build := range slices.Sorted(maps.Keys(builds)) {
		all := builds[build]
		if free[build] < want {
			continue
		}
		slices.SortStableFunc(all, func(a, b *machine) int { // by name before
			return cmp.Or(cmp.Compare(a.slow(), b.slow()), cmp.Compare(s.part(b, want), s.part(a, want)),
				cmp.Compare(score(a, t.experiment, was), score(b, t.experiment, was)))
		})
		for _, first := range all[:min(len(all), gangStarts)] {
			if now := s.choose(first, all, t, was); chosen == nil || now.before(chosen) {
				chosen = now
			}
		}
	}
	if chosen == nil || len(chosen.gang) < want {
		return nil
	}
	return chosen.gang
}

// judged is what the plain computation keeps of a machine.
type judged struct {
	is       Condition
	present  bool
	vitals   *Vitals
	vitalsAt time.Duration
	pace     float64
	paceAt   time.Duration
	fellAt   time.Duration
}

// plainJudge judges all machines as they will be when it is decided at a time. It is called before.
func (h *history) plainJudge(now time.Duration) (check func()) {
	if !h.unjudged && now < h.judged+judgeEvery {
		return func() {}
	}
	h.now = now
	paces, stuck := h.plainPaces()
	said := HealthReport{Machines: map[string]Condition{}}
	fallen, all, ill := 0, 0, 0
	for _, name := range slices.Sorted(maps.Keys(h.machines)) {
		m := h.machines[name]
		x := h.plain[m]
		if x == nil {
			x = &judged{}
			h.plain[m] = x
		}
		if m.vitals == nil {
			x.vitals = nil
		}
		if v := m.newVitals; v != nil {
			if x.vitals == nil || x.vitals.Number != v.Number {
				x.vitalsAt = now
			}
			x.vitals = v
		}
		if pace, known := paces[m]; known {
			x.pace, x.paceAt = pace, now
		} else if now-x.paceAt > paceKept {
			x.pace = 0
		}
		g := Signs{Present: m.Status == cluster.Up || m.Status == cluster.Leaving, Vitals: x.vitals,
			Age: now - x.vitalsAt, Pace: x.pace, Stuck: stuck[m], Number: uint64(now / VitalsEvery)}
		if x.vitals != nil {
			g.Number = x.vitals.Number
		}
		was := x.is.Health
		x.is = Judge(x.is, g)
		is := x.is.Health
		x.present = x.present || g.Present
		if is >= Stuck && was < Stuck && x.present {
			x.fellAt = now
		}
		if x.present && (is < Stuck || now-x.fellAt <= massWithin) {
			all, fallen = all+1, fallen+b2i(is >= Stuck)
		}
		ill += b2i(is == Full || is == Stuck)
		if !(is == Good && x.is.Reason == "" || is == Gone && !x.present) {
			said.Machines[name] = Condition{Health: is, Reason: x.is.Reason}
		}
	}
	return func() {
		h.Helper()
		if h.fallen != fallen || h.counted != all || h.ill != ill || !said.equal(&h.said) {
			h.Errorf("found %d of %d fallen, %d ill, said is %+v; want %d of %d, %d, %+v", h.fallen, h.counted, h.ill,
				h.said, fallen, all, ill, said)
		}
		for m, x := range h.plain {
			if m.condition != x.is || m.pace != x.pace || m.present != x.present || m.fellAt != x.fellAt ||
				!reflect.DeepEqual(m.vitals, x.vitals) {
				h.Errorf("%s: found %+v and the pace %v, want %+v", m.Name, m.condition, m.pace, x)
			}
		}
	}
}

func (s *State) plainPaces() (paces map[*machine]float64, stuck map[*machine]bool) {
	of, moves := map[pointKey][]*piece{}, map[*underway]bool{}
	var running []*piece
	for _, e := range s.experiments {
		for _, p := range e.pieces {
			if p.meter.attempt != p.Attempt || p.State != Running {
				continue
			}
			running = append(running, p)
			if s.stands(p) < stuckAfter {
				moves[e] = true
			}
			if p.meter.pace > 0 {
				key := pointKey{p.step, p.id.Point}
				of[key] = append(of[key], p)
			}
		}
	}
	ratios := map[*machine][]float64{}
	for _, all := range of {
		on := map[string]bool{}
		values := make([]float64, len(all))
		for i, p := range all {
			on[p.Gang[0].Member], values[i] = true, p.meter.pace
		}
		if len(on) < paceMachines {
			continue
		}
		middle := median(values)
		for _, p := range all {
			m := s.machine(p.Gang[0].Member)
			ratios[m] = append(ratios[m], p.meter.pace/middle)
		}
	}
	paces, stuck = map[*machine]float64{}, map[*machine]bool{}
	for m, all := range ratios {
		paces[m] = median(all)
	}
	for _, p := range running {
		if moves[p.step.experiment] && s.stands(p) >= stuckAfter {
			for _, g := range p.Gang {
				stuck[s.machine(g.Member)] = true
			}
		}
	}
	return paces, stuck
}

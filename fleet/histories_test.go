// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/metastore"
)

// history is a leader to which all sorts of things happen at random: machines come, go, get full, are drained and cut
// off; servers break; experiments want other labels, programs and gangs; people change their minds; agents obey, or
// don't. It depends on its seed alone.
type history struct {
	*bench
	r       *rand.Rand
	fleet   []cluster.Member
	drained []string
	vital   map[string]Vitals
	number  uint64

	lasting bool // runs last for long

	plain               map[*machine]*judged // nil: nothing is compared
	found, many, warmed int                  // gangs that were compared
}

func newHistory(t testing.TB, seed int) *history {
	r := rand.New(rand.NewPCG(uint64(seed), 29))
	h := &history{r: r, vital: map[string]Vitals{}, lasting: seed%4 == 0}
	h.bench = &bench{TB: t, State: NewState("m0", 7, Rules{Age: time.Minute, Head: 20 * time.Second,
		PauseAfter: 30 * time.Second, TooFew: 40 * time.Second, Retries: 1 + r.IntN(10), Keep: 1 + r.IntN(3)})}
	for i := range 2 + r.IntN(9) {
		name := fmt.Sprintf("m%d", i)
		m := cluster.Member{Name: name, Status: cluster.Up, Version: []string{"v1", "v1", "v2"}[r.IntN(3)],
			Digest: []string{"", "d"}[r.IntN(2)], Roles: []string{Role},
			Labels: map[string]string{"rack": []string{"a", "b"}[r.IntN(2)]}}
		if r.IntN(4) > 0 {
			m.Address, m.Roles = name+":1", append(m.Roles, RoleGang)
		}
		h.fleet = append(h.fleet, m)
		for j := range 1 + r.IntN(4) {
			h.PutServer(cluster.Server{Name: fmt.Sprintf("%s-%d", name, j), Status: cluster.Status{
				State: cluster.Available, Incarnation: "i"}, Info: cluster.Info{Member: name, Slot: j}})
		}
	}
	h.PutMembers(h.fleet, nil)
	if h.lasting {
		h.submit("long", 8, 1)
	}
	return h
}

// oneOf is one of names.
func oneOf[V any](r *rand.Rand, all map[string]V) string {
	names := slices.Sorted(maps.Keys(all))
	if len(names) == 0 {
		return ""
	}
	return names[r.IntN(len(names))]
}

// happens has one thing happen.
func (h *history) happens() {
	switch n := h.r.IntN(20); {
	case n == 0:
		h.enter()
	case n == 1:
		h.wish()
	case n == 2:
		h.changeMembers()
	case n <= 4:
		h.writeVitals()
	case n <= 6:
		h.changeServer()
	default:
		h.simulate()
	}
}

// enter has people submit something.
func (h *history) enter() {
	id := fmt.Sprint("e", len(h.experiments))
	if h.experiments[id] != nil || len(h.order) > 8 {
		return
	}
	h.submit(id, 1+h.r.IntN(6), 1+h.r.IntN(1+h.r.IntN(7)), func(s *Spec) {
		s.User = fmt.Sprint("user", h.r.IntN(3))
		s.Version = []string{"", "", "v1", "v2"}[h.r.IntN(4)]
		if h.r.IntN(3) == 0 {
			s.Labels = map[string]string{"rack": []string{"a", "b", "c"}[h.r.IntN(3)]}
		}
		s.Steps[0].Points = make([][]string, 1+h.r.IntN(2))
		if h.r.IntN(3) == 0 {
			s.Steps = append(s.Steps, Step{Name: "b", Points: make([][]string, 1), Replications: 3,
				Workers: 1 + h.r.IntN(3), Priority: []Priority{"", High}[h.r.IntN(2)]})
			if h.r.IntN(2) == 0 {
				s.Steps[1].After = []string{"a"}
			}
		}
		if h.r.IntN(4) == 0 {
			s.Steps[0].Points, s.Steps[0].Until = make([][]string, 1), []string{"x ± 1"}
		}
		s.FailFast = h.r.IntN(8) == 0
	})
}

func (h *history) wish() {
	e := h.experiments[oneOf(h.r, h.experiments)]
	if e == nil {
		return
	}
	w := e.wish
	w.Number++
	switch h.r.IntN(6) {
	case 0:
		w.Want = WantPause
	case 1, 2:
		w.Want = WantRun
	case 3:
		w.Want = WantCancel
	case 4:
		w.Want, w.Retry, w.From = WantRun, w.Retry+1, []string{"", "a"}[h.r.IntN(2)]
	case 5:
		w.Priority = []Priority{High, Normal, Low}[h.r.IntN(3)]
	}
	h.PutWish(e.ID, w)
}

func (h *history) changeMembers() {
	m := &h.fleet[h.r.IntN(len(h.fleet))]
	there := slices.Clone(h.fleet)
	switch h.r.IntN(7) {
	case 0:
		m.Status = cluster.Leaving
	case 1:
		m.Version = []string{"v1", "v2"}[h.r.IntN(2)]
	case 2:
		m.Labels = map[string]string{"rack": []string{"a", "b"}[h.r.IntN(2)]}
	case 3:
		there = slices.DeleteFunc(there, func(x cluster.Member) bool { return x.Name == m.Name || h.r.IntN(4) == 0 })
	case 4:
		h.drained = []string{m.Name, h.fleet[0].Name + "-0"}[:h.r.IntN(3)]
	case 5:
		h.drained = nil
	default:
		m.Status = cluster.Up
	}
	h.PutMembers(there, h.drained)
}

func (h *history) writeVitals() {
	for range 1 + h.r.IntN(4) {
		name := h.fleet[h.r.IntN(len(h.fleet))].Name
		other := h.fleet[h.r.IntN(len(h.fleet))].Name
		h.number++
		v := Vitals{Number: h.number, Memory: 0.2}
		switch h.r.IntN(9) {
		case 0:
			v.Memory = 0.9
		case 1:
			v.Lacks = 1 + h.r.IntN(2)
		case 2:
			v.Trial = true
		case 3:
			v.Refuses = "no room"
		case 4:
			v.Unreachable = map[string]string{other: "no route"}
		case 5:
			v.Far = map[string]float64{other: 0.001 * float64(1+h.r.IntN(9))}
		}
		if h.vital[name] = v; h.r.IntN(20) == 0 {
			delete(h.vital, name)
		}
	}
	for range h.r.IntN(4) {
		h.PutVitals(maps.Clone(h.vital))
		h.decideOnce(time.Second)
	}
}

func (h *history) changeServer() {
	m := h.fleet[h.r.IntN(len(h.fleet))].Name
	name := fmt.Sprintf("%s-%d", m, h.r.IntN(4))
	sv := h.servers[name]
	switch {
	case sv == nil || !sv.there:
		h.version++
		h.PutServer(cluster.Server{Name: name, Status: cluster.Status{State: cluster.Available, Incarnation: fmt.Sprint(
			"i", h.version), Writing: h.version}, Info: cluster.Info{Member: m}})
	case h.r.IntN(4) == 0:
		h.DropServer(name)
	case h.r.IntN(4) == 0:
		h.be(name, cluster.Broken, sv.Info.Assignment)
	case sv.State == cluster.Broken:
		h.be(name, cluster.Available, nil)
	}
}

// simulate has agents do what they were asked for, and report.
func (h *history) simulate() {
	for _, a := range h.last {
		if sv := h.servers[a.Server]; a.Do == DoAsk && sv != nil && sv.there && h.r.IntN(20) > 0 {
			if a.State == cluster.Exited {
				h.DropServer(a.Server)
				continue
			}
			h.be(a.Server, a.State, &a.Assignment)
		}
	}
	for _, e := range h.order {
		for _, id := range inOrder(e.pieces) {
			if p := e.pieces[id]; p.State.Holds() && h.r.IntN(3) == 0 {
				h.reports(e, p)
			}
		}
	}
	h.last = nil
	if h.lasting {
		h.decideOnce(5 * time.Second)
		return
	}
	h.decideOnce([]time.Duration{0, 0, 100 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second,
		21 * time.Second, time.Minute}[h.r.IntN(8)])
}

// reports has the agent of a piece's partition 0 report.
func (h *history) reports(e *underway, p *piece) {
	r := Report{Attempt: p.Attempt, State: Running}
	pace := 1 + float64(h.r.IntN(3))*0.1
	if p.Gang[0].Member == "m1" {
		pace = 0.5
	}
	if h.lasting { // all that runs gets on, for long
		r.Progress = Progress{Now: pace * h.at.Seconds(), Events: uint64(h.at.Seconds())}
		h.put(e, p, r)
		return
	}
	switch h.r.IntN(12) {
	case 0, 1:
		r.State, r.Kept = Finished, &Kept{Hash: "h"}
	case 2:
		r.State, r.Error = Failed, &Error{Type: []string{ErrorModel, ErrorMachine, ErrorRefused}[h.r.IntN(3)],
			Where: p.Gang[h.r.IntN(len(p.Gang))].Name, Message: "m"}
	case 3:
		return
	default:
		at := pace * h.at.Seconds()
		if h.r.IntN(6) == 0 {
			at = 1
		}
		r.Progress = Progress{Now: at, Events: uint64(at), Still: time.Duration(h.r.IntN(3)) * 8 * time.Second}
	}
	h.put(e, p, r)
	if r.State != Running && h.r.IntN(3) > 0 {
		for i, g := range p.Gang {
			if sv := h.servers[g.Name]; sv != nil && p.hosts(sv, i) {
				h.be(g.Name, cluster.Available, nil)
			}
		}
	}
}

func (h *history) put(e *underway, p *piece, r Report) {
	h.version++
	h.PutReport(ReportAt{p.Gang[0].Member, e.ID, p.id, r, metastore.Version{Created: 1, Changed: h.version}})
}

// decideOnce decides behind a time, as a leader that has just looked.
func (h *history) decideOnce(wait time.Duration) {
	h.at += wait
	h.Looked(h.at)
	check := func() {}
	if h.plain != nil {
		check = h.plainJudge(h.at)
	}
	pass := h.pass
	h.last = append(h.last, Decide(h.State, h.at)...)
	check()
	if h.plain != nil && h.pass > pass {
		h.compareLeft()
	}
}

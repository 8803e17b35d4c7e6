// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"github.com/disco-sim/disco/internal/until"
)

// firstSample is that of the model's leaders: steps of the model are small.
const firstSample = 3

// submitUntil has people submit an experiment that ends by a rule, in a fifth of all schedules.
func (w *world) submitUntil() {
	if w.seed%5 != 3 {
		return
	}
	for i, h := range w.hosts {
		h.old = i == 0 && w.chance(0.2) // its agent knows of no figures
	}
	width := []string{"x ± 3 %", "x ± 8 %", "x +- 1.2"}[w.r.IntN(3)]
	w.enter(&Spec{Name: "u", User: "user0", Key: "until", Steps: []Step{{Points: make([][]string, 1), Replications: 12,
		Workers: 1 + w.r.IntN(2), Until: []string{width}, Figures: []string{"y"}}}})
}

// rules gives some steps of a pipeline a rule, by which they end, and some a text to export. They draw numbers of their
// own, so that pipelines without them are the same as ever.
func (w *world) rules(spec *Spec) {
	r := w.pipes.rules
	for i := range spec.Steps {
		t := &spec.Steps[i]
		if t.Export != nil && r.IntN(2) == 0 {
			t.Export["t"] = "policy"
		}
		if r.IntN(4) == 0 {
			t.Points, t.Replications = make([][]string, 1), 4+r.IntN(5)
			t.Until = []string{[]string{"x ± 5 %", "x ± 12 %", "x +- 1.2"}[r.IntN(3)]}
		}
	}
}

// unmet tells whether a piece closes a step whose rule isn't met with all replications.
func (w *world) unmet(id string, at PieceID) bool {
	spec := w.store.specs[id]
	if !spec.IsClosing(at) || len(spec.Steps[at.Step].Until) == 0 {
		return false
	}
	_, met := w.suffices(id, at.Step)
	return !met
}

// figuresOf are what a piece's results come to, the same whoever simulates it; nil: nobody has asked.
func (w *world) figuresOf(id string, p PieceID) map[string]float64 {
	spec := w.store.specs[id]
	if len(spec.Steps[p.Step].Until) == 0 {
		return nil
	}
	h := fnv.New64a()
	fmt.Fprint(h, spec.Key, w.seed, p)
	return map[string]float64{"x.mean": 10 + rand.New(rand.NewPCG(h.Sum64(), 1)).NormFloat64()}
}

// suffices is with how many replications a step has enough, by its rule and what replications come to, in their order;
// all of them where the rule isn't met.
func (w *world) suffices(id string, step int) (count int, met bool) {
	t := w.store.specs[id].Steps[step]
	if len(t.Until) == 0 {
		return t.Replications, false
	}
	rule, err := until.New(t.Until)
	if err != nil {
		panic(err)
	}
	rule.Least = firstSample
	for i := range t.Replications {
		all := w.figuresOf(id, PieceID{Step: step, Replication: i})
		rule.Look(i, func(name string) (float64, bool) { x, ok := all[name]; return x, ok })
		if rule.Enough() {
			return i + 1, true
		}
	}
	return t.Replications, false
}

// movedUntil checks a move of a piece of a step with a rule: what counts is begun, and no more, and stays.
func (w *world) movedUntil(m *Move, piece string) {
	spec := w.store.specs[m.ID]
	if len(spec.Steps[m.Piece.Step].Until) == 0 || spec.IsClosing(m.Piece) {
		return
	}
	count, met := w.suffices(m.ID, m.Piece.Step)
	all := met
	for i := range count {
		all = all && w.store.pieces[m.ID][PieceID{Step: m.Piece.Step, Replication: i}].State == Finished
	}
	given := m.To.Error != nil && m.To.Error.Type == ErrorEnough && m.To.State != Finished
	switch {
	case given && (!all || m.Piece.Replication < count):
		w.violated(14, "%s is given up as one too many, where %d are enough, and all of them have ended: %v", piece,
			count, all)
	case m.To.State == Dispatched && all:
		w.violated(14, "%s begins, and the first %d, which are enough, have ended", piece, count)
	case m.To.State == Finished && m.To.Kept.Figures == nil:
		w.violated(14, "%s is FINISHED, and it isn't known what it comes to", piece)
	}
}

// stoodUntil checks what a leader writes about a step with a rule.
func (w *world) stoodUntil(id string, x *Standing) {
	for step, t := range w.store.specs[id].Steps {
		if len(t.Until) == 0 {
			continue
		}
		count, met := w.suffices(id, step)
		said := x.enough(step)
		for i := range min(max(said, count*b2i(x.Status == StatusFinished)), t.Replications) {
			if w.store.pieces[id][PieceID{Step: step, Replication: i}].State != Finished {
				w.violated(14, "%s is %v, %d replications are enough, and replication %d hasn't ended", id, x.Status,
					said, i)
			}
		}
		if said > 0 && (!met || said != count) || said == 0 && met && x.Status == StatusFinished {
			w.violated(14, "%s is %v, and %d replications are said to be enough, want %d (%v)", id, x.Status, said,
				count, met)
		}
	}
}

// mislead has a faulty leader decide by another rule.
func (w *world) mislead(s *State) {
	for _, e := range s.order {
		for _, t := range e.steps {
			switch {
			case t.until == nil:
			case w.faulty == "the rule is forgotten":
				t.until = nil
			case w.faulty == "who ended first counts" && t.until.enough == 0:
				rule, err := until.New(t.Until)
				if err != nil {
					panic(err)
				}
				rule.Least = firstSample
				for i, n := 0, 0; i < t.Replications; i++ {
					p := t.at(i)
					if p == nil || p.State != Finished {
						continue
					}
					rule.Look(n, p.Kept.of)
					if n++; rule.Enough() {
						t.until.enough = n
						break
					}
				}
			}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
)

// pipelines are what a schedule has of them: numbers of their own, so that schedules without pipelines are the same as
// ever, and which outputs were written.
type pipelines struct {
	r, rules *rand.Rand
	written  map[string]bool // by closing piece and attempt
}

func newPipelines(seed int) pipelines {
	return pipelines{rand.New(rand.NewPCG(uint64(seed), 18)), rand.New(rand.NewPCG(uint64(seed), 19)),
		map[string]bool{}}
}

// beginPipelines makes pipelines of a third of all schedules' experiments, and has people begin steps anew.
func (w *world) beginPipelines() {
	if w.pipes.r.IntN(3) > 0 {
		return
	}
	for _, spec := range w.specs {
		w.pipeline(spec)
	}
	for range w.pipes.r.IntN(4) {
		w.after(1+w.pipes.r.Float64()*quietAt, w.retryFrom)
	}
}

// pipeline gives an experiment more steps: each waits for some before it, exports something or doesn't, imports what
// those before it export, and has requirements that are met or aren't.
func (w *world) pipeline(spec *Spec) {
	r := w.pipes.r
	spec.FailFast = r.IntN(3) == 0
	spec.Steps = spec.Steps[:1]
	for i := range 1 + r.IntN(4) {
		t := Step{Name: string(rune('b' + i)), Points: make([][]string, 1+r.IntN(2)), Replications: 1 + r.IntN(2),
			Workers: 1 + r.IntN(2)}
		for _, b := range spec.Steps {
			if r.IntN(2) == 0 {
				t.After = append(t.After, b.Name)
			}
		}
		spec.Steps = append(spec.Steps, t)
	}
	for i := range spec.Steps {
		t := &spec.Steps[i]
		t.Priority = []Priority{"", High, Normal, Low}[r.IntN(4)]
		if r.IntN(2) == 0 {
			t.Export = map[string]string{"x": "latency"}
		}
		if r.IntN(4) == 0 {
			t.Require = []string{"latency < 1"}
		}
	}
	w.rules(spec)
	graph, err := NewGraph(spec.Steps)
	if err != nil {
		panic(err)
	}
	for i := range spec.Steps {
		for _, k := range graph.Dependents(i) {
			if spec.Steps[i].Export != nil && r.IntN(2) == 0 {
				spec.Steps[k].Args = append(spec.Steps[k].Args, "--set", "y="+Import{spec.Steps[i].Name, "x"}.String())
			}
		}
	}
	if err := CheckSteps(spec.Steps); err != nil {
		panic(err)
	}
	for i := range spec.Steps {
		unmet := r.IntN(8) == 0 && spec.Steps[i].Closes()
		for tries := 1; tries < 100 && unmet; tries++ { // of whichever id it gets
			w.broken[pieceKey(fmt.Sprintf("%s-%d", spec.Name, tries), spec.Closing(i))] = true
		}
	}
}

// retryFrom has people begin a step anew.
func (w *world) retryFrom() {
	s := w.store
	if len(s.ids) == 0 {
		return
	}
	id := s.ids[w.pipes.r.IntN(len(s.ids))]
	spec := s.specs[id]
	step := spec.Steps[w.pipes.r.IntN(len(spec.Steps))].Name
	w.call(w.people, func() error {
		standing, wish := s.standings[id], s.wishes[id]
		e := Experiment{ID: id, Spec: &spec, Wish: &wish, Standing: &standing}
		if slices.Contains(e.Allowed(), doFrom) && spec.Pipeline() {
			w.tally.froms++
			s.wish(id, func(x *Wish) bool {
				x.Want, x.Retry, x.From = WantRun, x.Retry+1, step
				return true
			})
		}
		return nil
	}, func(error) {})
}

// outputsOf are what a closing piece's run finds: the same ones whoever puts the parts together.
func outputsOf(spec *Spec, id string, at PieceID) (out Outputs, texts Texts) {
	if !spec.IsClosing(at) {
		return nil, nil
	}
	h := fnv.New32a()
	h.Write([]byte(pieceKey(id, at)))
	for name := range spec.Steps[at.Step].Export {
		if name == "t" {
			texts = Texts{name: fmt.Sprint("word ", h.Sum32())}
		} else {
			out = Outputs{name: float64(h.Sum32())}
		}
	}
	return out, texts
}

// errorOf is the type of the error of a run that would end so again: that of a closing piece finds that requirements
// aren't met.
func (w *world) errorOf(r *run) string {
	spec := w.store.specs[r.id]
	if spec.IsClosing(r.attempt.PieceID) {
		return ErrorRequire
	}
	return ErrorModel
}

// movedPipeline checks a move for what steps have to do with each other.
func (w *world) movedPipeline(m *Move, was *Piece) {
	spec := w.store.specs[m.ID]
	graph, err := NewGraph(spec.Steps)
	if err != nil {
		panic(err)
	}
	switch m.To.State {
	case Dispatched:
		w.beginsInTurn(m, &spec, graph)
	case Finished:
		if !spec.IsClosing(m.Piece) {
			return
		}
		want, texts := outputsOf(&spec, m.ID, m.Piece)
		version := fmt.Sprint(pieceKey(m.ID, m.Piece), " ", m.To.Attempt)
		if !maps.Equal(m.To.Outputs, want) || !maps.Equal(m.To.Texts, texts) || w.pipes.written[version] {
			w.violated(12, "%s of %s: written %v, has %v %v, wants %v %v", version, m.ID, w.pipes.written[version],
				m.To.Outputs, m.To.Texts, want, texts)
		}
		w.pipes.written[version] = true
	case Waiting:
		if was.State != Finished {
			return
		}
		for _, k := range graph.Dependents(m.Piece.Step) { // of what is opened nobody works
			w.eachPiece(m.ID, k, func(at PieceID, p Piece) {
				if p.State.Holds() {
					w.violated(13, "%v of %s is opened again, and %v goes on with it", m.Piece, m.ID, at)
				}
			})
		}
		from, _ := spec.StepOf(w.store.wishes[m.ID].From)
		for _, b := range graph.Before(m.Piece.Step) { // those that it waits for are open already
			if b != from && !slices.Contains(graph.Dependents(from), b) {
				continue
			}
			w.eachPiece(m.ID, b, func(at PieceID, p Piece) {
				if p.State.Ended() {
					w.violated(13, "%v of %s is opened again before %v, for which it waits", m.Piece, m.ID, at)
				}
			})
		}
	}
}

// eachPiece gives all pieces of a step that have begun.
func (w *world) eachPiece(id string, step int, f func(at PieceID, p Piece)) {
	for _, at := range inOrder(w.store.pieces[id]) {
		if at.Step == step {
			f(at, w.store.pieces[id][at].Piece)
		}
	}
}

// beginsInTurn checks that all is there that a piece waits for, and that the outputs that it names are the present
// ones.
func (w *world) beginsInTurn(m *Move, spec *Spec, graph *Graph) {
	finished := func(step int) (n int) { // of those that count
		count, _ := w.suffices(m.ID, step)
		w.eachPiece(m.ID, step, func(at PieceID, p Piece) {
			n += b2i(p.State == Finished && (at.Replication < count || spec.IsClosing(at)))
		})
		return n
	}
	all := func(step int) int {
		count, _ := w.suffices(m.ID, step)
		return len(spec.Steps[step].Points) * count
	}
	if spec.IsClosing(m.Piece) {
		n := all(m.Piece.Step)
		if finished(m.Piece.Step) != n {
			w.violated(13, "%v of %s closes a step of which %d of %d have finished", m.Piece, m.ID,
				finished(m.Piece.Step), n)
		}
		if _, met := w.suffices(m.ID, m.Piece.Step); met != (m.To.Counts > 0) || met && m.To.Counts != n {
			w.violated(14, "%v of %s closes a step with %d replications, want %d, %v", m.Piece, m.ID, m.To.Counts, n,
				met)
		}
		return
	}
	for _, b := range graph.Before(m.Piece.Step) {
		if finished(b) != all(b)+b2i(spec.Steps[b].Closes()) {
			w.violated(13, "%v of %s begins before step %s has finished", m.Piece, m.ID, spec.Steps[b].Name)
		}
		if _, named := m.To.Inputs[spec.Steps[b].Name]; named != spec.Steps[b].Closes() {
			w.violated(13, "%v of %s names the inputs %v, want those of %s", m.Piece, m.ID, m.To.Inputs,
				spec.Steps[b].Name)
		}
	}
	for _, one := range Imports(spec.Steps[m.Piece.Step].Args...) {
		if m.To.Inputs[one.Step] == 0 {
			w.violated(13, "%v of %s imports %v, and names %v", m.Piece, m.ID, one, m.To.Inputs)
		}
	}
	w.presentInputs(m.ID, spec, m.Piece, m.To.Inputs)
}

// presentInputs checks that the outputs that a piece names are those that are there.
func (w *world) presentInputs(id string, spec *Spec, at PieceID, inputs Inputs) {
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		attempt := inputs[name]
		step, err := spec.StepOf(name)
		if err != nil {
			w.violated(13, "%v of %s: %v", at, id, err)
			return
		}
		closing := w.store.pieces[id][spec.Closing(step)]
		if closing.State != Finished || closing.Attempt != attempt {
			w.violated(13, "%v of %s has the outputs of attempt %d of %s, which is %v, attempt %d", at, id, attempt,
				name, closing.State, closing.Attempt)
		}
	}
}

// finalPipelines checks at the end that each result was made with the outputs that are there, and that nothing was
// given up without a reason.
func (w *world) finalPipelines() {
	for _, id := range w.store.ids {
		spec, x := w.store.specs[id], w.store.standings[id]
		for _, at := range inOrder(w.store.pieces[id]) {
			if p := w.store.pieces[id][at]; p.State == Finished {
				w.presentInputs(id, &spec, at, p.Inputs)
			}
		}
		if w.store.wishes[id].Want == WantRun && x.Pieces[Canceled] > 0 && x.Pieces[Failed] == 0 &&
			len(x.Enough) == 0 {
			w.violated(8, "%s has cancelled pieces, which nobody wants: %v", id, x.Pieces)
		}
		total := 0
		for _, t := range x.Steps {
			for _, n := range t.Pieces {
				total += n
			}
		}
		if total != spec.Count() && spec.Pipeline() {
			w.violated(8, "%s has the steps %+v, of %d pieces", id, x.Steps, spec.Count())
		}
	}
}

// mutateSteps is what a faulty leader does in place of what was decided about steps.
func (w *world) mutateSteps(s *State, actions []Action) []Action {
	switch w.faulty {
	case "steps begin at once":
		for _, e := range s.experiments {
			for _, t := range e.steps {
				t.before, t.sources = nil, nil
			}
		}
	case "dependents stay":
		actions = slices.DeleteFunc(actions, func(a Action) bool {
			e := s.experiments[a.ID]
			return a.Do == DoMove && a.From == Finished && e.Steps[a.Piece.Step].Name != e.wish.From
		})
	case "what runs of dependents stays":
		actions = append(openEarly(s), actions...)
	}
	for i := range actions {
		switch a := &actions[i]; {
		case a.Do != DoMove:
		case w.faulty == "texts are left" && a.To.State == Finished:
			a.To.Texts = nil
		case w.faulty == "all parts are put together" && a.To.State == Dispatched:
			a.To.Counts = 0
		case w.faulty == "outputs are left" && a.To.State == Finished:
			a.To.Outputs = nil
		case w.faulty == "old outputs count" && a.To.State == Dispatched && len(a.To.Inputs) > 0:
			for name := range a.To.Inputs {
				a.To.Inputs[name]++
			}
		}
	}
	return actions
}

// openEarly opens what has finished of a step that is to begin anew, whatever runs of those that wait for it.
func openEarly(s *State) (actions []Action) {
	for _, e := range s.order {
		of := e.reopening()
		all := inOrder(e.pieces)
		for _, at := range all {
			p := e.pieces[at]
			goesOn := slices.ContainsFunc(all, func(at PieceID) bool {
				q := e.pieces[at]
				return q.State.Holds() && slices.Contains(q.step.before, p.step)
			})
			if of[p.step] && p.State == Finished && goesOn {
				actions = append(actions, Action{Do: DoMove, ID: e.ID, Piece: at, From: Finished,
					To: Piece{State: Waiting, Attempt: p.Attempt, Spared: p.Attempt}})
			}
		}
	}
	return actions
}

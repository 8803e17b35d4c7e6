// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// world is a run that is imagined: each shard has so much work a simulated second, the worker with most of it decides
// how fast the run goes on, and an event takes longer where its shard isn't on the worker where it began.
type world struct {
	rnd     *rand.Rand
	workers int
	shards  int
	work    func(shard int, done float64) float64 // done is a part of the run
	far     float64                               // how much longer an event of a shard takes that isn't where it began
	noise   float64                               // how much the speed differs from one step to the next
	cost    float64                               // wall seconds of a hand-off
	plain   bool                                  // strategies aren't told how loads change

	sampled []float64 // by shard: of the work lately
	trend   Trend

	moved  int     // moves
	rounds int     // times that something moved
	paused float64 // wall seconds
}

const (
	step      = 0.05 // wall seconds
	lengthOf  = 30.0 // simulated seconds of a run
	perSecond = 1e6  // events in a simulated second
	half      = 0.15 // wall seconds after which what was sampled counts half
)

// run runs it, with a strategy or where everything stays, and gives how long it takes. A look is as launch has it:
// where the busiest works most, or when the strategy is due.
func (w *world) run(strategy Strategy) float64 {
	s := &State{Workers: w.workers, Cost: w.cost}
	for i := range w.shards {
		s.Owner, s.Fixed, s.Nodes = append(s.Owner, i*w.workers/w.shards), append(s.Fixed, false), append(s.Nodes, 1)
		s.Since, s.Work = append(s.Since, math.MaxInt32), append(s.Work, 0)
	}
	begun := slices.Clone(s.Owner)
	simulated, events, next := 0.0, 0.0, 0.0
	var last []float64
	for simulated < lengthOf {
		for i := range s.Work {
			s.Work[i] = w.work(i, simulated/lengthOf)
			if s.Owner[i] != begun[i] {
				s.Work[i] *= 1 + w.far
			}
		}
		loads := s.Loads(nil)
		w.sample(s.Work)
		speed := 1 / slices.Max(loads) * (1 + w.noise*(2*w.rnd.Float64()-1)) // simulated seconds in a wall second
		simulated += speed * step
		events += speed * step * perSecond
		s.Time += step
		s.Events = uint64(events)
		if last = append(last, speed*perSecond); len(last) > 4 {
			last = last[1:]
		}
		s.Speed = 0
		for _, v := range last {
			s.Speed += v / float64(len(last))
		}
		if strategy == nil {
			continue
		}
		due := false
		if c, ok := strategy.(*Careful); ok {
			due = c.Due(s.Time, s.Events)
		}
		if !due && (Balance(loads) > 0.9 || s.Time < next) {
			continue
		}
		w.look(s, strategy, speed)
		next = s.Time + 0.1
	}
	return s.Time
}

// sample takes in the work of one step.
func (w *world) sample(work []float64) {
	if w.sampled == nil {
		w.sampled, w.trend.Age = slices.Clone(work), half/math.Ln2
	}
	keep := math.Exp2(-step / half)
	for i, v := range work {
		w.sampled[i] = keep*w.sampled[i] + (1-keep)*v
	}
}

// look asks the strategy, with samples that are as good as those of a run, and makes its moves.
func (w *world) look(s *State, strategy Strategy, speed float64) {
	for i := range s.Work {
		s.Work[i] = w.sampled[i] * half * speed * (1 + 0.2*(2*w.rnd.Float64()-1))
	}
	if w.plain {
		w.trend.Forget()
	}
	moves, err := w.trend.Ask(strategy, s)
	if err != nil {
		panic(err)
	}
	for i := range s.Since {
		s.Since[i] = min(s.Since[i]+1, math.MaxInt32)
	}
	for _, m := range moves {
		s.Owner[m.Shard], s.Since[m.Shard] = m.To, 0
	}
	if len(moves) > 0 {
		s.Time += w.cost
		w.moved, w.rounds, w.paused = w.moved+len(moves), w.rounds+1, w.paused+w.cost
	}
}

// hotSpot is work of which most is in a tenth of the shards, which goes round so many times.
func hotSpot(shards int, rounds float64) func(int, float64) float64 {
	return func(shard int, done float64) float64 {
		at := float64(shard)/float64(shards) - math.Mod(rounds*done, 1)
		if at < 0 {
			at++
		}
		if at < 0.1 {
			return 8 / float64(shards)
		}
		return 0.3 / float64(shards)
	}
}

// ratios are how long runs take beside others, by seed.
type ratios []float64

func (r ratios) check(t *testing.T, what string, mean, most float64) {
	t.Helper()
	sum := 0.0
	for _, v := range r {
		sum += v
	}
	t.Logf("%s: %.3f on average, %.3f at most", what, sum/float64(len(r)), slices.Max(r))
	if sum > mean*float64(len(r)) || slices.Max(r) > most {
		t.Errorf("%s: %.3f on average, %.3f at most, want %v and %v", what, sum/float64(len(r)), slices.Max(r), mean,
			most)
	}
}

// auto is the strategy that launch has of its own accord.
func auto() *Careful { return &Careful{Of: LeastLoaded{}, Then: LeastLoaded{End: 0.07}} }

// Moves that make a run faster stay, as without Careful; an even load moves nothing; moves that make it slower are
// taken back, rarer and rarer.
func TestCareful(t *testing.T) {
	var hot, hotStatic, hotEnd, hotTrend, uneven, bad, badPlain ratios
	for seed := range uint64(200) {
		at := func(work func(int, float64) float64, far float64) *world {
			return &world{rnd: rand.New(rand.NewPCG(seed, 7)), workers: 2 + int(seed%3), shards: 64, work: work,
				far: far, noise: 0.1, cost: 0.003}
		}
		spot := hotSpot(64, 1)
		with := at(spot, 0.05).run(auto())
		hot = append(hot, with/at(spot, 0.05).run(LeastLoaded{}))
		if seed < 50 { // as many shards as a run has
			spot := hotSpot(256, 1)
			fine := func() *world {
				w := at(spot, 0.05)
				w.shards = 256
				return w
			}
			hotEnd = append(hotEnd, fine().run(auto())/fine().run(&Careful{Of: LeastLoaded{}}))
			plain := fine()
			plain.plain = true
			hotTrend = append(hotTrend, fine().run(auto())/plain.run(auto()))
		}
		hotStatic = append(hotStatic, with/at(spot, 0.05).run(nil))

		even := at(func(int, float64) float64 { return 1.0 / 64 }, 0)
		if even.run(auto()); even.moved > 0 {
			t.Errorf("seed %d, even load: %d moves", seed, even.moved)
		}

		work := func(shard int, _ float64) float64 { return (1 + 0.6*float64(shard/32)) / 64 }
		good := at(work, 0.02)
		uneven = append(uneven, good.run(auto())/at(work, 0.02).run(nil))
		if good.rounds > 6 {
			t.Errorf("seed %d, uneven load: moves in %d rounds", seed, good.rounds)
		}

		// Each event takes 4 times as long on another worker.
		static := at(work, 3).run(nil)
		bad = append(bad, at(work, 3).run(auto())/static)
		alone := at(work, 3)
		alone.plain = true
		badPlain = append(badPlain, alone.run(LeastLoaded{})/static)
	}
	hot.check(t, "hot spot, beside LeastLoaded alone", 1.01, 1.1)
	hotEnd.check(t, "hot spot, moves that end at a smaller gap once they were good", 0.99, 1.02)
	hotTrend.check(t, "hot spot, strategies that are told how loads change", 0.95, 1.02)
	hotStatic.check(t, "hot spot, beside where all stays", 0.6, 0.8)
	uneven.check(t, "uneven load, beside where all stays", 0.9, 0.93)
	bad.check(t, "moves that are bad, beside where all stays", 1.04, 1.15)
	badPlain.check(t, "moves that are bad, LeastLoaded alone, beside where all stays", 1.5, 2)
	if slices.Max(badPlain) < 1.15 {
		t.Error("bad moves don't make a run slower")
	}
}

// The times between moves that are taken back are twice as long each time, and as at first behind good ones.
func TestCarefulRests(t *testing.T) {
	c := &Careful{Of: always{}}
	s := &State{Workers: 2, Owner: []int{0, 1}, Fixed: []bool{false, false}, Work: []float64{1, 1}, Speed: 100}
	goOn := func(time float64, speed float64) { s.Time, s.Events = s.Time+time, s.Events+uint64(speed*time) }
	ask := func(want ...Move) {
		t.Helper()
		if m := c.Moves(s); !slices.Equal(m, want) {
			t.Fatalf("at %v s: found moves %v, want %v", s.Time, m, want)
		}
		for _, m := range want {
			s.Owner[m.Shard] = m.To
		}
	}
	for _, rest := range []float64{1, 2, 4, 8} {
		ask(Move{0, 1})
		if c.Due(s.Time+0.4, s.Events) || !c.Due(s.Time+0.6, s.Events+50) || c.Due(s.Time+0.6, s.Events+55) ||
			!c.Due(s.Time+2.1, s.Events+200) {
			t.Fatal("moves are judged too early, or a slower run isn't seen")
		}
		goOn(1, 50)
		s.Owner, s.Work = []int{1, 1}, []float64{1, 0.1}
		ask() // the load isn't even: further moves come first
		s.Owner, s.Work = []int{1, 0}, []float64{1, 1}
		c.trial.owner[1] = 0
		ask(Move{0, 0})
		goOn(0.9*rest, 100)
		ask()
		goOn(0.2*rest, 100)
	}
	ask(Move{0, 1})
	if c.Due(s.Time+2.1, s.Events+206) || c.trial != nil || c.rests != 0 {
		t.Errorf("a run that is as fast as before: found %+v", c)
	}
}

// always moves shard 0 to worker 1.
type always struct{}

func (always) Moves(s *State) []Move {
	if s.Owner[0] == 1 {
		return nil
	}
	return []Move{{0, 1}}
}

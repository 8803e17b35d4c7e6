// SPDX-License-Identifier: Apache-2.0

package shard

// Trend fills in State.Change. What State.Work says was sampled up to some time ago, and what moves now stays where it
// is until the next time. Where a hot spot wanders, one worker has more work for all of that time, if moves make equal
// what loads were. So each worker's share of all work is expected to go on changing as fast as since the last time: for
// as long as Work is old, and for half of the time until the next moves.
//
// It keeps the loads of the last time: each run needs one of its own.
type Trend struct {
	Age float64 // how long ago what Work has was sampled, on average, in wall seconds

	shares []float64 // of all work, by worker, with the moves of the last time; nil: not known
	time   float64   // State.Time then
}

const (
	// changeMost is how much more or less work than it has a worker is expected to have at most, as a part of it: few
	// samples may tell of more.
	changeMost = 0.25
	trendMost  = 1 // wall seconds between two times: above, nothing says that loads have changed evenly
)

// Ask asks a Strategy, with State.Change. The error is that of State.Check.
func (t *Trend) Ask(of Strategy, s *State) ([]Move, error) {
	s.Change = t.change(s)
	moves := of.Moves(s)
	if err := s.Check(moves); err != nil {
		return nil, err
	}
	t.shares, t.time = shares(s.Loads(moves)), s.Time
	return moves, nil
}

// Forget is called where another run begins.
func (t *Trend) Forget() { t.shares = nil }

func (t *Trend) change(s *State) []float64 {
	loads, since := s.Loads(nil), s.Time-t.time
	now := shares(loads)
	if t.shares == nil || now == nil || !(since > 0 && since <= trendMost) {
		return nil
	}
	change := make([]float64, s.Workers)
	for w, load := range loads {
		if now[w] > 0 {
			part := (now[w] - t.shares[w]) / now[w] * (t.Age + since/2) / since
			change[w] = load * min(max(part, -changeMost), changeMost)
		}
	}
	return change
}

// shares are loads as parts of all; nil: there are none.
func shares(loads []float64) []float64 {
	sum := 0.0
	for _, l := range loads {
		sum += l
	}
	if !(sum > 0) {
		return nil
	}
	parts := make([]float64, len(loads))
	for w, l := range loads {
		parts[w] = l / sum
	}
	return parts
}

// SPDX-License-Identifier: Apache-2.0

package shard

// Careful moves what another Strategy says, and takes moves back behind which the run was slower: balance isn't all,
// since nodes that were near each other may be on two workers then. How fast the run was shortly before the first move
// is compared with how fast it is from there on. A run that is much slower is seen soon, one that is a little slower
// when nothing has moved for longer. Where it is slower and the load isn't even, because that has changed, further
// moves come first. Where moves were taken back nothing moves for a while, and that is twice as long each time in turn.
//
// It keeps what it has moved: each run needs one of its own.
type Careful struct {
	Of    Strategy
	Then  Strategy // what moves once moves have made the run faster, until some were taken back; nil: Of
	Trial float64  // wall seconds after which moves are judged at first; 0: 0.5
	Rest  float64  // wall seconds for which nothing moves behind the first time that moves were taken back; 0: 1

	trial *trial
	good  bool    // moves have made the run faster, and none were taken back since
	rests float64 // how long nothing has moved behind the last time; 0: the last moves were good
	until float64 // nothing moves before
}

const (
	restMost     = 120  // wall seconds: the longest that nothing moves
	isEven       = 0.9  // a Balance from which on more moves aren't what a slow run needs
	trials       = 4    // times Trial for which nothing has moved: behind that moves are judged for the last time
	trialsMost   = 10   // times Trial: behind that the run may have become another one
	muchSlower   = 0.85 // of the speed before
	littleSlower = 0.97 // the same at the last time
)

// trial is moves that aren't judged yet.
type trial struct {
	begin, last moment  // of the first and the last of them
	speed       float64 // before
	owner       []int   // before, by shard
}

// moment is how far a run had come.
type moment struct {
	time   float64
	events uint64
}

// speedFrom is how fast the run was between two moments.
func (m moment) speedFrom(before moment) float64 {
	return float64(m.events-before.events) / (m.time - before.time)
}

// defaults fills in the fields that are 0.
func (c *Careful) defaults() {
	if c.Trial == 0 {
		c.Trial = 0.5
	}
	if c.Rest == 0 {
		c.Rest = 1
	}
}

// Due reports whether moves may have to be taken back by now: then a run asks Moves without another reason.
func (c *Careful) Due(time float64, events uint64) bool {
	c.defaults()
	t, now := c.trial, moment{time, events}
	switch {
	case t == nil || time-t.begin.time < c.Trial:
		return false
	case now.speedFrom(t.begin) < muchSlower*t.speed:
		return true
	case time-t.last.time >= trials*c.Trial:
		if now.speedFrom(t.last) < littleSlower*t.speed {
			return true
		}
		c.trial, c.rests = nil, 0
	case time-t.begin.time >= trialsMost*c.Trial:
		c.trial = nil
	}
	return false
}

// Moves implements Strategy.
func (c *Careful) Moves(s *State) (moves []Move) {
	if c.Due(s.Time, s.Events) && (Balance(s.Loads(nil)) >= isEven || s.Time-c.trial.last.time >= trials*c.Trial) {
		for shard, w := range c.trial.owner {
			if s.Owner[shard] != w {
				moves = append(moves, Move{shard, w})
			}
		}
		c.trial, c.good = nil, false
		c.rests = min(max(c.Rest, 2*c.rests), restMost)
		c.until = s.Time + c.rests
		return moves
	}
	if s.Time < c.until {
		return nil
	}
	now := moment{s.Time, s.Events}
	if t := c.trial; t != nil && s.Time-t.begin.time >= c.Trial && now.speedFrom(t.begin) > t.speed {
		c.good = true
	}
	if c.good && c.Then != nil {
		moves = c.Then.Moves(s)
	} else {
		moves = c.Of.Moves(s)
	}
	switch {
	case len(moves) == 0 || !(s.Speed > 0):
	case c.trial != nil:
		c.trial.last = now
	default:
		c.trial = &trial{now, now, s.Speed, append([]int(nil), s.Owner...)}
	}
	return moves
}

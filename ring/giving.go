// SPDX-License-Identifier: Apache-2.0

package ring

import "slices"

const (
	// givenEvery is how many records that are published alone go by from one trial to the next: the system may move
	// both sides to processors that are nearer to each other, or further away.
	givenEvery = 4096

	// givenTrial is how many records of a trial are given away, and then how many are kept.
	givenTrial = 32

	// givenSkip is how many of each are not counted: the lines in which they lie were left by the other way.
	givenSkip = 2
)

// giving chooses whether a producer gives away the lines of records that are published alone. Between cores with caches
// of their own the consumer gets them sooner; two threads of one core share its caches, and there it gets them later.
// What a producer can see is the time from one such record to the next, most of which is a round trip where each is
// answered: now and then it tries both ways, and takes the one with the lesser median.
type giving struct {
	count uint32                // records since the last trial began
	keeps bool                  // the last trial has chosen to keep lines
	last  uint64                // the clock at the record before, within a trial
	took  [2][givenTrial]uint64 // from record to record: lines given away, lines kept
}

// gives tells whether the lines of a record that was just published are given away.
func (g *giving) gives() bool {
	at := g.count
	if g.count++; g.count == givenEvery {
		g.count = 0
	}
	if at > 2*givenTrial {
		return !g.keeps
	}
	return g.try(at, ticks())
}

// try notes the time of record at of a trial, and tells whether it is given away. What has passed was the way of the
// record before.
func (g *giving) try(at uint32, now uint64) bool {
	if at > 0 {
		g.took[(at-1)/givenTrial][(at-1)%givenTrial] = now - g.last
	}
	g.last = now
	if at < 2*givenTrial {
		return at < givenTrial
	}
	given, kept := median(g.took[0][givenSkip:]), median(g.took[1][givenSkip:])
	g.keeps = kept+kept/16 < given
	return !g.keeps
}

func median(took []uint64) uint64 {
	slices.Sort(took)
	return took[len(took)/2]
}

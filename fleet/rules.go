// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"time"

	"github.com/disco-sim/disco/internal/until"
)

// Rules are how long a leader waits for what, and how much it keeps. Zero values are the defaults that docs/fleet.md
// names.
type Rules struct {
	Age        time.Duration // in the queue, that lifts an experiment by one class
	Head       time.Duration // for which the first in the queue reserves what becomes free
	PauseAfter time.Duration // in which a paused gang keeps its servers
	Settle     time.Duration // for which a server may be missing, and a report late
	Stop       time.Duration // for giving a partition up; then a server is told to exit, and passed over after another
	TooFew     time.Duration // for which machines may be too few, before what doesn't fit has failed
	Note       time.Duration // between two notes of how long a piece is in its state
	AskAgain   time.Duration // until a server that hasn't moved is asked again
	Keep       int           // experiments that have ended
	Sweep      time.Duration // between two looks for blobs that no experiment names
	Unused     time.Duration // for which such a blob is kept: its submission may be under way

	// Retries is how many attempts that have failed may be tried again at once, and in 10 s; 10 if 0. Where a tenth of
	// all servers is more, it is that; and for each ten pieces that begin it is one more.
	Retries int

	FirstSample int // replications of a step that ends by its rule, before it may
	Admission   Admission
}

func (r Rules) withDefaults() Rules {
	r.Age = cmp.Or(r.Age, 10*time.Minute)
	r.Head = cmp.Or(r.Head, time.Minute)
	r.PauseAfter = cmp.Or(r.PauseAfter, 10*time.Minute)
	r.Settle = cmp.Or(r.Settle, 5*time.Second)
	r.Stop = cmp.Or(r.Stop, time.Minute)
	r.TooFew = cmp.Or(r.TooFew, 5*time.Minute)
	r.Note = cmp.Or(r.Note, 10*time.Second)
	r.AskAgain = cmp.Or(r.AskAgain, 5*time.Second)
	r.Keep = cmp.Or(r.Keep, 1_000)
	r.Sweep = cmp.Or(r.Sweep, 10*time.Minute)
	r.Unused = cmp.Or(r.Unused, time.Hour)
	r.Retries = cmp.Or(r.Retries, 10)
	r.FirstSample = cmp.Or(r.FirstSample, until.Least)
	r.Admission = r.Admission.withDefaults()
	return r
}

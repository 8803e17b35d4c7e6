// SPDX-License-Identifier: Apache-2.0

package group

import (
	"fmt"
	"time"

	"github.com/disco-sim/disco/internal/bridge/offer"
)

// contact takes what a machine says of another one. People get to know when that changes during a run.
func (j *joiner) contact(from int, c *offer.Contact) {
	j.mu.Lock()
	defer j.mu.Unlock()
	pair := [2]int{from, c.Machine}
	was, silent := j.up[pair], j.silent[pair]
	delete(j.up, pair)
	delete(j.silent, pair)
	if c.State.Connected() {
		j.up[pair] = true
	}
	j.wake()
	defer j.sendAway()
	if !j.known || j.closing || j.unused[from] || j.unused[c.Machine] || from > c.Machine { // the lower one says it
		return
	}
	alone := true // no other machine has said it
	for other := range j.silent {
		alone = alone && other[1] != c.Machine
	}
	if c.State == offer.ContactUnreachable {
		j.silent[pair] = true
	}
	switch {
	case c.State == offer.ContactUnreachable && !silent && alone:
		j.to.Note(fmt.Sprintf("nothing has come from %s to %s for %v (phi %.1f): %[1]s is still part of the run, and "+
			"counts as cut off after %[5]v (--peer-timeout)", j.name(c.Machine), j.name(from),
			c.For.Round(100*time.Millisecond), c.Phi, j.begin.PeerTimeout))
	case c.State == offer.ContactUp && silent && alone:
		j.to.Note(fmt.Sprintf("%s is reachable again", j.name(c.Machine)))
	case was == j.up[pair]:
	case c.State == offer.ContactUp:
		j.to.Note(fmt.Sprintf("%s and %s are connected again", j.name(from), j.name(c.Machine)))
	case c.State == offer.ContactInterrupted:
		j.to.Note(fmt.Sprintf("%s and %s have no connection: the run ends if they have none for %v "+
			"(--reconnect-window)", j.name(from), j.name(c.Machine), j.begin.Window))
	}
}

// sendAway reports to the launcher whether machines that take part are cut off, or silent, where that has changed. mu
// is held.
func (j *joiner) sendAway() {
	if !j.known || j.closing {
		return
	}
	away := false
	for a := launcherMachine; a < len(j.targets); a++ {
		for b := a + 1; b < len(j.targets); b++ {
			pair, back := [2]int{a, b}, [2]int{b, a}
			apart := !j.up[pair] || !j.up[back] || j.silent[pair] || j.silent[back]
			away = away || apart && !j.unused[a] && !j.unused[b]
		}
	}
	if away != j.away {
		j.away = away
		j.to.Away(away)
	}
}

// SPDX-License-Identifier: Apache-2.0

package launch

// exitKind is how a worker has ended.
type exitKind uint8

const (
	running    exitKind = iota // it hasn't
	exitedOK                   // with status 0
	exitedBad                  // with another status: it panicked, or reported an error
	exitSignal                 // by a signal
)

// reportKind is what a worker has said about itself.
type reportKind uint8

const (
	noReport   reportKind = iota
	peerReport            // a peer closed its lanes: something has happened to the peer
	ownReport             // an error of its own
)

// fact is all that counts of one worker when it is asked who ended a run.
type fact struct {
	exit    exitKind
	report  reportKind
	lost    bool // its control stream has ended
	strange bool // it said what the protocol has no place for
	due     bool // it was told to end: doing so is what it should
	order   int  // when the first sign of trouble came from it, 1: before all others
}

// weight is how likely a worker is the cause, 0: it isn't. A death without a word comes
// before every report, which may be about that death; an error of a worker's own before
// one that a peer's end has caused; a process that was seen to end before one that only
// fell silent. An exit with status 0 is no failure; where it comes too early, and
// nothing else has happened, it is still what ended the run.
func (f fact) weight() int {
	switch {
	case f.report == noReport && (f.exit == exitedBad || f.exit == exitSignal):
		return 6
	case f.report == ownReport:
		return 5
	case f.report == peerReport:
		return 1
	case f.exit == exitedOK && f.due:
		return 0
	case f.strange:
		return 4
	case f.exit == exitedOK:
		return 2
	case f.lost && !f.due:
		return 3
	}
	return 0
}

// rootCause picks the worker that ended a run; -1: none did. Among equals it is the one
// that was in trouble first.
func rootCause(facts []fact) int {
	cause := -1
	for i, f := range facts {
		w := f.weight()
		if w == 0 {
			continue
		}
		if cause < 0 || w > facts[cause].weight() || w == facts[cause].weight() && f.order < facts[cause].order {
			cause = i
		}
	}
	return cause
}

// SPDX-License-Identifier: Apache-2.0

package launch

// exitKind is how a worker has ended.
type exitKind uint8

const (
	running    exitKind = iota // it hasn't
	exitedOK                   // with status 0
	exitedBad                  // with another status: it panicked, or reported an error
	exitSignal                 // by a signal
	exitLost                   // nobody saw how: its machine can't be reached
	exitEnded                  // its machine has ended it because of something else
)

// errorKind is what a worker has reported about itself.
type errorKind uint8

const (
	noError   errorKind = iota
	peerError           // a peer closed its lanes: something has happened to the peer
	ownError            // an error of its own
)

// evidence is all that counts of one worker when the root cause of a failed run is selected.
type evidence struct {
	exit          exitKind
	reported      errorKind
	streamEnded   bool // its control stream
	outOfProtocol bool // it sent a message that the protocol doesn't allow
	askedToExit   bool // ending is what it should do
	order         int  // of its first failure among those of all workers, 1 first
}

// weight is how likely a worker is the cause; 0: it isn't. A death without a report comes
// before every report, which may be about that death; an error of a worker's own before
// one that a peer's end has caused; a process that was seen to end before one whose stream
// ended, and one that was lost with its machine between them. An exit with status 0 is no failure; if it comes too
// early, and nothing else has happened, it is still what ended the run.
func (e evidence) weight() int {
	switch {
	case e.reported == noError && (e.exit == exitedBad || e.exit == exitSignal):
		return 7
	case e.reported == ownError:
		return 6
	case e.reported == peerError, e.exit == exitEnded:
		return peerErrorWeight
	case e.exit == exitedOK && e.askedToExit:
		return 0
	case e.outOfProtocol:
		return 5
	case e.exit == exitLost:
		return 4
	case e.exit == exitedOK:
		return 2
	case e.streamEnded && !e.askedToExit:
		return 3
	}
	return 0
}

// peerErrorWeight is the weight of an error that follows from another worker's: it is the
// cause only if there is nothing else, and is never worth mentioning beside another.
const peerErrorWeight = 1

// selectRootCause picks the worker that ended a run; -1: none did. Among equals it is the one
// that failed first.
func selectRootCause(workers []evidence) int {
	cause := -1
	for i, e := range workers {
		w := e.weight()
		if w == 0 {
			continue
		}
		if cause < 0 || w > workers[cause].weight() || w == workers[cause].weight() && e.order < workers[cause].order {
			cause = i
		}
	}
	return cause
}

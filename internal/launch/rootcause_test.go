// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"testing"
)

// Every pair of things that may be known of two workers: who is the cause never depends
// on who is looked at first, an exit with status 0 or a report about a peer is never
// chosen before anything that did happen, and of two equal ones it is the earlier.
func TestRootCausePairs(t *testing.T) {
	var all []evidence
	for _, exit := range []exitKind{running, exitedOK, exitedBad, exitSignal, exitLost, exitEnded} {
		for _, report := range []errorKind{noError, peerError, ownError} {
			for bits := range 8 {
				all = append(all, evidence{exit: exit, reported: report, streamEnded: bits&1 != 0,
					outOfProtocol: bits&2 != 0, askedToExit: bits&4 != 0})
			}
		}
	}
	died := func(f evidence) bool { return f.reported == noError && (f.exit == exitedBad || f.exit == exitSignal) }
	for _, f := range all {
		for _, g := range all {
			if f.askedToExit != g.askedToExit {
				continue // all are asked to end, or none
			}
			f.order, g.order = 1, 2
			c := selectRootCause([]evidence{f, g})
			if d := selectRootCause([]evidence{g, f}); c < 0 != (d < 0) || c >= 0 && d != 1-c {
				t.Fatalf("%+v, %+v: cause is %d, the other way round %d", f, g, c, d)
			}
			if f.weight() == g.weight() && c == 1 {
				t.Fatalf("%+v, %+v: cause is the later one", f, g)
			}
			if c < 0 {
				for _, x := range []evidence{f, g} {
					if died(x) || x.reported != noError || !x.askedToExit &&
						(x.streamEnded || x.outOfProtocol || x.exit != running) {
						t.Fatalf("%+v, %+v: no cause", f, g)
					}
				}
				continue
			}
			cause, other := []evidence{f, g}[c], []evidence{f, g}[1-c]
			innocent := cause.reported == peerError || cause.exit == exitEnded && cause.reported != ownError ||
				cause.exit == exitedOK && cause.reported == noError &&
					!cause.outOfProtocol
			if innocent && (died(other) || other.reported == ownError) {
				t.Fatalf("%+v is the cause, not %+v", cause, other)
			}
			if died(other) && !died(cause) {
				t.Fatalf("%+v is the cause, though %+v died without a report", cause, other)
			}
			if cause.askedToExit && cause.exit == exitedOK && cause.reported == noError && !cause.outOfProtocol {
				t.Fatalf("%+v is the cause: it did what it was asked", cause)
			}
		}
	}
}

// What happens, and who is the cause of it.
func TestRootCause(t *testing.T) {
	for _, c := range []struct {
		what    string
		workers []evidence
		want    int
	}{
		{"nothing happened", []evidence{{}, {}}, -1},
		{"all ended as they should", []evidence{{exit: exitedOK, streamEnded: true, askedToExit: true, order: 1},
			{exit: exitedOK, streamEnded: true, askedToExit: true, order: 2}}, -1},
		{"a panic at the end, when another had ended well",
			[]evidence{{exit: exitedOK, streamEnded: true, askedToExit: true, order: 1},
				{exit: exitedBad, streamEnded: true, askedToExit: true, order: 2}}, 1},
		{"killed while others report its closed lanes",
			[]evidence{{exit: exitedBad, reported: peerError, order: 1},
				{exit: exitSignal, streamEnded: true, order: 2}}, 1},
		{"an error, and a peer that found the lane closed",
			[]evidence{{exit: exitedBad, reported: peerError, order: 1},
				{exit: exitedBad, reported: ownError, order: 2}}, 1},
		{"a panic before an error that came first",
			[]evidence{{exit: exitedBad, reported: ownError, order: 1},
				{exit: exitedBad, streamEnded: true, order: 2}}, 1},
		{"two deaths: the earlier one", []evidence{{exit: exitSignal, order: 2}, {exit: exitedBad, order: 1}}, 1},
		{"a silent stream, still running", []evidence{{}, {streamEnded: true, order: 1}}, 1},
		{"a handler that calls os.Exit(0)", []evidence{{}, {exit: exitedOK, streamEnded: true, order: 1}}, 1},
		{"os.Exit(0) of one, SIGKILL of another", []evidence{{exit: exitedOK, streamEnded: true, order: 1},
			{exit: exitSignal, streamEnded: true, order: 2}}, 1},
		{"a message out of place beside a death", []evidence{{outOfProtocol: true, order: 1},
			{exit: exitSignal, order: 2}}, 1},
		{"a machine that is lost, and what others were ended for",
			[]evidence{{exit: exitEnded, streamEnded: true, order: 1}, {exit: exitLost, streamEnded: true, order: 2},
				{exit: exitEnded, outOfProtocol: true, order: 3}}, 1},
		{"a death before its machine was lost",
			[]evidence{{exit: exitLost, order: 1}, {exit: exitSignal, order: 2}}, 1},
		{"only ended", []evidence{{exit: exitEnded, order: 2}, {exit: exitEnded, order: 1}}, 1},
		{"only reports about peers", []evidence{{reported: peerError, exit: exitedBad, order: 2},
			{reported: peerError, order: 1}}, 1},
	} {
		t.Run(fmt.Sprint(c.what), func(t *testing.T) {
			if got := selectRootCause(c.workers); got != c.want {
				t.Errorf("cause is %d, want %d", got, c.want)
			}
		})
	}
}

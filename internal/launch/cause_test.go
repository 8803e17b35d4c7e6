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
	var all []fact
	for _, exit := range []exitKind{running, exitedOK, exitedBad, exitSignal} {
		for _, report := range []reportKind{noReport, peerReport, ownReport} {
			for bits := range 8 {
				all = append(all, fact{exit: exit, report: report, lost: bits&1 != 0, strange: bits&2 != 0, due: bits&4 != 0})
			}
		}
	}
	died := func(f fact) bool { return f.report == noReport && (f.exit == exitedBad || f.exit == exitSignal) }
	for _, f := range all {
		for _, g := range all {
			if f.due != g.due {
				continue // all are told to end, or none
			}
			f.order, g.order = 1, 2
			c := rootCause([]fact{f, g})
			if d := rootCause([]fact{g, f}); c < 0 != (d < 0) || c >= 0 && d != 1-c {
				t.Fatalf("%+v, %+v: cause is %d, the other way round %d", f, g, c, d)
			}
			if f.weight() == g.weight() && c == 1 {
				t.Fatalf("%+v, %+v: cause is the later one", f, g)
			}
			if c < 0 {
				for _, x := range []fact{f, g} {
					if died(x) || x.report != noReport || !x.due && (x.lost || x.strange || x.exit != running) {
						t.Fatalf("%+v, %+v: no cause", f, g)
					}
				}
				continue
			}
			cause, other := []fact{f, g}[c], []fact{f, g}[1-c]
			innocent := cause.report == peerReport || cause.exit == exitedOK && cause.report == noReport && !cause.strange
			if innocent && (died(other) || other.report == ownReport) {
				t.Fatalf("%+v is the cause, not %+v", cause, other)
			}
			if died(other) && !died(cause) {
				t.Fatalf("%+v is the cause, though %+v died without a word", cause, other)
			}
			if cause.due && cause.exit == exitedOK && cause.report == noReport && !cause.strange {
				t.Fatalf("%+v is the cause: it did what it was told", cause)
			}
		}
	}
}

// What happens, and who is the cause of it.
func TestRootCause(t *testing.T) {
	for _, c := range []struct {
		what  string
		facts []fact
		want  int
	}{
		{"nobody did anything", []fact{{}, {}}, -1},
		{"all ended as they should", []fact{{exit: exitedOK, lost: true, due: true, order: 1}, {exit: exitedOK, lost: true, due: true, order: 2}}, -1},
		{"a panic at the end, when another had ended well", []fact{{exit: exitedOK, lost: true, due: true, order: 1}, {exit: exitedBad, lost: true, due: true, order: 2}}, 1},
		{"killed while others report its closed lanes", []fact{{exit: exitedBad, report: peerReport, order: 1}, {exit: exitSignal, lost: true, order: 2}}, 1},
		{"an error, and a peer that found the lane closed", []fact{{exit: exitedBad, report: peerReport, order: 1}, {exit: exitedBad, report: ownReport, order: 2}}, 1},
		{"a panic before an error that came first", []fact{{exit: exitedBad, report: ownReport, order: 1}, {exit: exitedBad, lost: true, order: 2}}, 1},
		{"two deaths: the earlier one", []fact{{exit: exitSignal, order: 2}, {exit: exitedBad, order: 1}}, 1},
		{"a silent stream, still running", []fact{{}, {lost: true, order: 1}}, 1},
		{"a handler that calls os.Exit(0)", []fact{{}, {exit: exitedOK, lost: true, order: 1}}, 1},
		{"os.Exit(0) of one, SIGKILL of another", []fact{{exit: exitedOK, lost: true, order: 1}, {exit: exitSignal, lost: true, order: 2}}, 1},
		{"a message out of place beside a death", []fact{{strange: true, order: 1}, {exit: exitSignal, order: 2}}, 1},
		{"only reports about peers", []fact{{report: peerReport, exit: exitedBad, order: 2}, {report: peerReport, order: 1}}, 1},
	} {
		t.Run(fmt.Sprint(c.what), func(t *testing.T) {
			if got := rootCause(c.facts); got != c.want {
				t.Errorf("cause is %d, want %d", got, c.want)
			}
		})
	}
}

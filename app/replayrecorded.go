// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/disco-sim/disco/internal/calls"
	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/trace"
	"github.com/disco-sim/disco/node"
)

// Where a run that is replayed was begun with --trace, its checkpoints have what each call got: the events by sender,
// number, size and hash, and the wakeups. So the call that differs is shown as it was, too, and one that only that run
// has is known by its name.

// missing finds the first call that only the recorded run has: behind the last call of its stream that is equal, and
// before the next one of the replay. nil: there is none, or the run has no trace.
func (r *dirReplayer) missing(u *launch.Unequal) (*calls.Call, error) {
	d := &u.Calls.First
	next := &d.Call
	switch d.Kind {
	case calls.Extra:
		return nil, nil
	case calls.Missing:
		next = d.Behind
	}
	from, to := 0.0, d.Until
	if d.After != nil {
		from = d.After.Epoch
	}
	if next != nil {
		to = next.Epoch
	}
	list, err := r.o.config.Replay.Traced(r.ctx, u.Replication, from, to, func(rec *trace.Record) bool {
		return d.Has(uint32(rec.Target)) && (d.After == nil || r.order(d.After, rec) < 0) &&
			(next == nil || r.order(next, rec) > 0)
	})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &calls.Call{Simproc: uint32(list[0].Target), Epoch: list[0].Epoch}, nil
}

// order compares a call with the one that a record is of, in the total order.
func (r *dirReplayer) order(c *calls.Call, rec *trace.Record) int {
	level := r.names.Structure().Level(node.SimprocID(c.Simproc))
	return cmp.Or(cmp.Compare(c.Epoch, rec.Epoch), cmp.Compare(level, rec.Level),
		cmp.Compare(c.Simproc, uint32(rec.Target)))
}

// showGot writes what the recorded call got, as far as that is known, beside what it got in a replay, and which call
// has sent what differs.
func (r *dirReplayer) showGot(u *launch.Unequal, call *calls.Call, replay *activation,
	before *checkpoint.Manifest) error {
	list, err := r.showTraced(u, call, replay)
	if err != nil {
		return err
	}
	if ev := r.strange(u, list, replay); ev != nil {
		return r.showSender(u, call, ev, before)
	}
	return nil
}

// showTraced writes what the recorded call got, as far as that is known.
func (r *dirReplayer) showTraced(u *launch.Unequal, call *calls.Call, replay *activation) ([]trace.Record, error) {
	w := r.p.stdout
	switch {
	case u.Calls.First.Kind == calls.Extra:
		return nil, nil
	case !r.repo.Run().Trace:
		fmt.Fprintf(w, "\nnot known: what the recorded call got, since the journal has its hash only: with "+
			"`run --trace` the\ncheckpoints have it\n")
		return nil, nil
	}
	list, err := r.o.config.Replay.Traced(r.ctx, u.Replication, call.Epoch, call.Epoch, func(rec *trace.Record) bool {
		return uint32(rec.Target) == call.Simproc
	})
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(w, "\nas recorded, in the trace of that run\n")
	for i := range list {
		fmt.Fprintf(w, "      got  %s\n", r.recorded(&list[i], replay))
	}
	switch len(list) {
	case 0:
		fmt.Fprintf(w, "      there is no such call\n")
	case launch.TracedMost:
		fmt.Fprintf(w, "      …\n")
	}
	return list, nil
}

// recorded is a record in words, and what a replay has of it.
func (r *dirReplayer) recorded(rec *trace.Record, replay *activation) string {
	var lines []string
	if replay != nil {
		lines = replay.lines
	}
	line := r.lineOf(rec)
	same := hasLine(lines, line)
	if rec.Sender == trace.Wakeup {
		return "a wakeup" + ifNot(same, ", which the replay hasn't")
	}
	f := strings.Split(line, "\t")
	text := fmt.Sprintf("event %s of %s: %s, hash %s", f[1], f[0], count(int(rec.Size), "byte"), f[3])
	switch {
	case same:
		return text + ", as in the replay"
	case slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, f[0]+"\t"+f[1]+"\t") }):
		return text + ", other data than in the replay"
	}
	return text + ", which the replay hasn't"
}

// ifNot is a text where something isn't so.
func ifNot(is bool, text string) string {
	if is {
		return ""
	}
	return text
}

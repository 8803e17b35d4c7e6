// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"

	"github.com/disco-sim/disco/internal/calls"
	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/nodediff"
	"github.com/disco-sim/disco/internal/launch"
	tables "github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/node"
)

// What is shown of the first call that differs. The record has its hash, and states at checkpoints. So the run is
// replayed twice more, from the last checkpoint before the call, over different workers: with a journal of what the
// call gets and does, and up to right behind it, where the states are saved. The first of them goes on to the next
// checkpoint that is recorded, where both states are known.

// sight is what a replay has seen of a call.
type sight struct {
	spread string
	call   *activation   // nil: there was none
	behind nodediff.Side // the states right behind it; no Repo: there are none
	next   nodediff.Side // those at the next recorded checkpoint; likewise
}

// showCalls writes the first difference of calls, and what the call gets, does and leaves.
func (r *dirReplayer) showCalls(u *launch.Unequal) error {
	w, d := r.p.stdout, &u.Calls.First
	fmt.Fprintf(w, "DIFFERENT: %s, replication %d\n", r.describe(d), u.Replication)
	if d.Kind == calls.Changed || d.Kind == calls.Unclear {
		fmt.Fprintf(w, "recorded   hash %04x\nin replay  hash %04x\n", d.Was, uint16(d.Call.Hash))
	}
	if d.Kind == calls.Unclear {
		fmt.Fprintf(w, "not certain: nothing behind it is equal, so the recorded call there may be another one%s\n",
			r.behind(d))
	}
	for i := range u.Calls.Earlier {
		fmt.Fprintf(w, "perhaps before it: %s\n", r.describe(&u.Calls.Earlier[i]))
	}
	recorded, err := r.missing(u)
	if err != nil {
		return err
	}
	if recorded != nil {
		fmt.Fprintf(w, "the trace of that run has a call there that this one hasn't, of %s\n", r.callName(recorded))
		return r.lookCloser(u, recorded)
	}
	c := &d.Call
	if d.Kind == calls.Missing {
		if c = d.Then; c == nil {
			fmt.Fprintf(w, "not known: whose it was, since no call behind it differs up to %v s\n", d.Until)
			return nil
		}
		fmt.Fprintf(w, "the next call there that differs is %s: its simproc may be the one that lacks a call\n",
			r.callName(c))
	}
	return r.lookCloser(u, c)
}

// describe says what a difference is, and between which calls.
func (r *dirReplayer) describe(d *calls.Difference) string {
	more := ""
	if d.Number > 1 {
		more = fmt.Sprintf(", the first of %s in a row", tables.Plural(d.Number, "call"))
	}
	switch d.Kind {
	case calls.Extra:
		return "this run has a call that the recorded one hasn't, of " + r.callName(&d.Call) + more
	case calls.Missing:
		before := fmt.Sprintf(", up to %v s", d.Until)
		if d.Behind != nil {
			before = ", before that of " + r.callName(d.Behind)
		}
		return "the recorded run has a call that this one hasn't" + more + r.behind(d) + before
	}
	return "the first call that differs is of " + r.callName(&d.Call)
}

// behind names the last call that is equal.
func (r *dirReplayer) behind(d *calls.Difference) string {
	if d.After == nil {
		return ""
	}
	return ", behind that of " + r.callName(d.After)
}

func (r *dirReplayer) callName(c *calls.Call) string {
	return fmt.Sprintf("%s at %v s", r.names.Structure().Name(node.SimprocID(c.Simproc)), c.Epoch)
}

// lookCloser writes what a call gets, does and leaves.
func (r *dirReplayer) lookCloser(u *launch.Unequal, call *calls.Call) error {
	before, next, err := r.around(u, call)
	if err != nil {
		return err
	}
	cfg := r.o.config
	other := 1
	if cfg.Workers == 1 && r.repo.Run().Nodes > 1 {
		other = 2
	}
	if cfg.Machines != nil {
		other = cfg.Workers // the machines decide
	}
	var sights [2]*sight
	for i, workers := range []int{min(cfg.Workers, int(r.repo.Run().Nodes)), other} {
		if sights[i], err = r.look(u, call, fmt.Sprint("look", i), workers, before, next); err != nil {
			return err
		}
		next = nil // once is enough
	}
	r.screen.end()
	from := "from the begin"
	if before != nil {
		from = fmt.Sprintf("from the checkpoint at %v s", before.Epoch)
	}
	return r.showSights(u, call, from, before, &sights)
}

// around is the last checkpoint at the epoch of the call or before, and the first one behind it whose states are
// compared; nil: there is none.
func (r *dirReplayer) around(u *launch.Unequal, call *calls.Call) (before, next *checkpoint.Manifest, err error) {
	points, err := r.repo.Points(r.ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range slices.Backward(points) { // by epoch
		if p.Finished || p.Replication != u.Replication || p.Epoch > call.Epoch {
			continue
		}
		before, err = r.repo.Load(r.ctx, p)
		var missing *checkpoint.MissingError
		if !errors.As(err, &missing) { // else it was pruned meanwhile
			break
		}
	}
	if before != nil && err == nil {
		before, err = r.o.config.Replay.BeginOf(r.ctx, u.Replication, before)
	}
	for _, m := range r.o.config.Replay.States[u.Replication] {
		if m.Epoch > call.Epoch {
			return before, m, err
		}
	}
	return before, nil, err
}

// look replays up to right behind a call, and on to a checkpoint, where there is one.
func (r *dirReplayer) look(u *launch.Unequal, call *calls.Call, name string, workers int,
	before, next *checkpoint.Manifest) (*sight, error) {
	cfg, epoch := r.closer(u, before), call.Epoch
	replay := cfg.Replay
	if behind := math.Nextafter(epoch, math.Inf(1)); behind < r.repo.Run().Horizon {
		replay.SaveAt, replay.Until = behind, behind
	}
	if next != nil {
		replay.States[u.Replication], replay.Until = []*checkpoint.Manifest{next}, next.Epoch
	}
	if cfg.Workers != workers {
		cfg.Pins, cfg.Partition = nil, ""
	}
	cfg.Workers = workers
	cfg.Trace = filepath.Join(r.scratch, name+"-journal")
	cfg.Journal = &launch.Journal{From: epoch, Until: cmp.Or(epoch, math.SmallestNonzeroFloat64),
		Node: r.names.Structure().NodeName(r.nodeOf(call))}
	rec := &traceRecord{replication: u.Replication, epoch: epoch,
		simproc: r.names.Structure().Name(node.SimprocID(call.Simproc))}
	saved := len(r.places)
	l, err := r.run(cfg, name, nil)
	if err != nil {
		return nil, fmt.Errorf("a closer look: %w", err)
	}
	s := &sight{spread: count(workers, "worker")}
	if s.call, err = callIn(cfg.Trace, l.Scenario(), rec); err != nil {
		return nil, err
	}
	if len(r.places) > saved {
		err = r.takeStates(s, u, r.places[saved], replay.SaveAt, next)
	}
	return s, err
}

// closer is a run of the replication in which a difference is, from a checkpoint, nil: its begin.
func (r *dirReplayer) closer(u *launch.Unequal, before *checkpoint.Manifest) launch.Config {
	cfg := r.o.config
	replications := len(cfg.Replay.To)
	replay := &launch.Replay{Repo: r.repo, To: make([]*checkpoint.Manifest, replications),
		States: make([][]*checkpoint.Manifest, replications)}
	replay.To[u.Replication] = cfg.Replay.To[u.Replication]
	if cfg.Resume = r.start; before != nil {
		cfg.Resume = r.resume(replications)
		cfg.Resume.From[u.Replication] = before
	}
	cfg.Replay, cfg.Spread = replay, launch.SpreadNodes
	return cfg
}

// nodeOf is the node of a call.
func (r *dirReplayer) nodeOf(call *calls.Call) int {
	return r.names.Structure().Node(node.SimprocID(call.Simproc))
}

// takeStates finds the states that a replay has saved.
func (r *dirReplayer) takeStates(s *sight, u *launch.Unequal, place *checkpoint.Repo, behind float64,
	next *checkpoint.Manifest) error {
	for _, want := range []struct {
		epoch float64
		side  *nodediff.Side
	}{{behind, &s.behind}, {pointEpoch(next), &s.next}} {
		if want.epoch == 0 {
			continue
		}
		m, err := place.Load(r.ctx, checkpoint.Point{Replication: u.Replication, Epoch: want.epoch})
		var missing *checkpoint.MissingError
		if errors.As(err, &missing) {
			continue // the replay ended before
		}
		if err != nil {
			return err
		}
		*want.side = nodediff.Side{Repo: place, Manifest: m}
	}
	return nil
}

// pointEpoch is the epoch of a checkpoint, 0 without one.
func pointEpoch(m *checkpoint.Manifest) float64 {
	if m == nil {
		return 0
	}
	return m.Epoch
}

// showSights writes what was seen. What isn't known is said, too.
func (r *dirReplayer) showSights(u *launch.Unequal, call *calls.Call, from string, before *checkpoint.Manifest,
	sights *[2]*sight) error {
	w, n := r.p.stdout, int64(r.nodeOf(call))
	name := r.names.Structure().NodeName(int(n))
	a, b := sights[0], sights[1]
	if sameCall(a.call, b.call) {
		fmt.Fprintf(w, "\nin two more replays %s, over %s and over %s\n", from, a.spread, b.spread)
		showActivation(w, a.call)
	} else {
		for _, s := range sights {
			fmt.Fprintf(w, "\nin one more replay %s, over %s\n", from, s.spread)
			showActivation(w, s.call)
		}
	}
	if err := r.showGot(u, call, a.call, before); err != nil {
		return err
	}
	names, _ := r.p.namesOf(r.repo.Run()) // without them there are numbers
	if a.behind.Repo != nil && b.behind.Repo != nil {
		d, err := nodediff.Of(r.ctx, a.behind, b.behind, n)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "\nstate of node %s right behind it; A: over %s; B: over %s\n", name, a.spread, b.spread)
		r.showNode(d, &names)
		r.showRecorded(u, d, sights)
	}
	if a.next.Repo == nil {
		fmt.Fprintf(w, "\nnot known: the recorded state, since no checkpoint behind it was compared\n")
	} else {
		was := nodediff.Side{Repo: r.repo, Manifest: nil}
		for _, m := range r.o.config.Replay.States[u.Replication] {
			if m.Epoch == a.next.Manifest.Epoch {
				was.Manifest = m
			}
		}
		d, err := nodediff.Of(r.ctx, was, a.next, n)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "\nstate of node %s at the next recorded checkpoint, %v s; A: as recorded; B: in the replay "+
			"over %s\n", name, was.Manifest.Epoch, a.spread)
		r.showNode(d, &names)
	}
	fmt.Fprintf(w, "\nAn event is named by who sent it: `run FILE --print node=NAME,until=%v` shows what that node "+
		"got\nand did before\n", call.Epoch)
	return nil
}

// sameCall reports whether two replays have seen the same.
func sameCall(a, b *activation) bool {
	return a == nil && b == nil || a != nil && b != nil && slices.Equal(a.lines, b.lines)
}

// showActivation writes what a call got and did.
func showActivation(w io.Writer, a *activation) {
	if a == nil {
		fmt.Fprintf(w, "      there is no such call\n")
		return
	}
	for _, line := range a.Events {
		fmt.Fprintf(w, "      got  %s\n", line)
	}
	for _, line := range a.Did {
		fmt.Fprintf(w, "      then %s\n", line)
	}
}

// showRecorded says which of the replays have the recorded hash.
func (r *dirReplayer) showRecorded(u *launch.Unequal, n *nodediff.Node, sights *[2]*sight) {
	d := &u.Calls.First
	if d.Kind != calls.Changed && d.Kind != calls.Unclear {
		return
	}
	rank := r.names.Structure().Endpoint(node.SimprocID(d.Call.Simproc)).Simproc
	for i, s := range sights {
		st := &n.Simprocs[rank].States[i]
		if st.Now == d.Call.Epoch && uint16(st.Hash) == d.Was {
			fmt.Fprintf(r.p.stdout, "over %s the call is as recorded: it isn't the same each time\n", s.spread)
		}
	}
}

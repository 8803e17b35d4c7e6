// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/internal/calls"
	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/trace"
	"github.com/disco-sim/disco/node"
)

// What is behind a call that got something else: the call that sent it. No journal has what is sent, but events of a
// simproc are numbered, and a replay can say after each call how many were sent. So one more replay has the journal of
// the sender's node, of nothing but that.

// sentEvent names an event: who sent it, and its number.
type sentEvent struct {
	sender node.SimprocID
	number uint64
}

// strange is the first event that only one side's call got, or that has other data there; nil: none, or that isn't
// known. recorded is what the recorded call got.
func (r *dirReplayer) strange(u *launch.Unequal, recorded []trace.Record, replay *activation) *sentEvent {
	var lines []string
	if replay != nil {
		lines = replay.lines
	}
	known := map[string]bool{}
	for i := range recorded {
		rec := &recorded[i]
		line := r.lineOf(rec)
		known[line] = true
		if rec.Sender != trace.Wakeup && !hasLine(lines, line) {
			return &sentEvent{rec.Sender, rec.Number}
		}
	}
	if !r.repo.Run().Trace && u.Calls.First.Kind != calls.Extra {
		return nil
	}
	for _, line := range lines {
		f := strings.Split(line, "\t")
		if len(f) < 4 || known[strings.Join(f[:4], "\t")] {
			continue // it isn't about an event, or both got it
		}
		id, found := r.simprocOf(f[0])
		number, err := strconv.ParseUint(f[1], 10, 64)
		if found && err == nil {
			return &sentEvent{id, number}
		}
	}
	return nil
}

// simprocOf finds a simproc by its name.
func (r *dirReplayer) simprocOf(name string) (id node.SimprocID, ok bool) {
	g := r.names.Structure()
	for id := range g.NumSimprocs() {
		if g.Name(node.SimprocID(id)) == name {
			return node.SimprocID(id), true
		}
	}
	return 0, false
}

// showSender writes which call of a replay sends an event, of those up to a call.
func (r *dirReplayer) showSender(u *launch.Unequal, call *calls.Call, ev *sentEvent,
	before *checkpoint.Manifest) error {
	g := r.names.Structure()
	name := g.Name(ev.sender)
	cfg, file := r.closer(u, before), filepath.Join(r.scratch, "sender-journal")
	cfg.Replay.SaveAt, cfg.Replay.Until = 0, 0
	if call.Epoch > 0 {
		cfg.Replay.Until = call.Epoch
	}
	cfg.Trace = file
	cfg.Journal = &launch.Journal{From: pointEpoch(before), Until: call.Epoch, Node: g.NodeName(g.Node(ev.sender)),
		Sends: true}
	l, err := r.run(cfg, "sender", nil)
	if err != nil {
		return fmt.Errorf("a look for the sender of event %d of %s: %w", ev.number, name, err)
	}
	r.screen.end()
	epoch, count, err := sendingCall(file, l, name, ev.number)
	w := r.p.stdout
	switch {
	case err != nil:
		return err
	case epoch != "":
		fmt.Fprintf(w, "\nevent %d of %s is sent, in the replay, by its call at %s s: that is the one to look at, "+
			"since what it got is\nas recorded, as far as that was compared\n", ev.number, name, epoch)
	default:
		fmt.Fprintf(w, "\nevent %d of %s isn't sent in the replay up to %v s: it has sent %d there, so one of its "+
			"calls before sends less\n", ev.number, name, call.Epoch, count)
	}
	return nil
}

// sendingCall is the epoch of the call in a journal behind which a simproc has sent the event with a number; "": none,
// and how many it has sent.
func sendingCall(path string, l *launch.Launch, simproc string, number uint64) (epoch string, count uint64, err error) {
	err = eachActivation(path, l.Scenario(), func(a *activation) (more bool) {
		for _, line := range a.lines {
			text, is := strings.CutPrefix(line, "sent\t")
			n, err := strconv.ParseUint(text, 10, 64)
			if !is || err != nil || a.Simproc != simproc {
				continue
			}
			if count = n; n > number {
				epoch = a.Epoch
				return false
			}
		}
		return true
	})
	return epoch, count, err
}

// lineOf is a record as a journal's line has it, without epoch, target and data.
func (r *dirReplayer) lineOf(rec *trace.Record) string {
	return strings.SplitN(strings.TrimSuffix(string(rec.AppendText(nil, r.names.Structure())), "\n"), "\t", 3)[2]
}

// hasLine reports whether lines of a journal have that of a record.
func hasLine(lines []string, line string) bool {
	return slices.ContainsFunc(lines, func(l string) bool { return l == line || strings.HasPrefix(l, line+"\t") })
}

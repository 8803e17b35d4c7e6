// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/internal/circuit"
)

// Bounds of what is known of machines behind an agent. What is beyond them is forgotten: that costs tries, and no more.
const (
	partsMax   = 4096  // nodes of a scheduler
	piecesMax  = 10000 // that have failed somewhere
	awayMax    = 64    // machines that vitals list
	reasonMax  = 200   // bytes of why, for each
	tryMost    = 3     // hosts that a scheduler starts for one Prepare
	withoutMax = 100   // nodes that a scheduler is told to leave out
)

// part is a machine behind the agent: one of Options.Machines, or a node on which a scheduler has started a host.
type part struct {
	name   string
	starts circuit.Circuit // whether what it is given starts
	good   bool            // something has
}

// piece is one of an experiment, in whichever attempt.
type piece struct {
	experiment string
	id         fleet.PieceID
}

func pieceOf(j *executor.Job) piece { return piece{j.Experiment, j.Attempt.PieceID} }

// part finds a machine by its name; nil: it has none, or there are too many. mu is held.
func (r *Remote) part(name string) *part {
	p := r.parts[name]
	if p == nil && name != "" && len(r.parts) < partsMax {
		p = &part{name: name}
		r.parts[name] = p
	}
	return p
}

// refusal is why a machine is given nothing now, or nil.
func (r *Remote) refusal(p *part) error {
	if p == nil {
		return nil
	}
	why, _ := p.starts.Refusal(r.o.Now())
	return why
}

// meet notes on which machine a job is, as its host has said.
func (r *Remote) meet(p *placed, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.part == nil && !p.judged {
		p.part = r.part(name)
		if p.part != nil {
			p.number, _ = p.part.starts.Allow(r.o.Now()) // it has been started there anyway: 0 says nothing then
		}
	}
}

// judge notes once whether a job was started by its machine.
func (r *Remote) judge(p *placed, result circuit.Result, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p == nil || p.part == nil || p.judged {
		return
	}
	p.judged = true
	p.part.good = p.part.good || result == circuit.Succeeded
	p.part.starts.Done(r.o.Now(), p.number, result, why)
}

// failedAt notes that a piece has failed by a machine's fault, and tells whether it hasn't on another one: then this
// one may be to blame, and not the piece.
func (r *Remote) failedAt(j *executor.Job, p *part) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p == nil {
		return false
	}
	key := pieceOf(j)
	first = len(r.failed[key]) == 0
	if len(r.failed) >= piecesMax && first {
		clear(r.failed)
	}
	if !slices.Contains(r.failed[key], p.name) && len(r.failed[key]) < awayMax {
		r.failed[key] = append(r.failed[key], p.name)
	}
	return first
}

// concludes says of a run that has ended what it says of its machine.
func (r *Remote) concludes(p *placed, j *executor.Job, began bool, o *executor.Outcome) {
	e := o.Error
	switch {
	case e == nil && o.Stopped && !began:
		r.judge(p, circuit.Neither, nil)
		return
	case e == nil || e.Type != fleet.ErrorMachine:
		r.judge(p, circuit.Succeeded, nil)
		if o.Kept != nil {
			r.mu.Lock()
			delete(r.failed, pieceOf(j))
			r.mu.Unlock()
		}
		return
	case began:
		r.judge(p, circuit.Succeeded, nil)
	case o.Own:
		r.judge(p, circuit.Neither, nil)
		r.mu.Lock()
		at := p.part
		r.mu.Unlock()
		r.failedAt(j, at) // another one may do: a folder that isn't there may be elsewhere
		return
	default:
		r.judge(p, circuit.HasFailed, errors.New(oneLine(e.Message, fleet.MaxReason)))
	}
	r.mu.Lock()
	at := p.part
	several := at != nil && (r.o.Scheduler != nil || len(r.machines) > 1)
	r.mu.Unlock()
	first := r.failedAt(j, at)
	if several && !began {
		o.Behind, o.Elsewhere = at.name, first
	}
}

// without are the nodes that a scheduler is told to leave out for a job: those that start nothing, and those at which
// the piece has failed; none unless another one is known to start something. mu is held.
func (r *Remote) without(j *executor.Job, tried map[string]error) (names []string) {
	others := false
	for _, name := range slices.Sorted(maps.Keys(r.parts)) {
		p := r.parts[name]
		_, failed := tried[name]
		if r.refusal(p) != nil || failed || slices.Contains(r.failed[pieceOf(j)], name) {
			names = append(names, name)
		} else {
			others = others || p.good
		}
	}
	if !others || len(names) > withoutMax {
		return nil
	}
	return names
}

// away is why a machine is given nothing now, or nil. mu is held.
func (r *Remote) away(l *link) error {
	if why := l.reason(); why != nil {
		return fmt.Errorf("%s isn't connected (%w)", l.title, why)
	}
	if why := r.refusal(r.parts[l.title]); why != nil {
		return fmt.Errorf("%s: %w", l.title, why)
	}
	return nil
}

// oneLine is a text of so many bytes at most.
func oneLine(text string, most int) string { return fleet.Line(clip(text, most-len("\uFFFD"))) }

var _ executor.Vital = (*Remote)(nil)

// Vitals implements executor.Vital: which machines are given nothing now, and how many of the agent's servers can't be
// used for that.
func (r *Remote) Vitals(v *fleet.Vitals) {
	r.mu.Lock()
	defer r.mu.Unlock()
	away := map[string]string{}
	add := func(name string, why error) {
		if len(away) < awayMax {
			away[oneLine(name, fleet.MaxBehind)] = oneLine(circuit.Why(why).Error(), reasonMax)
		}
	}
	usable, all := 0, 0
	for _, l := range r.machines {
		all += l.slots
		if why := r.away(l); why != nil {
			add(l.title, why)
		} else {
			usable += l.slots
		}
	}
	if r.o.Scheduler != nil {
		for _, name := range slices.Sorted(maps.Keys(r.parts)) {
			if why := r.refusal(r.parts[name]); why != nil {
				add(name, why)
			}
		}
	}
	if len(away) == 0 {
		return
	}
	v.Away = away
	if offered := min(all, max(r.o.Slots, 0)); r.o.Scheduler == nil {
		if r.o.Slots == 0 {
			offered = all
		}
		v.Lacks = max(0, offered-usable)
		if usable == 0 {
			v.Refuses = oneLine("none of its machines starts anything: "+circuit.Why(r.away(r.machines[0])).Error(),
				fleet.MaxReason)
		}
	}
}

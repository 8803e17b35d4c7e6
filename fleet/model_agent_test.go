// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/disco-sim/disco/cluster"
)

// host is a machine with its agent.
type host struct {
	w            *world
	name         string
	alive        bool
	life         int // of the agent's process
	cutUntil     float64
	stoppedUntil float64
	jumps        time.Duration // of its clock, forward
	session      uint64
	sure         float64 // until when it may rely on its session
	slots        []*slot
	view         map[string]seen
	lead         *leader
	old          bool   // its agent is of an older build
	resigned     uint64 // the token of the last leadership that it has given up
	vital        Vitals
	fullUntil    float64 // its memory is
	fullSince    float64 // as the store has it; 0: it isn't
}

// slot is a server, as its agent has it.
type slot struct {
	host        *host
	name        string
	number      int
	incarnation string
	sm          *cluster.Slot
	ack         *cluster.Ack
	writing     uint64
	publishing  bool
	dirty       bool
	run         *run
}

// run is what simulates a piece, for the server of partition 0.
type run struct {
	slot     *slot
	id       string
	attempt  AttemptID
	length   float64 // seconds of work
	at       float64
	paused   bool
	reported uint64 // reports
	ending   bool
	pace     pace
	cutFor   int // seconds for which two machines of its gang are cut off from each other
}

// boot starts the agent.
func (h *host) boot() {
	h.alive, h.life, h.session, h.lead = true, h.life+1, 0, nil
	h.slots = nil
	for i := range 2 {
		sl := &slot{host: h, name: fmt.Sprintf("%s-%d", h.name, i), number: i, sm: cluster.NewSlot("")}
		sl.sm.Open()
		h.slots = append(h.slots, sl)
	}
	h.register()
	h.renew(h.life)
	h.sendVitals(h.life)
}

// sendVitals writes the agent's vitals, which a cut, a stop or the store's outage holds up.
func (h *host) sendVitals(life int) {
	w := h.w
	w.after(VitalsEvery.Seconds(), func() {
		if h.life != life {
			return
		}
		now := w.c.Now()
		if h.session != 0 && w.store.sessions[h.session] == h && max(h.cutUntil, h.stoppedUntil,
			w.store.downUntil) <= now {
			h.vital.Number++
			h.vital.Memory = 0.5
			if now < h.fullUntil {
				h.vital.Memory = 0.95
			}
			if full := h.vital.Memory > useMost; !full {
				h.fullSince = 0
			} else if h.fullSince == 0 {
				h.fullSince = now
			}
			w.measure(h)
			w.store.vitals[h.name] = h.vital
		}
		h.sendVitals(life)
	})
}

// kill ends the agent, and its runs; it starts again after a time.
func (h *host) kill(off float64) {
	if h.alive && !h.w.quiet {
		h.end(off)
	}
}

// usable tells whether a server of the agent can be used.
func (h *host) usable() bool {
	for _, sl := range h.slots {
		if s := sl.sm.State(); s != cluster.Broken && s != cluster.Exited {
			return true
		}
	}
	return false
}

// end is kill, also when there are no faults any more.
func (h *host) end(off float64) {
	h.alive, h.life, h.lead, h.fullSince = false, h.life+1, nil, 0
	for _, sl := range h.slots {
		sl.run = nil
	}
	h.w.after(off, h.boot)
}

// register makes a session, in which the servers have a new incarnation.
func (h *host) register() {
	w := h.w
	incarnation := fmt.Sprintf("i%d", w.r.Uint32())
	var values []cluster.Server
	for _, sl := range h.slots {
		sl.incarnation = incarnation
		sl.sm.Renew(incarnation)
		sl.writing++
		values = append(values, sl.value())
	}
	var session uint64
	began := w.c.Now()
	w.call(h, func() (err error) { session, err = w.store.register(h, values); return err }, func(err error) {
		if err != nil || session == 0 {
			life := h.life
			w.local(h, 1, func() {
				if h.life == life {
					h.register()
				}
			})
			return
		}
		h.session, h.sure = session, began+sessionTTL
		for _, name := range slices.Sorted(maps.Keys(w.store.servers)) {
			w.deliver(h, func() { h.saw(w.store.servers[name]) })
		}
		for _, sl := range h.slots {
			sl.publish()
			h.asked(sl.name)
		}
		w.store.elect()
	})
}

// renew keeps the session, and notices its end.
func (h *host) renew(life int) {
	w := h.w
	w.local(h, 3, func() {
		if h.life != life {
			return
		}
		if h.session != 0 && w.c.Now() >= h.sure {
			h.lose()
		}
		if session, began := h.session, w.c.Now(); session != 0 {
			alive := false
			w.call(h, func() error { alive = w.store.renew(session); return nil }, func(err error) {
				switch {
				case h.session != session || err != nil:
				case !alive:
					h.lose()
				default:
					h.sure = began + sessionTTL
				}
			})
		}
		h.renew(life)
	})
}

// lose is the end of a session: it leads no more, and registers anew. What runs goes on.
func (h *host) lose() {
	h.session, h.lead = 0, nil
	h.register()
}

// saw is what a view's watch tells.
func (h *host) saw(v seen) {
	if h.view[v.Name].change >= v.change {
		return
	}
	h.view[v.Name] = v
	if l := h.lead; l != nil && l.state != nil {
		l.show(v)
		l.wake()
	}
}

// asked looks at a server's request.
func (h *host) asked(server string) {
	for _, sl := range h.slots {
		if sl.name == server && h.session != 0 {
			r := h.w.store.desired[server].Request
			if r.ID != "" {
				sl.step(sl.sm.Ask(r))
			}
		}
	}
}

// step does what follows from a request or an event.
func (sl *slot) step(s cluster.Step) {
	if s.Ack != nil {
		sl.ack = s.Ack
	}
	sl.publish()
	h := sl.host
	life := h.life
	later := func(delay float64, f func() error) {
		h.w.local(h, delay, func() {
			if h.life == life {
				sl.step(sl.sm.Done(s.Number, f()))
			}
		})
	}
	w := h.w
	switch s.Task {
	case cluster.Initialize:
		delay := w.between(0.05, 2)
		if !w.quiet && w.chance(0.02) {
			delay = 300 // it hangs
		}
		bad := !w.quiet && w.chance(0.02)
		later(delay, func() error {
			if bad {
				return errors.New("the scenario can't be fetched")
			}
			return nil
		})
	case cluster.Activate:
		later(w.between(0.01, 0.2), func() error { sl.activate(); return nil })
	case cluster.Pause:
		later(w.between(0.01, 0.2), func() error {
			if sl.run != nil {
				sl.run.paused = true
			}
			return nil
		})
	case cluster.Terminate, cluster.Exit:
		delay := w.between(0.05, 2)
		if s.Task == cluster.Terminate && w.chance(0.02) {
			delay = w.between(50, 400) // it hardly can be ended
		}
		switch {
		case sl.run != nil && delay > 5 && w.chance(0.5):
			sl.run.pace.stoppingIn = true
		case sl.run != nil && w.chance(0.8):
			sl.run.ending, sl.run = true, nil
		}
		later(delay, func() error { sl.run = nil; return nil })
	}
}

// value is what the server's keys show.
func (sl *slot) value() cluster.Server {
	return cluster.Server{Name: sl.name, Status: cluster.Status{State: sl.sm.State(), Incarnation: sl.incarnation,
		Reason: sl.sm.Reason(), Ack: sl.ack, Last: sl.sm.Last(), Writing: sl.writing},
		Info: cluster.Info{Member: sl.host.name, Slot: sl.number, Assignment: sl.sm.Assignment(), Writing: sl.writing}}
}

// publish writes the server's keys, one writing after the other.
func (sl *slot) publish() {
	h := sl.host
	sl.writing++
	if sl.publishing {
		sl.dirty = true
		return
	}
	if h.session == 0 {
		return
	}
	sl.publishing, sl.dirty = true, false
	session, v := h.session, sl.value()
	h.w.call(h, func() error { return h.w.store.publish(session, v) }, func(err error) {
		sl.publishing = false
		if sl.dirty || errors.Is(err, errUnknown) {
			sl.publish()
		}
	})
}

// activate starts the run, or has it go on.
func (sl *slot) activate() {
	a := sl.sm.Assignment()
	if a == nil || a.Partition != 0 {
		return
	}
	if sl.run != nil {
		sl.run.paused = false
		return
	}
	attempt, err := ParseAttemptID(a.Replication)
	if err != nil {
		panic(err)
	}
	now := sl.host.w.c.Now()
	r := &run{slot: sl, id: a.Experiment, attempt: attempt, length: sl.host.w.between(1, 20),
		pace: pace{began: now, moved: now}}
	sl.run = r
	r.tick()
}

// tick is a second of a run.
func (r *run) tick() {
	w, h := r.slot.host.w, r.slot.host
	life := h.life
	w.local(h, 1, func() {
		switch {
		case h.life != life || r.slot.run != r || r.ending:
			return
		case r.parted():
			return
		case r.pace.stoppingIn:
			r.pace.events++
			r.report(Report{State: Running}, nil)
			r.tick()
			return
		case r.paused:
			r.pace.moved, r.pace.began = w.c.Now(), r.pace.began+1
		case !w.quiet && w.chance(0.002):
			r.length = 1e9 // it hangs
		case w.c.Now() < r.pace.stands:
			r.pace.events++
		case !w.quiet && w.chance(0.003):
			r.pace.stands = w.c.Now() + w.between(5, 60)
		case r.length < 1e9:
			r.at++
			r.pace.move(w.c.Now())
		}
		piece := pieceKey(r.id, r.attempt.PieceID)
		switch {
		case !w.quiet && (w.chance(0.004) || w.c.Now() >= w.away[0] && w.c.Now() < w.away[1]):
			r.crash()
		case (w.broken[piece] || w.unmet(r.id, r.attempt.PieceID)) && r.at >= r.length/2:
			r.end(Report{State: Failed, Error: &Error{Type: w.errorOf(r), Message: "a negative delay"}})
		case r.at >= r.length:
			w.parts[piece] = partOf(piece)
			spec := w.store.specs[r.id]
			kept := &Kept{Hash: partOf(piece), Figures: w.figuresOf(r.id, r.attempt.PieceID)}
			if h.old {
				kept.Figures = nil
			}
			out, texts := outputsOf(&spec, r.id, r.attempt.PieceID)
			r.end(Report{State: Finished, Kept: kept, Outputs: out, Texts: texts})
		default:
			r.report(Report{State: Running}, nil)
			r.tick()
		}
	})
}

// partOf is the hash of a piece's part: the same whoever simulates it.
func partOf(piece string) string { return "hash of " + piece }

// crash is the end of a run's process. In a fourth of the schedules all that it says is that memory was scarce.
func (r *run) crash() {
	if !r.ending {
		r.end(Report{State: Held, Error: &Error{Where: r.slot.name, Type: ErrorMachine, Message: "killed",
			Scarce: r.slot.host.w.seed%4 == 3}})
	}
}

// end reports the end, until that is there, and then frees the server.
func (r *run) end(x Report) {
	if r.ending {
		return
	}
	r.ending = true
	var err error
	if x.Error != nil {
		err = errors.New(x.Error.Message)
	}
	r.report(x, func() {
		if r.slot.run == r {
			r.slot.run = nil
			r.slot.step(r.slot.sm.Ended(err))
		}
	})
}

// report writes a report; one with something to do behind it is written until it is there.
func (r *run) report(x Report, then func()) {
	h := r.slot.host
	r.reported++
	x.Attempt, x.Number, x.Progress = r.attempt.Attempt, r.reported, r.progress()
	at := ReportAt{Member: h.name, ID: r.id, Piece: r.attempt.PieceID, Report: x}
	h.w.call(h, func() error { return h.w.store.putReport(at) }, func(err error) {
		switch {
		case then == nil:
		case errors.Is(err, errUnknown):
			r.report(x, then)
		default:
			then()
		}
	})
}

// roles are those of a machine: of some schedules one takes no runs over several machines.
func (w *world) roles(name string) []string {
	if name == "m0" && w.seed%5 == 0 {
		return []string{Role}
	}
	return []string{Role, RoleGang}
}

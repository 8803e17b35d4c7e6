// SPDX-License-Identifier: Apache-2.0

// Package site is one machine's workers of a run over machines: it makes their memory, starts them as processes, and
// joins their lanes with those of other machines by a bridge over sessions that were begun before.
//
// Guarantee: whatever becomes of a worker, a peer or a session, each worker's end is reported once, what can't go on is
// reported with the machines' names, and nothing of a set is left when it is closed. What another machine sends of a
// set that isn't there any more changes nothing.
//
//	s := site.New(site.Config{Machine: 1, Names: names, Executable: exe, Sessions: sessions})
//	spoke := relay.NewSpoke(relay.SpokeConfig{Machine: 1, Sessions: launcher, Site: s})
package site

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/internal/bridge"
	"github.com/disco-sim/disco/internal/bridge/relay"
	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/shm"
)

// Config is what a site is made from.
type Config struct {
	Machine    int      // this one
	Names      []string // of all machines of the run, by number
	Executable string   // the workers' program: a path that stays good
	Processors int      // threads that can run at once here
	Memory     int      // bytes that a set may take here; 0: what there is

	// Sessions gives those with another machine, by stream. Site's Apply, Changed and Acked are called for them. They
	// are the caller's, and outlive the sets; it has to end the run where one of them is lost.
	Sessions func(machine int) [2]*session.Session
}

var _ relay.Site = (*Site)(nil)

// Site is one machine of a run. Any goroutine uses it.
type Site struct {
	cfg    Config
	newest atomic.Int64 // set that was to be made; -1: none
	bridge atomic.Pointer[joined]
	joins  chan struct{} // has a token for the set that has, or makes, the bridge
	usage  *usage
}

// joined is the bridge that there is, and its set.
type joined struct {
	bridge *bridge.Bridge
	set    uint16
}

// New makes a site.
func New(cfg Config) *Site {
	s := &Site{cfg: cfg, joins: make(chan struct{}, 1), usage: newUsage()}
	s.newest.Store(-1)
	return s
}

// Apply takes a frame of another machine, as session.Config.Apply.
func (s *Site) Apply(machine int, on session.Stream, h session.Header, body []byte) error {
	if h.Type == session.Pong {
		return nil
	}
	if j := s.bridge.Load(); j != nil && j.set == h.Set {
		return j.bridge.Apply(machine, on, h, body)
	}
	// State frames of a set that isn't there yet are sent anew when its replication begins, which is behind the making
	// of the set on all machines. For what comes behind the end of a set nobody waits.
	if newest := s.newest.Load(); h.Number > 0 && int16(h.Set-uint16(newest)) > 0 {
		return &session.FrameError{Byte: 2, Found: fmt.Sprint("set ", h.Set), Allowed: fmt.Sprint("up to ", newest)}
	}
	return nil
}

// Changed takes the new state of a session, as session.Config.Changed.
func (s *Site) Changed(machine int, on session.Stream, state session.State) {
	if j := s.bridge.Load(); j != nil {
		j.bridge.Changed(machine, on, state)
	}
}

// Acked is for room in a session's resend buffer, as session.Config.Acked.
func (s *Site) Acked(machine int, on session.Stream) {
	if j := s.bridge.Load(); j != nil {
		j.bridge.Acked(machine, on)
	}
}

// explain says by their names which machine has lost which.
func (s *Site) explain(err error) error {
	if lost := (*session.LostError)(nil); errors.As(err, &lost) {
		text := fmt.Sprintf("%s has lost %s: no connection for %v (%v)", s.name(lost.Self), s.name(lost.Machine),
			lost.After.Round(time.Millisecond), lost.Stream)
		if lost.Cause != nil {
			text += "; the last one: " + lost.Cause.Error()
		}
		if lost.Machine >= 0 && lost.Machine < len(s.cfg.Names) {
			return &relay.LossError{Machine: lost.Machine, Text: text}
		}
		return errors.New(text)
	}
	return err
}

// name is a machine's.
func (s *Site) name(machine int) string {
	if machine >= 0 && machine < len(s.cfg.Names) {
		return s.cfg.Names[machine]
	}
	return fmt.Sprintf("machine %d", machine)
}

// workerBytes is what a worker's process takes beside segments, at least: that of package launch.
const workerBytes = 2 << 20

// checkMemory refuses a set whose segments and processes don't fit this machine.
func (s *Site) checkMemory(o *child.Order) error {
	segments, _, err := o.Plan.Needs(s.cfg.Machine, false)
	if err != nil {
		return err
	}
	workers, needs := 0, segments
	for w, m := range o.Plan.Machine {
		if int(m) != s.cfg.Machine {
			continue
		}
		workers++
		if len(o.Plan.Heap) == 0 {
			needs += workerBytes
		} else {
			needs += o.Plan.Heap[w]
		}
	}
	available := s.cfg.Memory
	if available == 0 {
		available = int(shm.AvailableBytes())
	}
	if needs <= available {
		return nil
	}
	return child.Refuse(fmt.Errorf("not enough memory: %d workers there take about %d MB (lanes, pools and "+
		"boards %d MB), and %d MB are available: use fewer workers, more machines, fewer slots of that machine, "+
		"smaller --ring-bytes or --pool-bytes, or a larger --memory to try it all the same", workers, needs>>20,
		segments>>20, available>>20))
}

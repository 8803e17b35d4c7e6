// SPDX-License-Identifier: Apache-2.0

package site

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/bridge"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/shm"
)

// joint is what joins a set's workers here with those elsewhere.
type joint struct {
	bridge  *bridge.Bridge
	first   int             // worker here
	views   []*worker.View  // of workers here, in their order
	comes   []*shm.Doorbell // by worker here, as in worker.Bells
	rooms   []*shm.Doorbell
	mirrors map[int]*mirror

	mu     sync.Mutex // guards the rest
	ready  bool       // the bridge is prepared, and waits for Go
	parted bool       // it is closed
}

// mirror is of a worker elsewhere.
type mirror struct {
	pump *shm.Doorbell // for its machine

	mu sync.Mutex
	*worker.Mirror
}

// errJoined is about a second set.
var errJoined = errors.New("another set with workers on several machines is there already")

// joinsMax is how long a set waits for the one before it to close, whose bridge may be in a Flush until its peer counts
// as cut off.
const joinsMax = 10 * time.Second

// join makes the bridge.
func (s *set) join() error {
	select {
	case s.site.joins <- struct{}{}:
	case <-time.After(joinsMax):
		return errJoined
	}
	err := s.makeJoint()
	if err != nil {
		<-s.site.joins
	}
	return err
}

func (s *set) makeJoint() error {
	at := s.site
	j := &joint{first: -1, mirrors: map[int]*mirror{}}
	cfg := bridge.Config{Machine: at.cfg.Machine, Set: uint16(s.order.Set), Crowded: s.crowded(), Shown: j.shown,
		Remote: j.remote}
	for w := range s.order.Plan.Machine {
		if err := j.open(s, &cfg, w); err != nil {
			return fmt.Errorf("worker %d: %w", w, err)
		}
	}
	for from := range s.order.Plan.Machine {
		for to := range s.order.Plan.Machine {
			j.lane(s, &cfg, from, to)
		}
	}
	cfg.First = j.first
	var err error
	if j.bridge, err = bridge.New(cfg); err != nil {
		return err
	}
	s.joint = j
	at.bridge.Store(&joined{j.bridge, cfg.Set})
	s.serving.Go(func() {
		select {
		case err := <-j.bridge.Err():
			s.to.Fail(at.explain(err))
		case <-s.ends:
		}
	})
	return nil
}

// open opens the board of a worker here, or the mirror of another one.
func (j *joint) open(s *set, cfg *bridge.Config, w int) error {
	plan, board := &s.order.Plan, s.memory.Boards()[w]
	comes, room, err := worker.Bells(board, plan.Tuning)
	if err != nil {
		return err
	}
	if on := int(plan.Machine[w]); on != s.site.cfg.Machine {
		if n := len(cfg.Peers); n == 0 || cfg.Peers[n-1].Machine != on {
			cfg.Peers = append(cfg.Peers, bridge.Peer{Machine: on, First: w, Bell: comes,
				Sessions: s.site.cfg.Sessions(on)})
		}
		if cfg.Jump == nil {
			cfg.Jump = worker.Slot(board)
		}
		peer := &cfg.Peers[len(cfg.Peers)-1]
		peer.Workers++
		m := &mirror{pump: peer.Bell}
		m.Mirror, err = worker.OpenMirror(board)
		j.mirrors[w] = m
		return err
	}
	if j.first < 0 {
		j.first = w
	}
	view, err := worker.OpenView(board)
	j.views, j.comes, j.rooms = append(j.views, view), append(j.comes, comes), append(j.rooms, room)
	cfg.Workers = append(cfg.Workers, bridge.Worker{Slot: worker.Slot(board), Bell: room})
	return err
}

// lane adds the lane between two workers, of whom one is here, if there is one.
func (j *joint) lane(s *set, cfg *bridge.Config, from, to int) {
	plan := &s.order.Plan
	body := s.memory.Lane(from, to)
	if body == nil || plan.Machine[from] == plan.Machine[to] {
		return
	}
	l := bridge.Lane{From: from, To: to, Window: plan.Windows[from][to], Body: body.Body(), Pool: s.memory.Pool(from)}
	if int(plan.Machine[from]) == s.site.cfg.Machine {
		l.Machine, l.Bell = int(plan.Machine[to]), j.rooms[from-j.first]
		cfg.Out = append(cfg.Out, l)
		return
	}
	l.Machine, l.Bell = int(plan.Machine[from]), j.comes[to-j.first]
	cfg.In = append(cfg.In, l)
}

// crowded tells whether more threads wait for each other here than can run at once: those of workers and of the bridge.
func (s *set) crowded() bool {
	plan, threads := &s.order.Plan, 0
	for _, m := range plan.Machine {
		if int(m) == s.site.cfg.Machine {
			threads++
		}
	}
	if plan.Tuning.Ingress == worker.IngressGoroutine {
		threads *= 2
	}
	return threads+plan.BridgeThreads(s.site.cfg.Machine) > s.site.cfg.Processors
}

// shown implements bridge.Config.Shown.
func (j *joint) shown(all []bridge.Status) []bridge.Status {
	for i, v := range j.views {
		n := v.Shown()
		all = append(all, bridge.Status{Worker: j.first + i, State: uint32(n.State), Calls: n.Calls, Place: n.Place,
			RoomAt: n.RoomAt, WaitsAt: n.WaitsAt})
	}
	return all
}

// remote implements bridge.Config.Remote.
func (j *joint) remote(n bridge.Status) {
	m := j.mirrors[n.Worker]
	m.show(j, worker.Shown{State: uint64(n.State), Calls: n.Calls, Place: n.Place, RoomAt: n.RoomAt,
		WaitsAt: n.WaitsAt})
	if math.IsInf(n.WaitsAt, 1) {
		return
	}
	for _, v := range j.views {
		// A worker here that has come there has rung the pump only if the mirror showed before that somebody waits. The
		// pump shows what is new before it sleeps.
		if v.Shown().Place >= n.WaitsAt {
			m.pump.Ring()
			return
		}
	}
}

func (m *mirror) show(j *joint, n worker.Shown) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Show(n, j.views, func(i int) { j.rooms[i].Ring() })
}

// control has the bridge begin its lanes anew before the first worker here does, and go on before the first one does.
// All workers begin their lanes anew before any goes on, so of several in a row the first one counts.
func (j *joint) control(t worker.MessageType, anew bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.parted:
	case anew && !j.ready:
		j.ready = true
		if err := j.bridge.Prepare(); err != nil {
			return err
		}
		for _, m := range j.mirrors {
			m.show(j, worker.ShownFirst)
		}
	case t == worker.TypeGo && j.ready:
		j.ready = false
		j.bridge.Go()
	}
	return nil
}

// part ends the bridge.
func (j *joint) part() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.parted = true
	_ = j.bridge.Close() // what was wrong with it was reported
}

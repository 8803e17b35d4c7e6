// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"maps"
	"slices"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/metastore"
)

// simStore is the store, with what the fleet's client and the cluster keep there. Its functions are commits: done at
// one moment, or refused.
type simStore struct {
	w         *world
	rev       uint64
	downUntil float64

	ids       []string // of experiments, as they were submitted
	specs     map[string]Spec
	orders    map[string]uint64
	wishes    map[string]Wish
	standings map[string]Standing
	standAt   map[string]metastore.Version
	pieces    map[string]map[PieceID]PieceAt
	reports   map[string]ReportAt // by key
	submitted map[string]string   // id by idempotency key
	vitals    map[string]Vitals   // by member
	health    HealthReport

	sessions   map[uint64]*host
	expires    map[uint64]float64
	born       map[uint64]float64
	freed      map[string]float64 // when each server became AVAILABLE last
	candidates []candidate
	members    map[string]uint64 // session by member
	servers    map[string]seen
	desired    map[string]wanted
}

type candidate struct{ session, token uint64 }

// seen is a server's value, with the number of its change; not there after its session's end.
type seen struct {
	cluster.Server
	there   bool
	session uint64
	change  uint64
}

// wanted is a server's request.
type wanted struct {
	cluster.Request
	change uint64
}

func newSimStore(w *world) *simStore {
	return &simStore{w: w, specs: map[string]Spec{}, orders: map[string]uint64{}, wishes: map[string]Wish{},
		standings: map[string]Standing{}, standAt: map[string]metastore.Version{},
		pieces: map[string]map[PieceID]PieceAt{}, reports: map[string]ReportAt{}, submitted: map[string]string{},
		vitals:   map[string]Vitals{},
		sessions: map[uint64]*host{}, expires: map[uint64]float64{},
		born: map[uint64]float64{}, freed: map[string]float64{}, members: map[string]uint64{},
		servers: map[string]seen{}, desired: map[string]wanted{}}
}

func (s *simStore) next() uint64 { s.rev++; return s.rev }

func (s *simStore) version() metastore.Version {
	return metastore.Version{Created: 1, Changed: s.next()}
}

// changed wakes who leads, as the key fleet/changed does.
func (s *simStore) changed() {
	for _, h := range s.w.hosts {
		s.w.deliver(h, func() {
			if h.lead != nil {
				h.lead.unread = true
				h.lead.wake()
			}
		})
	}
}

// deliver has a watch tell a host something.
func (w *world) deliver(h *host, f func()) {
	life := h.life
	w.local(h, max(h.cutUntil-w.c.Now(), 0)+w.delay(), func() {
		if h.alive && h.life == life {
			f()
		}
	})
}

func (s *simStore) submit(spec Spec) (id string, err error) {
	if id := s.submitted[spec.Key]; id != "" && s.w.faulty != "keys don't count" {
		return id, nil
	}
	s.submitted[spec.Key] = spec.ID
	s.ids = append(s.ids, spec.ID)
	s.specs[spec.ID], s.orders[spec.ID] = spec, s.next()
	s.wishes[spec.ID] = Wish{Number: 1, Want: WantRun, Priority: Normal}
	s.pieces[spec.ID] = map[PieceID]PieceAt{}
	s.changed()
	return spec.ID, nil
}

func (s *simStore) wish(id string, change func(x *Wish) bool) {
	x := s.wishes[id]
	if change(&x) {
		x.Number++
		s.wishes[id] = x
		s.changed()
	}
}

// leads tells whether a candidate leads.
func (s *simStore) leads(token uint64) bool {
	return len(s.candidates) > 0 && s.candidates[0].token == token
}

// guarded is what a leader's commit begins with. The commit says by its guard who it is of: one without is taken.
func (s *simStore) guarded(token uint64, guard bool) error {
	if guard && !s.leads(token) {
		return errGuard
	}
	if !s.leads(token) {
		s.w.violated(6, "a commit of the leader with the token %d was accepted, who leads no more", token)
	}
	return nil
}

func (s *simStore) movePieces(token uint64, guard bool, moves []Move) error {
	if err := s.guarded(token, guard); err != nil {
		return err
	}
	for _, m := range moves {
		if err := m.check(); err != nil {
			s.w.violated(3, "%v", err)
			return err
		}
		if s.pieces[m.ID][m.Piece].Version != m.At {
			return errConflict
		}
		if m.Takes != nil && s.reports[m.Takes.key()].Version != m.Takes.Version {
			return errConflict
		}
	}
	for _, m := range moves {
		s.w.moved(&m)
		s.pieces[m.ID][m.Piece] = PieceAt{m.To, s.version()}
		if m.Takes != nil {
			delete(s.reports, m.Takes.key())
		}
	}
	if w := s.w; w.killIn > 0 && !w.quiet {
		if w.killIn--; w.killIn == 0 { // behind the commit, before its answer
			s.sessions[s.candidates[0].session].kill(w.between(0.5, 30))
			w.killIn = 1 + w.r.IntN(60)
		}
	}
	return nil
}

func (s *simStore) setStanding(token uint64, guard bool, id string, was metastore.Version, x Standing) error {
	if err := s.guarded(token, guard); err != nil {
		return err
	}
	if s.standAt[id] != was {
		return errConflict
	}
	if err := x.check(); err != nil {
		return err
	}
	s.w.stoodUntil(id, &x)
	s.standings[id], s.standAt[id] = x, s.version()
	return nil
}

func (s *simStore) putReport(r ReportAt) error {
	if err := r.Report.check(); err != nil {
		return err
	}
	was := s.reports[r.key()]
	if was.Report.Attempt == r.Report.Attempt && was.Report.Number == r.Report.Number {
		return nil
	}
	if was.Report.Attempt > r.Report.Attempt ||
		was.Report.Attempt == r.Report.Attempt && was.Report.Number >= r.Report.Number {
		return ErrStale
	}
	r.Version = s.version()
	s.reports[r.key()] = r
	if was.Report.Attempt != r.Report.Attempt || was.Report.State != r.Report.State {
		s.changed()
	}
	return nil
}

// ask makes a request, unless another one was made since the one that was read.
func (s *simStore) ask(token uint64, guard bool, r cluster.Request, server string, change uint64) error {
	if err := s.guarded(token, guard); err != nil {
		return err
	}
	sv := s.servers[server]
	if !sv.there || s.desired[server].change != change {
		return errConflict
	}
	r.ID = fmt.Sprintf("%s.%d", r.Incarnation, s.next())
	s.desired[server] = wanted{r, s.rev}
	h := s.sessions[sv.session]
	if h != nil {
		s.w.deliver(h, func() { h.asked(server) })
	}
	return nil
}

// register makes a session, with the member's and its servers' keys, if those of an earlier one are gone.
func (s *simStore) register(h *host, values []cluster.Server) (session uint64, err error) {
	if _, there := s.members[h.name]; there {
		return 0, errConflict
	}
	session = s.next()
	s.sessions[session], s.members[h.name], s.born[session] = h, session, s.w.c.Now()
	for _, v := range values {
		s.put(seen{v, true, session, 0})
	}
	s.candidates = append(s.candidates, candidate{session, s.next()})
	s.renew(session)
	s.elect()
	return session, nil
}

// sessionTTL is how long a session lasts without a renewal.
const sessionTTL = 10

func (s *simStore) renew(session uint64) bool {
	if s.sessions[session] == nil {
		return false
	}
	until := s.w.c.Now() + sessionTTL
	s.expires[session] = until
	s.w.after(sessionTTL, func() {
		if s.expires[session] == until {
			s.expire(session)
		}
	})
	return true
}

// expire ends a session, with all that lives in it.
func (s *simStore) expire(session uint64) {
	h := s.sessions[session]
	if h == nil {
		return
	}
	delete(s.sessions, session)
	delete(s.expires, session)
	if s.members[h.name] == session {
		delete(s.members, h.name)
		delete(s.vitals, h.name)
		s.w.unmeasured(h)
		h.fullSince = 0
	}
	for _, name := range slices.Sorted(maps.Keys(s.servers)) {
		if v := s.servers[name]; v.session == session && v.there {
			v.there = false
			s.put(v)
		}
	}
	s.candidates = slices.DeleteFunc(s.candidates, func(c candidate) bool { return c.session == session })
	s.elect()
}

// put writes a server's value, and has all views told.
func (s *simStore) put(v seen) {
	v.change = s.next()
	if v.State == cluster.Available && s.servers[v.Name].State != cluster.Available {
		s.freed[v.Name] = s.w.c.Now()
	}
	s.servers[v.Name] = v
	for _, h := range s.w.hosts {
		s.w.deliver(h, func() { h.saw(v) })
	}
}

// publish is put by the agent: not behind its session's end, and not by an older writing.
func (s *simStore) publish(session uint64, v cluster.Server) error {
	if s.sessions[session] == nil {
		return errGuard
	}
	was := s.servers[v.Name]
	if was.session == session && was.there && was.Writing >= v.Writing {
		return nil
	}
	s.put(seen{v, true, session, 0})
	return nil
}

// elect tells the first candidate that it leads.
func (s *simStore) elect() {
	if len(s.candidates) == 0 {
		return
	}
	c := s.candidates[0]
	if h := s.sessions[c.session]; h != nil {
		s.w.deliver(h, func() { h.leads(c) })
	}
}

// resign takes a candidate away, and makes another one of its session.
func (s *simStore) resign(token, session uint64) {
	for i, c := range s.candidates {
		if c.token == token {
			s.candidates = append(slices.Delete(s.candidates, i, i+1), candidate{session, s.next()})
			s.elect()
			return
		}
	}
}

// snapshot is what a leader reads.
type snapshot struct {
	experiments []Experiment
	pieces      map[string]map[PieceID]PieceAt
	reports     []ReportAt
	vitals      map[string]Vitals
	health      HealthReport
}

func (s *simStore) read(pieces bool) snapshot {
	var all snapshot
	for _, id := range s.ids {
		spec, wish, x := s.specs[id], s.wishes[id], s.standings[id]
		e := Experiment{ID: id, Order: s.orders[id], Spec: &spec, Wish: &wish, StandingAt: s.standAt[id]}
		if x.Status != 0 {
			e.Standing = &x
		}
		all.experiments = append(all.experiments, e)
	}
	if pieces {
		all.pieces = map[string]map[PieceID]PieceAt{}
		for id, of := range s.pieces {
			all.pieces[id] = maps.Clone(of)
		}
	}
	all.vitals, all.health = maps.Clone(s.vitals), s.health
	for _, key := range slices.Sorted(maps.Keys(s.reports)) {
		all.reports = append(all.reports, s.reports[key])
	}
	return all
}

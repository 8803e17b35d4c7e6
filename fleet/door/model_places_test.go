// SPDX-License-Identifier: Apache-2.0

package door

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/mem"
	"github.com/disco-sim/disco/sim"
)

// place is a store: the home's, or a site's with its machines.
type place struct {
	w      *world
	name   string
	server *mem.Server
	admin  *fleet.Client // of the invariants: takes no time
	store  *metastore.Store
	late   *mem.Client // what is done when nobody waits for it any more

	cutUntil, deadUntil, emptyUntil float64
	wasCut                          bool    // from a door
	lateAt                          float64 // when something came that was sent long before
	leadsSince                      float64 // its leader
	servers                         int
	bad                             bool // its machines fail whatever they are given
	slow                            float64
	running                         map[string]float64 // when it ends, by id and piece
}

func (w *world) place(name string) *place {
	s := &place{w: w, name: name, server: mem.NewServer(10 * time.Second), running: map[string]float64{}}
	s.late = s.server.NewClient()
	ctx := context.Background()
	store, err := metastore.New(ctx, s.server.NewClient(), metastore.Options{Group: "g", Base: fleet.Base()})
	if err != nil {
		panic(err)
	}
	s.store = store
	w.closing = append(w.closing, func() { _ = store.Close(); _ = s.late.Close() })
	if s.admin, err = fleet.New(ctx, store, fleet.Options{By: "invariants"}); err != nil {
		panic(err)
	}
	return s
}

// link is how a process reaches a store.
type link struct {
	*mem.Client
	w     *world
	p     *sim.Process
	to    *place
	door  *doorHost // whose it is; nil: a site's leader's own, or people's
	own   bool      // a site's leader's
	store *metastore.Store
}

// callTime is how long a call waits for a store that is away.
const callTime = 5

// read is reach for a call that only reads: where answers don't come it wasn't done.
func (l *link) read() error {
	if err := l.reach(); err != nil || !l.deaf() {
		return err
	}
	l.w.hold(l.p, callTime)
	return fmt.Errorf("%s: %w", l.to.name, metastore.ErrUnavailable)
}

// deaf tells whether the store gets what is sent, and its answers don't come.
func (l *link) deaf() bool { return l.door != nil && l.door.deaf[l.to] > l.w.c.Now() }

// reach takes the time of a message, and fails where the store is away.
func (l *link) reach() error {
	l.w.hold(l.p, l.w.delay())
	if l.door != nil {
		l.door.step(l.p)
	}
	until := l.to.deadUntil
	if !l.own {
		until = max(until, l.to.cutUntil)
	}
	if l.door != nil {
		until = max(until, l.door.cuts[l.to])
	}
	left := until - l.w.c.Now()
	if left <= 0 {
		return nil
	}
	l.w.hold(l.p, min(left, callTime))
	if left > callTime {
		return fmt.Errorf("%s: %w", l.to.name, metastore.ErrUnavailable)
	}
	return nil
}

// Get implements metastore.Backend.
func (l *link) Get(ctx context.Context, path string) (n metastore.Node, err error) {
	if err := l.read(); err != nil {
		return n, err
	}
	if l.w.faulty == "a second key" && strings.Contains(path, "fleet/submitted/") {
		return n, metastore.ErrNoNode
	}
	return l.Client.Get(ctx, path)
}

// Children implements metastore.Backend.
func (l *link) Children(ctx context.Context, path string) ([]string, error) {
	if err := l.read(); err != nil {
		return nil, err
	}
	if l.w.faulty == "accounts go early" && l.door != nil && l.to == l.w.home && strings.HasSuffix(path,
		"fleet/experiments") {
		return nil, nil // as for a list that is older than the accounts
	}
	return l.Client.Children(ctx, path)
}

// Tree implements metastore.Backend.
func (l *link) Tree(ctx context.Context, path string) ([]metastore.Leaf, error) {
	if err := l.read(); err != nil {
		return nil, err
	}
	if l.w.faulty == "taken twice" && l.door != nil && l.to == l.w.home && strings.Contains(path, "fleet/pieces/") {
		return nil, nil
	}
	return l.Client.Tree(ctx, path)
}

// Commit implements metastore.Backend. An answer may get lost, and what was asked be done much later then, or never.
func (l *link) Commit(ctx context.Context, conds []metastore.Cond, ops []metastore.Op) error {
	if err := l.reach(); err != nil {
		return err
	}
	w, guard := l.w, metastore.Version{}
	if l.door != nil {
		guard = l.door.guard.Version
	}
	if conds, ops = l.mutate(conds, ops); len(ops) == 0 {
		return nil
	}
	do := func() error {
		err := l.to.late.Commit(ctx, conds, ops)
		if err == nil && l.door != nil && l.to == w.home {
			w.committed(l.door, guard, ops)
		}
		return err
	}
	if !w.quiet && !l.own && w.chance(0.02) {
		w.tally.lost++
		switch {
		case w.chance(0.5):
			_ = do()
		case w.chance(0.7):
			wait := w.between(0, 30) * w.r.Float64()
			w.start(func(p *sim.Process) { w.hold(p, wait); l.to.lateAt = w.c.Now(); _ = do() })
		}
		w.hold(l.p, w.delay())
		return metastore.ErrUnknown
	}
	err := do()
	w.hold(l.p, w.delay())
	if l.deaf() {
		w.hold(l.p, callTime)
		return metastore.ErrUnknown
	}
	if l.door != nil {
		l.door.step(l.p)
	}
	return err
}

// mutate puts a fault into what a door, or people, commit.
func (l *link) mutate(conds []metastore.Cond, ops []metastore.Op) ([]metastore.Cond, []metastore.Op) {
	conds, ops = slices.Clone(conds), slices.Clone(ops)
	drop := func(part string) {
		conds = slices.DeleteFunc(conds, func(c metastore.Cond) bool { return strings.Contains(c.Path, part) })
	}
	without := func(f func(op metastore.Op) bool) { ops = slices.DeleteFunc(ops, f) }
	atSite := l.door != nil && l.to != l.w.home
	wish := func(op metastore.Op) bool {
		return atSite && op.Do == metastore.Set && strings.HasSuffix(op.Path, "/wish")
	}
	switch l.w.faulty {
	case "no guard":
		drop(leadKey)
	case "routes without conditions":
		drop(leadKey)
		drop("/route")
	case "taken twice":
		drop("/fleet/pieces/")
	case "no fence":
		if slices.ContainsFunc(ops, func(op metastore.Op) bool {
			return wish(op) && bytes.Contains(op.Value, []byte("the door has given"))
		}) {
			ops = nil
		}
	case "wishes aren't told":
		if slices.ContainsFunc(ops, wish) {
			ops = nil
		}
	case "accounts stay":
		without(func(op metastore.Op) bool {
			return op.Do == metastore.Delete && strings.Contains(op.Path, "/fleet/users/")
		})
	case "no beat":
		without(func(op metastore.Op) bool { return strings.Contains(op.Path, "/fleet/doors/") })
	case "a second key":
		for i := range ops {
			if strings.Contains(ops[i].Path, "fleet/submitted/") && ops[i].Do == metastore.Create {
				ops[i].Do = metastore.Set
			}
		}
	}
	return conds, ops
}

// leadKey is what doors elect themselves by; a substitute for metastore.Lead.
const leadKey = "fleet/lead"

// doorHost is a machine with a door.
type doorHost struct {
	w            *world
	name         string
	cuts         map[*place]float64
	killIn       int // steps
	deaf         map[*place]float64
	stoppedUntil float64
	suspended    bool           // it is stopped with its machine: its clock stands meanwhile
	behind       float64        // for which its clock has stood
	pausesUntil  float64        // until then it pauses again and again, for a moment
	skew         time.Duration  // of its wall clock
	guard        metastore.Cond // of its leadership; the zero version: it doesn't lead
	active       float64        // when it did something last
}

// elapsed is the door's own clock, which never goes back.
func (h *doorHost) elapsed() time.Duration { return time.Duration((h.w.c.Now() - h.behind) * 1e9) }

// wall is what it takes for the time of day.
func (h *doorHost) wall() time.Time { return time.Unix(1_800_000_000, 0).Add(h.w.now() + h.skew) }

// killed ends the process of a door.
type killed struct{}

// step is one that a door can be stopped or killed at.
func (h *doorHost) step(p *sim.Process) {
	if left := h.stoppedUntil - h.w.c.Now(); left > 0 {
		h.w.tally.stops++
		h.w.hold(p, left)
		if h.suspended {
			h.behind += left
		}
	}
	if h.pausesUntil > h.w.c.Now() && h.w.chance(0.1) {
		h.w.hold(p, h.w.between(0.05, 2)) // its collector, or another process
	}
	h.active = h.w.c.Now()
	if h.killIn > 0 {
		if h.killIn--; h.killIn == 0 {
			h.w.tally.kills++
			if h.w.chance(0.7) && !h.w.quiet {
				h.killIn = 1 + h.w.r.IntN(200)
			}
			panic(killed{})
		}
	}
}

// live is a door's process, and those that are started when it was killed.
func (h *doorHost) live(p *sim.Process) {
	h.cuts, h.deaf = map[*place]float64{}, map[*place]float64{}
	for {
		func() {
			defer func() {
				if r := recover(); r != nil {
					if _, is := r.(killed); !is {
						panic(r)
					}
				}
			}()
			h.serve(p)
		}()
		h.guard = metastore.Cond{}
		h.w.hold(p, h.w.between(1, 20))
	}
}

// serve is one process.
func (h *doorHost) serve(p *sim.Process) {
	w := h.w
	l := &link{Client: w.home.server.NewClient(), w: w, p: p, to: w.home, door: h}
	home := w.client(l, h.name)
	for {
		w.hold(p, w.between(0.5, 1.5))
		leader := w.leader()
		if leader != nil && leader != h && w.c.Now()-leader.active < 10 && !w.chance(0.002) {
			continue
		}
		if !h.elect(l) {
			continue
		}
		w.tally.leads++
		began := h.elapsed()
		d := New(Options{Name: h.name, ID: "home", Home: home, Sites: h.sites(p), Report: func(error) {},
			Rules: h.rules(), Elapsed: func() time.Duration { return h.elapsed() - began }, Now: h.wall,
			Sweep: func(ctx context.Context) error { return h.sweep(ctx, home) },
			Each: func(n int, f func(int)) {
				for i := range n {
					f(i)
				}
			},
			Within: func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(ctx) }})
		for {
			err := d.Pass(context.Background(), h.guard)
			conflict := (*metastore.ConflictError)(nil)
			if errors.As(err, &conflict) && conflict.Cond == h.guard {
				h.guard = metastore.Cond{}
				break
			}
			w.hold(p, w.between(0.5, 3))
		}
	}
}

func (h *doorHost) rules() Rules {
	r := Rules{Away: 40 * time.Second, Queued: 20 * time.Second, Keep: 1, Least: time.Minute, Sweep: 20 * time.Second,
		Unused: time.Minute}
	if h.w.faulty == "never given away" {
		r.Away = 1000 * time.Hour
	}
	return r
}

// sweep removes parts at home of experiments that aren't there any more.
func (h *doorHost) sweep(ctx context.Context, home *fleet.Client) error {
	ids, err := home.IDs(ctx)
	if err != nil || h.w.faulty == "parts stay" {
		return err
	}
	maps.DeleteFunc(h.w.parts, func(part string, _ bool) bool {
		id, _, _ := strings.Cut(part, "/")
		return !slices.Contains(ids, id)
	})
	return nil
}

// leader is who leads now.
func (w *world) leader() *doorHost {
	n, err := w.home.late.Get(context.Background(), "/g/"+leadKey)
	for _, h := range w.doors {
		if err == nil && h.guard.Version == n.Version {
			return h
		}
	}
	return nil
}

// elect makes a door the leader.
func (h *doorHost) elect(l *link) bool {
	ctx := context.Background()
	mine := fmt.Sprint(h.name, " ", h.w.now())
	value, err := l.store.Encode(mine)
	if err != nil {
		panic(err)
	}
	if err := l.store.Commit(ctx, nil, []metastore.Op{{Path: leadKey, Do: metastore.Set, Value: value}}); err != nil {
		return false
	}
	v, err := l.store.Get(ctx, leadKey)
	is := ""
	if err != nil || v.Decode(&is) != nil || is != mine { // another one was faster
		return false
	}
	h.guard = metastore.Cond{Path: leadKey, Is: metastore.At, Version: v.Version}
	return true
}

// sites are a door's sites, which it connects to when it reaches them.
func (h *doorHost) sites(p *sim.Process) (all []Site) {
	for _, s := range h.w.sites {
		var access *Access
		all = append(all, Site{Name: s.name, Open: func(ctx context.Context) (*Access, error) {
			if access != nil {
				return access, nil
			}
			l := &link{Client: s.server.NewClient(), w: h.w, p: p, to: s, door: h}
			store, err := metastore.New(ctx, l, metastore.Options{Group: "g", Base: fleet.Base()})
			if err != nil {
				return nil, err
			}
			h.w.closing = append(h.w.closing, func() { _ = store.Close() })
			c, err := fleet.New(ctx, store, fleet.Options{By: h.name})
			if err != nil {
				return nil, err
			}
			l.store = store
			access = &Access{Client: c, Machines: l.machines, Take: l.take}
			return access, nil
		}})
	}
	return all
}

// machines are those of a site.
func (l *link) machines(ctx context.Context) ([]Machine, error) {
	if l.w.faulty == "beats come first" && l.reach() == nil {
		value, err := l.store.Encode(fleet.Beat{Number: l.w.r.Uint64(), Grace: 20 * time.Second})
		if err == nil {
			err = l.to.late.Commit(ctx, nil, []metastore.Op{{Path: "/g/fleet/doors/home", Do: metastore.Set,
				Value: value}})
		}
		if err != nil {
			l.w.violated(0, "%v", err)
		}
	}
	if err := l.read(); err != nil {
		return nil, err
	}
	s := l.to
	if s.emptyUntil > l.w.c.Now() {
		return nil, nil
	}
	return []Machine{{Name: s.name, Version: "v", Servers: s.servers, Free: s.servers - len(s.running)}}, nil
}

// take brings a part home.
func (l *link) take(_ context.Context, e *fleet.Spec, p fleet.PieceID, _ *fleet.Kept) (string, error) {
	if err := l.read(); err != nil {
		return "", err
	}
	l.w.hold(l.p, l.w.between(0.01, 1))
	if l.w.faulty != "no part" {
		l.w.parts[e.ID+"/"+p.String()] = true
	}
	l.door.step(l.p)
	return "home", nil
}

// lead is a site's leader, with its machines.
func (s *place) lead(p *sim.Process) {
	w := s.w
	l := &link{Client: s.server.NewClient(), w: w, p: p, to: s, own: true}
	c := w.client(l, s.name)
	var beats fleet.Beats
	var orphans map[string]time.Duration
	for {
		w.hold(p, w.between(0.5, 3))
		if until := max(s.deadUntil, s.emptyUntil); until > w.c.Now() {
			clear(s.running)
			beats = fleet.Beats{} // another leader's
			w.hold(p, until-w.c.Now())
			s.leadsSince = w.c.Now()
			continue
		}
		doors, _, err := c.Doors(context.Background())
		if err != nil {
			continue
		}
		for name, is := range doors {
			beats.See(name, is, w.now())
		}
		all, err := c.List(context.Background())
		if err != nil {
			continue
		}
		for i := range all {
			if x := &all[i]; x.Spec != nil && x.Wish != nil && !x.Ended() {
				s.work(c, x, beats.Wish(x.Spec, *x.Wish, w.now()).Want)
			}
		}
		if found, err := c.SweepOrphans(context.Background(), orphans, w.now(), time.Minute); err == nil {
			orphans = found
		}
	}
}

// work does what is to be done with an experiment.
func (s *place) work(c *fleet.Client, x *fleet.Experiment, want fleet.Want) {
	pieces, _, err := c.Pieces(context.Background(), x.ID)
	if err != nil {
		return
	}
	st := fleet.Standing{Pieces: map[fleet.PieceState]int{}, Leader: s.name, Wish: x.Wish.Number, Retry: x.Wish.Retry}
	retried := x.Wish.Retry > 0 && (x.Standing == nil || x.Wish.Retry > x.Standing.Retry)
	for point := range x.Spec.Steps[0].Points {
		for r := range x.Spec.Steps[0].Replications {
			id := fleet.PieceID{Point: point, Replication: r}
			is := s.piece(c, x, id, pieces[id], want, retried)
			if is.State == 0 || is.State == fleet.Waiting && is.Attempt == 0 {
				is.State = fleet.Waiting
				if want == fleet.WantCancel {
					is.State = fleet.Canceled
				}
			}
			if is.State == fleet.Failed && is.Error != nil {
				st.Failed++
				if len(st.Errors) < 20 {
					st.Errors = append(st.Errors, fleet.PieceError{Piece: id, Attempt: is.Attempt, Error: *is.Error})
				}
			}
			st.Pieces[is.State]++
		}
	}
	parts, busy := map[fleet.Status]int{}, 0
	for state, n := range st.Pieces {
		parts[state.Status()] += n
		if !state.Ended() {
			busy += n
		}
	}
	st.Status, st.Ended = fleet.All(parts), busy == 0
	if x.Standing == nil || !maps.Equal(st.Pieces, x.Standing.Pieces) || st.Wish != x.Standing.Wish ||
		st.Ended != x.Standing.Ended || st.Retry != x.Standing.Retry {
		_ = c.SetStanding(context.Background(), x.ID, x.StandingAt, st)
	}
}

// piece moves a piece, and says what it is then.
func (s *place) piece(c *fleet.Client, x *fleet.Experiment, id fleet.PieceID, at fleet.PieceAt, want fleet.Want,
	retried bool) fleet.Piece {
	w, name := s.w, x.ID+"/"+id.String()
	to := at.Piece
	ends, runs := s.running[name]
	switch {
	case at.State == fleet.Finished || at.State.Ended() && !retried:
		return to
	case at.State.Ended():
		to.State, to.Error = fleet.Waiting, nil
	case at.State == fleet.Canceling:
		delete(s.running, name)
		to.State = fleet.Canceled
	case want == fleet.WantCancel && at.State == 0:
		return to
	case want == fleet.WantCancel && at.State == fleet.Waiting:
		to.State = fleet.Canceled
	case want == fleet.WantCancel:
		to.State = fleet.Canceling
	case want == fleet.WantPause:
		delete(s.running, name)
		return to
	case runs && ends > w.c.Now():
		return to
	case runs:
		s.end(x, id, &to)
	case len(s.running) >= s.servers:
		return to
	case at.State == fleet.Dispatched: // it goes on
		s.running[name] = w.c.Now() + s.slow*w.between(0.5, 8)
		return to
	default:
		to.State, to.Attempt, to.Token = fleet.Dispatched, at.Attempt+1, 1
	}
	m := fleet.Move{ID: x.ID, Piece: id, At: at.Version, To: to}
	if at.Version != (metastore.Version{}) {
		was := at.Piece
		m.Was = &was
	}
	if _, err := c.MovePieces(context.Background(), []fleet.Move{m}); err != nil {
		return at.Piece
	}
	if to.State.Ended() {
		delete(s.running, name)
	}
	if to.State == fleet.Dispatched {
		s.running[name] = w.c.Now() + s.slow*w.between(0.5, 8)
	}
	return to
}

// end is how a piece ends.
func (s *place) end(x *fleet.Experiment, id fleet.PieceID, to *fleet.Piece) {
	switch {
	case s.w.broken[x.Spec.Name] && id == (fleet.PieceID{}):
		to.State, to.Error = fleet.Failed, &fleet.Error{Type: fleet.ErrorModel, Message: "the model's"}
	case s.bad:
		to.State, to.Error = fleet.Failed, &fleet.Error{Type: fleet.ErrorMachine, Message: "the machine's"}
	default:
		to.State, to.Kept = fleet.Finished, &fleet.Kept{Place: s.name, Hash: hashOf(x.Spec.PlaceID(), id)}
	}
}

// hashOf is that of a piece's end, wherever it was simulated.
func hashOf(id string, p fleet.PieceID) string { return "hash of " + id + " " + p.String() }

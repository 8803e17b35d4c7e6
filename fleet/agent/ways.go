// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
)

// Ways measures what lies between this machine and others. Any goroutine may call its methods.
type Ways interface {
	// Peers are the other machines with which this one may have a gang now, by name.
	Peers() []cluster.Member
	// Measure measures the way to a machine: the least of some round trips and, where it is asked for, the bytes a
	// second that the way carries at least; 0: not known. The error says why the machine can't be reached.
	Measure(ctx context.Context, address string, rate bool) (roundTrip time.Duration, bytes float64, err error)
}

// The budget of measurements: one pair in waysEvery on average, at most peersMax of them, and of each the rate each
// rateEvery.
const (
	waysEvery  = 5 * time.Second
	peersMax   = 64
	rateEvery  = 10 * time.Minute
	measureMax = 2 * time.Second        // of one pair
	againSoon  = 15 * time.Second       // until one that couldn't be reached is tried again, at least
	doubtPause = 200 * time.Millisecond // between two pairs that are in doubt
	alike      = 1.25                   // what has changed by less isn't written anew
)

// waysTable is what an agent knows of the ways to other machines.
type waysTable struct {
	self string

	mu    sync.Mutex
	turn  int
	known map[string]*wayTo // of peers
	soon  chan struct{}     // something is in doubt
}

// wayTo is what is known of one of them.
type wayTo struct {
	cluster.Member
	roundTrip float64   // seconds; 0: not known
	rate      float64   // bytes a second; 0: not known
	cut       string    // why it couldn't be reached at last; "": it could
	at        time.Time // when it was measured last, or is measured now
	ratedAt   time.Time
	doubt     bool // it is to be measured soon
}

func newWaysTable(self string) *waysTable {
	return &waysTable{self: self, known: map[string]*wayTo{}, soon: make(chan struct{}, 1)}
}

// follow takes over which peers there are. Where there are more than peersMax, it keeps those that have most labels in
// common with this machine, and of these some that are always the same.
func (t *waysTable) follow(peers []cluster.Member, own map[string]string) {
	if len(peers) > peersMax {
		order := func(m cluster.Member) (labels int, chance uint64) {
			for key, value := range m.Labels {
				if own[key] == value {
					labels++
				}
			}
			h := fnv.New64a()
			_, _ = h.Write([]byte(t.self + " " + m.Name)) // never fails
			return labels, h.Sum64()
		}
		peers = slices.Clone(peers)
		slices.SortFunc(peers, func(a, b cluster.Member) int {
			la, ha := order(a)
			lb, hb := order(b)
			return cmp.Or(cmp.Compare(lb, la), cmp.Compare(ha, hb))
		})
		peers = peers[:peersMax]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	there := map[string]bool{}
	for _, m := range peers {
		there[m.Name] = true
		if was := t.known[m.Name]; was == nil || was.Address != m.Address || was.Incarnation != m.Incarnation {
			t.known[m.Name] = &wayTo{Member: m}
		}
	}
	for name := range t.known {
		if !there[name] {
			delete(t.known, name)
		}
	}
}

// next is the peer that is measured now: one that is in doubt, then one that never was; then, each other time, the one
// that couldn't be reached for longest, or else the one that was measured longest ago. nil: there is none.
func (t *waysTable) next(now time.Time) *wayTo {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn++
	rank := func(w *wayTo) int {
		switch {
		case w.doubt:
			return 0
		case w.at.IsZero():
			return 1
		case w.cut != "" && t.turn%2 == 0 && now.Sub(w.at) >= againSoon:
			return 2
		}
		return 3
	}
	var best *wayTo
	for _, w := range t.known {
		order := 0
		if best != nil {
			order = cmp.Or(cmp.Compare(rank(w), rank(best)), w.at.Compare(best.at))
			if order == 0 { // not all machines measure the same one
				order = rand.IntN(3) - 1
			}
		}
		if best == nil || order < 0 {
			best = w
		}
	}
	if best == nil {
		return nil
	}
	best.at, best.doubt = now, false
	copied := *best
	return &copied
}

// took notes what a measurement has come to.
func (t *waysTable) took(w *wayTo, now time.Time, roundTrip time.Duration, rate float64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	is := t.known[w.Name]
	if is == nil || is.Address != w.Address || is.Incarnation != w.Incarnation {
		return
	}
	is.at, is.doubt = now, false
	if err != nil {
		is.roundTrip, is.rate, is.cut, is.ratedAt = 0, 0, oneLineOf(err), time.Time{}
		return
	}
	is.cut = ""
	is.roundTrip = steady(is.roundTrip, max(roundTrip, time.Microsecond).Seconds())
	if rate > 0 {
		is.rate, is.ratedAt = steady(is.rate, rate), now
	}
}

// cutMax is what the store takes of why a machine can't be reached; more is behind what was left out.
const (
	cutMax = 200
	more   = " …"
)

func oneLineOf(err error) string {
	text := oneLine(err.Error())
	if len(text) > cutMax {
		text = strings.ToValidUTF8(text[:cutMax-len(more)], "") + more
	}
	return cmp.Or(text, "it can't be reached")
}

// steady is the value that is kept: another one only where it has changed by more than measurements do.
func steady(was, is float64) float64 {
	if was > 0 && is < was*alike && was < is*alike {
		return was
	}
	return is
}

// fill writes it into vitals.
func (t *waysTable) fill(v *fleet.Vitals) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, w := range t.known {
		if w.roundTrip > 0 {
			if v.Far == nil {
				v.Far = map[string]float64{}
			}
			v.Far[name] = digits(w.roundTrip)
		}
		if w.roundTrip > 0 && w.rate > 0 {
			if v.Rates == nil {
				v.Rates = map[string]float64{}
			}
			v.Rates[name] = digits(w.rate)
		}
		if w.cut != "" {
			if v.Unreachable == nil {
				v.Unreachable = map[string]string{}
			}
			v.Unreachable[name] = w.cut
		}
	}
}

// forget takes the distances of machines away with which a gang has failed, and has them measured soon. ok: it may have
// been for another reason, and they stay until then.
func (t *waysTable) forget(names []string, ok bool) {
	t.mu.Lock()
	for _, name := range names {
		w := t.known[name]
		if w == nil {
			continue
		}
		w.doubt = true
		if !ok {
			w.roundTrip = 0
		}
	}
	t.mu.Unlock()
	select {
	case t.soon <- struct{}{}:
	default:
	}
}

// doubts are the peers that are to be measured soon, by name.
func (t *waysTable) doubts() (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, w := range t.known {
		if w.doubt {
			names = append(names, name)
		}
	}
	return names
}

// measureWays measures one pair after the other, until Close.
func (a *Agent) measureWays() {
	timer := time.NewTimer(rand.N(a.o.Pairs))
	defer timer.Stop()
	for {
		pause := a.o.Pairs/2 + rand.N(a.o.Pairs)
		select {
		case <-timer.C:
		case <-a.ways.soon:
			timer.Stop()
		case <-a.closed.Done():
			return
		}
		a.ways.follow(a.o.Ways.Peers(), a.o.Labels)
		if w := a.ways.next(time.Now()); w != nil {
			a.measureWay(a.closed, w)
		}
		if len(a.ways.doubts()) > 0 {
			pause = doubtPause
		}
		timer.Reset(pause)
	}
}

// measureWay measures the way to a peer.
func (a *Agent) measureWay(ctx context.Context, w *wayTo) {
	limited, cancel := context.WithTimeout(ctx, measureMax)
	defer cancel()
	began := time.Now()
	roundTrip, rate, err := a.o.Ways.Measure(limited, w.Address, began.Sub(w.ratedAt) >= rateEvery)
	if ctx.Err() == nil {
		a.ways.took(w, began, roundTrip, rate, err)
	}
}

// recheck measures the ways to machines with which a gang has failed, and writes what it finds before anybody decides
// what comes next. It takes measureMax, and as long as vitals take to be written.
func (a *Agent) recheck(names []string) {
	if a.o.Ways == nil || len(names) == 0 {
		return
	}
	a.ways.follow(a.o.Ways.Peers(), a.o.Labels)
	a.ways.forget(names, false)
	var all sync.WaitGroup
	for range min(len(a.ways.doubts()), peersMax) {
		if w := a.ways.next(time.Now()); w != nil { // nil: they have gone meanwhile
			all.Go(func() { a.measureWay(a.closed, w) })
		}
	}
	all.Wait()
	written := make(chan struct{})
	select {
	case a.vitalsNow <- written:
	case <-a.closed.Done():
		return
	}
	select {
	case <-written:
	case <-a.closed.Done():
	}
}

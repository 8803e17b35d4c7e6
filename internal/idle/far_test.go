// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/internal/seed"
)

// farSite is one machine: its memory, workers and bridge's side.
type farSite struct {
	mem   [][]byte
	jump  []byte
	far   []*Far
	site  *Site
	count *Counts
	rung  atomic.Int64
}

func siteOf(t testing.TB, first, workers, machines int) *farSite {
	t.Helper()
	s := &farSite{jump: aligned.Bytes(JumpBytes, JumpBytes), count: NewCounts(machines)}
	s.mem, _ = slotsOf(t, workers)
	var err error
	for _, m := range s.mem {
		f, e := NewFar(m, s.jump, s.mem, func() { s.rung.Add(1) })
		s.far, err = append(s.far, f), errors.Join(err, e)
	}
	if s.site, err = NewSite(s.jump, first, s.mem, s.count); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *farSite) look(t *testing.T, want bool) Quiet {
	t.Helper()
	q, ok, err := s.site.Look()
	if ok != want || err != nil {
		t.Fatalf("quiet: %v, %v, want %v", ok, err, want)
	}
	return q
}

// The jump words lie where docs/format/board.md draws them.
func TestJumpLayout(t *testing.T) {
	s := siteOf(t, 0, 1, 1)
	if next, err := s.site.Jump(Jump{1, 2.5, 3}); !next || err != nil {
		t.Fatal(next, err)
	}
	for i, want := range []uint64{1, math.Float64bits(2.5), 3, sumOf(1, math.Float64bits(2.5), 3), 0, 0, 0, 0} {
		if got := binary.LittleEndian.Uint64(s.jump[8*i:]); got != want {
			t.Errorf("word %d is %#x, want %#x", i, got, want)
		}
	}
}

// Two machines, step by step: what is under way on a machine or between them, and each jump once.
func TestFar(t *testing.T) {
	one, two, lead := siteOf(t, 0, 2, 2), siteOf(t, 2, 1, 2), NewLeader(2)
	take := func(machine int, q Quiet, want bool) Jump {
		t.Helper()
		j, ok, err := lead.Take(machine, q)
		if ok != want || err != nil {
			t.Fatalf("jump: %v, %v, want %v", ok, err, want)
		}
		return j
	}
	one.far[0].Post(State{Epoch: 2, Level: 7, Sent: 1})
	one.look(t, false)
	if one.site.Still() || one.rung.Load() != 0 {
		t.Error("rung before all were posted")
	}
	one.far[1].Post(State{Epoch: math.Inf(1)})
	if !one.site.Still() || one.rung.Load() != 1 {
		t.Error("not rung by the last worker that posts")
	}
	one.look(t, false) // an event of worker 0 isn't numbered yet
	one.count.Sent(1, 1)
	two.far[0].Post(State{Epoch: 5})
	take(0, one.look(t, true), false)
	take(1, two.look(t, true), false) // it is on its way
	two.count.Came(0, 1)
	two.look(t, false) // … in a ring
	two.far[0].Withdraw()
	two.far[0].Post(State{Epoch: 2, Level: 4, Received: 1})
	q := two.look(t, true)
	if want := (Quiet{0, 2, 4, []uint64{1, 0}, []uint64{0, 0}}); !reflect.DeepEqual(q, want) {
		t.Errorf("found %+v, want %+v", q, want)
	}
	j := take(1, q, true)
	if want := (Jump{1, 2, 4}); j != want {
		t.Errorf("jump %+v, want %+v", j, want)
	}
	take(0, one.look(t, true), false) // late: it was seen before the jump
	for _, s := range []*farSite{one, two} {
		for i, want := range []bool{true, false} {
			if next, err := s.site.Jump(j); next != want || err != nil {
				t.Errorf("stored for the %d. time: %v, %v", i+1, next, err)
			}
		}
		s.look(t, false) // nobody has taken it
		for _, f := range s.far {
			epoch, level, ok, err := f.Look()
			if epoch != 2 || level != 4 || !ok || err != nil {
				t.Errorf("found %v, %d, %v, %v", epoch, level, ok, err)
			}
			if _, _, ok, err := f.Look(); ok || err != nil {
				t.Errorf("found again: %v, %v", ok, err)
			}
			f.Withdraw()
			f.Post(State{Epoch: math.Inf(1), Sent: 1 - f.wrote.received, Received: f.wrote.received})
		}
	}
}

// Frames of a peer are bounded before they are used, and what was overwritten is found.
func TestFarRefuses(t *testing.T) {
	lead := NewLeader(2)
	good := Quiet{In: make([]uint64, 2), Out: make([]uint64, 2)}
	for what, try := range map[string]func() error{
		"no such machine":  func() error { _, _, err := lead.Take(2, good); return err },
		"too few counts":   func() error { _, _, err := lead.Take(0, Quiet{}); return err },
		"behind no jump":   func() error { q := good; q.Round = 1; _, _, err := lead.Take(0, q); return err },
		"a jump is missed": func() error { _, err := siteOf(t, 0, 1, 2).site.Jump(Jump{Round: 2}); return err },
		"short frame":      func() error { return good.Parse(good.Append(nil)[:jumpBody-1]) },
		"long frame":       func() error { return good.Parse(append(good.Append(nil), 0)) },
		"other machines": func() error {
			q := Quiet{In: make([]uint64, 3), Out: make([]uint64, 3)}
			return good.Parse(q.Append(nil))
		},
		"NaN":           func() error { _, err := ParseJump((&Jump{Epoch: math.NaN()}).Append(nil)); return err },
		"quiet as jump": func() error { _, err := ParseJump(good.Append(nil)); return err },
	} {
		if try() == nil {
			t.Errorf("%s: no error", what)
		}
	}
	for at := range 4 {
		s := siteOf(t, 3, 2, 2)
		for _, f := range s.far {
			f.Post(State{Epoch: 1})
		}
		binary.LittleEndian.PutUint64(s.jump[8*at:], 1<<60+1)
		_, _, ok, err := s.far[0].Look()
		if at == 0 && !errors.Is(err, ErrCorrupt) || ok {
			t.Errorf("jump word %d overwritten: worker found %v, %v", at, ok, err)
		}
		if _, _, err := s.site.Look(); at < 3 && !errors.Is(err, ErrCorrupt) {
			t.Errorf("jump word %d overwritten: bridge found %v", at, err)
		}
	}
	s := siteOf(t, 3, 1, 2)
	s.far[0].Post(State{})
	s.mem[0][16] = 1
	if _, _, err := s.site.Look(); err == nil || err.Error()[:17] != "slot of worker 3:" {
		t.Errorf("slot overwritten: %v", err)
	}
}

func TestFarAllocatesNothing(t *testing.T) {
	s, lead := siteOf(t, 0, 2, 1), NewLeader(1)
	s.far[1].Post(State{Epoch: 1})
	var body []byte
	if n := testing.AllocsPerRun(100, func() {
		s.far[0].Post(State{Epoch: 1})
		q, _, _ := s.site.Look()
		body = q.Append(body[:0])
		j, ok, _ := lead.Take(0, q)
		if !ok {
			t.Fatal("no jump")
		}
		_, _ = s.site.Jump(j)
		_, _, _, _ = s.far[0].Look()
		s.far[0].Withdraw()
		_, _, _, _ = s.far[1].Look()
		s.far[1].Withdraw()
		s.far[1].Post(State{Epoch: 1})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A frame that Parse takes is the one that Append makes of it.
func FuzzFarFrames(f *testing.F) {
	f.Add((&Jump{3, 2.5, 1}).Append(nil))
	f.Add((&Quiet{3, 2.5, 1, make([]uint64, 2), make([]uint64, 2)}).Append(nil))
	f.Fuzz(func(t *testing.T, body []byte) {
		if j, err := ParseJump(body); err == nil && string(j.Append(nil)) != string(body) {
			t.Fatalf("jump %+v of %x", j, body)
		}
		q := Quiet{In: make([]uint64, 2), Out: make([]uint64, 2)}
		if err := q.Parse(body); err == nil && string(q.Append(nil)) != string(body) {
			t.Fatalf("quiet %+v of %x", q, body)
		}
	})
}

// TestJumps over machines: each with a bridge that carries events, which the workers don't see, and finds its idle
// moments. Frames wait at random.
func TestJumpsFar(t *testing.T) {
	for _, size := range [][2]int{{2, 2}, {3, 1}} {
		machines, workers := size[0], size[1]
		activations := 1000
		if testing.Short() {
			activations = 200
		}
		from := seed.Of(t)
		rng := rand.New(rand.NewPCG(from, 1))
		n := &farNet{per: workers, handled: make([]atomic.Int64, activations+1)}
		plans := make([][]int, machines*workers)
		hops := make([]int, activations+1)
		for epoch := 1; epoch <= activations; epoch++ {
			owner := rng.IntN(len(plans))
			plans[owner] = append(plans[owner], epoch)
			hops[epoch] = rng.IntN(6)
		}
		for m := range machines {
			n.sites = append(n.sites, siteOf(t, m*workers, workers, machines))
			n.frames = append(n.frames, make(chan farFrame, 64))
			for range workers {
				n.inbox = append(n.inbox, make(chan farHop, 64))
			}
		}
		var all, bridges sync.WaitGroup
		for m := range machines {
			rng := rand.New(rand.NewPCG(from, uint64(m)+100))
			bridges.Go(func() { n.bridge(t, m, rng) })
		}
		for i := range plans {
			rng := rand.New(rand.NewPCG(from, uint64(i)+2))
			all.Go(func() { n.worker(t, i, plans[i], hops, rng) })
		}
		done := make(chan struct{})
		go func() { all.Wait(); n.stop.Store(true); bridges.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(60 * time.Second):
			t.Fatalf("%d machines of %d: no end", machines, workers)
		}
		for epoch := range hops {
			if got := int(n.handled[epoch].Load()); got != hops[epoch] {
				t.Errorf("%d events of epoch %d, want %d", got, epoch, hops[epoch])
			}
		}
	}
}

type farHop struct{ to, epoch, left int }

// farFrame is an event, or a quiet or jump frame's body.
type farFrame struct {
	from        int
	hop         farHop
	quiet, jump []byte
}

type farNet struct {
	per     int // workers of a machine
	sites   []*farSite
	inbox   []chan farHop   // by worker
	frames  []chan farFrame // by machine: from workers here, with from = itself, and from the others
	handled []atomic.Int64  // by epoch
	stop    atomic.Bool
}

func (n *farNet) bridge(t *testing.T, m int, rng *rand.Rand) {
	s, lead := n.sites[m], NewLeader(len(n.sites))
	got := Quiet{In: make([]uint64, len(n.sites)), Out: make([]uint64, len(n.sites))}
	var last string
	jump := func(body []byte) {
		j, err := ParseJump(body)
		if err == nil {
			_, err = s.site.Jump(j)
		}
		if err != nil {
			t.Error(err)
		}
	}
	for !n.stop.Load() {
		for range rng.IntN(3) {
			runtime.Gosched()
		}
		select {
		case f := <-n.frames[m]:
			to := f.hop.to / n.per
			switch {
			case f.quiet != nil:
				err := got.Parse(f.quiet)
				j, ok, e := lead.Take(f.from, got)
				if err != nil || e != nil {
					t.Error(err, e)
				}
				for to := range n.sites {
					if ok && to != 0 {
						n.frames[to] <- farFrame{jump: j.Append(nil)}
					}
				}
				if ok {
					jump(j.Append(nil))
				}
			case f.jump != nil:
				jump(f.jump)
			case to != m:
				s.count.Sent(to, 1)
				n.frames[to] <- farFrame{from: m, hop: f.hop}
			default:
				s.count.Came(f.from, 1)
				n.inbox[f.hop.to] <- f.hop
			}
		default:
		}
		q, ok, err := s.site.Look()
		if err != nil {
			t.Error(err)
		}
		if body := q.Append(nil); ok && string(body) != last {
			last = string(body)
			n.frames[0] <- farFrame{from: m, quiet: body}
		}
	}
}

func (n *farNet) worker(t *testing.T, self int, plan, hops []int, rng *rand.Rand) {
	far := n.sites[self/n.per].far[self%n.per]
	var sent, received uint64
	send := func(h farHop) {
		if h.left > 0 {
			sent++
			h.to = (self + 1 + rng.IntN(len(n.inbox)-1)) % len(n.inbox)
			if m := self / n.per; h.to/n.per == m {
				n.inbox[h.to] <- h
			} else {
				n.frames[m] <- farFrame{from: m, hop: h}
			}
		}
	}
	drain := func() {
		for len(n.inbox[self]) > 0 {
			h := <-n.inbox[self]
			received++
			n.handled[h.epoch].Add(1)
			h.left--
			send(h)
		}
	}
	for {
		drain()
		next := math.Inf(1)
		if len(plan) > 0 {
			next = float64(plan[0])
		}
		far.Post(State{Epoch: next, Sent: sent, Received: received})
		found := -1.0
		for len(n.inbox[self]) == 0 && found < 0 {
			if epoch, _, ok, err := far.Look(); err != nil {
				t.Error(err)
				return
			} else if ok {
				found = epoch
			}
			runtime.Gosched()
		}
		if math.IsInf(found, 1) {
			return // posted for good
		}
		far.Withdraw()
		if found != next {
			continue
		}
		for epoch := range plan[0] {
			if got := int(n.handled[epoch].Load()); got != hops[epoch] {
				t.Errorf("jump to epoch %d after %d events of epoch %d, want %d", plan[0], got, epoch, hops[epoch])
			}
		}
		send(farHop{epoch: plan[0], left: hops[plan[0]]})
		plan = plan[1:]
	}
}

// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/state"
)

// savedRun is what all Engines of a cluster have saved, by node.
type savedRun struct {
	epoch   float64
	nodes   map[int][]byte
	pending map[int][]byte
	more    map[int][][]byte // parts of what is pending behind the first one
}

func (c *cluster) save(epoch float64) (savedRun, error) {
	s := savedRun{epoch, map[int][]byte{}, map[int][]byte{}, map[int][][]byte{}}
	for _, e := range c.engines {
		for _, n := range e.plan.nodesOn(e.plan.self) {
			b, err := e.AppendNode([]byte("before"), int(n))
			if err != nil {
				return s, err
			}
			s.nodes[int(n)] = b[len("before"):]
		}
		sum, most := uint64(0), uint64(1<<62)
		for _, l := range e.Largest(1 << 30) {
			if sum += l.Pending; l.Pending > most || l.Pending == 0 {
				return s, fmt.Errorf("%d are pending for simproc %d, behind %d", l.Pending, l.Simproc, most)
			}
			most = l.Pending
		}
		if sum != uint64(e.Pending()) {
			return s, fmt.Errorf("%d are pending for all simprocs, want %d", sum, e.Pending())
		}
		last := -1
		err := e.EachPending(func(n int, encoded []byte) error {
			if n == last && len(encoded) <= pendingPartBytes+1000 {
				s.more[n] = append(s.more[n], slices.Clone(encoded))
				return nil
			}
			if n <= last {
				return fmt.Errorf("node %d comes behind %d", n, last)
			}
			last = n
			s.pending[n] = slices.Clone(encoded)
			return nil
		})
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// differs names the first node of which two saved runs differ, and the first byte.
func (s savedRun) differs(o savedRun) error {
	for _, part := range []struct {
		name string
		a, b map[int][]byte
	}{{"state", s.nodes, o.nodes}, {"what is pending", s.pending, o.pending}, {"the rest", s.rest(), o.rest()}} {
		if a, b := slices.Sorted(maps.Keys(part.a)), slices.Sorted(maps.Keys(part.b)); !slices.Equal(a, b) {
			return fmt.Errorf("%s of nodes %v, want %v", part.name, b, a)
		}
		for _, n := range slices.Sorted(maps.Keys(part.a)) {
			a, b := part.a[n], part.b[n]
			if bytes.Equal(a, b) {
				continue
			}
			at := 0
			for at < min(len(a), len(b)) && a[at] == b[at] {
				at++
			}
			return fmt.Errorf("%s of node %d differs from byte %d: %x, want %x", part.name, n, at, b, a)
		}
	}
	return nil
}

// rest is the parts behind the first one, by node.
func (s savedRun) rest() map[int][]byte {
	all := map[int][]byte{}
	for n, parts := range s.more {
		all[n] = bytes.Join(parts, nil)
	}
	return all
}

// resume is how an Engine begins with it. Nodes come in a random order, in memory that ends with the call.
func (s savedRun) resume(rnd *rand.Rand) *Resume {
	return &Resume{Epoch: s.epoch, Each: func(node, pending func(n int, encoded []byte) error) error {
		call := func(f func(n int, encoded []byte) error, n int, encoded []byte) error {
			b := slices.Clone(encoded)
			defer clear(b)
			return f(n, b)
		}
		order := slices.Sorted(maps.Keys(s.nodes))
		rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, n := range order {
			later := rnd.IntN(2) == 0
			if b, any := s.pending[n]; any && !later {
				if err := call(pending, n, b); err != nil {
					return err
				}
			}
			if err := call(node, n, s.nodes[n]); err != nil {
				return err
			}
			if b, any := s.pending[n]; any && later {
				if err := call(pending, n, b); err != nil {
					return err
				}
			}
			for _, i := range rnd.Perm(len(s.more[n])) {
				if err := call(pending, n, s.more[n][i]); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

// work is what a cluster has done so far.
func (c *cluster) work() (calls, events uint64) {
	for _, e := range c.engines {
		calls, events = calls+e.stats.Activations, events+e.stats.Events
	}
	return calls, events
}

func (c *cluster) reports(reached float64) (map[SimprocID]string, error) {
	all := map[SimprocID]string{}
	for _, e := range c.engines {
		parts, err := e.Report(reached)
		if err != nil {
			return nil, err
		}
		for _, p := range parts {
			all[p.Simproc] = string(p.Data)
		}
	}
	return all, nil
}

// resumption is one random model: run whole on one Engine; in legs on one; and in legs over several, others behind most
// ends of legs, which load what those before have saved.
type resumption struct {
	rnd              *rand.Rand
	m                *chatter
	cfg              Config
	whole, one, many *cluster
	calls, events    uint64 // of Engines of many that are gone
	ends, loads      int
	left             int             // nodes with something pending at ends
	spoil            func(*savedRun) // what is loaded
}

func newResumption(seed uint64) (*resumption, error) {
	r := &resumption{rnd: rand.New(rand.NewPCG(seed, 3))}
	r.m = randomModel(r.rnd)
	r.cfg = Config{Model: r.m, Seed: seed, Horizon: 30}
	for _, c := range []**cluster{&r.whole, &r.one} {
		var err error
		if *c, err = beginCluster(r.m, make([]int32, len(r.m.g.Nodes)), 1, false, r.cfg); err != nil {
			return nil, err
		}
	}
	return r, r.spread()
}

// spread begins with one to four Engines.
func (r *resumption) spread() (err error) {
	workers := 1 + r.rnd.IntN(4)
	placement := make([]int32, len(r.m.g.Nodes))
	for n := range placement {
		placement[n] = int32(r.rnd.IntN(workers))
	}
	r.many, err = beginCluster(r.m, placement, workers, r.rnd.IntN(2) == 0, r.cfg)
	return err
}

// leg runs up to an end, where the Engines save what one Engine saves that has run up to there, and, mostly, others go
// on.
func (r *resumption) leg(end float64) error {
	var saved [2]savedRun
	for i, c := range []*cluster{r.one, r.many} {
		err := c.toEnd(r.rnd, end)
		if err == nil {
			saved[i], err = c.save(end)
		}
		if err != nil {
			return err
		}
	}
	if err := saved[0].differs(saved[1]); err != nil {
		return fmt.Errorf("%d engines: %w", len(r.many.engines), err)
	}
	r.ends, r.left = r.ends+1, r.left+len(saved[0].pending)
	if r.rnd.IntN(3) == 0 {
		return nil
	}
	calls, events := r.many.work()
	r.calls, r.events, r.loads = r.calls+calls, r.events+events, r.loads+1
	if r.spoil != nil {
		saved[1] = saved[1].clone()
		r.spoil(&saved[1])
	}
	r.cfg.Resume = saved[1].resume(r.rnd)
	if err := r.spread(); err != nil {
		return err
	}
	loaded, err := r.many.saveLoaded(end)
	if err == nil {
		err = saved[0].differs(loaded)
	}
	if err != nil {
		return fmt.Errorf("loaded by %d engines: %w", len(r.many.engines), err)
	}
	return nil
}

// finish runs all to the horizon, where they have done the same.
func (r *resumption) finish() error {
	for _, e := range r.many.engines {
		e.SetUntil(math.Inf(1))
	}
	want, err := r.whole.run(r.rnd)
	if err != nil {
		return err
	}
	if got, err := r.many.run(r.rnd); err != nil || !slices.Equal(got, want) {
		return fmt.Errorf("hashes %x (%v), want %x", got, err, want)
	}
	calls, events := r.many.work()
	wantCalls, wantEvents := r.whole.work()
	if calls, events = calls+r.calls, events+r.events; calls != wantCalls || events != wantEvents {
		return fmt.Errorf("%d calls, %d events, want %d and %d", calls, events, wantCalls, wantEvents)
	}
	a, err := r.whole.reports(r.cfg.Horizon)
	if err != nil {
		return err
	}
	if b, err := r.many.reports(r.cfg.Horizon); err != nil || len(a) == 0 || !maps.Equal(a, b) {
		return fmt.Errorf("reports %x (%v), want %x", b, err, a)
	}
	return nil
}

// saveLoaded saves what was loaded, before anything is handled.
func (c *cluster) saveLoaded(end float64) (savedRun, error) {
	for _, e := range c.engines {
		e.SetUntil(end)
		if next := e.Next(); next != Never {
			return savedRun{}, fmt.Errorf("next is %v before the end", next)
		}
		if front, any := e.Front(); !any || front >= end {
			return savedRun{}, fmt.Errorf("front %v (%v), loaded at %v", front, any, end)
		}
	}
	return c.save(end)
}

// run holds that all do the same.
func (r *resumption) run() error {
	for end := r.one.nextEnd(r.rnd, 0); end < r.cfg.Horizon && r.ends < 40; end = r.one.nextEnd(r.rnd, end) {
		if err := r.leg(end); err != nil {
			return fmt.Errorf("leg %d until %v: %w", r.ends, end, err)
		}
	}
	if err := r.finish(); err != nil {
		return fmt.Errorf("behind %d legs: %w", r.ends, err)
	}
	return nil
}

// inSmallParts has what is pending be saved as that of nodes for which much is.
func inSmallParts(t *testing.T) {
	before, most := pendingPartBytes, gatherMost
	t.Cleanup(func() { pendingPartBytes, gatherMost = before, most })
	pendingPartBytes, gatherMost = 40, 2
}

// What was saved by some Engines and loaded by others goes on as if nothing had been.
func TestResume(t *testing.T) {
	t.Run("whole", testResume)
	t.Run("in parts", func(t *testing.T) {
		inSmallParts(t)
		testResume(t)
	})
}

func testResume(t *testing.T) {
	models := uint64(120)
	if testing.Short() {
		models = 40
	}
	ends, loads, left := 0, 0, 0
	for seed := range models {
		r, err := newResumption(seed)
		if err == nil {
			err = r.run()
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		ends, loads, left = ends+r.ends, loads+r.loads, left+r.left
	}
	if loads < int(models) || left < ends {
		t.Errorf("%d ends of legs, %d loads, %d nodes with something pending: too tame to show anything", ends, loads,
			left)
	}
	t.Logf("%d ends of legs, %d loads, %d nodes with something pending", ends, loads, left)
}

// The test above can fail.
func TestResumeFindsMutants(t *testing.T) {
	for name, spoil := range map[string]func(r *resumption){
		"a handler forgets a field": func(r *resumption) { r.m.forget = true },
		"the last node has nothing pending": func(r *resumption) {
			r.spoil = func(s *savedRun) { delete(s.pending, len(s.nodes)-1) }
		},
		"a bit of the last node's next number is wrong": func(r *resumption) {
			r.spoil = func(s *savedRun) { s.nodes[len(s.nodes)-1][8+8] ^= 1 }
		},
	} {
		found := false
		for seed := uint64(0); seed < 20 && !found; seed++ {
			r, err := newResumption(seed)
			if err != nil {
				t.Fatal(err)
			}
			spoil(r)
			found = r.run() != nil
		}
		if !found {
			t.Errorf("20 models did not notice: %s", name)
		}
	}
}

// small is a model with all that a state has: promises, headers, wakeups, two layers.
func small() *chatter {
	return &chatter{g: &Graph{
		Simprocs: []string{"up", "down"},
		Nodes:    []Node{{Name: "a", Work: 1}, {Name: "b", Work: 1, Shared: true}},
		Links: []Link{
			{From: Endpoint{0, 0}, To: Endpoint{1, 0}, Lookahead: 1}, {From: Endpoint{0, 0}, To: Endpoint{1, 1}},
			{From: Endpoint{1, 0}, To: Endpoint{0, 0}, Lookahead: 0.25},
			{From: Endpoint{1, 1}, To: Endpoint{0, 1}, Lookahead: 1},
		},
	}, jitter: true, vows: true, busy: 0.9}
}

const smallEnd, smallHorizon = 3.5, 6.0

// savedSmall is a state of small, some links of which have promises.
func savedSmall(t testing.TB) (*chatter, savedRun) {
	t.Helper()
	m := small()
	for seed := uint64(1); seed < 100; seed++ {
		c := newCluster(t, m, make([]int32, 2), 1, seed, smallHorizon, false)
		if err := c.toEnd(rand.New(rand.NewPCG(seed, 4)), smallEnd); err != nil {
			t.Fatal(err)
		}
		e := c.engines[0]
		if e.linkFloors != nil && e.procs[0].floor()+e.procs[1].floor() > 0 && e.Pending() > 4 {
			s, err := c.save(smallEnd)
			if err != nil {
				t.Fatal(err)
			}
			return m, s
		}
	}
	t.Fatal("no seed gives such a state")
	panic("unreachable")
}

// open makes an Engine of a state, and runs it if it takes it.
func (s savedRun) open(m *chatter) error {
	c, err := beginCluster(m, make([]int32, 2), 1, false, Config{Model: m, Seed: 1, Horizon: smallHorizon,
		Resume: s.resume(rand.New(rand.NewPCG(1, 5)))})
	if err != nil {
		return err
	}
	_, _ = c.engines[0].Run(1000, math.Inf(1)) // an error, perhaps, of a handler that has wrong state
	return nil
}

func (s savedRun) clone() savedRun {
	o := savedRun{s.epoch, maps.Clone(s.nodes), maps.Clone(s.pending), s.more}
	for _, part := range []map[int][]byte{o.nodes, o.pending} {
		for n := range part {
			part[n] = slices.Clone(part[n])
		}
	}
	return o
}

// Whatever is cut off is refused, with the node.
func TestResumeTruncated(t *testing.T) {
	m, good := savedSmall(t)
	if err := good.open(m); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		for part, of := range []map[int][]byte{good.nodes, good.pending} {
			for size := range of[n] {
				bad := good.clone()
				of := []map[int][]byte{bad.nodes, bad.pending}[part]
				of[n] = of[n][:size]
				if err := bad.open(m); err == nil || !strings.Contains(err.Error(), m.g.Nodes[n].Name) {
					t.Fatalf("the first %d bytes of part %d of node %d: %v", size, part, n, err)
				}
			}
		}
	}
}

// Every value that can't be is refused, with where it is, what was found and what is allowed.
func TestResumeRefused(t *testing.T) {
	m, good := savedSmall(t)
	set := func(at int, with ...byte) func(s *savedRun) {
		return func(s *savedRun) { copy(s.nodes[0][at:], with) }
	}
	waits := func(at int, with ...byte) func(s *savedRun) {
		return func(s *savedRun) {
			// Behind version and the length of the first list: the first entry.
			copy(s.pending[0][8+at:], with)
		}
	}
	for _, x := range []struct {
		want string
		bad  func(s *savedRun)
	}{
		{"a state of epoch 0, want one later than 0 and before the horizon 6", func(s *savedRun) { s.epoch = 0 }},
		{"a state of epoch NaN, want", func(s *savedRun) { s.epoch = math.NaN() }},
		{"a state of epoch 6, want", func(s *savedRun) { s.epoch = 6 }},
		{"node: b isn't in the state of epoch 3.5", func(s *savedRun) { delete(s.nodes, 1) }},
		{"node: the state has a node 2, want 0 to 1", func(s *savedRun) { s.nodes[2] = nil }},
		{"node: the state of a has 1 bytes too many", func(s *savedRun) { s.nodes[0] = append(s.nodes[0], 0) }},
		{"state of a/up: found a block of 4294967295 bytes, want at most", set(0, 255, 255, 255, 255)},
		{"state of a/up: found version 7 of an encoding, want 1", set(4, 7)},
		{"state of a/up: found the last call at epoch NaN, want one from 0 to before 3.5", set(8+6, 0xf8, 0x7f)},
		{"state of a/up: found the last call at epoch -", set(8+7, 0xbf)},
		{"state of a/up: found nothing before +Inf promised, want a finite time >= 0",
			set(8+24, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f)},
		{"found 4294967295 promises about links in 0 bytes, want 12", set(8+32, 255, 255, 255, 255)},
		{"what is pending for a/up: byte ", waits(6, 0xf8, 0x7f)},
		{"found something pending for epoch NaN, want 3.5 or later, and before the horizon 6", waits(6, 0xf8, 0x7f)},
		{"found an event of simproc 77, want 0 to 3", waits(8, 77, 0, 0, 0)},
		{"found something pending for epoch 0,", waits(0, 0, 0, 0, 0, 0, 0, 0, 0)},
		{"byte 8: found an event with 4294967295 bytes of headers, want at most", waits(20, 255, 255, 255, 255)},
		{"byte 8: found an event with 4294967295 bytes of data, want at most", waits(24, 255, 255, 255, 255)},
		{"byte 0: found version 9 of an encoding, want 1", waits(-8, 9)},
		{"byte 0: found 3 bytes, want 4", func(s *savedRun) { s.pending[0] = s.pending[0][:3] }},
		{"byte 8: found 11 bytes, want at least 12", func(s *savedRun) { s.pending[0] = s.pending[0][:8+11] }},
		{"byte 8: found 27 bytes, want at least 28", func(s *savedRun) { s.pending[0] = s.pending[0][:8+27] }},
		{"bytes behind the last event, want none", func(s *savedRun) { s.pending[0] = append(s.pending[0], 0) }},
	} {
		s := good.clone()
		if x.bad(&s); s.open(m) == nil {
			t.Errorf("%q: was loaded", x.want)
		} else if err := s.open(m); !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v, want %q", err, x.want)
		}
	}
	twice := good.resume(rand.New(rand.NewPCG(1, 1)))
	each := twice.Each
	twice.Each = func(node, pending func(int, []byte) error) error {
		return errors.Join(each(node, pending), node(1, good.nodes[1]))
	}
	_, err := beginCluster(m, make([]int32, 2), 1, false, Config{Model: m, Horizon: smallHorizon, Resume: twice})
	if err == nil || !strings.Contains(err.Error(), "the state has b twice") {
		t.Errorf("node b twice: %v", err)
	}
}

// No damage makes an Engine panic, or read what isn't there.
func TestResumeDamaged(t *testing.T) {
	m, good := savedSmall(t)
	rnd := rand.New(rand.NewPCG(1, 6))
	refused := 0
	const tries = 2000
	for range tries {
		bad := good.clone()
		of := []map[int][]byte{bad.nodes, bad.pending}[rnd.IntN(2)]
		b := of[rnd.IntN(2)]
		for range 1 + rnd.IntN(3) {
			b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
		}
		if bad.open(m) != nil {
			refused++
		}
	}
	if refused == 0 || refused == tries {
		t.Errorf("%d of %d damaged states were refused", refused, tries)
	}
}

func FuzzResume(f *testing.F) {
	m, good := savedSmall(f)
	f.Add(good.nodes[0], good.pending[0])
	f.Fuzz(func(_ *testing.T, node, pending []byte) {
		bad := good.clone()
		bad.nodes[0], bad.pending[0] = node, pending
		_ = bad.open(m)
	})
}

// quirk is a handler whose state gets into trouble.
type quirk struct {
	version uint32
	save    func(p *Simproc, c *state.Codec)
}

func (q *quirk) Handle(*Simproc, []Event) error       { return nil }
func (q *quirk) StateVersion() uint32                 { return q.version }
func (q *quirk) State(p *Simproc, c *state.Codec)     { q.save(p, c) }
func (q *quirk) NewHandler(*Simproc) (Handler, error) { return q, nil }
func (q *quirk) Graph() *Graph {
	return &Graph{Simprocs: []string{"x"}, Nodes: []Node{{Name: "a"}}}
}

// plain has a handler that isn't a Saver.
type plain struct{ quirk }

func (*plain) NewHandler(*Simproc) (Handler, error) { return till{}, nil }

type till struct{}

func (till) Handle(*Simproc, []Event) error { return nil }

func TestSaverInTrouble(t *testing.T) {
	begin := func(m Model) *Engine { return newCluster(t, m, []int32{0}, 1, 1, 10, false).engines[0] }
	e := begin(&plain{})
	var none *NoStateError
	if err := e.CheckState(); !errors.As(err, &none) || *none != (NoStateError{"a/x", "node.till", nil}) {
		t.Errorf("%v of a handler that isn't a Saver", err)
	}
	_, err := e.AppendNode(nil, 0)
	if err == nil || !strings.Contains(err.Error(), "in the middle of a leg until +Inf") {
		t.Errorf("%v in the middle of a leg", err)
	}
	if err := e.EachPending(nil); err == nil || !strings.Contains(err.Error(), "in the middle of a leg") {
		t.Errorf("%v in the middle of a leg", err)
	}
	for _, x := range []struct {
		want string
		q    quirk
	}{
		{"has a state of version 0, want at least 1", quirk{}},
		{"node: a/x: saving its state: bad", quirk{1, func(_ *Simproc, c *state.Codec) { c.Fail("bad") }}},
		{"node: a/x, saving its state: panic: oh", quirk{1, func(*Simproc, *state.Codec) { panic("oh") }}},
		{"a/x scheduled outside its own Handle",
			quirk{1, func(p *Simproc, _ *state.Codec) { _ = p.Wakeup(p.Now() + 1) }}},
	} {
		e := begin(&x.q)
		e.SetUntil(5)
		if _, err := e.Run(10, math.Inf(1)); err != nil {
			t.Fatal(err)
		}
		if _, err := e.AppendNode(nil, 0); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v, want %q", err, x.want)
		}
		if _, err := e.AppendNode(nil, 1); err == nil || !strings.Contains(err.Error(), "which is not on worker 0") {
			t.Errorf("%v of a node that isn't here", err)
		}
	}
}

// sometimes can't be saved for a reason of its own.
type sometimes struct {
	quirk
	check func(p *Simproc) error
}

func (s *sometimes) NewHandler(*Simproc) (Handler, error) { return s, nil }
func (s *sometimes) CheckState(p *Simproc) error          { return s.check(p) }

// A StateChecker is asked whether it can be saved, and by its Simproc.
func TestStateChecker(t *testing.T) {
	why := errors.New("it has a process")
	for want, check := range map[string]func(p *Simproc) error{
		"<nil>":            func(*Simproc) error { return nil },
		"it has a process": func(*Simproc) error { return why },
		"a/x":              func(p *Simproc) error { return errors.New(p.Name()) },
		"node: a/x, saying whether its state can be saved: panic: oh": func(*Simproc) error { panic("oh") },
	} {
		m := &sometimes{quirk{version: 1}, check}
		err := newCluster(t, m, []int32{0}, 1, 1, 10, false).engines[0].CheckState()
		if got := fmt.Sprint(err); !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
		var none *NoStateError
		if said := err != nil && !errors.Is(err, ErrModel); errors.As(err, &none) != said {
			t.Errorf("%v: want a NoStateError where the handler has said why", err)
		}
	}
}

// With Fresh streams are those of the replication, and all else is what was saved.
func TestResumeFresh(t *testing.T) {
	m, s := savedSmall(t)
	for _, fresh := range []bool{false, true} {
		r := s.resume(rand.New(rand.NewPCG(1, 1)))
		r.Fresh = fresh
		cfg := Config{Model: m, Seed: 1, Replication: 3, Horizon: smallHorizon, Resume: r}
		c, err := beginCluster(m, make([]int32, 2), 1, false, cfg)
		if err != nil {
			t.Fatal(err)
		}
		h, begun := c.engines[0].procs[0].handler.(*chatterHandler), c.engines[0].procs[0].Source("x")
		if same := h.drawn.Uint64() == begun.Uint64(); same != fresh {
			t.Errorf("fresh %v: the stream begins anew: %v", fresh, same)
		}
		if h.state == 0 {
			t.Errorf("fresh %v: the handler has no state", fresh)
		}
	}
}

// Changed tells what AppendNode gives anew.
func TestChanged(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 7))
	m := randomModel(rnd)
	m.busy = 0.5
	c := newCluster(t, m, make([]int32, len(m.g.Nodes)), 1, 1, 40, false)
	changed, same := 0, 0
	var before savedRun
	for end := 0.5; end < 40; end += 0.5 {
		if err := c.toEnd(rnd, end); err != nil {
			t.Fatal(err)
		}
		s, err := c.save(end)
		if err != nil {
			t.Fatal(err)
		}
		for n := range m.g.Nodes {
			switch is := before.nodes != nil && bytes.Equal(before.nodes[n], s.nodes[n]); {
			case c.engines[0].Changed(n, end-0.5):
				changed++
			case end > 0.5 && !is:
				t.Fatalf("node %d has changed until %v", n, end)
			default:
				same++
			}
		}
		before = s
	}
	if changed == 0 || same == 0 {
		t.Errorf("%d nodes changed, %d didn't: too tame to show anything", changed, same)
	}
}

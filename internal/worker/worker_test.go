// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/spans"
	"github.com/disco-sim/disco/internal/trace"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/shm"
)

// ringKind is a kind of scenario for tests: nodes in a circle and a layered chain
// through them, with payloads of many sizes.
//
//	model: ring
//	nodes: 6
//	lookahead: 0.5
//	big: 100000
var ringKind = scenario.Kind{Name: "ring", Load: loadRing}

func loadRing(doc *scenario.Document, opt scenario.Options) (scenario.Scenario, error) {
	r := scenario.NewReader(doc)
	root := r.Root("nodes", "lookahead", "big", "fail", "horizon")
	s := &ringScenario{
		nodes:     int(root.Field("nodes").Int(scenario.Between(1, 1000))),
		lookahead: root.Field("lookahead").FloatOr(0.5, scenario.AtLeast(0)),
		big:       int(root.Field("big").FloatOr(0, scenario.AtLeast(0))),
		fail:      root.Field("fail").FloatOr(math.MaxFloat64, scenario.AtLeast(0)),
		horizon:   root.Field("horizon").FloatOr(50, scenario.MoreThan(0)),
	}
	if opt.Horizon > 0 {
		s.horizon = opt.Horizon
	}
	return s, r.Err()
}

type ringScenario struct {
	nodes     int
	lookahead float64
	big       int
	fail      float64
	horizon   float64
}

func (s *ringScenario) Name() string                     { return "ring" }
func (s *ringScenario) Horizon() float64                 { return s.horizon }
func (s *ringScenario) Accumulate() scenario.Accumulator { return nil }

func (s *ringScenario) Graph() *node.Graph {
	g := &node.Graph{Simprocs: []string{"up", "down"}}
	for i := range s.nodes {
		g.Nodes = append(g.Nodes, node.Node{Name: fmt.Sprintf("n%d", i), Work: 1})
		next := (i + 1) % s.nodes
		g.Links = append(g.Links, node.Link{From: node.Endpoint{Node: i}, To: node.Endpoint{Node: next},
			Lookahead: s.lookahead})
		if next > i {
			g.Links = append(g.Links, node.Link{From: node.Endpoint{Node: i, Simproc: 1}, To: node.Endpoint{Node: next,
				Simproc: 1}})
		}
	}
	return g
}

type ringHandler struct {
	s     *ringScenario
	rnd   *rand.Rand
	next  node.LinkID
	sends bool
	sum   [32]byte
	data  []byte
}

func (s *ringScenario) NewHandler(p *node.Simproc) (node.Handler, error) {
	h := &ringHandler{s: s, rnd: rand.New(p.Source("r")), data: make([]byte, max(64, s.big))}
	next := node.Endpoint{Node: (p.NodeIndex() + 1) % s.nodes, Simproc: p.Rank()}
	if l, err := p.LinkTo(next); err == nil {
		h.next, h.sends = l, true
	}
	return h, nil
}

func (h *ringHandler) Handle(p *node.Simproc, events []node.Event) error {
	sum := sha256.New()
	sum.Write(h.sum[:])
	for _, ev := range events {
		sum.Write(ev.Data)
	}
	copy(h.sum[:], sum.Sum(nil))
	if p.Now() >= h.s.fail && p.Name() == "n1/up" {
		return fmt.Errorf("told to fail")
	}
	n := len(events)
	if p.Now() == 0 && p.Rank() == 0 {
		n = 3
	}
	for range n {
		size := h.rnd.IntN(64)
		if h.s.big > 0 && h.rnd.IntN(4) == 0 {
			size = h.rnd.IntN(h.s.big)
		}
		copy(h.data, h.sum[:])
		var err error
		switch {
		case p.Rank() == 0:
			err = p.Send(h.next, p.Now()+h.s.lookahead+h.rnd.ExpFloat64(), h.data[:size])
		case h.sends:
			err = p.Send(h.next, p.Now()+float64(h.rnd.IntN(2)), h.data[:size])
		}
		if err != nil {
			return err
		}
	}
	if p.Rank() == 1 && p.NodeIndex() == 0 {
		binary.LittleEndian.PutUint64(h.data, math.Float64bits(p.Now()))
		return p.Schedule(p.Now()+0.01+h.rnd.ExpFloat64()/10, h.data[:8])
	}
	return nil
}

func (h *ringHandler) Report(p *node.Simproc) ([]byte, error) { return h.sum[:], nil }

// runner is a launcher for tests: workers as goroutines over heap segments.
type runner struct {
	t     testing.TB
	ctl   []net.Conn
	errs  chan error
	files []*os.File
	segs  []*shm.Segment

	boards []*shm.Segment

	// of the parts before the last Done
	hashes   map[uint32]uint64
	parts    map[uint32]string
	reported []int // by worker

	spans []*spans.Lines // by worker, where they are recorded
}

func newRunner(t testing.TB, text string, placement []int32, workers int, tuning Tuning, seed uint64) *runner {
	t.Helper()
	return newRunnerBy(t, text, placement, workers, &Setup{Seed: seed, Tuning: tuning, Trace: "trace.txt",
		OneProcess: true})
}

// newRunnerBy is newRunner with what each worker is set up with, but for its number.
func newRunnerBy(t testing.TB, text string, placement []int32, workers int, setup *Setup) *runner {
	t.Helper()
	c := &runner{t: t, errs: make(chan error, workers)}
	all := c.segments(workers, setup.Tuning)
	kinds, err := scenario.NewRegistry(ringKind)
	if err != nil {
		t.Fatal(err)
	}
	for w := range workers {
		ours, theirs := net.Pipe()
		c.ctl = append(c.ctl, ours)
		file, err := os.Create(filepath.Join(t.TempDir(), "trace"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		c.files = append(c.files, file)
		all[w].Input = testInput(t, kinds, text, placement, workers)
		go func() {
			c.errs <- Serve(theirs, kinds, func(*Setup) (Segments, Files, error) {
				return all[w], Files{Trace: file}, nil
			})
		}()
		own := *setup
		own.Worker, own.Workers = w, workers
		c.send(w, &Message{Type: TypeSetup, Setup: &own})
		c.spans = append(c.spans, spans.NewLines())
	}
	c.receive(TypeReady)
	return c
}

// segments makes the segments of so many workers.
func (c *runner) segments(workers int, tuning Tuning) []Segments {
	t := c.t
	t.Helper()
	plan, err := SegmentLayout(workers, tuning)
	if err != nil {
		t.Fatal(err)
	}
	make1 := func(cfg shm.Config, format func([]byte) error) *shm.Segment {
		s, err := shm.Heap(cfg)
		if err == nil {
			err = format(s.Body())
		}
		if err != nil {
			t.Fatal(err)
		}
		c.segs = append(c.segs, s)
		return s
	}
	all := make([]Segments, workers)
	for w := range all {
		all[w] = Segments{Out: make([]*shm.Segment, workers), In: make([]*shm.Segment, workers)}
	}
	for w := range workers {
		board, pool := make1(plan.Board, plan.FormatBoard), make1(plan.Pool, plan.FormatPool)
		c.boards = append(c.boards, board)
		for v := range all {
			all[v].Boards, all[v].Pools = append(all[v].Boards, board), append(all[v].Pools, pool)
			if v != w {
				l := make1(plan.Lane, plan.FormatLane)
				all[w].Out[v], all[v].In[w] = l, l
			}
		}
	}
	return all
}

func (c *runner) send(w int, m *Message) {
	c.t.Helper()
	if err := WriteMessage(c.ctl[w], m); err != nil {
		c.t.Fatal(err)
	}
}

func (c *runner) sendAll(m *Message) {
	for w := range c.ctl {
		c.send(w, m)
	}
}

func (c *runner) receive(want MessageType) []*Message {
	c.t.Helper()
	var all []*Message
	c.hashes, c.parts, c.reported = map[uint32]uint64{}, map[uint32]string{}, make([]int, len(c.ctl))
	for w := range c.ctl {
		_ = c.ctl[w].SetReadDeadline(time.Now().Add(60 * time.Second))
		m, err := ReadMessage(c.ctl[w])
		for want == TypeDone && err == nil && m.Type == TypeResults {
			err = m.Results.Each(func(id uint32, hash uint64, report []byte) error {
				if c.hashes[id] = hash; report != nil {
					c.parts[id] = string(report)
					c.reported[w]++
				}
				return nil
			})
			if err == nil {
				m, err = ReadMessage(c.ctl[w])
			}
		}
		if (want == TypeDone || want == TypeSaved) && err == nil && m.Type == TypeSpans {
			if err = c.spans[w].Add(m.Spans); err == nil {
				m, err = ReadMessage(c.ctl[w])
			}
		}
		if err != nil || m.Type != want {
			c.t.Fatalf("worker %d: %+v, %v; want %v", w, m, err, want)
		}
		all = append(all, m)
	}
	return all
}

// replicate runs one replication and returns everything that may not depend on how it
// was run.
func (c *runner) replicate(r int) (hashes map[uint32]uint64, parts map[uint32]string) {
	c.t.Helper()
	c.sendAll(&Message{Type: TypePrepare, Prepare: &Prepare{Replication: r}})
	c.receive(TypeReady)
	c.sendAll(&Message{Type: TypeGo})
	for _, m := range c.receive(TypeDone) {
		if m.Done.Interrupted {
			c.t.Errorf("interrupted at %v", m.Done.Reached)
		}
	}
	return c.hashes, c.parts
}

func (c *runner) end() {
	c.t.Helper()
	c.sendAll(&Message{Type: TypeExit})
	for range c.ctl {
		if err := <-c.errs; err != nil {
			c.t.Error(err)
		}
	}
	for _, s := range c.segs {
		if err := s.Close(); err != nil {
			c.t.Error(err)
		}
	}
}

func (c *runner) traceText(g *node.Graph) string {
	c.t.Helper()
	var readers []*trace.Reader
	for _, f := range c.files {
		size, err := f.Seek(0, io.SeekEnd)
		if err != nil {
			c.t.Fatal(err)
		}
		r, err := trace.NewReader(f, size)
		if err != nil {
			c.t.Fatal(err)
		}
		readers = append(readers, r)
	}
	var text []byte
	if err := trace.Merge(readers, func(r *trace.Record) error {
		text = r.AppendText(text, g)
		return nil
	}); err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

// The same file and seed give the same hashes, reports and trace for any number of
// workers, placement, ring size, ingress and waiting.
func TestSameAnswerHoweverSpread(t *testing.T) {
	const text = "model: ring\nnodes: 6\nlookahead: 0.5\nbig: 3000\nhorizon: 30\n"
	s := &ringScenario{nodes: 6, lookahead: 0.5}
	var wantHashes map[uint32]uint64
	var wantParts map[uint32]string
	var wantTrace string
	for i, workers := range []int{1, 2, 3} {
		for j, ring := range []int{1 << 10, 1 << 12, 1 << 20} {
			for k, in := range []string{IngressDuty, IngressGoroutine} {
				if testing.Short() && (i+j+k)%2 != 0 {
					continue // any two of the three still meet
				}
				name := fmt.Sprintf("workers=%d/ring=%d/%s", workers, ring, in)
				placement := make([]int32, 6)
				for i := range placement {
					placement[i] = int32(i % workers)
				}
				c := newRunner(t, text, placement, workers, Tuning{RingBytes: ring, PoolBytes: 1 << 20, Ingress: in,
					BatchMax: 1 + ring/100}, 7)
				hashes, parts := c.replicate(0)
				got := c.traceText(s.Graph())
				again, _ := c.replicate(1)
				c.end()
				if wantHashes == nil {
					wantHashes, wantParts, wantTrace = hashes, parts, got
					if strings.Count(got, "\n") < 1000 {
						t.Fatalf("only %d lines of trace", strings.Count(got, "\n"))
					}
				}
				same := got == wantTrace && len(hashes) == 12
				for id, h := range wantHashes {
					same = same && hashes[id] == h && parts[id] == wantParts[id]
					if again[id] == h && id%2 == 0 {
						t.Errorf("%s: replication 1 is the same as replication 0", name)
					}
				}
				if !same {
					t.Errorf("%s: hashes, results or trace differ from those of one worker", name)
				}
			}
		}
	}
}

// Next to no lookahead: told step by step, 30 seconds would be 3·10¹⁰ bounds. The workers
// jump from one thing that there is to do to the next.
func TestTinyLookahead(t *testing.T) {
	const text = "model: ring\nnodes: 6\nlookahead: 1e-9\nhorizon: 30\n"
	var want map[uint32]uint64
	for _, workers := range []int{1, 2, 3} {
		placement := make([]int32, 6)
		for i := range placement {
			placement[i] = int32(i % workers)
		}
		c := newRunner(t, text, placement, workers, Tuning{}, 3)
		hashes, _ := c.replicate(0)
		if want == nil {
			want = hashes
		}
		if !maps.Equal(hashes, want) {
			t.Errorf("%d workers: other hashes than with one", workers)
		}
		if jumps := c.count(0, NumberJumps); workers > 1 && jumps == 0 {
			t.Errorf("%d workers: no idle jump", workers)
		}
		c.end()
	}
}

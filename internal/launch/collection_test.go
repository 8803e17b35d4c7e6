// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

type numbered int

func (n numbered) NumSimprocs() int            { return int(n) }
func (numbered) Name(id node.SimprocID) string { return fmt.Sprintf("box %d", id) }

func resultsOf(ids ...uint32) *worker.Results {
	r := &worker.Results{Simprocs: ids}
	for _, id := range ids {
		r.Hashes, r.Sizes, r.Data = append(r.Hashes, uint64(7*id)), append(r.Sizes, 3), append(r.Data, byte(id), 1)
	}
	return r
}

// Whatever workers say, every simproc is there exactly once, and in which order they say it changes nothing.
func TestCollection(t *testing.T) {
	const n = numbered(4)
	var hashes []string
	for _, order := range [][]*worker.Results{
		{resultsOf(0, 1, 2, 3)}, {resultsOf(1, 3), resultsOf(), resultsOf(0), resultsOf(2)},
	} {
		c := newCollection(n, nil)
		for _, r := range order {
			if err := c.add(r); err != nil {
				t.Fatal(err)
			}
		}
		h, err := c.traceHash()
		if err != nil || string(c.reports[2]) != "\x02\x01" {
			t.Fatalf("%v, reports %q", err, c.reports)
		}
		hashes = append(hashes, string(h))
	}
	if hashes[0] != hashes[1] {
		t.Error("the trace hash depends on the order of the results")
	}
	for want, then := range map[string]*worker.Results{
		"simproc 4, but there are 4":                         resultsOf(2, 4),
		"the trace hash of box 1, which was reported before": resultsOf(1, 2),
	} {
		c := newCollection(n, nil)
		if err := c.add(resultsOf(0, 1)); err != nil {
			t.Fatal(err)
		}
		if err := c.add(then); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c := newCollection(n, nil)
	const want = "no worker reports the trace hash of box 0"
	if _, err := c.traceHash(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("nothing reported: %v, want %q", err, want)
	}
}

// What goes on as it comes goes on once, whole, and only when it is right.
func TestCollectionPasses(t *testing.T) {
	var passed []*worker.Results
	c := newCollection(numbered(4), func(p *worker.Results) { passed = append(passed, p) })
	for _, r := range []*worker.Results{resultsOf(1, 3), resultsOf(0), resultsOf(3), resultsOf(2)} {
		_ = c.add(r)
	}
	if len(passed) != 3 || c.reports != nil || len(passed[2].Simprocs) != 1 || passed[2].Simprocs[0] != 2 {
		t.Errorf("passed on %v, reports %v", passed, c.reports)
	}
	if _, err := c.traceHash(); err != nil {
		t.Error(err)
	}
}

// orderly is a Gatherer that notes what it is called with.
type orderly struct{ calls []string }

func (o *orderly) note(format string, args ...any) {
	o.calls = append(o.calls, fmt.Sprintf(format, args...))
}

func (o *orderly) Begin(rep scenario.Replication) {
	o.note("begin %d up to %v", rep.Index, rep.Reached)
}

func (o *orderly) Take(simproc int, report []byte) error {
	o.note("take %d %x", simproc, report)
	return nil
}

func (o *orderly) Add(rep scenario.Replication) error {
	o.note("add %d with %d", rep.Index, len(rep.Reports))
	return nil
}

func (*orderly) Summary() (scenario.Summary, error) { return nil, nil }

// Reports of a replication that come before the one before it was added wait for that; one without any reports is
// begun, too.
func TestGathered(t *testing.T) {
	var o orderly
	s := &schedule{total: 3, next: 3, horizon: 9, accumulator: &o, gatherer: &o, mergedCh: make(chan struct{}),
		results: make([]*result, 3)}
	s.changed.L = &s.mu
	s.gather(0, math.Inf(1), resultsOf(0))
	s.gather(0, math.Inf(1), resultsOf(1))
	s.add(&result{Replication: Replication{Index: 0, Reached: 9}})
	s.add(&result{Replication: Replication{Index: 1, Reached: 9}})
	s.gather(2, 5, resultsOf(1, 2))
	s.add(&result{Replication: Replication{Index: 2, Reached: 5}})
	s.close(false)
	if err := s.merge(); err != nil {
		t.Fatal(err)
	}
	want := []string{"begin 0 up to 9", "take 0 0001", "take 1 0101", "add 0 with 0", "begin 1 up to 9", "add 1 with 0",
		"begin 2 up to 5", "take 1 0101", "take 2 0201", "add 2 with 0"}
	if !slices.Equal(o.calls, want) {
		t.Errorf("found %q, want %q", o.calls, want)
	}
}

// reserving is a Reserver that always has more to reserve; onReserve is what happens meanwhile.
type reserving struct {
	orderly
	onReserve func(step int)
	steps     int
}

func (r *reserving) Reserve() bool {
	r.steps++
	r.onReserve(r.steps)
	return true
}

// Memory is reserved until there is something to merge, or the run ends, and no longer.
func TestReserved(t *testing.T) {
	for _, c := range []struct {
		name  string
		after func(s *schedule) // the third step
		want  []string
	}{
		{"a report", func(s *schedule) {
			s.gather(0, 5, resultsOf(0))
			s.add(&result{Replication: Replication{Index: 0, Reached: 5}})
			s.close(false)
		}, []string{"begin 0 up to 5", "take 0 0001", "add 0 with 0"}},
		{"a result", func(s *schedule) {
			s.add(&result{Replication: Replication{Index: 0, Reached: 9}})
			s.close(false)
		}, []string{"begin 0 up to 9", "add 0 with 0"}},
		{"the end", func(s *schedule) { s.close(true) }, nil},
	} {
		r := &reserving{}
		s := &schedule{total: 1, next: 1, horizon: 9, accumulator: r, gatherer: r, mergedCh: make(chan struct{}),
			results: make([]*result, 1)}
		s.changed.L = &s.mu
		r.onReserve = func(step int) {
			if step == 3 {
				c.after(s)
			}
		}
		if err := s.merge(); err != nil {
			t.Fatal(err)
		}
		if r.steps != 3 || !slices.Equal(r.calls, c.want) {
			t.Errorf("%s: %d steps, then %q; want 3 and %q", c.name, r.steps, r.calls, c.want)
		}
	}
}

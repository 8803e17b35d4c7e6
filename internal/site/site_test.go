// SPDX-License-Identifier: Apache-2.0

package site

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/machine"
	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/internal/worker"
)

// What comes of a set that has ended is dropped, and so is what is sent anew later; nothing else can come of a set that
// isn't there yet. Sets are counted modulo 2^16.
func TestFramesOfOtherSets(t *testing.T) {
	for _, c := range []struct {
		newest int64
		set    uint16
		kind   session.Type
		ok     bool
	}{
		{-1, 0, session.Status, true}, {-1, 0, session.Records, false}, {0, 0, session.Records, true},
		{5, 4, session.Payload, true}, {5, 6, session.End, false}, {5, 6, session.Credit, true},
		{1<<16 - 1, 0, session.Records, false}, {1 << 16, 1<<16 - 1, session.Records, true},
		{1<<16 + 1, 1, session.Records, true}, {1<<16 + 1, 2, session.Records, false},
	} {
		s := New(Config{})
		s.newest.Store(c.newest)
		h := session.Header{Type: c.kind, Set: c.set}
		if c.kind < session.Ping {
			h.Number = 1
		}
		err := s.Apply(1, session.Express, h, nil)
		var bad *session.FrameError
		if c.ok != (err == nil) || err != nil && (!errors.As(err, &bad) || bad.Byte != 2) {
			t.Errorf("%+v: %v", c, err)
		}
		s.Changed(1, session.Express, session.Lost)
		s.Acked(1, session.Bulk)
	}
}

// A machine that is lost is named, as is the one that has lost it.
func TestExplain(t *testing.T) {
	s := New(Config{Machine: 1, Names: []string{"alpha", "beta"}})
	lost := &session.LostError{Self: 1, Machine: 0, Stream: session.Bulk, After: 1000100 * time.Microsecond,
		Cause: errors.New("no route")}
	want := "beta has lost alpha: no connection for 1s (bulk); the last one: no route"
	if got := s.explain(lost).Error(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	lost.Machine, lost.Cause = -1, nil
	if got := s.explain(lost).Error(); got != "beta has lost machine -1: no connection for 1s (bulk)" {
		t.Error(got)
	}
	if other := errors.New("broken"); s.explain(other) != other || s.explain(nil) != nil {
		t.Error("another error is changed")
	}
}

// A set that doesn't fit the machine's memory is refused.
func TestMemory(t *testing.T) {
	plan := machine.NewPlan([]int32{0, 0, 1}, [][]float64{{0, 1, 1}, {1, 0, 1}, {1, 1, 0}}, worker.DefaultTuning(),
		machine.WindowBytesDefault)
	bytes, _, err := plan.Needs(0, false)
	if err != nil {
		t.Fatal(err)
	}
	known := plan
	known.Expect([]float64{1 << 30, 1 << 20, 1 << 40}) // the last one is on another machine
	for _, c := range []struct {
		plan   machine.Plan
		memory int
		text   string
	}{
		{plan, bytes + 2*workerBytes, ""}, {plan, bytes + 2*workerBytes - 1, "not enough memory: 2 workers there"},
		{known, bytes + 1<<30 + 1<<20, ""}, {known, bytes + 1<<30 + 1<<20 - 1, "2 workers there take about 10"},
	} {
		err := New(Config{Memory: c.memory}).checkMemory(&child.Order{Plan: c.plan})
		if c.text == "" && err != nil || c.text != "" && (err == nil || !strings.Contains(err.Error(), c.text)) {
			t.Errorf("%d bytes: %v", c.memory, err)
		}
	}
}

// Threads of workers and of the bridge are counted.
func TestCrowded(t *testing.T) {
	plan := machine.NewPlan([]int32{0, 0, 1, 2}, [][]float64{{0, 1, 1, 1}, {1, 0, 1, 1}, {1, 1, 0, 1}, {1, 1, 1, 0}},
		worker.DefaultTuning(), machine.WindowBytesDefault)
	for _, c := range []struct {
		machine, processors int
		ingress             string
		crowded             bool
	}{
		{0, 6, worker.IngressDuty, false}, {0, 5, worker.IngressDuty, true}, {1, 5, worker.IngressDuty, false},
		{1, 4, worker.IngressDuty, true}, {1, 5, worker.IngressGoroutine, true}, {1, 6, worker.IngressGoroutine, false},
	} {
		plan.Tuning.Ingress = c.ingress
		s := &set{site: New(Config{Machine: c.machine, Processors: c.processors}), order: child.Order{Plan: plan}}
		if s.crowded() != c.crowded {
			t.Errorf("%+v: %v", c, !c.crowded)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// Reports may come one by one, in any order and in memory that ends with the call: the results are the same.
func TestGatheredInAnyOrder(t *testing.T) {
	m := newModel(metricsSpec(RoundRobin))
	var reps []scenario.Replication
	for i := range 3 {
		e := newEngine(t, m, 1, i, nil)
		if _, err := e.Run(1<<30, m.Horizon()); err != nil {
			t.Fatal(err)
		}
		reps = append(reps, reportOf(t, m, e, i, m.Horizon()))
	}
	var want, got bytes.Buffer
	if err := summarize(t, m, reps).WriteJSON(&want, "", " "); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(5) {
		tl, order := newTally(m), rand.New(rand.NewPCG(seed, 0)).Perm(len(reps[0].Reports))
		for _, rep := range reps {
			parts := rep.Reports
			rep.Reports = nil
			tl.Begin(rep)
			for _, id := range order {
				text := bytes.Clone(parts[id])
				if text == nil {
					continue
				}
				if err := tl.Take(id, text); err != nil {
					t.Fatal(err)
				}
				for i := range text {
					text[i] = 0xff
				}
			}
			if err := tl.Add(rep); err != nil {
				t.Fatal(err)
			}
		}
		s, err := tl.Summary()
		if err != nil {
			t.Fatal(err)
		}
		got.Reset()
		if err := s.(*Results).WriteJSON(&got, "", " "); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Fatalf("seed %d: one by one\n%s\nwant\n%s", seed, got.Bytes(), want.Bytes())
		}
	}
}

// Every report has to be there exactly once.
func TestGatheredExactlyOnce(t *testing.T) {
	m := newModel(metricsSpec(RoundRobin))
	e := newEngine(t, m, 1, 0, nil)
	if _, err := e.Run(1<<30, m.Horizon()); err != nil {
		t.Fatal(err)
	}
	rep := reportOf(t, m, e, 0, m.Horizon())
	for id, report := range rep.Reports {
		if report == nil {
			continue
		}
		without := rep
		without.Reports = slices.Clone(rep.Reports)
		without.Reports[id] = nil
		want := fmt.Sprintf("the report of %s is missing", m.graph.Name(node.SimprocID(id)))
		if err := newTally(m).Add(without); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		tl := newTally(m)
		tl.Begin(rep)
		if err := tl.Take(id, report); err != nil {
			t.Fatal(err)
		}
		want = "a second report of " + m.graph.Name(node.SimprocID(id))
		if err := tl.Take(id, report); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	tl := newTally(m)
	tl.Begin(rep)
	for _, id := range []int{-1, len(rep.Reports)} {
		if err := tl.Take(id, nil); err == nil || !strings.Contains(err.Error(), "want 0 to") {
			t.Errorf("report of %d: %v", id, err)
		}
	}
}

// Memory for results may be had beforehand, in steps, and never once there are results in it.
func TestReservedBeforehand(t *testing.T) {
	spec := bigSpec(3*reserveStep/2, 10, 1000)
	spec.Settings.Horizon = 5
	m := newModel(spec)
	e := newEngine(t, m, 1, 0, nil)
	if _, err := e.Run(1<<30, m.Horizon()); err != nil {
		t.Fatal(err)
	}
	rep := reportOf(t, m, e, 0, m.Horizon())
	var want, got bytes.Buffer
	if err := summarize(t, m, []scenario.Replication{rep}).WriteJSON(&want, "", " "); err != nil {
		t.Fatal(err)
	}
	var r scenario.Reserver = newTally(m)
	steps := 1
	for r.Reserve() {
		steps++
	}
	if longest := len(rep.Reports); steps != (longest+reserveStep-1)/reserveStep {
		t.Errorf("%d steps for %d simprocs", steps, longest)
	}
	parts := rep.Reports
	rep.Reports = nil
	r.Begin(rep)
	for id, part := range parts {
		if part == nil {
			continue
		}
		if err := r.Take(id, part); err != nil {
			t.Fatal(err)
		}
		if r.Reserve() {
			t.Fatal("memory with sums in it is written over")
		}
	}
	if err := r.Add(rep); err != nil {
		t.Fatal(err)
	}
	if r.Reserve() {
		t.Fatal("memory with sums in it is written over")
	}
	s, err := r.Summary()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.(*Results).WriteJSON(&got, "", " "); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("reserved\n%.1000s\nwant\n%.1000s", got.Bytes(), want.Bytes())
	}
}

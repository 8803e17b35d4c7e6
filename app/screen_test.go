// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/scenario"
)

// A later run of the same command has begun nothing when it begins, and results that are being written are kept.
func TestScreenBegun(t *testing.T) {
	s := newScreen(newOutlet(io.Discard), "disco-run")
	check := func(step string, wantBegun, wantKept bool) {
		t.Helper()
		if _, begun, kept := s.now(); begun != wantBegun || kept != wantKept {
			t.Errorf("%s: begun %v, kept %v, want %v, %v", step, begun, kept, wantBegun, wantKept)
		}
	}
	s.doing("starting 2 workers")
	check("starting", false, false)
	s.doing("")
	check("simulating", true, false)
	s.next("point 2 of 3  ", true)
	s.doing("starting 2 workers")
	check("the next run", false, true)
	s.next("", false)
	check("one without earlier results", false, false)
	s.end()
	check("writing", false, true)
}

// One signal ends a run at once when nothing is left to be simulated; before, it asks for the results so far.
func TestSignalWhenAllIsSimulated(t *testing.T) {
	for _, c := range []struct {
		what string
		over bool
	}{{"", false}, {"adding up the results", true}} {
		var said bytes.Buffer
		screen := newScreen(newOutlet(&said), "disco-run")
		screen.doing("")
		if c.what != "" {
			screen.doing(c.what)
		}
		s := watchSignals(screen, "disco-run")
		s.in <- syscall.SIGINT
		<-s.stop
		if c.over {
			<-s.ctx.Done()
		} else if s.ctx.Err() != nil {
			t.Error("one signal has ended a run that could have had results")
		}
		if status := statusOf(s.cause(launch.ErrEnded)); status != 130 {
			t.Errorf("exit status %d", status)
		}
		s.close()
	}
}

// After a signal, each thing that takes long is named.
func TestStillDoing(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	screen := newScreen(newOutlet(w), "disco-run")
	screen.doing("")
	s := watchSignals(screen, "disco-run")
	defer s.close()
	s.in <- syscall.SIGINT
	lines := bufio.NewScanner(r)
	lines.Scan() // the signal
	for _, what := range []string{"adding up the results", "writing the trace"} {
		screen.doing(what)
		for lines.Scan() && lines.Text() != "disco-run: still "+what {
			if lines.Text() != "disco-run: still ending the simulation" {
				t.Fatalf("%q", lines.Text())
			}
		}
	}
}

// A run that doesn't end with its context, because of a step that can't be cut short, isn't waited for.
func TestSimulateEnds(t *testing.T) {
	registry, err := scenario.NewRegistry(launchtest.Kind())
	if err != nil {
		t.Fatal(err)
	}
	s := newScreen(newOutlet(io.Discard), "disco-run")
	ctx, cancel := context.WithCancel(t.Context())
	stop, held, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	l, err := launch.Prepare(launch.Config{File: "tiny.yml", Text: []byte(launchtest.Scenario(4, 1, "")),
		Registry: registry, Workers: 2, Replications: 1, Transport: launch.TransportInproc, Stop: stop,
		Doing: func(what string) {
			s.doing(what)
			if what == "adding up the results" {
				close(stop)
				cancel()
				<-held
				close(left)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := simulate(ctx, l, stop, s); out != nil || !errors.Is(err, launch.ErrEnded) {
		t.Errorf("%+v, %v", out, err)
	}
	close(held)
	<-left
}

// A step of the start that can't be cut short delays neither the first run's end nor that of a later one.
func TestSimulateStopsBeforeItBegins(t *testing.T) {
	registry, err := scenario.NewRegistry(launchtest.Kind())
	if err != nil {
		t.Fatal(err)
	}
	s := newScreen(newOutlet(io.Discard), "disco-run")
	s.doing("") // an earlier run
	s.next("point 2 of 3  ", true)
	stop, held, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	l, err := launch.Prepare(launch.Config{File: "tiny.yml", Text: []byte(launchtest.Scenario(4, 1, "")),
		Registry: registry, Workers: 2, Replications: 1, Transport: launch.TransportInproc, Stop: stop,
		Doing: func(what string) {
			if what == "starting 2 workers" {
				close(stop)
				<-held
				close(left)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := simulate(t.Context(), l, stop, s)
	if out != nil || err == nil || err.Error() != "interrupted before anything was simulated" {
		t.Errorf("%+v, %v", out, err)
	}
	close(held)
	<-left
}

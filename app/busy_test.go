// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/scenario"
)

// lines is standard error that a test may look at while the program writes.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// slowKind is the tiny model, which takes its time to load until somebody has said what
// takes so long.
func slowKind(t *testing.T, stderr *lines) scenario.Kind {
	kind := launchtest.Kind()
	load := kind.Load
	kind.Load = func(doc *scenario.Document, opt scenario.Options) (scenario.Scenario, error) {
		deadline := time.Now().Add(watchdog)
		for !strings.Contains(stderr.String(),
			"disco-run: reading the scenario …\n") {
			if time.Now().After(deadline) {
				t.Error("nothing is said about what takes so long")
				break
			}
			time.Sleep(time.Millisecond)
		}
		return load(doc, opt)
	}
	return kind
}

// TestNotSilent: what takes long before a run begins says what it is.
func TestNotSilent(t *testing.T) {
	defer func(before time.Duration) { slow = before }(slow)
	slow = time.Millisecond
	stderr := &lines{}
	var stdout bytes.Buffer
	status := Run([]string{"disco-run", "run", "-", "--transport", "inproc"},
		strings.NewReader(launchtest.Scenario(4, 1, "")), &stdout, stderr, slowKind(t, stderr))
	if status != ExitOK {
		t.Errorf("exit status %d: %s", status, stderr.String())
	}
}

// TestTooShortToCompare: ratios of runs that took no time say nothing, so none is shown.
func TestTooShortToCompare(t *testing.T) {
	var stdout, stderr bytes.Buffer
	Run([]string{"disco-run", "run", "-", "--transport", "inproc", "--workers", "2", "--compare"},
		strings.NewReader(launchtest.Scenario(4, 0.2, "")), &stdout, &stderr, launchtest.Kind())
	if !strings.Contains(stdout.String(), "too short to compare: one worker took") ||
		strings.Contains(stdout.String(), "times as fast") {
		t.Errorf("%s%s", stdout.String(), stderr.String())
	}
	c := &comparison{Rounds: 3, Sequential: []float64{2, 3, 2}, Parallel: []float64{1, 1, 2}}
	if c.conclude(); c.TooShort || c.Min != 1 || c.Median != 2 || c.Max != 3 {
		t.Errorf("%+v", c)
	}
	c = &comparison{Rounds: 3, Sequential: []float64{2, 0, 2}, Parallel: []float64{1, 1, 2}}
	if c.conclude(); !c.TooShort || c.Max != 0 {
		t.Errorf("%+v", c)
	}
}

func TestLookaheadText(t *testing.T) {
	for seconds, want := range map[float64]string{5e-324: "greater than 0", 0: "from 0 s", 0.1: "from 0.1 s",
		1e-300: "from 1e-300 s", 0.000562131366461216: "from 0.0005621 s"} {
		if got := lookaheadText("from", seconds); got != want {
			t.Errorf("%v: %s, want %s", seconds, got, want)
		}
	}
}

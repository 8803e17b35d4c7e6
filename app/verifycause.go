// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"io"
	"math/bits"
	"path/filepath"
	"slices"
	"strings"

	"github.com/disco-sim/disco/internal/hazard"
	"github.com/disco-sim/disco/scenario"
)

// cause is what verify says about why runs differ. The name is found by experiment, the places by reading the source.
type cause struct {
	Name     string           `json:"name"`
	Text     string           `json:"text"`
	Nodes    []string         `json:"nodes,omitempty"` // that share something
	Probably []hazard.Finding `json:"probably"`        // in the model's source
}

// Names of causes.
const (
	causeVaries = "varies"      // from run to run, on one worker
	causeMemory = "kept memory" // of events
	causeShared = "shared state"
	causeEither = "shared state or varies"
)

// isolateSeconds bounds how long is spent on finding the nodes that share state.
const isolateSeconds = 60

// explain finds the cause of a difference between the first run and r.
func (v *verifier) explain(d *difference, r *verified) error {
	c := &d.Cause
	var suspects []hazard.Kind
	switch {
	case r.variant.workers == 1 && !r.variant.fleeting:
		c.Name = causeVaries
		c.Text = "two runs on one worker differ: the model uses the clock, random numbers that aren't its nodes' " +
			"own, the order of a map, or goroutines"
		suspects = variesKinds
	case r.variant.fleeting:
		always, err := v.alwaysDiffers(r)
		if err != nil {
			return err
		}
		if !always {
			c.either()
			suspects = append(suspects, variesKinds...)
			break
		}
		c.Name = causeMemory
		c.Text = "the results depend on the memory of events behind the call that it was handed to: a handler has " +
			"kept an event's Data or Headers, or part of them, or has written there; copy what is kept (bytes.Clone)"
	default:
		if err := v.explainSpread(c, r); err != nil {
			return err
		}
		suspects = []hazard.Kind{hazard.Shared}
		if c.Name == causeEither {
			suspects = append(suspects, variesKinds...)
		}
	}
	for _, f := range hazard.Find(sourcesOf(v.launch.Scenario())) {
		if slices.Contains(suspects, f.Kind) {
			c.Probably = append(c.Probably, f)
		}
	}
	if (c.Name == causeVaries || c.Name == causeEither) && len(c.Probably) > 0 {
		c.Name = kindsOf(c.Probably)
	}
	return nil
}

// variesKinds are what makes two runs on one worker differ.
var variesKinds = []hazard.Kind{hazard.Clock, hazard.Random, hazard.MapOrder, hazard.Goroutine}

// either is the cause where what differs didn't differ again.
func (c *cause) either() {
	c.Name = causeEither
	c.Text = "two runs of one kind differ, though not always: the model uses the clock, random numbers that aren't " +
		"its nodes' own, the order of a map, goroutines, or state that nodes share"
}

// kindsOf are the kinds of findings.
func kindsOf(found []hazard.Finding) string {
	var kinds []string
	for _, f := range found {
		if !slices.Contains(kinds, string(f.Kind)) {
			kinds = append(kinds, string(f.Kind))
		}
	}
	return strings.Join(kinds, ", ")
}

// sourcesOf is the files of a model.
func sourcesOf(s scenario.Scenario) []string {
	if s, ok := s.(scenario.Sourcer); ok {
		return s.SourceFiles()
	}
	return hazard.FilesOf(s)
}

// explainSpread is explain for a run that differs from those on one worker.
func (v *verifier) explainSpread(c *cause, r *verified) error {
	always, err := v.alwaysDiffers(r)
	if err != nil {
		return err
	}
	again := false
	if always {
		again, err = v.differs(r.variant, r)
	}
	if again && err == nil { // what varies on one worker, too, may have done so in none of the three: look once more
		always, err = v.alwaysDiffers(r)
	}
	if err != nil {
		return err
	}
	if !always {
		c.either()
		return nil
	}
	c.Name = causeShared
	c.Text = "runs agree while all nodes are on one worker, and differ when they are spread: nodes share state other " +
		"than by events, such as a package variable"
	if again {
		c.Text += "; the same spread doesn't give the same twice: which of the nodes comes first depends on timing"
	}
	c.Nodes, err = v.isolate(r)
	return err
}

// alwaysDiffers reports whether r's variant differs from the first run each time, and other runs on one worker don't:
// what happens seldom, and by chance happened in r or in the first run, isn't r's variant's.
func (v *verifier) alwaysDiffers(r *verified) (bool, error) {
	for range 3 {
		again, err := v.differs(r.variant, v.first)
		if err != nil || !again {
			return false, err
		}
		one, err := v.differs(variant{name: "1 worker once more", workers: 1}, v.first)
		if err != nil || one {
			return false, err
		}
	}
	return true, nil
}

// differs runs a variant and reports whether it gives other than a run before.
func (v *verifier) differs(how variant, before *verified) (bool, error) {
	r, err := v.run(how)
	if err != nil {
		return false, err
	}
	defer v.forget(r)
	if r.failed != nil || before.failed != nil {
		return (r.failed == nil) != (before.failed == nil), nil
	}
	d, err := v.compare(before, r)
	return d != nil, err
}

// isolate finds two nodes that must be on one worker for the results to be those of one worker. In a row of placements
// the nodes move one by one from one worker to where they are in r: the first placement agrees and the last doesn't, so
// somewhere in between the move of one node makes the difference. In a second row that node stays and the others leave
// it one by one: there the one that it shares something with makes the difference.
func (v *verifier) isolate(r *verified) ([]string, error) {
	n := len(v.names)
	if float64(2*bits.Len(uint(n))+2)*(v.first.seconds+r.seconds) > isolateSeconds {
		return nil, nil
	}
	apart := func(workerOf func(node int) int) (bool, error) {
		how := v.placed(workerOf)
		if how.workers == 1 {
			return false, nil
		}
		how.name = fmt.Sprintf("%d workers, looking for nodes that share state", how.workers)
		return v.differs(how, v.first)
	}
	k, err := boundary(n, func(k int) (bool, error) {
		return apart(func(node int) int {
			if node < k {
				return int(r.placement[node])
			}
			return 0
		})
	})
	if err != nil || k < 0 {
		return nil, err
	}
	node := k - 1
	partner, err := boundary(n, func(k int) (bool, error) {
		return apart(func(other int) int {
			if other == node || other >= k {
				return 1
			}
			return 0
		})
	})
	if partner--; err != nil || partner < 0 {
		return []string{v.names[node]}, err
	}
	nodes := []int{node, partner}
	slices.Sort(nodes)
	return []string{v.names[nodes[0]], v.names[nodes[1]]}, nil
}

// boundary finds a k from 1 to n for which f(k) is true and f(k-1) isn't, where f(0) isn't; -1 where f(n) isn't, too.
func boundary(n int, f func(k int) (bool, error)) (int, error) {
	if is, err := f(n); err != nil || !is {
		return -1, err
	}
	low, high := 0, n
	for high-low > 1 {
		k := (low + high) / 2
		is, err := f(k)
		if err != nil {
			return -1, err
		}
		if is {
			high = k
		} else {
			low = k
		}
	}
	return high, nil
}

// show writes what was found, for people.
func (v *verifier) show() {
	w, r := v.p.stdout, &v.report
	fmt.Fprintf(w, "%s\n\n", v.title)
	for _, row := range r.Runs {
		state := row.TraceHash
		if row.Error != "" {
			state = "failed"
		}
		fmt.Fprintf(w, "%-32s  %s\n", state, row.Name)
	}
	if r.Agree {
		fmt.Fprintf(w, "\n%s agree: traces, what each activation did, and results\n", count(len(r.Runs), "run"))
		if len(r.Doubtful) > 0 {
			fmt.Fprintf(w, "the source has what may make others differ, unless it changes no result:\n")
		}
		showPlaces(w, "look at", r.Doubtful)
		return
	}
	d := r.Difference
	fmt.Fprintf(w, "\nDIFFERENT: %q and %q\n\n", d.Runs[0], d.Runs[1])
	v.showSides(d)
	fmt.Fprintf(w, "\n%s: %s\n", d.Cause.Name, d.Cause.Text)
	if len(d.Cause.Nodes) > 0 {
		fmt.Fprintf(w, "nodes that share it, others perhaps too: %s\n", strings.Join(d.Cause.Nodes, ", "))
	}
	showPlaces(w, "probably", d.Cause.Probably)
}

// showPlaces writes places of the source.
func showPlaces(w io.Writer, how string, places []hazard.Finding) {
	for _, f := range places {
		fmt.Fprintf(w, "%s %s:%d: %s\n", how, shortPath(f.File), f.Line, f.What)
	}
}

// shortPath is a path from this folder, where it is below it.
func shortPath(path string) string {
	here, err := filepath.Abs(".")
	if err == nil {
		if rest, err := filepath.Rel(here, path); err == nil && !strings.HasPrefix(rest, "..") {
			return rest
		}
	}
	return path
}

// showSides writes both sides of a difference.
func (v *verifier) showSides(d *difference) {
	w := v.p.stdout
	switch {
	case d.failed:
		fmt.Fprintf(w, "one of them fails:\n")
	case d.Sides[0] == nil && d.Sides[1] == nil:
		fmt.Fprintf(w, "no activation differs, but\n")
	default:
		fmt.Fprintf(w, "the first activation that differs:\n")
	}
	for i, a := range d.Sides {
		fmt.Fprintf(w, "in %q\n", d.Runs[i])
		switch {
		case a == nil && d.Other[i] != "":
			fmt.Fprintf(w, "    %s\n", strings.ReplaceAll(d.Other[i], "\n", "\n    "))
			continue
		case a == nil:
			fmt.Fprintf(w, "    no such activation\n")
			continue
		}
		replication := ""
		if a.Replication != "" {
			replication = ", replication " + a.Replication
		}
		fmt.Fprintf(w, "    %s at %s s%s\n", a.Simproc, a.Epoch, replication)
		for _, line := range a.Events {
			fmt.Fprintf(w, "      got  %s\n", line)
		}
		for _, line := range a.Did {
			fmt.Fprintf(w, "      then %s\n", line)
		}
	}
}

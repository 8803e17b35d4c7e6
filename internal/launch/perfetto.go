// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bufio"
	"cmp"
	"fmt"
	"strconv"

	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/internal/perfetto"
	"github.com/disco-sim/disco/internal/spans"
)

// startLines makes what the spans of the set's workers go into, where they are wanted.
func (ws *workerSet) startLines() {
	if ws.launch.cfg.Perfetto == "" {
		return
	}
	for range ws.stats {
		ws.supervisor.lines = append(ws.supervisor.lines, spans.NewLines())
	}
}

// writePerfetto writes what workers were at, if that is wanted: also of a run that has failed, as far as they have told
// it. The workers have ended.
func (l *Launch) writePerfetto(sets []*workerSet) error {
	if l.cfg.Perfetto == "" {
		return nil
	}
	r := &perfetto.Run{}
	for _, ws := range sets {
		for w, lines := range ws.supervisor.lines {
			c := ws.supervisor.conns.workers[w]
			if len(lines.States.All()) > 0 {
				r.Workers = append(r.Workers, perfetto.Worker{Number: c.number, First: ws.number(0), PID: c.pid,
					On: c.machine, Lines: lines})
			}
		}
	}
	if len(r.Workers) == 0 {
		return nil // the file stays as it is
	}
	l.cfg.doing("writing what workers were at")
	r.Facts = l.facts(r)
	out, err := outfile.Create(l.cfg.Perfetto)
	if err != nil {
		return fmt.Errorf("launch: trace for Perfetto: %w", err)
	}
	text := bufio.NewWriterSize(out, 1<<16)
	if err := cmp.Or(perfetto.Write(text, r), text.Flush()); err != nil {
		out.Abort()
		return fmt.Errorf("launch: trace for Perfetto: %w", outfile.Error(l.cfg.Perfetto, err))
	}
	if err := out.Commit(); err != nil {
		return fmt.Errorf("launch: trace for Perfetto: %w", err)
	}
	return nil
}

// facts are what the file says of the run.
func (l *Launch) facts(r *perfetto.Run) []perfetto.Fact {
	of, are := r.Merged()
	merged := "none"
	if of > 0 {
		merged = fmt.Sprintf("%d short ones are shown as %d, with how many each was and how long they took together",
			of, are)
	}
	facts := []perfetto.Fact{{Name: "scenario", Value: l.cfg.File}, {Name: "seed", Value: fmt.Sprint(l.cfg.Seed)},
		{Name: "workers", Value: strconv.Itoa(l.Workers())}, {Name: "merged spans", Value: merged}}
	seen := map[string]bool{}
	for i := range r.Workers {
		w := &r.Workers[i]
		if seen[w.On] {
			continue
		}
		seen[w.On] = true
		name, text := "clock", "monotonic, of this machine: 0 is CLOCK_MONOTONIC"
		if w.On != "" {
			name = "clock of " + w.On
			text = "that machine's own, not compared with others': 0 is its CLOCK_MONOTONIC"
		}
		facts = append(facts, perfetto.Fact{Name: name, Value: fmt.Sprintf("%s at %d ns", text, r.Origin(w.On))})
	}
	return facts
}

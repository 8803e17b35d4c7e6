// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/sweep"
	tables "github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/model/overview"
)

// header is what is going to be run; nothing where standard output is for another program. What it is made of isn't
// there any more when workers have it.
func (p *program) header(l *launch.Launch, o *order) string {
	if o.quiet() {
		return ""
	}
	var w strings.Builder
	cfg := &o.config
	fmt.Fprintf(&w, "%s\n", describe(l))
	if len(cfg.Set) > 0 {
		fmt.Fprintf(&w, "with %s\n", sweep.Point(cfg.Set))
	}
	how := o.until.most() + ofAll(cfg)
	if o.merging == nil {
		fmt.Fprintf(&w, "%s, seed %d, %s\n", spread(l), cfg.Seed, how)
	} else {
		fmt.Fprintf(&w, "seed %d, %s, %v\n", cfg.Seed, how, o.merging)
	}
	if o.warmup != nil {
		fmt.Fprintln(&w, o.warmup)
	}
	if o.whatIf != nil {
		fmt.Fprintln(&w, o.whatIf.row(l.Scenario()))
	}
	if s := o.saving; s != nil {
		fmt.Fprintf(&w, "checkpoints in %v", s.repo)
		if s.resumed != nil {
			fmt.Fprintf(&w, ": %v", s.resumed)
		}
		fmt.Fprintln(&w)
	}
	fmt.Fprintln(&w)
	return w.String()
}

// spread describes how the work is divided among the workers, in one line.
func spread(l *launch.Launch) string {
	how, one := "processes, shared memory", "a process"
	if l.Transport() == launch.TransportInproc {
		how, one = "goroutines of one process", "in this process"
	}
	if machines, of := l.Machines(); machines != nil {
		used := slices.Compact(slices.Clone(of))
		how, one = "processes on "+count(len(used), "machine"), "a process on "+machines[used[0]].Name
	}
	p := l.Placement()
	if l.Workers() == 1 {
		return "1 worker (" + one + ")" + unused(l, p.Unused)
	}
	if l.Spread() == launch.SpreadReplications {
		return fmt.Sprintf("%d workers (%s), each simulating whole replications", l.Workers(),
			strings.TrimSuffix(how, ", shared memory"))
	}
	const shown = 8
	nodes := make([]string, 0, shown)
	for i, n := range p.Nodes {
		if i == shown {
			nodes = append(nodes, "…")
			break
		}
		nodes = append(nodes, fmt.Sprint(n))
	}
	text := fmt.Sprintf("%d workers (%s) with %s nodes (%s), the busiest expects %.2f of the mean work, %.0f %% of "+
		"the traffic runs between workers",
		p.Workers, how, strings.Join(nodes, " + "), l.Partition(), p.Balance(), 100*p.Cut)
	if !math.IsInf(p.Lookahead, 1) {
		text += " with a lookahead " + lookaheadText("of", p.Lookahead)
	}
	switch empty := p.Unused + len(p.Nodes) - occupied(p.Nodes); {
	case empty > 0:
		text += unused(l, empty)
	case p.Slowdown > slowdownNoted:
		text += fmt.Sprintf("; that is predicted to take %s times as long as one worker, with %s rounds of promises "+
			"for each event: fewer workers are faster, and --partition mincut without --placement finds how many",
			ratio(p.Slowdown), ratio(p.Rounds))
	}
	return text
}

// unused says why so many of the workers that were asked for have no nodes; "" of none.
func unused(l *launch.Launch, workers int) string {
	if workers == 0 {
		return ""
	}
	wait := "wait for each other"
	if machines, _ := l.Machines(); len(machines) > 1 {
		wait = "wait for each other, or for messages between machines,"
	}
	return fmt.Sprintf("; %d more without nodes, because with them it would take %s times as long, as the workers "+
		"would %s or take turns on %s", workers, ratio(l.Placement().Saved), wait, count(l.Processors(), "processor"))
}

// slowdownNoted is how many times as long as with one worker a run may be predicted to take before it says so.
const slowdownNoted = 2

// ratio is a number with two digits, or without decimals.
func ratio(x float64) string {
	if x >= 10 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.2g", x)
}

// occupied is how many workers have nodes.
func occupied(nodes []int) (count int) {
	for _, n := range nodes {
		if n > 0 {
			count++
		}
	}
	return count
}

// report writes the results as text: one screen, and the tables that are asked for.
func (p *program) report(o *order, l *launch.Launch, out *launch.Outcome, d *document) error {
	paper := p.paper()
	foot := paper.sentences(p.foot(o, l, out, d))
	if out.Summary != nil {
		lines := overview.Lines - o.headLines - len(foot) - 1
		if err := paper.results(o, l.Scenario(), out.Summary, lines); err != nil {
			return err
		}
	}
	if o.wants(workersTable) {
		p.workers(d)
	}
	paper.write(foot)
	return nil
}

// speed says how much was simulated in what time; a run that goes on has events of before, which took no time now.
func (p *program) speed(w io.Writer, out *launch.Outcome, d *document) {
	what, count, before := "events", out.Events, d.eventsBefore
	if count < out.Activations/10 { // most happens inside the nodes: their own timers are no events
		what, count, before = "calls of handlers", out.Activations, d.callsBefore
	}
	switch {
	case before == 0:
		fmt.Fprintf(w, "%d %s in %.3g s: %s %s/s (and %.3g s to start and end)\n",
			count, what, out.WallSeconds, short(perSecond(count, out.WallSeconds)), what, out.SetupSeconds)
	case out.Workers == nil: // nothing was simulated
		fmt.Fprintf(w, "%d %s, all of them in the parts\n", count, what)
	case before >= count:
		fmt.Fprintf(w, "%d %s, all of them before (%.3g s to start and end)\n", count, what, out.SetupSeconds)
	default:
		fmt.Fprintf(w, "%d %s, %d of them before, and the others in %.3g s: %s %s/s (and %.3g s to start and "+
			"end)\n", count, what, before, out.WallSeconds, short(perSecond(count-before, out.WallSeconds)), what,
			out.SetupSeconds)
	}
}

// passive says what became of nodes that could leave memory (--resident), and whether that made the run slow.
func passive(w io.Writer, d *document) {
	if d.TuningInEffect.Resident == 0 {
		return
	}
	var all worker.Passive
	for _, w := range d.PerWorker {
		all.Left, all.Came, all.MostInMemory = all.Left+w.Left, all.Came+w.Came, all.MostInMemory+w.MostInMemory
		all.WrittenBytes, all.ReadBytes = all.WrittenBytes+w.WrittenBytes, all.ReadBytes+w.ReadBytes
		all.FileBytes += w.FileBytes
	}
	fmt.Fprintf(w, "nodes left memory %s times (%s) and came back %s times (%s); at most %s were there at once,"+
		" and %s in files\n", tables.Count(int64(all.Left)), shortBytes(int64(all.WrittenBytes)),
		tables.Count(int64(all.Came)), shortBytes(int64(all.ReadBytes)), tables.Count(int64(all.MostInMemory)),
		shortBytes(int64(all.FileBytes)))
	const often = 10 // calls, of which one needs a node that isn't in memory
	if nodes := uint64(d.NumNodes) * uint64(d.Replications); all.Came > nodes+d.Activations/often {
		fmt.Fprintf(w, "one call in %.3g had to wait for its node: --resident %s is too little for those that "+
			"are busy\n", float64(d.Activations)/float64(all.Came), shortBytes(d.TuningInEffect.Resident))
	}
}

// phases writes the times of the run's phases.
func (p *program) phases(out *launch.Outcome) {
	t := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "phase\tseconds\t")
	for _, row := range []struct {
		name    string
		seconds float64
	}{
		{"read", out.Phases.Read}, {"compile", out.Phases.Compile}, {"partition", out.Phases.Partition},
		{"write", out.Phases.Write}, {"start", out.Phases.Start}, {"wire", out.Phases.Wire},
		{"first event", out.Phases.First}, {"simulate", out.Phases.Simulate}, {"gather", out.Phases.Gather},
		{"results", out.Phases.Results},
	} {
		fmt.Fprintf(t, "%s\t%.3f\t\n", row.name, row.seconds)
	}
	t.Flush()
}

// workers writes a table of times and events per worker.
func (p *program) workers(d *document) {
	t := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "worker\tnodes\tevents\tsent\treceived\tpromises\tblocked\tno room\tCPU\tcoupling\t")
	for _, w := range d.PerWorker {
		share := func(seconds float64) string {
			return fmt.Sprintf("%.0f %%", 100*seconds/max(w.WallSeconds, 1e-9))
		}
		cpu := fmt.Sprintf("%.2f s", w.CPUSeconds)
		if d.Transport == launch.TransportInproc && w.Worker > 0 {
			cpu = "-" // it can't be divided: the first row has that of all
		}
		coupling := "-"
		switch {
		case w.Coupling > 0 && w.Coupling < 1e-3:
			coupling = "<0.001"
		case w.Coupling > 0:
			coupling = fmt.Sprintf("%.3g", w.Coupling)
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t\n", w.Worker, w.Nodes, w.Events, w.Sent, w.Received,
			w.Promises, share(w.BlockedSeconds), share(w.RoomSeconds), cpu, coupling)
	}
	// The writer behind it keeps its errors.
	_ = t.Flush()
	fmt.Fprintln(p.stdout)
}

// turnsNoted is how many promises, or idle jumps, of all workers there may be for each event before a run says so.
// Shorter runs take no time anyway.
const (
	turnsNoted  = 0.5
	eventsNoted = 10_000
)

// turns says that the workers waited for each other at nearly every event, and what to do.
func turns(w io.Writer, d *document) {
	promises, jumps := uint64(0), uint64(0)
	for _, w := range d.PerWorker {
		promises += w.Promises
		jumps += w.IdleJumps
	}
	most := turnsNoted * float64(d.Events)
	if d.Events >= eventsNoted && (float64(promises) > most || float64(jumps) > most) {
		each := float64(max(d.Events, 1))
		fmt.Fprintf(w, "the workers waited for each other: %s promises and %s idle jumps for each event; fewer "+
			"workers are faster, or another --partition or --placement (docs/running.md, \"How many workers\")\n",
			ratio(float64(promises)/each), ratio(float64(jumps)/each))
	}
}

// perSecond is 0 for a run that took no time.
func perSecond(events uint64, seconds float64) float64 {
	if !(seconds > 0) {
		return 0
	}
	return float64(events) / seconds
}

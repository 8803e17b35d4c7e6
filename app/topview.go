// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/disco-sim/disco/internal/fullscreen"
	"github.com/disco-sim/disco/internal/inspect"
	tables "github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/internal/worker"
)

// topLanesMost is how many lanes are shown.
const topLanesMost = 8

// topLines is the picture of a run: of at most so many rows, 0 for as many as it takes, with the workers from first on.
func topLines(v *inspect.View, rows, first int) []string {
	lines := topHead(v)
	slowest := slowestLines(v)
	lanes := laneLines(v)
	all := workerLines(v)
	room := len(v.Workers)
	if rows > 0 {
		const head = 2 // an empty line, and the columns' names
		room = max(1, rows-len(lines)-head-len(slowest))
		if room >= len(v.Workers)+len(lanes) {
			room = len(v.Workers)
		} else if room > len(v.Workers) {
			lanes = lanes[:room-len(v.Workers)]
			room = len(v.Workers)
		} else {
			lanes = nil
		}
	}
	first = max(0, min(first, len(v.Workers)-room))
	lines = append(lines, "", all[0])
	lines = append(lines, all[1+first:][:room]...)
	return append(append(lines, slowest...), lanes...)
}

// topHead is what is said of the whole run.
func topHead(v *inspect.View) []string {
	r := seen(v)
	blocks := 0.0
	for i := range v.Workers {
		blocks += v.Workers[i].Number(worker.NumberBlocks)
	}
	simulated := 0.0
	if v.Before != nil && v.Seconds > 0 {
		simulated = max(0, r.Epoch-seen(&inspect.View{Run: *v.Before}).Epoch) / v.Seconds
	}
	line := fmt.Sprintf("%.6g s, %s events/s, %.3g simulated s/s, %s, CPU %.0f %%", r.Epoch, short(r.PerSecond),
		simulated, tables.Plural(len(v.Workers), "worker"), 100*r.CPU)
	if blocks > 0 {
		line += fmt.Sprintf(", %.0f blocks in flight", blocks)
	}
	head := fmt.Sprintf("%sprocess %d, for %s: %s", fullscreen.Bold, v.PID, duration(r.Seconds), v.Command)
	return []string{head, line}
}

// workerLines is a line for each worker, behind one with the columns' names.
func workerLines(v *inspect.View) []string {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "worker\tprocess\tepoch s\tevents/s\tCPU\tbusy\tblocked\troom\tparked\twaits for\tpending\trun\t"+
		"state\t")
	percent := func(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }
	for i := range v.Workers {
		w, s := &v.Workers[i], v.Shares[i]
		fmt.Fprintf(t, "%d\t%d\t%.6g\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.0f\t%.0f\t%s\t\n", w.Index, w.PID,
			w.Number(worker.NumberEpoch), short(v.PerSecond(i, worker.NumberEvents)), percent(v.CPU(i)),
			percent(s.Busy), percent(s.Blocked), percent(s.Room), percent(s.Parked), waitsFor(w),
			w.Number(worker.NumberPending), max(w.Number(worker.NumberReplications)-1, 0), shownState(v, w))
	}
	_ = t.Flush() // into memory
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// waitsFor says what a worker waits for; "-": nothing.
func waitsFor(w *inspect.Worker) string {
	of := ""
	if peer := w.Number(worker.NumberPeer); peer > 0 {
		of = fmt.Sprintf(" %.0f", peer-1)
	}
	switch uint64(w.Number(worker.NumberState)) {
	case worker.StateBound, worker.StateAhead:
		return cmp.Or(strings.TrimSpace("worker"+of), "others")
	case worker.StateRoom:
		return "room to" + cmp.Or(of, " others")
	case worker.StateOutside:
		return "an answer from outside"
	case worker.StateRest:
		return "its next run"
	case worker.StateGather:
		return "the end"
	case worker.StatePaused, worker.StateHeld:
		return "the others' stop"
	}
	return "-"
}

// slowestLines say which worker holds the others up, and by what.
func slowestLines(v *inspect.View) []string {
	s := v.Slowest
	if s == nil {
		return nil
	}
	text := fmt.Sprintf("slowest: worker %d, for which %s", v.Workers[s.Place].Index, waitingFor(s))
	if s.Handler != "" {
		text += fmt.Sprintf("; it called %s last, at %.6g s", s.Handler, s.Epoch)
	}
	lines := []string{"", fullscreen.Bold + text}
	if l := s.Link; l != nil {
		lines = append(lines, fmt.Sprintf("shortest link from it: %s to %s, by which worker %d may be %.3g s ahead of "+
			"it at most", l.From, l.To, l.Worker, l.Lookahead))
	}
	return lines
}

func waitingFor(s *inspect.Slowest) string {
	if s.Through == s.Directly {
		return fmt.Sprintf("%d wait", s.Directly)
	}
	return fmt.Sprintf("%d wait, %d of them for others that do", s.Through, s.Through-s.Directly)
}

// laneLines are the busiest lanes.
func laneLines(v *inspect.View) []string {
	if v.ManyLanes > 0 {
		return []string{"", fmt.Sprintf("%d lanes: not looked at", v.ManyLanes)}
	}
	if len(v.Lanes) == 0 {
		return nil
	}
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "lane from\tto\tfilled\tof\tper second\t")
	for _, l := range v.Lanes[:min(len(v.Lanes), topLanesMost)] {
		fmt.Fprintf(t, "%d\t%d\t%.0f %%\t%s\t%s\t\n", l.From, l.To, 100*float64(l.Held)/float64(max(l.Capacity, 1)),
			shortBytes(int64(l.Capacity)), shortBytes(int64(l.PerSecond)))
	}
	_ = t.Flush() // into memory
	lines := append([]string{""}, strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")...)
	if more := len(v.Lanes) - topLanesMost; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}

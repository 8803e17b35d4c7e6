// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/internal/printable"
	"github.com/disco-sim/disco/internal/worker"
)

// CrashName begins the names of post-mortem files.
const CrashName = "disco-crash-"

// postMortem writes down what the memory of a failed run still shows of its workers,
// and returns the failure, nil for none, with the name of the file. All workers have ended; their
// segments are still there.
func (l *Launch) postMortem(sets []*workerSet, failed error) error {
	if failed == nil || l.cfg.CrashDir == "" || !fatal(failed) {
		return failed
	}
	name := CrashName + time.Now().UTC().Format("20060102-150405.000") + "-" + strconv.Itoa(os.Getpid()) + ".txt"
	path := filepath.Join(l.cfg.CrashDir, name)
	if err := writeWhole(path, l.postMortemText(sets, failed)); err != nil {
		return fmt.Errorf("%w\nwhat the workers were at can't be written down: %v", failed, err)
	}
	return fmt.Errorf("%w\nwhat the workers were at: %s", failed, path)
}

// fatal reports whether a failure is worth a post-mortem: a worker that died, or a run
// that could not go on. A model's own error or panic says all there is, and a run that was
// ended from outside has no fault to look for.
func fatal(failed error) bool {
	if isFileError(failed) {
		return false
	}
	var w *WorkerError
	if errors.As(failed, &w) {
		// Errors begin with the room that they come from: what a handler returned, or
		// panicked with, is passed on by node.
		return !w.Wrong && (w.Died || !strings.HasPrefix(w.Reason, "node: "))
	}
	var damaged *checkpoint.DamagedError // of what a run is compared with, or begins with
	return !errors.Is(failed, ErrEnded) && !errors.Is(failed, ErrUnresponsive) && !errors.As(failed, &damaged) &&
		!isFull(failed)
}

// writeWhole writes a file that appears whole or not at all.
func writeWhole(path, text string) error {
	out, err := outfile.Create(path)
	if err != nil {
		return err
	}
	// It quotes what workers wrote.
	safe := printable.NewWriter(out)
	_, err = safe.Write([]byte(text))
	if err = errors.Join(err, safe.Flush()); err != nil {
		out.Abort()
		return outfile.Error(path, err)
	}
	return out.Commit()
}

// postMortemText is the text of a post-mortem.
func (l *Launch) postMortemText(sets []*workerSet, failed error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "disco: post-mortem of process %d, %s\n", os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	fmt.Fprintf(&b, "%v\n\n", failed)
	fmt.Fprintf(&b, "scenario %s, seed %d, horizon %g s, %d of %d replications spread as %s over %d workers (%s)\n",
		l.cfg.File, l.cfg.Seed, l.scenario.Horizon(), sets[0].schedule.taken()-sets[0].schedule.from, l.cfg.wanted(),
		l.cfg.Spread, l.Workers(), l.cfg.Transport)
	fmt.Fprintf(&b, "tuning: %+v\n", l.cfg.Tuning)
	b.WriteString("\nWhat follows was read from shared memory after all workers had ended. Numbers are those of\n" +
		"each worker's last look at itself, up to 64 rounds of its duty cycle before the end;\n" +
		"lanes are as they were at the very end. A worker that was killed with others is no cause.\n")
	for _, ws := range sets {
		for w := range ws.stats {
			ws.describe(&b, w)
		}
	}
	return b.String()
}

// describe writes down what is known of the set's worker w.
func (ws *workerSet) describe(b *strings.Builder, w int) {
	fmt.Fprintf(b, "\nworker %d: %s\n", ws.number(w), ws.exitText(w))
	values, err := worker.Numbers(ws.home.Boards()[w])
	if err != nil {
		fmt.Fprintf(b, "  its board can't be read: %v\n", err)
	}
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, v := range values {
		name, number, _ := strings.Cut(v.String(), " ")
		fmt.Fprintf(table, "  %s\t%s\n", name, number)
	}
	_ = table.Flush() // a strings.Builder takes everything
	for peer := range ws.stats {
		if ws.launch.plan.Rings[w][peer] > 0 {
			ws.describeLane(b, w, peer)
		}
	}
}

// exitText says how a worker ended.
func (ws *workerSet) exitText(w int) string {
	st := &ws.supervisor.states.workers[w]
	text := "still running"
	if st.exit != nil {
		text = st.exit.Text
	}
	if st.reason != "" {
		text += "; it reported: " + st.reason
	}
	return text
}

// describeLane writes down the state of the lane between two workers of the set, if
// anything ever went over it.
func (ws *workerSet) describeLane(b *strings.Builder, from, to int) {
	s, err := ws.home.InspectLane(from, to)
	if err != nil {
		fmt.Fprintf(b, "  lane to worker %d can't be read: %v\n", ws.number(to), err)
		return
	}
	if !s.Forward.ProducerTaken && !s.Forward.ConsumerTaken {
		return // neither worker came so far
	}
	bound := strconv.FormatFloat(s.Epoch, 'g', -1, 64)
	if math.IsInf(s.Epoch, 1) {
		bound = "the end"
	}
	fmt.Fprintf(b, "  lane to worker %d: promised up to %s; sent up to position %d, read up to %d: %d of %d "+
		"bytes unread; %d bytes of returned blocks unread%s\n",
		ws.number(to), bound, s.Forward.Tail, s.Forward.Head, s.Forward.Tail-s.Forward.Head, s.Forward.Capacity,
		s.Return.Tail-s.Return.Head, closed(s))
}

func closed(s lane.Status) string {
	switch {
	case s.Forward.ProducerClosed && s.Forward.ConsumerClosed:
		return "; closed by both"
	case s.Forward.ProducerClosed:
		return "; closed by the sender"
	case s.Forward.ConsumerClosed:
		return "; closed by the receiver"
	}
	return ""
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/internal/outfile"
)

// modelCommand measures the constants, and puts beside each other what the formula says, what the simulated engine
// does, and, on two cores, what the engine does.
func modelCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("scale model", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("json", "", "`FILE` of the readings, to which rounds are added")
	rounds := flags.Int("rounds", 5, "`N` rounds to measure; 0: compute from those of the file")
	events := flags.Float64("events", checkEvents, "`N` events that a measured run handles")
	far := flags.Float64("far", 4, "how many `TIMES` as long a promise takes between groups of cores")
	near := flags.Int("near", 8, "`N` cores in a group")
	most := flags.Int("most", 1000, "largest number `N` of cores to simulate")
	rows := flags.String("rows", "", "`FILE` of the curves: time for an event by the number of pending events")
	if err := parse(flags, args); err != nil {
		return err
	}
	if *rounds < 0 || *events < 1 || *far < 1 || *near < 1 || *most < 2 || *most > 10_000 {
		return usagef("want -rounds from 0, -events, -far and -near from 1 and -most from 2 to 10000")
	}
	event, err := readEventTimes(*rows)
	if err != nil {
		return err
	}
	all, err := readReadings(*file)
	if err != nil {
		return err
	}
	r, err := newRunner()
	if err != nil {
		return err
	}
	defer r.close()
	for range *rounds {
		if err := r.calibrate(ctx, all, *events); err != nil {
			return err
		}
		if err := writeReadings(*file, all); err != nil {
			return err
		}
	}
	if len(all[nameLatency]) == 0 {
		return usagef("model: there are no readings: want -rounds above 0, or -json FILE of earlier ones")
	}
	if err := r.check(ctx, all, *far, *near, stdout); err != nil {
		return err
	}
	if err := r.more(ctx, all, *far, *near, *most, stdout); err != nil {
		return err
	}
	if event == nil {
		return nil
	}
	fixed(all, event, *far, *near, stdout)
	return nil
}

// simulate is the rate of a machine, in events a second, as the simulated engine gives it.
func (r *runner) simulate(ctx context.Context, p engineParams) (*engineTotal, error) {
	workers := min(2, p.workers)
	m, err := r.do(ctx, p.yaml(), []string{"--workers", strconv.Itoa(workers), "--spread", "nodes"},
		limits{10 * time.Minute, meminfo("MemAvailable") / 5 * 4})
	if err != nil {
		return nil, err
	}
	var total engineTotal
	return &total, json.Unmarshal(m.results.Model, &total)
}

// check compares two cores: measured, simulated, computed; near ones and far ones each with their own constants.
func (r *runner) check(ctx context.Context, all readings, far float64, near int, stdout io.Writer) error {
	closeRounds, farRounds := all.split()
	for what, rounds := range []readings{closeRounds, farRounds} {
		if len(rounds) == 0 {
			continue
		}
		fmt.Fprintf(stdout, "%d rounds with %s cores; constants in ns, for remote %v:\n\n", len(rounds[nameLatency]),
			[]string{"near", "far"}[what], checkRemotes)
		for _, remote := range checkRemotes {
			fmt.Fprintf(stdout, "    %+.4v\n", costsOf(rounds, remote, far))
		}
		if err := r.checkRounds(ctx, rounds, far, near, stdout); err != nil {
			return err
		}
	}
	return nil
}

// checkRounds is check for rounds of one kind.
func (r *runner) checkRounds(ctx context.Context, rounds readings, far float64, near int, stdout io.Writer) error {
	for _, remote := range checkRemotes {
		apart := rounds.ratios(whole(remote).name()+working, both(remote).name()+working)
		if len(apart) == 0 {
			return usagef("model: the readings have none of %s: want those of this version", both(remote).name())
		}
		fmt.Fprintf(stdout, "    remote %g: two cores that have nothing to do with each other are %.2f (%.2f to %.2f) "+
			"times as fast as one\n", remote, 2*median(apart), 2*apart[0], 2*apart[len(apart)-1])
	}
	fmt.Fprintf(stdout, "\nPHOLD of %d nodes x %d events, times as fast on 2 cores as on 1\n\n"+
		"| remote | lookahead, s | measured: median (range) | simulated | error | formula | error |\n"+
		"|---|---|---|---|---|---|---|\n", checkNodes, checkEach)
	for _, remote := range checkRemotes {
		one := rounds.get(whole(remote).name() + perSecond)
		for _, ahead := range checkLookaheads {
			speeds := rounds.ratios(pair(ahead, remote).name()+perSecond, whole(remote).name()+perSecond)
			if len(speeds) == 0 {
				return usagef("model: the readings have none of %s: want those of this version",
					pair(ahead, remote).name())
			}
			p := engineParams{workers: 2, near: near, pending: checkNodes * checkEach / 2, lookahead: ahead,
				remote: remote, warm: 0.5, end: 4, costs: costsOf(rounds, remote, far)}
			total, err := r.simulate(ctx, p)
			if err != nil {
				return err
			}
			measured, simulated, formula := median(speeds), total.Rate/one, predict(p).Rate/one
			fmt.Fprintf(stdout, "| %g | %g | %.2f (%.2f to %.2f) | %.2f | %+.0f %% | %.2f | %+.0f %% |\n", remote,
				ahead, measured, speeds[0], speeds[len(speeds)-1], simulated, 100*(simulated/measured-1), formula,
				100*(formula/measured-1))
		}
	}
	fmt.Fprintln(stdout)
	return nil
}

// more predicts larger machines, each core with as many events as in check.
func (r *runner) more(ctx context.Context, all readings, far float64, near, most int, stdout io.Writer) error {
	const pending = checkNodes * checkEach / 2
	fmt.Fprintf(stdout, "\nPHOLD of %d pending events for each core, times as fast as one core with as many\n\n"+
		"| cores | remote | lookahead, s | events in a window | formula | simulated | waiting | formula / "+
		"simulated |\n"+
		"|---|---|---|---|---|---|---|---|\n", pending)
	for _, cores := range []int{2, 8, 64, 1000} {
		if cores > most {
			continue
		}
		for _, remote := range checkRemotes {
			for _, ahead := range []float64{0.003, 0.03, 0.3} {
				c := costsOfBoth(all, remote, far)
				p := engineParams{workers: cores, near: near, pending: pending, lookahead: ahead, remote: remote,
					warm: ahead, end: ahead + max(0.2, 5*ahead), costs: c}
				if cores > 100 {
					p.end = 4 * ahead // each of a million lanes carries a promise twice in a lookahead
				}
				total, err := r.simulate(ctx, p)
				if err != nil {
					return err
				}
				formula, simulated := predict(p).Rate*c.Event/1e9, total.Rate*c.Event/1e9
				fmt.Fprintf(stdout, "| %d | %g | %g | %.0f | %.1f | %.1f | %.0f %% | %.2f |\n", cores, remote, ahead,
					ahead*pending, formula, simulated, 100*total.Waiting, formula/simulated)
			}
		}
	}
	return nil
}

// fixed computes what more cores make of one size, where the time for an event depends on how many are pending on its
// worker, as the curves say.
func fixed(all readings, event func(n float64) float64, far float64, near int, stdout io.Writer) {
	size := 1e7
	fmt.Fprintf(stdout, "\nPHOLD of %g nodes with an event each, lookahead %g s, remote %g, by the formula\n\n"+
		"| cores | nodes of one | ns for an event there | million events per second | times as fast |\n"+
		"|---|---|---|---|---|\n", size, lookahead, remote)
	one := 0.0
	for _, cores := range []int{1, 2, 8, 64, 1000} {
		each := size / float64(cores)
		p := engineParams{workers: cores, near: near, pending: int(each), lookahead: lookahead, remote: remote,
			costs: costsOfBoth(all, remote, far)}
		p.Event = event(each)
		rate := predict(p).Rate
		if cores == 1 {
			one = rate
		}
		fmt.Fprintf(stdout, "| %d | %.0f | %.0f | %.1f | %.1f |\n", cores, each, p.Event, rate/1e6, rate/one)
	}
}

// readEventTimes gives the eventTimes of a file of rows. nil: no file is named.
func readEventTimes(name string) (func(nodes float64) float64, error) {
	if name == "" {
		return nil, nil
	}
	doc, err := readRows(name)
	if err != nil {
		return nil, err
	}
	event := eventTimes(doc)
	if event == nil {
		return nil, usagef("-rows %s: found no row of the curve %q with 1 worker, want a file that scale wrote", name,
			curveNodes)
	}
	return event, nil
}

// eventTimes is the time for an event on one worker by the number of nodes: that of the curve, straight lines between
// its points on a scale of powers. nil: the curve has no points.
func eventTimes(doc *document) func(nodes float64) float64 {
	var points []*cellRow
	for _, s := range lines(doc, curveNodes) {
		if s.name == "phold, 1 worker" {
			points = s.rows
		}
	}
	if len(points) == 0 {
		return nil
	}
	return func(nodes float64) float64 {
		i, _ := slices.BinarySearchFunc(points, nodes, func(r *cellRow, n float64) int { return int(float64(r.N) - n) })
		a, b := points[max(0, min(i-1, len(points)-1))], points[min(i, len(points)-1)]
		at := 0.0
		if a.N < b.N {
			at = math.Log(nodes/float64(a.N)) / math.Log(float64(b.N)/float64(a.N))
		}
		return 1e9 / a.Rate * math.Pow(a.Rate/b.Rate, at)
	}
}

var readingsKind = infile.Kind{Name: "readings that scale model wrote", BytesMax: 16 << 20}

func readReadings(name string) (readings, error) {
	all := readings{}
	if name == "" {
		return all, nil
	}
	text, err := infile.Read(name, readingsKind)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, usagef("-json %s: found %w, want %s", name, err, readingsKind.Name)
	}
	return all, nil
}

func writeReadings(name string, all readings) error {
	if name == "" {
		return nil
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(name, append(text, '\n'))
}

// writeFile writes a file, whole or not at all.
func writeFile(name string, text []byte) error {
	f, err := outfile.Create(name)
	if err != nil {
		return usagef("-json: %w", err)
	}
	if _, err := f.Write(text); err != nil {
		f.Abort()
		return err
	}
	return f.Commit()
}

// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/disco-sim/disco/internal/agents"
	"github.com/disco-sim/disco/internal/chart"
	"github.com/disco-sim/disco/internal/forward"
	"github.com/disco-sim/disco/perf/bench"
	"github.com/urfave/cli/v2"
)

func delayFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "delays", Usage: "measure PHOLD over two machines with these `TIMES` between them, " +
			"each way, such as 0,100us,1ms, and nothing else"},
		&cli.StringFlag{Name: "lookaheads", Value: "0.01,0.1,1",
			Usage: "with --delays: PHOLD's lookaheads, in simulated `SECONDS`"},
		&cli.StringFlag{Name: "program", Usage: "with --delays: disco-run, with disco-group beside it, as `FILE`; " +
			"that beside this program if not given"},
		&cli.StringFlag{Name: "svg", Usage: "with --delays: draw the curve into `FILE`"},
	}
}

// cell is one delay and one lookahead, or, with no delay at all, one worker without agents.
type cell struct {
	delay     time.Duration
	lookahead float64 // simulated seconds
	scenario  string
	horizon   float64 // simulated seconds: so many that a run takes about as long as it is to
	events    uint64  // of a run
	rates     []float64
}

// curve is all that is measured.
type curve struct {
	o           bench.Options
	stdout      io.Writer
	direct, far *agents.Agents // without forwarders, for no delay, and with them
	cells       []*cell
	alone       map[float64]*cell // by lookahead: one worker
}

// runTime is how long a run takes at least: what comes before it and behind it isn't measured, but it begins cold.
const runTime = 500 * time.Millisecond

// delays is the command with --delays.
func delays(c *cli.Context, o bench.Options, stdout io.Writer) (done bool, err error) {
	for _, flag := range []string{"lookaheads", "program", "svg"} {
		if c.IsSet(flag) && !c.IsSet("delays") {
			return true, bench.Mistake("bridge: --%s has no meaning without --delays", flag)
		}
	}
	if !c.IsSet("delays") {
		return false, nil
	}
	v := &curve{o: o, stdout: stdout, alone: map[float64]*cell{}}
	if err := v.parse(c.String("delays"), c.String("lookaheads")); err != nil {
		return true, err
	}
	program := c.String("program")
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			return true, err
		}
		program = filepath.Join(filepath.Dir(self), "disco-run")
	}
	if _, err := os.Stat(program); err != nil {
		return true, bench.Mistake("bridge: --program: %w: `make build` puts disco-run and disco-group beside "+
			"disco-bench", err)
	}
	if err := v.measure(c.Context, program); err != nil {
		return true, err
	}
	return true, v.write(c.String("json"), c.String("svg"))
}

// parse reads the two lists.
func (v *curve) parse(delays, lookaheads string) error {
	for _, word := range strings.Split(lookaheads, ",") {
		l, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
		if err != nil || !(l > 0 && l <= 1) {
			return bench.Mistake("bridge: --lookaheads: found %q, want numbers above 0, up to 1, with commas", word)
		}
		v.alone[l] = &cell{lookahead: l}
		for _, word := range strings.Split(delays, ",") {
			d, err := time.ParseDuration(strings.TrimSpace(word))
			if err != nil || d < 0 || d > time.Second {
				return bench.Mistake("bridge: --delays: found %q, want times from 0 to 1s, such as 0,100us,1ms", word)
			}
			v.cells = append(v.cells, &cell{delay: d, lookahead: l})
		}
	}
	return nil
}

// measure runs all cells, round by round.
func (v *curve) measure(ctx context.Context, program string) (err error) {
	dir, err := os.MkdirTemp("", "disco-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for i, a := range []struct {
		to    **agents.Agents
		front string
	}{{&v.direct, ""}, {&v.far, "127.0.0.1"}} {
		own := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(own, 0o700); err != nil {
			return err
		}
		*a.to, err = agents.Start(agents.Config{Program: program, Dir: own, Hosts: []string{"127.0.0.1", "127.0.0.2"},
			Slots: 1, Front: a.front})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, (*a.to).Close()) }()
	}
	for l, c := range v.alone {
		c.scenario = filepath.Join(dir, fmt.Sprintf("phold-%v.yml", l))
		if err := os.WriteFile(c.scenario, fmt.Appendf(nil, "model: phold\nlookahead: %v\n", l), 0o600); err != nil {
			return err
		}
	}
	for _, c := range v.cells {
		c.scenario = v.alone[c.lookahead].scenario
		if err := v.fit(ctx, c, 2); err != nil {
			return err
		}
	}
	for _, c := range v.alone {
		if err := v.fit(ctx, c, 0); err != nil {
			return err
		}
	}
	for range v.o.Rounds {
		for _, c := range v.cells {
			if err := v.pair(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// pair is one round of a cell: one worker without agents, then two machines.
func (v *curve) pair(ctx context.Context, c *cell) error {
	for _, x := range []struct {
		*cell
		machines int
	}{{v.alone[c.lookahead], 0}, {c, 2}} {
		r, err := v.run(ctx, x.cell, x.machines)
		if err != nil {
			return err
		}
		x.rates = append(x.rates, r.Rate)
	}
	return nil
}

// fit finds a horizon with which a run takes long enough.
func (v *curve) fit(ctx context.Context, c *cell, machines int) error {
	for c.horizon = 4; ; {
		r, err := v.run(ctx, c, machines)
		if err != nil {
			return err
		}
		want := max(runTime, v.o.Time).Seconds()
		if c.events = r.Events; r.Seconds > want/2 || c.horizon > 1e5 {
			return nil
		}
		c.horizon *= min(20, math.Ceil(want/max(r.Seconds, 1e-3)))
	}
}

func (v *curve) run(ctx context.Context, c *cell, machines int) (agents.Run, error) {
	args := []string{c.scenario, "--workers", strconv.Itoa(max(1, machines)), "--horizon", fmt.Sprint(c.horizon),
		"--partition", "block"} // which is over all machines, also where that is slow
	if v.o.Wait != "" {
		args = append(args, "--wait", v.o.Wait)
	}
	if c.delay == 0 {
		return v.direct.Run(ctx, machines, nil, args...)
	}
	for _, f := range v.far.Forwarders {
		f.Set(forward.Traffic{Delay: c.delay})
	}
	return v.far.Run(ctx, machines, nil, args...)
}

// Point is a cell of the curve, as JSON.
type Point struct {
	Bench         string      `json:"bench"`
	DelayS        float64     `json:"delay_s"`
	LookaheadS    float64     `json:"lookahead_s"`
	Rate          bench.Range `json:"events_per_s"`
	OneWorker     bench.Range `json:"ratio_to_one_worker"`
	Model         float64     `json:"model_per_s"` // 0: not known without a delay of 0
	RatioToModel  float64     `json:"ratio_to_model"`
	EventsPerSimS float64     `json:"events_per_simulated_s"`
}

// points are the cells, with what the model says: a worker gets one lookahead further with each message from the other
// one, which takes the delay, and no further than it gets without a delay.
func (v *curve) points() (list []Point) {
	unhindered := map[float64]float64{}
	for _, c := range v.cells {
		if c.delay == 0 {
			unhindered[c.lookahead] = middle(c.rates)
		}
	}
	used := map[float64]int{}
	rounds := v.o.Rounds
	of := map[*cell][]float64{}
	for range rounds {
		for _, c := range v.cells {
			i := used[c.lookahead]
			used[c.lookahead]++
			of[c] = append(of[c], c.rates[len(of[c])]/v.alone[c.lookahead].rates[i])
		}
	}
	for _, c := range v.cells {
		p := Point{Bench: "bridge-delays", DelayS: c.delay.Seconds(), LookaheadS: c.lookahead,
			Rate: bench.RangeOf(c.rates), OneWorker: bench.RangeOf(of[c]), EventsPerSimS: float64(c.events) / c.horizon}
		if most := unhindered[c.lookahead]; most > 0 {
			p.Model = most
			if c.delay > 0 {
				p.Model = min(most, p.EventsPerSimS*c.lookahead/p.DelayS)
			}
			p.RatioToModel = p.Rate.Median / p.Model
		}
		list = append(list, p)
	}
	return list
}

func middle(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

// write puts the curve out.
func (v *curve) write(jsonFile, svg string) error {
	points := v.points()
	if jsonFile != "-" {
		v.table(points)
	}
	if jsonFile != "" {
		text, err := json.MarshalIndent(points, "", "  ")
		if err != nil {
			return err
		}
		if text = append(text, '\n'); jsonFile == "-" {
			_, err = v.stdout.Write(text)
		} else {
			err = os.WriteFile(jsonFile, text, 0o644)
		}
		if err != nil {
			return err
		}
	}
	if svg == "" {
		return nil
	}
	f, err := os.Create(svg)
	if err != nil {
		return err
	}
	return errors.Join(draw(f, points), f.Close())
}

// speedup is how much faster two machines on the loopback are to be than one worker, with a lookahead of 1 s.
const speedup = 1.2

func (v *curve) table(points []Point) {
	fmt.Fprintf(v.stdout, "%s\nPHOLD, 1,024 processes of 16 events, two machines of one worker beside one worker "+
		"without agents\n\n", bench.Conditions(v.o))
	fmt.Fprintf(v.stdout, "%8s  %9s  %17s  %34s  %24s  %18s\n", "delay", "lookahead", "lookahead ÷ delay", "events/s",
		"x one worker", "of the model")
	for _, p := range points {
		share, model := "-", "-"
		if p.DelayS > 0 {
			share = fmt.Sprintf("%.4g", p.LookaheadS/p.DelayS)
		}
		if p.Model > 0 {
			model = fmt.Sprintf("%.2f of %s", p.RatioToModel, millions(p.Model))
		}
		verdict := ""
		if p.DelayS == 0 && p.LookaheadS == 1 {
			verdict = fmt.Sprintf("  goal: at least %v x, missed", speedup)
			if p.OneWorker.Median >= speedup {
				verdict = fmt.Sprintf("  goal: at least %v x, reached", speedup)
			}
		}
		fmt.Fprintf(v.stdout, "%8v  %7v s  %17s  %34s  %24s  %18s%s\n", time.Duration(p.DelayS*1e9), p.LookaheadS,
			share, fmt.Sprintf("%s (%s .. %s)", millions(p.Rate.Median), millions(p.Rate.Min), millions(p.Rate.Max)),
			fmt.Sprintf("%.3f (%.3f .. %.3f)", p.OneWorker.Median, p.OneWorker.Min, p.OneWorker.Max), model, verdict)
	}
}

func millions(rate float64) string { return fmt.Sprintf("%.3f M/s", rate/1e6) }

// draw draws events per second over lookahead through delay, both by powers of ten, and the model beside each
// lookahead.
func draw(w io.Writer, points []Point) error {
	c := chart.Chart{Title: "PHOLD over two machines: events/s by lookahead ÷ delay", XTick: 1, YTick: 1, XText: power,
		YText: power}
	for _, l := range slices.Compact(slices.Sorted(func(yield func(float64) bool) {
		for _, p := range points {
			if !yield(p.LookaheadS) {
				return
			}
		}
	})) {
		measured, model := chart.Line{Name: fmt.Sprintf("lookahead %v s", l)}, chart.Line{
			Name: fmt.Sprintf("the model, %v s", l)}
		for _, p := range points {
			if p.LookaheadS == l && p.DelayS > 0 {
				x := math.Log10(p.LookaheadS / p.DelayS)
				measured.Add(x, math.Log10(p.Rate.Median))
				model.Add(x, math.Log10(p.Model))
			}
		}
		c.Lines = append(c.Lines, measured, model)
	}
	return chart.SVG(w, c.Title, []chart.Chart{c})
}

func power(x float64) string { return fmt.Sprintf("%.4g", math.Pow(10, x)) }

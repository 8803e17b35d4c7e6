// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/perf/bench"
	"github.com/urfave/cli/v2"
)

// MovesCommand is the command `rebalance` of disco-bench.
func MovesCommand() bench.Command {
	m := &moving{}
	return bench.Command{Name: "rebalance", Usage: "runs whose nodes move between workers, beside the same whose " +
		"nodes stay", Specs: m.specs, Flags: movesFlags(),
		Examples: []string{"rebalance --program bin/disco-run --json rebalance.json"},
		Instead:  func(c *cli.Context, _ bench.Options, _ io.Writer) (bool, error) { return false, m.take(c) }}
}

// moving is what the command line asks for.
type moving struct {
	given
	heat              int
	wander, even, hot float64
}

// Goals (issue 14).
const (
	ofStatic = 1.5  // a hot spot that wanders
	ofEven   = 0.98 // an even load
)

func movesFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "program", Usage: "disco-run as `FILE`", Required: true},
		&cli.StringFlag{Name: "rows", Usage: "measure only these `ROWS`, by their names, with commas between"},
		&cli.Float64Flag{Name: "hot", Value: 0.1, Usage: "`SHARE` of PHOLD's processes that are in the hot spot"},
		&cli.IntFlag{Name: "heat", Value: 10_000, Usage: "`STEPS` of calculation for each event there"},
		&cli.Float64Flag{Name: "wander", Value: 1000, Usage: "simulated `SECONDS` of a run, in which the hot spot " +
			"goes round once"},
		&cli.Float64Flag{Name: "even", Value: 400, Usage: "simulated `SECONDS` of a run of PHOLD with an even load"},
		&cli.StringFlag{Name: "scenario", Value: "examples/shop.yml", Usage: "another `FILE` with an even load"},
		&cli.Float64Flag{Name: "horizon", Value: 2000, Usage: "simulated `SECONDS` of it"},
	}
}

func (m *moving) take(c *cli.Context) error {
	*m = moving{given{program: c.String("program"), scenario: c.String("scenario"), horizon: c.Float64("horizon")},
		c.Int("heat"), c.Float64("wander"), c.Float64("even"), c.Float64("hot")}
	m.takeRows(c)
	for _, flag := range []string{"wander", "even", "horizon"} {
		if v := c.Float64(flag); !(v > 0) {
			return bench.Mistake("rebalance: --%s: found %v, want more than 0", flag, v)
		}
	}
	return nil
}

// specs are the rows. Runs of one scenario have one trace hash, wherever their nodes are.
func (m *moving) specs(context.Context, bench.Options) (list []bench.Spec, release func(), err error) {
	wandering, even, other := &runs{given: &m.given}, &runs{given: &m.given}, &runs{given: &m.given}
	var opened []*runs
	release = func() {
		for _, r := range opened {
			r.close()
		}
	}
	for _, r := range []*runs{wandering, even, other} {
		if err := r.open(); err != nil {
			release()
			return nil, nil, err
		}
		opened = append(opened, r)
	}
	p := phold.Defaults()
	p.End = m.even
	flat, err := even.write(p)
	if err != nil {
		release()
		return nil, nil, err
	}
	p.End, p.Hot, p.Heat, p.Wander = m.wander, m.hot, m.heat, m.wander
	hot, err := wandering.write(p)
	if err != nil {
		release()
		return nil, nil, err
	}
	list = both("rebalance-wander", wandering.moved(hot, p.End, "auto"), "off", wandering.moved(hot, p.End, "off"),
		ofStatic)[1:]
	list[0].Remark = fmt.Sprintf("PHOLD, %d processes, %v of them hot with %d steps an event, 2 workers; by wall time",
		p.LPs, p.Hot, p.Heat)
	list = append(list, both("rebalance-even", even.moved(flat, m.even, "auto"), "off",
		even.moved(flat, m.even, "off"), ofEven)...)
	rows := both("rebalance-other", other.moved(m.scenario, m.horizon, "auto"), "off",
		other.moved(m.scenario, m.horizon, "off"), ofEven)
	rows[0].Remark = filepath.Base(m.scenario)
	if list, err = m.chosen(append(list, rows...)); err != nil {
		release()
		return nil, nil, err
	}
	return list, release, nil
}

// write makes a file of a PHOLD.
func (r *runs) write(p phold.Params) (string, error) {
	file := filepath.Join(r.dir, "phold.yml")
	return file, os.WriteFile(file, p.YAML(), 0o600)
}

// moved is a run of a scenario with --rebalance.
func (r *runs) moved(file string, horizon float64, when string) func(context.Context) (outcome, error) {
	return func(ctx context.Context) (outcome, error) {
		return r.same(ctx, r.program, file, "--horizon", fmt.Sprint(horizon), "--rebalance", when, "--workers", workers)
	}
}

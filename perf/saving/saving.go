// SPDX-License-Identifier: Apache-2.0

// Package saving measures checkpoints: what it takes to encode, write, read and decode the state of a run, beside bare
// loops that do the same with the same bytes in the same rounds, and what checkpoints cost a run. So it does with nodes
// that move between workers while a run goes on.
//
// Guarantee: what a loop encodes is compared byte by byte with what disco encodes, before anything is measured. No
// process is left running, and no file behind.
//
//	bench.Main(saving.Command())
package saving

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/disco-sim/disco/perf/bench"
	"github.com/urfave/cli/v2"
)

// Command is the command `checkpoint` of disco-bench.
func Command() bench.Command {
	g := &given{}
	return bench.Command{Name: "checkpoint", Usage: "state that is encoded, written, read and decoded, and what " +
		"checkpoints cost a run", Specs: g.specs, Flags: flags(),
		Examples: []string{"checkpoint --nodes 10000", "checkpoint --program bin/disco-run --json checkpoint.json"},
		Instead:  func(c *cli.Context, _ bench.Options, _ io.Writer) (bool, error) { return false, g.take(c) }}
}

// given is what the command line asks for.
type given struct {
	nodes            int
	program, before  string
	scenario         string
	horizon, between float64
	workers          int      // of such a run
	runs             bool     // rows of runs, beside those of loops
	only             []string // names of rows; nil: all
}

// perNode is how many events are pending for a node.
const perNode = 10

func flags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "nodes", Value: 100_000, Usage: "encode the state of `N` nodes, with 10 pending events " +
			"each"},
		&cli.StringFlag{Name: "rows", Usage: "measure only these `ROWS`, by their names, with commas between"},
		&cli.StringFlag{Name: "program", Usage: "disco-run as `FILE`, for what checkpoints cost a run; without it " +
			"only loops are measured"},
		&cli.StringFlag{Name: "before", Usage: "another disco-run as `FILE`: runs without checkpoints beside its own"},
		&cli.StringFlag{Name: "scenario", Value: "examples/shop.yml", Usage: "`FILE` that --program runs"},
		&cli.Float64Flag{Name: "horizon", Value: 2000, Usage: "simulated `SECONDS` of such a run"},
		&cli.IntFlag{Name: "workers", Value: 2, Usage: "`N` workers of such a run"},
		&cli.Float64Flag{Name: "between", Value: 100, Usage: "simulated `SECONDS` between its checkpoints"},
	}
}

func (g *given) take(c *cli.Context) error {
	*g = given{c.Int("nodes"), c.String("program"), c.String("before"), c.String("scenario"), c.Float64("horizon"),
		c.Float64("between"), c.Int("workers"), c.IsSet("program"), nil}
	g.takeRows(c)
	switch {
	case g.nodes < 1 || g.nodes > 10_000_000:
		return bench.Mistake("checkpoint: --nodes: found %d, want 1 to 10000000", g.nodes)
	case !(g.between > 0 && g.between < g.horizon):
		return bench.Mistake("checkpoint: --between: found %v, want more than 0, less than the horizon %v", g.between,
			g.horizon)
	}
	if g.workers < 1 {
		return bench.Mistake("checkpoint: --workers: found %d, want 1 or more", g.workers)
	}
	for _, flag := range []string{"before", "scenario", "horizon", "between", "workers"} {
		if c.IsSet(flag) && !g.runs {
			return bench.Mistake("checkpoint: --%s has no meaning without --program", flag)
		}
	}
	return nil
}

// takeRows takes the names of the rows that are wanted.
func (g *given) takeRows(c *cli.Context) {
	if c.IsSet("rows") {
		g.only = strings.Split(c.String("rows"), ",")
	}
}

// Goals (issue 14): of plain bytes in memory, of what bare loops reach, and of 10^6 pending events.
const (
	plainBytes   = 1e9       // a second and a worker
	ofBareWrite  = 0.9       // SHA-256 and zstd
	ofBareResume = 0.8       // read, zstd, SHA-256 and decoding
	pendingRate  = 1e6 / 0.3 // events a second
	restoreMost  = 2.0       // times what saving takes
)

// specs are the rows.
func (g *given) specs(_ context.Context, o bench.Options) (list []bench.Spec, release func(), err error) {
	w, err := newWorld(g.nodes)
	if err != nil {
		return nil, nil, err
	}
	row := func(name string, bytes int, do timed, limit string, bare timed, goal bench.Goal) {
		list = append(list, bench.Spec{Bench: "checkpoint-" + name, Row: bench.Task{Payload: bytes, Time: o.Time},
			Processes: 1, Limit: bench.Task{Job: limit, Payload: bytes, Time: o.Time}, LimitName: limit,
			By: bench.ByRate, Measure: repeated(do), MeasureLimit: repeated(bare), Goal: goal})
	}
	each, event := len(w.nodes)/g.nodes, len(w.pending)/w.events
	row("encode", each, w.encodeNodes, "limit-encode", w.bareEncodeNodes, bench.Goal{BytesMin: plainBytes})
	row("decode", each, w.decodeNodes, "limit-decode", w.bareDecodeNodes, bench.Goal{BytesMin: plainBytes})
	row("copy-pending", event, w.copyPending, "limit-encode", w.bareEncodePending, bench.Goal{BytesMin: plainBytes})
	row("encode-pending", event, w.encodePending, "limit-encode", w.bareEncodePending,
		bench.Goal{RateMin: pendingRate})
	row("decode-pending", event, w.decodePending, "limit-decode", w.bareDecodePending, bench.Goal{})
	row("restore-pending", event, w.decodePending, "save", w.encodePending, bench.Goal{RatioMin: 1 / restoreMost})
	if event > eventBytesMost {
		w.close()
		return nil, nil, fmt.Errorf("a pending event takes %d bytes, want at most %d", event, eventBytesMost)
	}
	row("write", kibi, w.write, "limit-write", w.bareWrite, bench.Goal{RatioMin: ofBareWrite})
	row("resume", kibi, w.resume, "limit-resume", w.bareResume, bench.Goal{RatioMin: ofBareResume})
	byWall := list[len(list)-1] // where there is a processor more, half of a resume is done there
	byWall.Bench += "-wall"
	byWall.Measure, byWall.MeasureLimit = repeatedBy(w.resume, true), repeatedBy(w.bareResume, true)
	list = append(list, byWall)
	release = w.close
	if g.runs {
		r := &runs{given: g}
		if err := r.open(); err != nil {
			w.close()
			return nil, nil, err
		}
		list = append(list, r.specs()...)
		release = func() { r.close(); w.close() }
	}
	if list, err = g.chosen(list); err != nil {
		release()
		return nil, nil, err
	}
	return list, release, nil
}

// chosen are the rows that --rows names.
func (g *given) chosen(all []bench.Spec) (list []bench.Spec, err error) {
	if g.only == nil {
		return all, nil
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Bench)
		if slices.Contains(g.only, s.Bench) {
			list = append(list, s)
		}
	}
	for _, name := range g.only {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("--rows: found %q, want some of %q", name, names)
		}
	}
	return list, nil
}

// eventBytesMost is what a pending event may take (issue 14).
const eventBytesMost = 60

// kibi is what write and resume count: KiB before they are compressed.
const kibi = 1 << 10

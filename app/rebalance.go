// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strconv"
	"time"

	"github.com/disco-sim/disco/internal/launch"
	tables "github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/urfave/cli/v2"
)

// shardsDefault is in how many groups nodes move.
const shardsDefault = 256

// How --rebalance looks whether nodes are to move.
const (
	rebalanceOff  = "off"
	rebalanceAuto = "auto"
)

// rebalanceFlags are about nodes that move while a run goes on.
func rebalanceFlags() []cli.Flag {
	return []cli.Flag{
		textFlag(groupWhere, "rebalance", rebalanceOff, "`WHEN` nodes move from busy workers to others while the run "+
			"goes on: off, never; auto, when workers wait for one that is busy; SECONDS, it is looked at so often"),
		textFlag(groupWhere, "shards", fmt.Sprint(shardsDefault), "`N` groups in which nodes move"),
	}
}

// rebalance reads the flags; nil: nodes stay.
func (v *values) rebalance() *launch.Rebalance {
	r := &launch.Rebalance{Shards: v.integer("shards", shardsDefault, 1, worker.ShardsMax)}
	const want = "off, auto, or wall seconds from 0.01 to 1e6"
	switch text := v.text("rebalance", want); text {
	case "", rebalanceOff:
		if v.c.IsSet("shards") {
			v.errs = append(v.errs, usage("--shards has no meaning without --rebalance"))
		}
		return nil
	case rebalanceAuto:
	default:
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || !(seconds >= 0.01 && seconds <= 1e6) {
			v.refuse("rebalance", strconv.Quote(text), want)
			return nil
		}
		r.Every = time.Duration(seconds * float64(time.Second))
	}
	return r
}

// movesRow is what moved in a run, in JSON.
type movesRow struct {
	Shards       int                `json:"shards"`
	Fixed        int                `json:"fixed"` // shards that stay
	Looks        int                `json:"looks"` // times that it was looked whether something is to move
	PauseSeconds float64            `json:"pause_s"`
	Rounds       []launch.MoveRound `json:"rounds"`
}

func newMovesRow(m *launch.Moves) *movesRow {
	if m == nil {
		return nil
	}
	return &movesRow{m.Shards, m.Fixed, m.Looks, m.Pause, append([]launch.MoveRound{}, m.Rounds...)}
}

// movesShown is how many rounds the report lists; the JSON has all.
const movesShown = 5

// lines say what moved, when, why, and what it cost.
func (r *movesRow) lines() (lines []string) {
	if r.Fixed == r.Shards {
		return []string{"no nodes moved: all are where --placement has put them, or have links to other workers that " +
			"are shorter than those on cycles"}
	}
	if len(r.Rounds) == 0 && r.Looks == 0 {
		return []string{"no nodes moved: the run gave no reason to look whether that is worth it"}
	}
	if len(r.Rounds) == 0 {
		return []string{fmt.Sprintf("no nodes moved: none of %s was worth it", tables.Plural(r.Looks, "look"))}
	}
	var shards, nodes int
	for i := range r.Rounds {
		shards, nodes = shards+r.Rounds[i].Shards, nodes+r.Rounds[i].Nodes
	}
	lines = append(lines, fmt.Sprintf("%s with %s moved in %s, %s; all workers stood still for %s",
		tables.Plural(shards, "shard"), tables.Plural(nodes, "node"), tables.Plural(len(r.Rounds), "round"),
		tables.Plural(r.Looks, "look"), tables.Seconds(r.PauseSeconds)))
	for i := range r.Rounds {
		if i == movesShown {
			lines = append(lines, fmt.Sprintf("  … and %d more; --json has all", len(r.Rounds)-i))
			break
		}
		m, crossed := &r.Rounds[i], ""
		if m.Crossed > 0 {
			crossed = fmt.Sprintf(", %s to another machine", tables.Plural(m.Crossed, "shard"))
		}
		lines = append(lines, fmt.Sprintf("  at %.6g s: %s (%s, %s%s) in %s; workers had worked %.0f%% of what the "+
			"busiest did, %.0f%% expected now", m.Epoch, tables.Plural(m.Shards, "shard"),
			tables.Plural(m.Nodes, "node"), shortBytes(m.Bytes), crossed, tables.Seconds(m.Pause), 100*m.Before,
			100*m.After))
	}
	return lines
}

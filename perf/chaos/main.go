// SPDX-License-Identifier: Apache-2.0

// Command chaos runs simulations as real processes and injects faults: every cell of its grid is one fault, one
// kind of scenario, and the expected result.
//
//	go run ./perf/chaos                        # every cell, for two minutes
//	go run ./perf/chaos -time 1h -json out.json
//	go run ./perf/chaos -list
//	go run ./perf/chaos -cell kill-worker/parked/phold -seed 17
//
// A cell that fails prints the command that repeats it. docs/HACKING.md, "Tests of death", describes how to add
// one.
package main

import (
	"flag"
	"fmt"
	"os"
	"path"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/model/devstone"
	"github.com/disco-sim/disco/model/network"
	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/model/queueing"
	"github.com/disco-sim/disco/model/service"
	"github.com/disco-sim/disco/model/supply"
)

// roleEnv marks a process that chaos started, with its role.
const (
	roleEnv      = "DISCO_CHAOS_ROLE"
	roleProgram  = "program"  // disco-run, with the model that fails on demand
	roleLimited  = "limited"  // applies limits and executes the program
	roleTerminal = "terminal" // the shell of a terminal, with the program in front
	roleSleeper  = "sleeper"  // a process that a run has left behind, for a test
)

func main() {
	if !launch.IsWorker() && os.Getenv(roleEnv) == "" {
		os.Exit(command(os.Args[1:]))
	}
	serve()
}

// serve is the main function of a process that chaos has started. It doesn't return.
func serve() {
	switch role := os.Getenv(roleEnv); {
	case launch.IsWorker() || role == roleProgram:
		app.Main(service.Kind(), network.Kind(), queueing.Kind(), supply.Kind(), phold.Kind(), devstone.Kind(),
			launchtest.Kind())
	case role == roleLimited:
		fmt.Fprintln(os.Stderr, "chaos:", becomeLimited(os.Args[1:]))
	case role == roleTerminal:
		os.Exit(beShell(os.Args[1:]))
	case role == roleSleeper:
		time.Sleep(time.Minute)
	default:
		fmt.Fprintf(os.Stderr, "chaos: %s is %q, want %s, %s or %s\n", roleEnv, role, roleProgram, roleLimited,
			roleTerminal)
	}
	os.Exit(2)
}

const (
	limitDefault = 2 * time.Minute
	all          = "*/*/*" // cells
)

func command(args []string) int {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	limit := flags.Duration("time", limitDefault, "how long to go on; every cell is tried at least once")
	only := flags.String("cell", all, "`PATTERN` of the cells to try, fault/variant/kind")
	seed := flags.Uint64("seed", 0, "where instants and windows are drawn from; 0 draws one")
	file := flags.String("json", "", "`FILE` for the results")
	checked := flags.String("checked", "",
		"this program, built with -tags invariants, for the faults that only the checked build finds")
	program := flags.String("program", "", "disco-run, for the kinds that it has; this program itself otherwise")
	slack := flags.Float64("slack", 1, "how many times longer than promised a detection may take")
	soak := flags.Duration("soak", 0, "see for so long that nothing grows, instead")
	list := flags.Bool("list", false, "list the cells and end")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	cells, err := selected(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 2
	}
	if *list {
		for _, c := range cells {
			fmt.Println(c.name())
		}
		return 0
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	g, err := newGround(*program, *checked, *slack)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 2
	}
	if *only != all && *limit == limitDefault {
		*limit = 0 // a single cell is tried once
	}
	defer g.guard()()
	if *soak > 0 {
		defer g.close()
		return g.soak(os.Stdout, *soak, *file)
	}
	rows := tour(g, cells, *seed, *limit)
	g.close()
	if *file != "" {
		if err := writeJSON(*file, *seed, rows); err != nil {
			fmt.Fprintln(os.Stderr, "chaos:", err)
			return 1
		}
	}
	return verdict(os.Stdout, *seed, rows)
}

// selected are the cells whose names match a pattern.
func selected(pattern string) ([]*cell, error) {
	var found []*cell
	for _, c := range grid() {
		ok, err := path.Match(pattern, c.name())
		if err != nil {
			return nil, fmt.Errorf("cell %q: %w", pattern, err)
		}
		if ok {
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no cell matches %q: -list shows them", pattern)
	}
	return found, nil
}

// tour tries every cell in turn until the time is over, and once at least.
func tour(g *ground, cells []*cell, seed uint64, limit time.Duration) []*row {
	began := time.Now()
	rows := make([]*row, len(cells))
	for i, c := range cells {
		rows[i] = newRow(c)
	}
	fmt.Printf("%d cells, seed %d\n", len(cells), seed)
	for round := uint64(0); ; round++ {
		for i, c := range cells {
			if round > 0 && (time.Since(began) > limit || rows[i].Skipped != "") {
				continue
			}
			o := g.try(c, seed+round)
			rows[i].add(seed+round, o)
			if round == 0 {
				fmt.Println(rows[i].line())
			}
			for _, w := range o.wrong {
				fmt.Printf("    %s\n", w)
			}
			if len(o.wrong) > 0 {
				fmt.Printf("    again: chaos -cell %s -seed %d\n", c.name(), seed+round)
			}
		}
		if time.Since(began) > limit {
			return rows
		}
	}
}

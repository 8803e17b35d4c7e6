// SPDX-License-Identifier: Apache-2.0

// Command scale measures how cost grows: events per second, memory and start time by nodes, links, pending events and
// workers, each cell a run of its own that is measured from outside. It also predicts what more cores would do.
//
//	go run ./perf/scale -json rows.json -svg curves           # all curves
//	go run ./perf/scale -curves nodes,workers -most 100000 -budget 1m
//	go run ./perf/scale draw -json rows.json -svg curves      # only draw
//	go run ./perf/scale model -rows rows.json                 # what 8, 64 and 1000 cores would do
//
// Rows that the file has already aren't measured again, so a call continues the one before it. docs/scale.md has the
// results and explains them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/model/service"
)

// roleEnv marks a process that scale started, with its role.
const (
	roleEnv     = "DISCO_SCALE_ROLE"
	roleProgram = "program" // disco-run, with the kinds of the cells
	roleBare    = "bare"    // the bare loop of PHOLD
)

// Exit statuses.
const (
	exitFailed = 1 // a measurement failed or was interrupted
	exitUsage  = 2 // a mistake on the command line; nothing was measured
)

func main() {
	switch role := os.Getenv(roleEnv); {
	case launch.IsWorker() || role == roleProgram:
		app.Main(phold.Kind(), service.Kind(), wiredKind(), engineKind())
	case role == roleBare:
		os.Exit(serveBare(os.Args[1:], os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// errUsage is a mistake on the command line.
var errUsage = errors.New("usage")

// command runs one command line and returns the exit status.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	do := measureCommand
	if len(args) > 0 {
		if other := map[string]func(context.Context, []string, io.Writer, io.Writer) error{
			"draw": drawCommand, "model": modelCommand}[args[0]]; other != nil {
			do, args = other, args[1:]
		}
	}
	err := do(ctx, args, stdout, stderr)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintln(stderr, "scale:", strings.TrimPrefix(err.Error(), "usage: "))
		return exitUsage
	}
	fmt.Fprintln(stderr, "scale:", err)
	return exitFailed
}

func usagef(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errUsage}, args...)...)
}

// parse reads flags; a mistake is an errUsage.
func parse(flags *flag.FlagSet, args []string) error {
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("found %q, want flags only", flags.Arg(0))
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		return usagef("%w", err)
	}
	return err
}

// options are what a measurement may take.
type options struct {
	curves []string
	most   int           // the largest number of nodes, links or pending events
	events float64       // that a cell is to handle, about
	rounds int           // how often each cell is run
	limit  time.Duration // of one run
	budget time.Duration // of all
	memory int64         // bytes of one run
}

func measureCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var o options
	names := flags.String("curves", strings.Join(curveNames, ","), "`NAMES` of the curves, with commas between")
	file := flags.String("json", "", "`FILE` of the rows: what it has already isn't measured again")
	prefix := flags.String("svg", "", "`PREFIX` of the files of the curves, PREFIX-nodes.svg and so on")
	flags.IntVar(&o.most, "most", 1e8, "largest number `N` of nodes, links or pending events")
	flags.Float64Var(&o.events, "events", 4e6, "`N` events that a run handles, about")
	flags.IntVar(&o.rounds, "rounds", 5, "`N` runs of each cell; one of a cell that takes more than a tenth of -limit")
	flags.DurationVar(&o.limit, "limit", 100*time.Second, "`TIME` after which one run is ended")
	flags.DurationVar(&o.budget, "budget", time.Hour, "`TIME` after which no run is begun")
	memory := flags.Float64("memory", 0, "`GB` that one run may take (default: four fifths of what is free then)")
	if err := parse(flags, args); err != nil {
		return err
	}
	o.memory = int64(*memory * 1e9)
	if o.most < 100 || o.events < 1 || o.rounds < 1 || o.limit <= 0 || o.budget <= 0 || *memory < 0 {
		return usagef("want -most from 100, -events, -rounds, -limit and -budget above 0, and -memory not below")
	}
	var err error
	if o.curves, err = parseCurves(*names); err != nil {
		return err
	}
	doc, err := readRows(*file)
	if err != nil {
		return err
	}
	if err := measure(ctx, o, doc, *file, stdout); err != nil {
		return err
	}
	return drawAll(doc, *prefix, stdout)
}

func drawCommand(_ context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("scale draw", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("json", "", "`FILE` of the rows")
	prefix := flags.String("svg", "", "`PREFIX` of the files of the curves, PREFIX-nodes.svg and so on")
	if err := parse(flags, args); err != nil {
		return err
	}
	if *file == "" || *prefix == "" {
		return usagef("draw: want -json FILE, which is drawn, and -svg PREFIX")
	}
	doc, err := readRows(*file)
	if err != nil {
		return err
	}
	writeTables(doc, stdout)
	return drawAll(doc, *prefix, stdout)
}

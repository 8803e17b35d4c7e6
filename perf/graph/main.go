// SPDX-License-Identifier: Apache-2.0

// Command graph measures layered graphs, in memory, in databases and in files: each figure beside a bare loop that does
// the same without checks, in the same round.
//
//	go run ./perf/graph -json rows.json
//	go run ./perf/graph -vertices 100000 -edges 1000000 -engines sqlite -rows load,store
//
// It is a program of its own, and no command of disco-bench, which would be twice as large with databases and Parquet
// in it. docs/bench.md says what each row is.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"

	"github.com/disco-sim/disco/internal/storeserver"
)

// Exit statuses.
const (
	exitFailed = 1 // a measurement failed or was interrupted
	exitUsage  = 2 // a mistake on the command line; nothing was measured
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// errUsage is a mistake on the command line.
var errUsage = errors.New("usage")

// options are what a measurement may take.
type options struct {
	vertices, edges int
	rounds          int
	engines, rows   []string
	dir             string
}

// command runs one command line and returns the exit status.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := run(ctx, args, stdout, stderr)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintln(stderr, "graph:", strings.TrimPrefix(err.Error(), "usage: "))
		return exitUsage
	}
	fmt.Fprintln(stderr, "graph:", err)
	return exitFailed
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("graph", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var o options
	flags.IntVar(&o.vertices, "vertices", 1_000_000, "`N` vertices")
	flags.IntVar(&o.edges, "edges", 10_000_000, "`N` edges, in three layers")
	flags.IntVar(&o.rounds, "rounds", 5, "`N` rounds")
	engines := flags.String("engines", strings.Join(engineNames, ","), "`NAMES` of engines, with commas between")
	rows := flags.String("rows", strings.Join(rowNames(), ","), "`NAMES` of rows, with commas between")
	flags.StringVar(&o.dir, "dir", os.TempDir(), "`FOLDER` for databases and files, but for those of PostgreSQL")
	file := flags.String("json", "", "`FILE` for the rows, - for standard output and nothing else there")
	cpu := flags.String("cpuprofile", "", "`FILE` for a profile of this process, both sides in it")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil || flags.NArg() > 0 {
		return fmt.Errorf("%w: %w %q: want flags only", errUsage, err, flags.Args())
	}
	o.engines, o.rows = strings.Split(*engines, ","), strings.Split(*rows, ",")
	if err := o.check(); err != nil {
		return err
	}
	out, text := io.Writer(io.Discard), stdout
	switch *file {
	case "":
	case "-":
		out, text = stdout, io.Discard
	default:
		f, err := os.Create(*file)
		if err != nil {
			return fmt.Errorf("%w: -json: %w", errUsage, err)
		}
		defer f.Close()
		out = f
	}
	stop, err := profile(*cpu)
	if err != nil {
		return err
	}
	defer stop()
	list, err := measureAll(ctx, o, text, stderr)
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return errors.Join(err, e.Encode(list))
}

// check refuses what can't be measured.
func (o *options) check() error {
	for _, given := range []struct {
		flag       string
		all, names []string
	}{{"-engines", engineNames, o.engines}, {"-rows", rowNames(), o.rows}} {
		for _, name := range given.names {
			if !slices.Contains(given.all, name) {
				return fmt.Errorf("%w: %s: found %q, want some of %s", errUsage, given.flag, name,
					strings.Join(given.all, ","))
			}
		}
	}
	if o.vertices < 100 || o.edges < 300 || o.rounds < 1 || o.vertices > 1e8 || o.edges > 1e9 ||
		float64(o.edges) > float64(o.vertices)*float64(o.vertices)/10 {
		return fmt.Errorf("%w: want -vertices from 100 to 10^8, -edges from 300 to 10^9 and a tenth of all pairs, and "+
			"-rounds above 0", errUsage)
	}
	return nil
}

// profile begins a profile of the processor's time.
func profile(name string) (stop func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("%w: -cpuprofile: %w", errUsage, err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { pprof.StopCPUProfile(); _ = f.Close() }, nil
}

// measureAll measures engine after engine, and prints rows as they come.
func measureAll(ctx context.Context, o options, text, stderr io.Writer) ([]row, error) {
	rows := []row{}
	w, err := newWorld(o)
	if err != nil {
		return rows, err
	}
	defer w.close()
	for _, name := range o.engines {
		jobs, end, err := engines[name](ctx, w)
		if errors.Is(err, storeserver.ErrAbsent) {
			fmt.Fprintf(stderr, "graph: %s is left out: %v\n", name, err)
			rows = append(rows, row{Engine: name, Note: err.Error()})
			continue
		} else if err != nil {
			return rows, fmt.Errorf("%s: %w", name, err)
		}
		for _, j := range jobs {
			if !slices.Contains(o.rows, j.name) {
				continue
			}
			r, err := measure(ctx, o.rounds, name, &j)
			if err != nil {
				end()
				return rows, fmt.Errorf("%s: %s: %w", name, j.name, err)
			}
			fmt.Fprintln(text, r)
			rows = append(rows, *r)
		}
		end()
	}
	return rows, nil
}

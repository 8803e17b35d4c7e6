// SPDX-License-Identifier: Apache-2.0

// Command store measures the metadata store on real servers: each figure beside that of the engine's usual client
// doing the same, against the same server and in the same round.
//
//	go run ./perf/store -json rows.json
//	go run ./perf/store -engines zk3 -rows put,get -rounds 7
//
// Engines are etcd, etcd3, zk and zk3: one server or three, started on the loopback with folders of their own, and
// ended. docs/bench.md says what each row is.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

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
	engines []string
	jobs    []string
	rounds  int
	time    time.Duration // of one side in one round, of rows that go by time
	callers []int         // of put and get
	watches int
	servers int // of the cluster view
}

// command runs one command line and returns the exit status.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := run(ctx, args, stdout, stderr)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintln(stderr, "store:", strings.TrimPrefix(err.Error(), "usage: "))
		return exitUsage
	}
	fmt.Fprintln(stderr, "store:", err)
	return exitFailed
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("store", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var o options
	engines := flags.String("engines", strings.Join(engineNames, ","), "`NAMES` of engines, with commas between")
	names := flags.String("rows", strings.Join(jobNames(), ","), "`NAMES` of rows, with commas between")
	file := flags.String("json", "", "`FILE` for the rows, - for standard output and nothing else there")
	cpu := flags.String("cpuprofile", "", "`FILE` for a profile of this process, both clients in it")
	flags.IntVar(&o.rounds, "rounds", 5, "`N` rounds")
	flags.DurationVar(&o.time, "time", 300*time.Millisecond, "`TIME` of each side in a round of put and get")
	callers := flags.String("callers", "1,16", "`N,...` callers of put and get at the same time, on one connection")
	flags.IntVar(&o.watches, "watches", 1000, "`N` watches on one session")
	flags.IntVar(&o.servers, "servers", 1000, "`N` servers of the cluster view")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil || flags.NArg() > 0 {
		return fmt.Errorf("%w: %w %q: want flags only", errUsage, err, flags.Args())
	}
	o.engines, o.jobs = strings.Split(*engines, ","), strings.Split(*names, ",")
	for text := range strings.SplitSeq(*callers, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 4096 {
			return fmt.Errorf("%w: -callers: found %q, want numbers of 1 to 4096", errUsage, text)
		}
		o.callers = append(o.callers, n)
	}
	if err := o.check(); err != nil {
		return err
	}
	out, err := create(*file, stdout)
	if err != nil {
		return err
	}
	defer out.Close()
	if stop, err := profile(*cpu); err != nil {
		return err
	} else {
		defer stop()
	}
	text := stdout
	if *file == "-" {
		text = io.Discard
	}
	rows, err := measureAll(ctx, o, text, stderr)
	if err != nil || *file == "" {
		return err
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(rows)
}

// check refuses what can't be measured.
func (o *options) check() error {
	for _, given := range []struct{ flag, all, names []string }{
		{[]string{"-engines"}, engineNames, o.engines}, {[]string{"-rows"}, jobNames(), o.jobs}} {
		for _, name := range given.names {
			if !slices.Contains(given.all, name) {
				return fmt.Errorf("%w: %s: found %q, want some of %s", errUsage, given.flag[0], name,
					strings.Join(given.all, ","))
			}
		}
	}
	if o.rounds < 1 || o.time <= 0 || o.watches < 1 || o.servers < 1 {
		return fmt.Errorf("%w: want -rounds, -time, -watches and -servers above 0", errUsage)
	}
	return nil
}

// create opens the file of the rows before anything is measured.
func create(name string, stdout io.Writer) (io.WriteCloser, error) {
	if name == "" || name == "-" {
		return nopCloser{stdout}, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("%w: -json: %w", errUsage, err)
	}
	return f, nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

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
		f.Close()
		return nil, err
	}
	return func() { pprof.StopCPUProfile(); f.Close() }, nil
}

// measureAll measures engine after engine, and prints rows as they come.
func measureAll(ctx context.Context, o options, text, stderr io.Writer) ([]row, error) {
	rows := []row{}
	for _, name := range o.engines {
		e, err := startEngine(ctx, name)
		if errors.Is(err, storeserver.ErrAbsent) {
			fmt.Fprintf(stderr, "store: %s is left out: %v\n", name, err)
			rows = append(rows, row{Engine: name, Note: err.Error()})
			continue
		} else if err != nil {
			return rows, err
		}
		more, err := e.measure(ctx, o, text)
		rows = append(rows, more...)
		e.close()
		if err != nil {
			return rows, fmt.Errorf("%s: %w", name, err)
		}
	}
	return rows, nil
}

// measure makes an engine's rows: job after job, each in rounds in which both sides take turns.
func (e *engine) measure(ctx context.Context, o options, text io.Writer) (rows []row, err error) {
	for _, j := range jobs {
		if !slices.Contains(o.jobs, j.name) {
			continue
		}
		round, end, err := j.open(ctx, e, o)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", j.name, err)
		}
		all := map[string][]figure{}
		for n := range o.rounds {
			figures, err := round(ctx, n%2 == 1)
			if err != nil {
				end()
				return rows, fmt.Errorf("%s: %w", j.name, err)
			}
			for _, f := range figures {
				all[f.bench] = append(all[f.bench], f)
			}
		}
		end()
		for _, bench := range slices.Sorted(maps.Keys(all)) {
			r := newRow(e, all[bench])
			fmt.Fprintln(text, &r)
			rows = append(rows, r)
		}
	}
	return rows, nil
}

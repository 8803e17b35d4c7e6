// SPDX-License-Identifier: Apache-2.0

// Command compare holds two sets of rows of disco-bench against one another and says which became better or worse.
// It compares ratios to limits, which were measured in turns with their rows; rates and times of different days, or
// machines, can't be compared.
//
//	bin/disco-bench all --json new.json
//	go run ./perf/compare perf/baselines/all.json new.json
//
// A row has changed when its median ratio differs by more than --threshold and the ranges of the two don't overlap.
// It exits with 1 when a row became worse, or is missing.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/perf/bench"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.SetOutput(stderr)
	threshold := flags.Float64("threshold", 10, "differences up to so many `PERCENT` are no change")
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: compare [--threshold PERCENT] OLD.json NEW.json")
		flags.PrintDefaults()
	}
	if flags.Parse(args) != nil {
		return 2
	}
	if flags.NArg() != 2 || !(*threshold >= 0) {
		fmt.Fprintf(stderr, "compare: %d files and a threshold of %g %%, want two files and 0 or more\n", flags.NArg(),
			*threshold)
		return 2
	}
	var sets [2][]bench.Row
	for i := range sets {
		rows, err := read(flags.Arg(i))
		if err != nil {
			fmt.Fprintln(stderr, "compare:", err)
			return 2
		}
		sets[i] = rows
	}
	if worse := compare(stdout, sets[0], sets[1], *threshold/100); worse > 0 {
		fmt.Fprintf(stderr, "compare: %d rows are worse or missing\n", worse)
		return 1
	}
	return 0
}

func read(name string) ([]bench.Row, error) {
	text, err := infile.Read(name, infile.Kind{Name: "rows that disco-bench --json wrote", BytesMax: 64 << 20})
	if err != nil {
		return nil, err
	}
	rows, err := bench.ReadJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return rows, nil
}

// key is what makes a row the same in both sets.
type key struct {
	bench, wait               string
	payload, batch, processes int
}

func keyOf(r *bench.Row) key {
	return key{r.Bench, r.Wait, r.PayloadBytes, r.Batch, r.Processes}
}

// compare prints a line for each row and returns the number of those that are worse or
// missing.
func compare(w io.Writer, before, after []bench.Row, threshold float64) (worse int) {
	found := map[key]*bench.Row{}
	for i := range after {
		found[keyOf(&after[i])] = &after[i]
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	defer t.Flush()
	fmt.Fprintln(t, "row\tratio before\tratio after\tchange\t")
	for i := range before {
		old := &before[i]
		now := found[keyOf(old)]
		delete(found, keyOf(old))
		name := fmt.Sprintf("%s %d B batch %d %s", old.Bench, old.PayloadBytes, old.Batch, old.Wait)
		switch {
		case old.Ratio == nil || old.Limit == old.Bench:
			continue // not measured, or a limit itself
		case now == nil || now.Ratio == nil:
			worse++
			fmt.Fprintf(t, "%s\t%s\t-\tMISSING\t\n", name, spread(old))
		default:
			verdict, bad := judge(old, now, threshold)
			if bad {
				worse++
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t\n", name, spread(old), spread(now), verdict)
		}
	}
	for i := range after {
		if now := &after[i]; found[keyOf(now)] == now && now.Ratio != nil && now.Limit != now.Bench {
			fmt.Fprintf(t, "%s %d B batch %d %s\t-\t%s\tnew\t\n", now.Bench, now.PayloadBytes, now.Batch, now.Wait,
				spread(now))
		}
	}
	return worse
}

func spread(r *bench.Row) string {
	return fmt.Sprintf("%.4g (%.4g .. %.4g)", r.Ratio.Median, r.Ratio.Min, r.Ratio.Max)
}

// judge compares two measurements of one row. For times and cores less is better, for
// rates more: rows with round trips, and those without any rate, are the former.
func judge(old, now *bench.Row, threshold float64) (verdict string, worse bool) {
	if old.Ratio.Median <= 0 {
		return "no ratio before", false
	}
	change := now.Ratio.Median/old.Ratio.Median - 1
	text := fmt.Sprintf("%+.1f %%", 100*change)
	apart := now.Ratio.Min > old.Ratio.Max || now.Ratio.Max < old.Ratio.Min
	if !apart || max(change, -change) <= threshold {
		return text + "  ~", false
	}
	lessIsBetter := old.RTT != nil || old.RatePerSecond == 0
	if lessIsBetter == (change > 0) {
		return text + "  WORSE", true
	}
	return text + "  better", false
}

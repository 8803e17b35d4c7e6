// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/scenario"
)

// printing is what --print asks for.
type printing struct {
	launch.Journal
	file string // "": standard error
}

// printFile is the file that --print names; "" for none.
func (o *order) printFile() string {
	if o.print == nil {
		return ""
	}
	return o.print.file
}

// parsePrint reads what --print says: node=NAME, and perhaps from and until in simulated seconds, and a file.
func parsePrint(text string) (*printing, error) {
	j := &printing{}
	for field := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(field, "=")
		var seconds *float64
		switch key {
		case "node":
			j.Node = value
			continue
		case "file":
			if j.file = value; value == "" || value == "-" {
				return nil, usage("--print: found file=%s, want the name of a file; without it, standard error is used",
					value)
			}
			continue
		case "from":
			seconds = &j.From
		case "until":
			seconds = &j.Until
		default:
			return nil, usage("--print: found %q, want node=NAME, and perhaps from=SECONDS, until=SECONDS and "+
				"file=FILE behind commas", field)
		}
		var err error
		if *seconds, err = strconv.ParseFloat(value, 64); err != nil || !(*seconds >= 0) || math.IsInf(*seconds, 1) {
			return nil, usage("--print: found %s=%s, want simulated seconds, 0 or more", key, value)
		}
	}
	if j.Node == "" {
		return nil, usage("--print: found %q, want node=NAME in it", text)
	}
	return j, nil
}

// startPrint has a run write the journal of --print to a file; end shows it and removes the file.
func (o *order) startPrint(w io.Writer) (end func(scenario.Scenario) error, err error) {
	if o.config.Trace != "" || len(o.sweeps) > 0 || o.compare {
		return nil, usage("--print: found it beside --trace, --sweep or --compare, want it without them")
	}
	folder, err := os.MkdirTemp("", "disco-print-")
	if err != nil {
		return nil, fmt.Errorf("--print: a folder for what happens: %w", outfile.Error(os.TempDir(), err))
	}
	o.config.Trace, o.config.Journal = filepath.Join(folder, "journal"), &o.print.Journal
	return func(s scenario.Scenario) error {
		return errors.Join(o.print.show(w, o.config.Trace, s), os.RemoveAll(folder))
	}, nil
}

// show shows what a journal has, where it is wanted. There is none where a run has ended before it began.
func (j *printing) show(w io.Writer, path string, s scenario.Scenario) error {
	if _, err := os.Stat(path); j.file == "" || err != nil {
		return printJournal(w, path, s)
	}
	f, err := outfile.Create(j.file)
	if err != nil {
		return fmt.Errorf("--print: %w", err)
	}
	text := bufio.NewWriter(f)
	if err := errors.Join(printJournal(text, path, s), text.Flush()); err != nil {
		f.Abort()
		return fmt.Errorf("--print: %w", outfile.Error(j.file, err))
	}
	return f.Commit()
}

// printJournal writes what a journal has.
func printJournal(w io.Writer, path string, s scenario.Scenario) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) || s == nil {
		return nil
	} else if err != nil {
		return fmt.Errorf("--print: %w", err)
	}
	defer file.Close()
	j := newJournal(file, s)
	for {
		a, err := j.read()
		if a == nil || err != nil {
			return err
		}
		j.explain(a)
		replication := ""
		if a.Replication != "" {
			replication = "replication " + a.Replication + ", "
		}
		fmt.Fprintf(w, "%s%s s  %s\n", replication, a.Epoch, a.Simproc)
		for _, line := range a.Events {
			fmt.Fprintf(w, "    got %s\n", line)
		}
		for _, line := range a.Did {
			fmt.Fprintf(w, "    %s\n", line)
		}
	}
}

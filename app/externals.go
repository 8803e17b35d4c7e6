// SPDX-License-Identifier: Apache-2.0

package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/disco-sim/disco/internal/answers"
	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/outfile"
	"github.com/urfave/cli/v2"
)

// externalFlags are about what the outside world answers, in runs without checkpoints.
func externalFlags() []cli.Flag {
	return []cli.Flag{
		textFlag(groupOutput, "external-record", "none", "keep what the outside world answers handlers in `FILE`, "+
			"which is new"),
		textFlag(groupWhat, "external-from", "none", "answer handlers from `FILE`, which --external-record has "+
			"written, and ask nobody; with --external-record what isn't there is asked"),
	}
}

// externals is what is to be done about the answers of the outside world.
type externals struct {
	record, from string // files; "": none
	sync         bool

	store   *answers.Store
	journal *answers.Journals // nil: nothing is recorded
}

// open begins to keep answers, and reads those that there are. A run with checkpoints has its own way.
func (x *externals) open(o *order, remarks io.Writer) (end func() error, err error) {
	o.config.ExternalSync = x.sync
	if x.record == "" && x.from == "" {
		return func() error { return nil }, nil
	}
	var run checkpoint.ID
	rand.Read(run[:])
	if x.from == "" {
		if err := x.begin(o, run); err != nil {
			return nil, err
		}
		return o.config.Answers.Close, nil
	}
	cut, err := answers.ReadFile(x.from, func(run checkpoint.ID) error { return x.begin(o, run) }, x.load)
	if err != nil {
		if o.config.Answers != nil {
			err = errors.Join(err, o.config.Answers.Close())
		}
		return nil, usage("--external-from: %v", err)
	}
	if cut {
		fmt.Fprintf(remarks, "%s: it doesn't end with a whole answer: what is behind the last whole one, an answer "+
			"that wasn't written to its end or bytes that are none, is left out\n", x.from)
	}
	return o.config.Answers.Close, nil
}

// begin makes the store of a run.
func (x *externals) begin(o *order, run checkpoint.ID) error {
	store, err := answers.New(run, os.TempDir())
	if err != nil {
		return err
	}
	x.store, store.Strict = store, x.record == ""
	if x.record != "" {
		if x.journal, err = answers.RecordTo(run, x.record, x.sync); err != nil {
			return errors.Join(usage("--external-record: %v", err), store.Close())
		}
		store.KeepIn(x.journal)
	}
	o.config.Answers = store
	return nil
}

// load takes in a record that is there.
func (x *externals) load(replication int, record []byte) error {
	err := x.store.Load(replication, 0, record)
	if err == nil && x.journal != nil {
		err = x.journal.Copy(replication, record)
	}
	return err
}

// check refuses what doesn't go together.
func (x *externals) check(o *order) error {
	flag := "--external-record"
	if x.record == "" {
		flag = "--external-from"
	}
	switch {
	case x.record == "" && x.from == "":
		return nil
	case o.saving != nil:
		return usage("%s: found it with --checkpoint-to, want one of them: checkpoints keep what is answered", flag)
	case len(o.sweeps) > 0:
		return usage("%s: found it with --sweep, want one of them: a sweep is many runs", flag)
	case o.compare:
		return usage("%s: found it with --compare, want one of them: a comparison is many runs", flag)
	case x.record != "" && x.from != "" && sameFile(x.record, x.from):
		return usage("--external-record: found %s, which is read, too: name a new file", x.record)
	}
	if x.record != "" {
		if err := outfile.Check(x.record); err != nil {
			return usage("--external-record: %v", err)
		}
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/disco-sim/disco/internal/checkpoint"
	tables "github.com/disco-sim/disco/internal/table"
	"github.com/urfave/cli/v2"
)

// verification of a store, in JSON.
type storeVerification struct {
	storeRow
	Good        bool                 `json:"good"`
	Checkpoints []verifiedCheckpoint `json:"checkpoints"`
}

type verifiedCheckpoint struct {
	Replication  int     `json:"replication"`
	EpochSeconds float64 `json:"epoch_s"` // finished: 0
	Finished     bool    `json:"finished"`
	Good         bool    `json:"good"`
	Damage       string  `json:"damage,omitempty"`
	Other        string  `json:"other_version,omitempty"` // then it wasn't verified
}

// verifyCheckpointsCommand reads everything.
func (p *program) verifyCheckpointsCommand() *cli.Command {
	return p.storeCommand(cli.Command{
		Name:      "verify",
		Usage:     "reads all checkpoints of a run, and says what isn't as it was written",
		ArgsUsage: "DIR",
		Description: "The exit status is 0 where all is as it was written, 1 where something is damaged, or was made\n" +
			"by another version and can't be read by this one. What is written or removed meanwhile is no damage.",
		Flags: []cli.Flag{storeJSONFlag()},
	}, func(c *cli.Context) error {
		args, v := c.Args().Slice(), &values{c: c}
		path := v.jsonPath()
		if err := errors.Join(v.err(), storeArgs(args, 1, 1, wantsDir)); err != nil {
			return err
		}
		return p.readStore(c.Context, args[0], func(r *checkpoint.Repo) error {
			return p.verifyStore(c.Context, r, path)
		})
	})
}

// storeVerifier verifies the checkpoints of a store: a line for each, as it is read.
type storeVerifier struct {
	p               *program
	repo            *checkpoint.Repo
	path            string // for JSON
	all             storeVerification
	damaged, others int
}

// verifyStore is the command.
func (p *program) verifyStore(ctx context.Context, r *checkpoint.Repo, path string) error {
	v := &storeVerifier{p: p, repo: r, path: path,
		all: storeVerification{storeRow: newStoreRow(r), Checkpoints: []verifiedCheckpoint{}}}
	_, labels := r.Labels(ctx)
	if err := r.Verify(ctx, v.add); err != nil {
		return err
	}
	if len(v.all.Checkpoints) == 0 && labels == nil {
		return usage("%v: found no checkpoint yet, want one to verify: the run that makes them has begun; where it "+
			"was ended, `%s resume` begins it anew", r, p.name)
	}
	v.all.Good = v.damaged == 0 && v.others == 0 && labels == nil
	if err := p.writeStoreJSON(path, &v.all); err != nil {
		return err
	}
	if v.all.Good && path != "-" {
		fmt.Fprintf(p.stdout, "%v: %s, all as they were written\n", r,
			tables.Plural(len(v.all.Checkpoints), "checkpoint"))
	}
	return errors.Join(v.failure(), labels)
}

// add takes what was found of a checkpoint.
func (v *storeVerifier) add(point checkpoint.Point, _ *checkpoint.Manifest, damage error) error {
	row := verifiedCheckpoint{Replication: point.Replication, EpochSeconds: point.Epoch, Finished: point.Finished,
		Good: damage == nil}
	text := "good"
	switch {
	case checkpoint.OtherVersion(damage):
		v.others++
		row.Other = damage.Error()
		text = "not verified:\n  " + strings.ReplaceAll(row.Other, "\n", "\n  ")
	case damage != nil:
		v.damaged++
		row.Damage = damage.Error()
		text = "damaged:\n  " + strings.ReplaceAll(row.Damage, "\n", "\n  ")
	}
	v.all.Checkpoints = append(v.all.Checkpoints, row)
	if v.path != "-" {
		fmt.Fprintf(v.p.stdout, "%v: %s\n", point, text)
	}
	return v.p.stdout.err
}

// failure is the command's error; nil: all are good.
func (v *storeVerifier) failure() error {
	all := tables.Plural(len(v.all.Checkpoints), "checkpoint")
	var list []error
	if v.damaged > 0 {
		list = append(list, fmt.Errorf("%v: %d of %s damaged: `%s checkpoints prune` removes them once there are newer "+
			"ones", v.repo, v.damaged, all, v.p.name))
	}
	if v.others > 0 {
		list = append(list, fmt.Errorf("%v: %d of %s not verified: another version of disco has made them: verify them "+
			"with that one", v.repo, v.others, all))
	}
	return errors.Join(list...)
}

// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/launch"
	tables "github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

const groupCheckpoints = "Checkpoints (to go on from, never results)"

const (
	checkpointsMost = 1_000_000 // of a replication, as --checkpoint-every asks for
	epochsMost      = 10_000    // of --checkpoint-at
	wallLeast       = 100 * time.Millisecond
)

// checkpointFlags are about the checkpoints that a run makes.
func checkpointFlags() []cli.Flag {
	return []cli.Flag{
		textFlag(groupCheckpoints, "checkpoint-to", "none", "keep checkpoints of the run in `DIR`, which is new or "+
			"empty; `resume` goes on from there. Alone: one at each SIGUSR1"),
		textFlag(groupCheckpoints, "checkpoint", "none", "make one each `TIME` on the wall, such as 10m"),
		textFlag(groupCheckpoints, "checkpoint-every", "none", "make one each `SECONDS` of simulated time"),
		&cli.StringSliceFlag{Category: groupCheckpoints, Name: "checkpoint-at", DefaultText: "none", Usage: "make " +
			"one at this simulated time, `SECONDS[=LABEL]`; one with a label stays; may be given several times"},
		textFlag(groupCheckpoints, "checkpoint-most", "any", "leave one out that would write more than `BYTES`; the "+
			"end of a replication is kept in any case"),
		&cli.BoolFlag{Category: groupCheckpoints, Name: endsFlag, DisableDefaultText: true, Usage: "keep no " +
			"checkpoints there, but the end of each replication: also of a model that can't be saved. resume begins " +
			"anew what hasn't ended"},
		textFlag(groupCheckpoints, "keep", fmt.Sprint(keepDefault),
			"`N` newest checkpoints of each replication stay, beside those with a label"),
		&cli.BoolFlag{Category: groupCheckpoints, Name: "replayable", DisableDefaultText: true, Usage: "keep a " +
			"journal of all calls of handlers with the checkpoints, 2 bytes for each: what replay compares with"},
		&cli.BoolFlag{Category: groupCheckpoints, Name: "external-sync", DisableDefaultText: true, Usage: "what the " +
			"outside world answers outlives a power failure before a handler gets it"},
		textFlag(groupCheckpoints, "recover", "0", "where a worker dies, or a machine is lost, go back to the last "+
			"checkpoint, or to the begin, with what is left, at most `N` times"),
	}
}

const endsFlag = "checkpoint-ends"

// saving is what is to be done about checkpoints.
type saving struct {
	address string // where they are
	config  launch.Checkpoint
	blobs   checkpoint.Blobs
	repo    *checkpoint.Repo // nil: it isn't made yet
	resumed *resumed         // nil: the run begins at its begin
	replays bool             // the run is to have a journal of activations
	most    int              // bytes that a checkpoint may write; 0: any number
}

// saving reads the flags; nil where no checkpoints are asked for. Those of a run that is resumed are where it is.
func (v *values) saving(resumes string) *saving {
	s := &saving{address: cmp.Or(resumes, v.text("checkpoint-to", "a directory")), replays: v.c.Bool("replayable")}
	s.config = launch.Checkpoint{Every: v.seconds("checkpoint-every"), At: v.epochs("checkpoint-at"),
		Wall: v.duration("checkpoint", wallLeast), Keep: v.integer("keep", keepDefault, 1, keepMax)}
	s.most = v.size("checkpoint-most", 1, math.MaxInt, false)
	if s.config.EndsOnly = v.c.Bool(endsFlag); s.config.EndsOnly {
		v.errs = append(v.errs, v.endsAlone("--"+endsFlag))
	}
	if !v.c.IsSet("checkpoint") {
		s.config.Wall = 0
	} else if s.config.Wall < wallLeast {
		v.refuse("checkpoint", s.config.Wall.String(), fmt.Sprintf("at least %v", wallLeast))
	}
	if s.address != "" {
		return s
	}
	for _, f := range checkpointFlags() {
		if name := f.Names()[0]; v.c.IsSet(name) && name != "checkpoint-to" && name != "recover" &&
			name != "external-sync" {
			v.errs = append(v.errs, usage("--%s has no meaning without --checkpoint-to DIR", name))
		}
	}
	return nil
}

// endsAlone refuses flags about checkpoints where there are to be none, by what.
func (v *values) endsAlone(what string) error {
	for _, name := range []string{"checkpoint", "checkpoint-every", "checkpoint-at", "checkpoint-most", "keep"} {
		if v.c.IsSet(name) {
			return usage("--%s: found it where only ends of replications are kept (%s), want one of them", name, what)
		}
	}
	return nil
}

// epochs reads simulated times with labels; they rise then.
func (v *values) epochs(flag string) (all []launch.LabelledEpoch) {
	labels := map[string]float64{}
	texts := v.c.StringSlice(flag)
	if len(texts) > epochsMost {
		v.refuse(flag, fmt.Sprintf("%d times", len(texts)), fmt.Sprintf("at most %d", epochsMost))
		return nil
	}
	for _, text := range texts {
		seconds, label, labelled := strings.Cut(text, "=")
		epoch, err := strconv.ParseFloat(seconds, 64)
		if err != nil || !(epoch > 0) || epoch > horizonMost {
			v.refuse(flag, strconv.Quote(text), "a finite number of simulated seconds > 0, and perhaps =LABEL "+
				"behind it")
			continue
		}
		if labelled {
			if err := checkpoint.CheckLabel(label); err != nil {
				v.errs = append(v.errs, usage("--%s: %v", flag, err))
				continue
			}
			if other, again := labels[label]; again && other != epoch {
				v.errs = append(v.errs, usage("--%s: found the label %s at %v and at %v, want one time for each label",
					flag, label, other, epoch))
			}
			labels[label] = epoch
		}
		all = append(all, launch.LabelledEpoch{Epoch: epoch, Label: label})
	}
	slices.SortFunc(all, func(a, b launch.LabelledEpoch) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Label, b.Label))
	})
	return slices.Compact(all)
}

// checkSaving refuses what doesn't go together with checkpoints, or with going back.
func (o *order) checkSaving() error {
	flag := "--checkpoint-to"
	if o.saving == nil {
		if flag = "--recover"; o.recover == 0 {
			return nil
		}
	}
	for _, other := range []struct {
		is         bool
		flag, want string
	}{
		{len(o.sweeps) > 0, "--sweep", "one of them: a sweep is many runs"},
		{o.compare, "--compare", "one of them: a comparison is many runs"},
		{o.print != nil, "--print", "one of them"},
	} {
		if other.is {
			return usage("%s: found it with %s, want %s", flag, other.flag, other.want)
		}
	}
	if o.saving == nil {
		return nil
	}
	for _, out := range []struct{ flag, path string }{{"--json", o.json}, {"--csv", o.csv}, {"--trace", o.config.Trace},
		{"--trace-perfetto", o.config.Perfetto}, {"--cpuprofile", o.config.Profiles}} {
		if out.path != "" && out.path != "-" && within(o.saving.address, out.path) {
			return usage("%s: found %s, which is in %s, want another place: only checkpoints are there", out.flag,
				out.path, o.saving.address)
		}
	}
	return nil
}

// within reports whether a path is that of a directory, or of something in it.
func within(dir, path string) bool {
	absDir, errDir := filepath.Abs(dir)
	absPath, errPath := filepath.Abs(path)
	if errDir != nil || errPath != nil {
		return false
	}
	rest, err := filepath.Rel(absDir, absPath)
	return err == nil && rest != ".." && !strings.HasPrefix(rest, "../")
}

// open opens the place of the checkpoints; a run that begins wants nothing there.
func (s *saving) open(ctx context.Context, p *program) (end func() error, err error) {
	flag := ""
	if s.resumed == nil {
		flag = "--checkpoint-to: "
	}
	blobs, leave, err := p.openBlobs(ctx, s.address)
	if err != nil {
		return nil, &usageError{flag + err.Error(), err}
	}
	s.blobs, s.config.TempDir = blobs, os.TempDir()
	if dir, ok := blobs.(*checkpoint.Dir); ok {
		s.config.TempDir = dir.String()
	}
	if s.resumed == nil {
		if err := checkpoint.CheckNew(ctx, blobs); err != nil {
			return nil, errors.Join(&usageError{flag + err.Error(), placeError(err)}, leave())
		}
	}
	return func() error {
		if s.repo == nil {
			return leave()
		}
		if err := errors.Join(p.giveBack(s.repo), leave()); err != nil {
			return awayError{err}
		}
		return nil
	}, nil
}

// placeError is an error about a place, of which that it has another run's checkpoints is no fault of the machine's.
func placeError(err error) error {
	if other := (*checkpoint.OtherRunError)(nil); errors.As(err, &other) {
		return err
	}
	return awayError{err}
}

// begin is called when the scenario was read: a run that begins makes its run.json, one that is resumed is compared
// with that.
func (s *saving) begin(ctx context.Context, o *order, l *launch.Launch) error {
	if err := s.checkTimes(l.Scenario().Horizon()); err != nil {
		return err
	}
	run, err := o.storedRun(l)
	if err != nil {
		return err
	}
	switch {
	case s.resumed != nil:
		s.repo.Limit(int64(s.most))
		return s.resumed.check(s.repo.Run(), run)
	case o.whatIf != nil:
		err = o.whatIf.own(ctx, o, run)
	default:
		s.repo, err = checkpoint.Create(ctx, s.blobs, *run)
		if s.config.Repo = s.repo; err != nil {
			err = awayError{err}
		}
	}
	if err == nil {
		s.repo.Limit(int64(s.most))
	}
	if other := (*checkpoint.OtherRunError)(nil); errors.As(err, &other) {
		return &usageError{fmt.Sprintf("--checkpoint-to: %v", err), err} // another run has begun there since open
	}
	return storeError(err)
}

// withdraw undoes begin where nothing was run, so that the same directory can be named again: the command line is at
// fault, or the model refuses the state that a variant is to begin with.
func (s *saving) withdraw(err error) error {
	if s.repo == nil || s.resumed != nil || statusOf(err) != ExitUsage {
		return err
	}
	return errors.Join(err, s.repo.Withdraw(context.Background()))
}

// checkTimes compares what was asked for with the horizon.
func (s *saving) checkTimes(horizon float64) error {
	for _, at := range s.config.At {
		if at.Epoch >= horizon {
			return usage("--checkpoint-at: found %v, want less than the horizon, %v s", at.Epoch, horizon)
		}
	}
	if every := s.config.Every; every >= horizon || every > 0 && every < horizon/checkpointsMost {
		return usage("--checkpoint-every: found %v, want at least %v, and less than the horizon, %v s", every,
			horizon/checkpointsMost, horizon)
	}
	return nil
}

// storedRun is what run.json says of a run.
func (o *order) storedRun(l *launch.Launch) (*checkpoint.Run, error) {
	program, err := programDigest()
	if err != nil {
		return nil, err
	}
	g := l.Structure()
	nodes := int64(g.NumNodes())
	run := &checkpoint.Run{Disco: Version(), Program: program, Kind: l.Scenario().Name(), File: o.config.File,
		Text: o.config.Text, Attached: []checkpoint.Attached{}, Settings: []checkpoint.Setting{}, Seed: o.config.Seed,
		Replications: o.config.Replications, Horizon: l.Scenario().Horizon(), Graph: g.Digest(), Nodes: nodes,
		Simprocs: int64(g.NumSimprocs()), GroupNodes: checkpoint.GroupNodes(nodes), Trace: o.config.Trace != "",
		Series: o.config.Series, Records: o.records != nil,
		Replayable: o.saving != nil && o.saving.replays, EndsOnly: o.saving != nil && o.saving.config.EndsOnly}
	run.Warmup = o.warmup.stored()
	if only := o.config.Only; only != nil {
		run.Only = &checkpoint.Only{First: only.First, Last: only.Last}
	}
	for _, set := range o.config.Set {
		run.Settings = append(run.Settings, checkpoint.Setting{Key: set.Key, Value: set.Value})
	}
	for _, a := range l.Attached() {
		run.Attached = append(run.Attached, checkpoint.Attached{Name: a.Name, Data: a.Text,
			Digest: sha256.Sum256(a.Text)})
	}
	return run, nil
}

// programDigest is the SHA-256 of this executable.
func programDigest() (d checkpoint.Digest, err error) {
	f, err := os.Open("/proc/self/exe") // also one that was replaced meanwhile
	if err != nil {
		return d, fmt.Errorf("this program can't be read: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return d, fmt.Errorf("this program can't be read: %w", err)
	}
	return checkpoint.Digest(sum.Sum(nil)), nil
}

// storedSettings are what was set in a run's scenario.
func storedSettings(run *checkpoint.Run) (set []scenario.Setting) {
	for _, s := range run.Settings {
		set = append(set, scenario.Setting{Key: s.Key, Value: s.Value})
	}
	return set
}

// storedFiles are those that a run's scenario refers to.
func storedFiles(run *checkpoint.Run) []scenario.Attachment {
	files := []scenario.Attachment{} // not nil: they are here
	for _, a := range run.Attached {
		files = append(files, scenario.Attachment{Name: a.Name, Text: a.Data})
	}
	return files
}

// savingRow is what came of a run's checkpoints, in JSON.
type savingRow struct {
	Dir              string  `json:"dir"`
	Made             int     `json:"made"`      // that are safe
	Failed           int     `json:"failed"`    // that couldn't be written
	LeftOut          int     `json:"left_out"`  // because the one before was still being written
	LastSeconds      float64 `json:"last_s"`    // epoch of the last safe one; 0: none
	PauseSeconds     float64 `json:"pause_s"`   // wall time for which all workers stood still, in all
	PauseMostSeconds float64 `json:"longest_s"` // the longest of them
	HeldSeconds      float64 `json:"held_s"`    // in which the run waited for a checkpoint to be written
	RawBytes         int64   `json:"raw_bytes"` // of the last one
	NewBytes         int64   `json:"new_bytes"` // that were written for it
}

// resumedRow is what a replication began with, in JSON.
type resumedRow struct {
	Replication  int     `json:"replication"`
	EpochSeconds float64 `json:"epoch_s"`
	Finished     bool    `json:"finished"`
}

// row is what came of the checkpoints of a run; nil: none were to be made.
func (s *saving) row(c *launch.Checkpoints) *savingRow {
	if s == nil || c == nil {
		return nil
	}
	return &savingRow{s.repo.String(), c.Made, c.Failed, c.Skipped, c.Last, c.Pause, c.PauseMost, c.Held, c.BytesRaw,
		c.BytesSaved}
}

// rows are what replications began with that didn't begin anew.
func (s *resumed) rows() (rows []resumedRow) {
	for i, m := range s.from {
		if m != nil {
			rows = append(rows, resumedRow{i, m.Epoch, m.Finished})
		}
	}
	return rows
}

// none is the error of a run that could write none of its checkpoints: who asked for them has nothing to go on from.
// One that went on has what it began with. A part of a run (--only) is simulated for its ends alone.
func (s *saving) none(c *launch.Checkpoints, cfg *launch.Config) error {
	switch {
	case s == nil || c == nil:
		return nil
	case cfg.Only != nil && c.EndsLost > 0:
		return awayError{fmt.Errorf("%v: the end of %s couldn't be saved (%w): nothing can be merged of it until "+
			"`resume` has simulated it there", s.repo, tables.Plural(c.EndsLost, "replication"), c.Lost)}
	case s.resumed != nil || cfg.Only != nil || c.Made > 0 || c.Failed == c.TooLarge:
		return nil
	}
	return awayError{fmt.Errorf("%v: no checkpoint could be written (%d failed); the results are right", s.repo,
		c.Failed)}
}

// String says in a line what came of the checkpoints.
func (r *savingRow) String() string {
	text := fmt.Sprintf("%s in %s", tables.Plural(r.Made, "checkpoint"), r.Dir)
	if r.Made > 0 {
		text += fmt.Sprintf(", the last one at %v s (%s, %s of them new); all workers stood still for %s, at most "+
			"%s at once", r.LastSeconds, shortBytes(r.RawBytes), shortBytes(r.NewBytes), tables.Seconds(r.PauseSeconds),
			tables.Seconds(r.PauseMostSeconds))
	}
	if r.HeldSeconds > 0 {
		text += fmt.Sprintf(", and waited %s for one to be written", tables.Seconds(r.HeldSeconds))
	}
	if r.LeftOut > 0 {
		were := "were"
		if r.LeftOut == 1 {
			were = "was"
		}
		text += fmt.Sprintf("; %d %s left out, because the one before was still being written", r.LeftOut, were)
	}
	if r.Failed > 0 {
		text += fmt.Sprintf("; %d couldn't be written", r.Failed)
	}
	return text
}

// goesOn says in a line how a run went back.
func goesOn(r *launch.Recovery) string {
	from := "the begin"
	if r.From > 0 {
		from = fmt.Sprintf("%v s", r.From)
	}
	on := ""
	if r.Machines > 0 {
		on = " on " + count(r.Machines, "machine")
	}
	return fmt.Sprintf("replication %d goes on from %s with %s%s", r.Replication, from, count(r.Workers, "worker"), on)
}

// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/disco-sim/disco/internal/graphdata"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/submission"
	"github.com/disco-sim/disco/internal/sweep"
	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

// submissionCommand checks a scenario for `submit`, which has no models, by the code of run.
func (p *program) submissionCommand() *cli.Command {
	of := []string{"seed", "replications", "sweep", "set", "workers", "until", "figure", "require", "records"}
	flags := slices.DeleteFunc(runFlags(), func(f cli.Flag) bool { return !slices.Contains(of, f.Names()[0]) })
	c := p.withParameters(cli.Command{
		Name:  submission.Command,
		Usage: "is what submit starts to check a scenario; no command for people",
		Flags: append(flags, horizonFlag(), warmupFlag(), databaseFlag(),
			&cli.StringSliceFlag{Name: exportFlag, Usage: "`FIGURE` that a step of a pipeline is to export"},
			&cli.StringFlag{Name: submission.Named, Usage: "`FILE` that standard input was"},
			&cli.BoolFlag{Name: submission.Ends, Usage: "keep no checkpoints"},
			&cli.StringFlag{Name: submission.Into, Usage: "an empty `FOLDER`"}),
	}, func(c *cli.Context) error {
		if c.String(submission.Into) == "" {
			return usage("%s is what submit starts to check a scenario, and no command for people: use `%s submit "+
				"FILE`", submission.Command, p.name)
		}
		s, err := p.submission(c)
		if err != nil {
			return err
		}
		return submission.Write(c.String(submission.Into), s)
	})
	c.Hidden = true
	return c
}

// submission reads a scenario and checks it at each point.
func (p *program) submission(c *cli.Context) (*submission.Submission, error) {
	file, err := p.oneFile(c.Args().Slice())
	if err != nil {
		return nil, err
	}
	named := c.String(submission.Named)
	o, err := p.order(c, cmp.Or(named, file, commandLine), "")
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(o.checkUntil(), o.checkSweep(), checkExports(c.StringSlice(exportFlag))); err != nil {
		return nil, err
	}
	doc, err := p.readInput(file, cmp.Or(named, StandardInput))
	if err != nil {
		return nil, err
	}
	cfg := &o.config
	cfg.File, cfg.Text = doc.File(), doc.Text()
	cfg.Transport, cfg.Memory = launch.TransportInproc, math.MaxInt64 // the machines that simulate it look at their own
	if err := p.checkSettings(c, doc, cfg.Set); err != nil {
		return nil, err
	}
	_, points, err := gridOf(o.sweeps)
	if err != nil {
		return nil, err
	}
	s := &submission.Submission{File: cmp.Or(named, file, doc.File()), Args: submissionArgs(c, cfg),
		Sweep: o.sweeps, Until: c.StringSlice("until"), Figures: o.named, Replications: cfg.Replications,
		Workers: cfg.Workers, Text: doc.Text()}
	graph := false
	for i, point := range points {
		l, err := p.submissionPoint(o, doc, point)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			remark(p.stderr, l.Scenario())
			s.Horizon = l.Scenario().Horizon()
			saves := false
			if err = o.checkKind(l.Scenario()); err == nil && !c.Bool(submission.Ends) {
				saves, err = p.checkSaved(c.Context, o, l, point)
			}
			if err != nil {
				return nil, err
			}
			if !saves {
				s.Args = append(s.Args, submission.EndsOnly)
			}
		}
		if err := addAttached(s, l.Attached()); err != nil {
			return nil, err
		}
		s.Points = append(s.Points, settingTexts(point))
		graph = graph || l.GraphDigest() != ""
	}
	if graph {
		s.Args = append(s.Args, "--"+graphFilesFlag, graphFolder)
	}
	return s, nil
}

// submissionPoint checks the scenario of one point.
func (p *program) submissionPoint(o *order, doc *scenario.Document, point sweep.Point) (*launch.Launch, error) {
	cfg := o.config
	cfg.Set = append(slices.Clone(cfg.Set), point...)
	if _, err := changed(doc, "sweep", cfg.Set); err != nil {
		return nil, err
	}
	return prepare(cfg)
}

// submissionArgs are the arguments of run, apart from a point's: the same ones for the same experiment.
func submissionArgs(c *cli.Context, cfg *launch.Config) (args []string) {
	for _, setting := range settingTexts(cfg.Set) {
		args = append(args, "--set", setting)
	}
	args = append(args, "--seed", strconv.FormatUint(cfg.Seed, 10))
	if c.Bool("records") {
		args = append(args, "--records")
	}
	if c.IsSet("horizon") {
		args = append(args, "--horizon", strconv.FormatFloat(cfg.Horizon, 'g', -1, 64))
	}
	return args
}

// settingTexts are settings as --set takes them.
func settingTexts(all []scenario.Setting) []string {
	texts := make([]string, len(all))
	for i, s := range all {
		texts[i] = s.Key + "=" + s.Value
	}
	return texts
}

// addAttached adds files that a scenario refers to, which other machines must find beside it.
func addAttached(s *submission.Submission, files []scenario.Attachment) error {
	var errs []error
	for _, f := range files {
		switch {
		case f.Name == graphdata.Name:
			errs = append(errs, addGraph(s, f.Text))
			continue
		case slices.Contains(s.Files, f.Name):
			continue
		case !filepath.IsLocal(f.Name):
			errs = append(errs, usage("%s: found the file %.200q, want one in the scenario's folder or below it, "+
				"since machines that simulate it put both into a folder of their own: copy it there", s.File, f.Name))
		}
		s.Files, s.Attached = append(s.Files, f.Name), append(s.Attached, f.Text)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("files of the scenario: %w", err)
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/urfave/cli/v2"
)

// retryCommand tries again what has ended without a result, and perhaps a step as a whole.
func retryCommand(why cli.Flag) app.Command {
	return app.Command{Name: "retry", Usage: "tries what has failed, or was cancelled, of an experiment again",
		ArgsUsage: "ID", Description: naming + "\n" +
			"With --step that step of a pipeline is begun anew, and all that wait for it, also what has finished:\n" +
			"what runs of them is ended, and what they export is removed. A piece whose result is still in its\n" +
			"place isn't simulated again.",
		Examples: []string{"retry night", "retry night --step warm --why lost"},
		Flags: append(groupcall.DoorFlags(), why, &cli.StringFlag{Name: "step",
			Usage: "`NAME` of a step of a pipeline that is begun anew"}),
		Run: func(c *app.Call) error {
			if c.NArg() != 1 {
				return app.Usage("found %d arguments, want the ID or the name of an experiment", c.NArg())
			}
			return wished(c, c.Args().First(), "retry",
				func(ctx context.Context, f *fleet.Client, id, why string) (fleet.Wish, error) {
					if c.IsSet("step") {
						return f.RetryFrom(ctx, id, c.String("step"), why)
					}
					return f.Retry(ctx, id, why)
				})
		}}
}

// steps shows how far the steps of a pipeline are, and what they export.
func (s *shownExperiment) steps(out *strings.Builder) {
	if s.Standing == nil || len(s.Standing.Steps) == 0 {
		return
	}
	rows := [][]string{{"step", "status", "pieces", "after", "exports", ""}}
	for i := range s.Standing.Steps {
		t := &s.Standing.Steps[i]
		all := 0
		for _, n := range t.Pieces {
			all += n
		}
		row := []string{t.Name, t.Status.String(), fmt.Sprintf("%d of %d", t.Pieces[fleet.Finished], all), "-", "-",
			t.Reason}
		if s.Spec != nil && i < len(s.Spec.Steps) {
			if after := s.Spec.Steps[i].After; len(after) > 0 {
				row[3] = strings.Join(after, ",")
			}
			row[4] = s.exports(i)
		}
		rows = append(rows, row)
	}
	fmt.Fprintln(out)
	groupcall.Columns(out, rows)
}

// exports is what a step exports, with the figures that are there.
func (s *shownExperiment) exports(step int) string {
	of := s.Spec.Steps[step].Export
	if len(of) == 0 {
		return "-"
	}
	var outputs fleet.Outputs
	var texts fleet.Texts
	for _, p := range s.Begun {
		if s.Spec.IsClosing(p.ID) && p.ID.Step == step {
			outputs, texts = p.Outputs, p.Texts
		}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		text := name
		if x, ok := outputs[name]; ok {
			text += "=" + strconv.FormatFloat(x, 'g', 6, 64)
		} else if x, ok := texts[name]; ok {
			text += "=" + strconv.Quote(x)
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// stepsLine is how far steps are, in a line.
func (s *shownExperiment) stepsLine() (text string) {
	if s.Standing != nil {
		for _, t := range s.Standing.Steps {
			text += fmt.Sprintf(", %s %v", t.Name, t.Status)
		}
	}
	return text
}

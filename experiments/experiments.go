// SPDX-License-Identifier: Apache-2.0

// Package experiments is the commands of people for experiments that the machines of a group simulate: submit, list,
// show, watch, logs, results, pause, continue, cancel, retry and priority.
//
// Guarantee: a submission that was answered is in the store, and one that wasn't is the same one when it is repeated.
// Results are whole and verified, or aren't written.
//
//	func main() { app.MainWith(experiments.Commands()) }
package experiments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/metastore"
	"github.com/urfave/cli/v2"
)

// Commands are those of people for experiments that the machines of a group simulate.
func Commands() []app.Command {
	why := &cli.StringFlag{Name: "why", Usage: "`TEXT` for others, in the audit"}
	wish := func(name, usage, example string, do func(ctx context.Context, c *fleet.Client, id, why string) (fleet.Wish,
		error)) app.Command {
		return app.Command{Name: name, Usage: usage, ArgsUsage: "ID", Description: naming,
			Examples: []string{example}, Flags: append(groupcall.DoorFlags(), why),
			Run: func(c *app.Call) error {
				if c.NArg() != 1 {
					return app.Usage("found %d arguments, want the ID or the name of an experiment", c.NArg())
				}
				return wished(c, c.Args().First(), name, do)
			}}
	}
	return []app.Command{submitCommand(), listCommand(), showCommand(),
		wish("pause", "has nothing more of an experiment begin, and what runs stand still", "pause night --why release",
			func(ctx context.Context, c *fleet.Client, id, why string) (fleet.Wish, error) {
				return c.Pause(ctx, id, why)
			}),
		wish("continue", "goes on with an experiment that was paused", "continue night",
			func(ctx context.Context, c *fleet.Client, id, why string) (fleet.Wish, error) {
				return c.Continue(ctx, id, why)
			}),
		wish("cancel", "gives an experiment up: what has ended stays", "cancel night --why superseded",
			func(ctx context.Context, c *fleet.Client, id, why string) (fleet.Wish, error) {
				return c.Cancel(ctx, id, why)
			}),
		retryCommand(why), priorityCommand(why), resultsCommand(), watchCommand(), logsCommand(), auditCommand(),
		doorCommand()}
}

// naming says how an experiment is named, in the help of commands.
const naming = "ID is an experiment's id or name, or the beginning of either, or of the id's last part, where one\n" +
	"experiment alone has it."

func priorityCommand(why cli.Flag) app.Command {
	return app.Command{
		Name: "priority", Usage: "gives an experiment another class in the queue", ArgsUsage: "ID high|normal|low",
		Description: naming,
		Examples:    []string{"priority night high", "priority night normal", "priority night low --why long"},
		Flags:       append(groupcall.DoorFlags(), why),
		Run: func(c *app.Call) error {
			if c.NArg() != 2 {
				return app.Usage("found %d arguments, want the ID of an experiment, and high, normal or low", c.NArg())
			}
			class, err := priority(c.Args().Get(1))
			if err != nil {
				return err
			}
			return wished(c, c.Args().First(), "priority",
				func(ctx context.Context, f *fleet.Client, id, why string) (fleet.Wish, error) {
					return f.SetPriority(ctx, id, class, why)
				})
		},
	}
}

// priority reads a class.
func priority(text string) (fleet.Priority, error) {
	switch p := fleet.Priority(text); p {
	case fleet.High, fleet.Normal, fleet.Low:
		return p, nil
	}
	return "", app.Usage("the priority: found %.40q, want %s, %s or %s", text, fleet.High, fleet.Normal, fleet.Low)
}

// withFleet runs a command that needs the fleet's keys, within --store-timeout.
func withFleet(c *app.Call, f func(ctx context.Context, fl *fleet.Client) error) error {
	return groupcall.WithStore(c, groupcall.Looks, func(ctx context.Context, s *metastore.Store) error {
		ctx, cancel, err := groupcall.Bounded(ctx, c)
		if err != nil {
			return err
		}
		defer cancel()
		fl, err := fleet.New(ctx, s, fleet.Options{By: groupcall.Who(), From: c.Program + " " + c.Command.Name})
		if err != nil {
			return err
		}
		return asUsage(f(ctx, fl))
	})
}

// asUsage makes a mistake on the command line of what names no experiment, or none of its steps.
func asUsage(err error) error {
	unknown, step := (*fleet.UnknownError)(nil), (*fleet.StepError)(nil)
	if errors.As(err, &unknown) || errors.As(err, &step) {
		return app.Usage("%v", err)
	}
	return err
}

// wished changes what is wanted of an experiment, and says what is from then on.
func wished(c *app.Call, found, do string,
	change func(ctx context.Context, c *fleet.Client, id, why string) (fleet.Wish, error)) error {
	if err := fleet.CheckReason(c.String("why")); err != nil {
		return app.Usage("--%v", err)
	}
	return withFleet(c, func(ctx context.Context, fl *fleet.Client) error {
		e, err := fl.Find(ctx, found)
		if err != nil {
			return err
		}
		w, err := change(ctx, fl, e.ID, c.String("why"))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.Stdout, "%s: %s is asked for: it is to %s, with priority %s (wish %d)\n",
			strings.TrimSpace(e.Name()+" "+e.ID), do, wanting[w.Want], w.Priority, w.Number)
		return err
	})
}

// wanting is what is wanted of an experiment, in words.
var wanting = map[fleet.Want]string{fleet.WantRun: "run", fleet.WantPause: "stand still", fleet.WantCancel: "end"}

func listCommand() app.Command {
	return app.Command{
		Name: "list", Usage: "shows the experiments of a group, the newest last",
		Examples: []string{"list --store etcd://127.0.0.1:2379", "list --json"},
		Flags:    append(groupcall.DoorFlags(), &cli.BoolFlag{Name: "json", Usage: "write JSON"}),
		Run: func(c *app.Call) error {
			if c.NArg() > 0 {
				return app.Usage("found the argument %q, want none: `show ID` shows one experiment", c.Args().First())
			}
			return withFleet(c, func(ctx context.Context, fl *fleet.Client) error {
				return listExperiments(ctx, c, fl)
			})
		},
	}
}

// shownExperiment is an experiment for JSON output.
type shownExperiment struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Status    fleet.Status    `json:"status"`
	Ended     bool            `json:"ended"`
	Count     int             `json:"pieces"` // all that there are
	Spec      *fleet.Spec     `json:"spec,omitempty"`
	Wish      *fleet.Wish     `json:"wish"`
	Standing  *fleet.Standing `json:"standing"`
	Waits     string          `json:"waits,omitempty"` // why nothing of it goes on, where nobody is there to say so
	Route     *fleet.Route    `json:"route,omitempty"` // of a door's
	Allowed   []string        `json:"allowed"`
	Begun     []shownPiece    `json:"begun,omitempty"`
	History   []shownDeed     `json:"history,omitempty"`
	Figures   []fleet.Figure  `json:"figures,omitempty"`
	Malformed []string        `json:"malformed,omitempty"`
}

// shownPiece is a piece for JSON output.
type shownPiece struct {
	ID       fleet.PieceID   `json:"piece"`
	Settings []string        `json:"settings,omitempty"` // of its point
	Progress *fleet.Progress `json:"progress,omitempty"`
	fleet.Piece
}

func shownOf(e *fleet.Experiment) shownExperiment {
	s := shownExperiment{ID: e.ID, Name: e.Name(), Status: e.Status(), Ended: e.Ended(), Wish: e.Wish,
		Standing: e.Standing, Route: e.Route, Allowed: append([]string{}, e.Allowed()...)}
	if e.Spec != nil {
		s.Count = e.Spec.Count()
	}
	for _, err := range e.Malformed {
		s.Malformed = append(s.Malformed, err.Error())
	}
	return s
}

func listExperiments(ctx context.Context, c *app.Call, fl *fleet.Client) error {
	all, err := fl.List(ctx)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		shown := []shownExperiment{}
		for i := range all {
			shown = append(shown, shownOf(&all[i]))
		}
		return groupcall.WriteJSON(c.Stdout, shown, false)
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(c.Stdout, "There is no experiment: `submit FILE` makes one.")
		return err
	}
	rows := [][]string{{"experiment", "name", "status", "pieces", "priority", "by", "for", ""}}
	for i := range all {
		rows = append(rows, listRow(&all[i]))
	}
	out := &strings.Builder{}
	groupcall.Columns(out, rows)
	for _, e := range all {
		for _, err := range e.Malformed {
			fmt.Fprintln(out, err)
		}
	}
	_, err = io.WriteString(c.Stdout, out.String())
	return err
}

// listRow is an experiment in a line.
func listRow(e *fleet.Experiment) []string {
	row := []string{e.ID, "-", e.Status().String(), "-", "-", "-", "-", ""}
	if e.Spec != nil {
		row[1], row[3], row[5], row[6] = e.Spec.Name, ended(e), e.Spec.User, groupcall.Since(e.Spec.Submitted)
		if st := e.Standing; st != nil && st.Ended && st.EndedAt != nil {
			row[6] = max(0, st.EndedAt.Sub(e.Spec.Submitted)).Round(time.Second).String()
		}
	}
	if e.Wish != nil {
		row[4] = string(e.Wish.Priority)
		if e.Wish.Want != fleet.WantRun && !e.Ended() {
			row[7] = "to " + wanting[e.Wish.Want]
		}
	}
	if len(e.Malformed) > 0 {
		row[7] = "malformed"
	}
	return row
}

// ended says how many pieces have a result, of how many, and how many have failed.
func ended(e *fleet.Experiment) string {
	ruled := slices.ContainsFunc(e.Spec.Steps, func(s fleet.Step) bool { return len(s.Until) > 0 })
	most := map[bool]string{true: "at most "}[ruled]
	text, failed := fmt.Sprintf("0 of %s%d", most, e.Spec.Count()), 0
	if e.Standing != nil {
		text = fmt.Sprintf("%d of %s%d", e.Standing.Pieces[fleet.Finished], most, e.Spec.Count())
		failed = e.Standing.Pieces[fleet.Failed]
	}
	if n := e.Enough(0); n > 0 && !e.Spec.Pipeline() {
		text, failed = fmt.Sprintf("%d of %d", n, n), 0
	}
	if failed > 0 {
		text += fmt.Sprintf(", %d failed", failed)
	}
	return text
}

func showCommand() app.Command {
	return app.Command{
		Name: "show", Usage: "shows an experiment: what was submitted, how far it is, and what has failed",
		ArgsUsage: "ID", Description: naming,
		Examples: []string{"show night --store etcd://127.0.0.1:2379", "show night --pieces", "show night --json",
			"show night --why 0.0.17", "show night --history"},
		Flags: append(groupcall.DoorFlags(),
			&cli.BoolFlag{Name: "json", Usage: "write JSON, with all pieces that have begun"},
			&cli.BoolFlag{Name: "pieces", Usage: "show all pieces that have begun, and not only those that run"},
			&cli.BoolFlag{Name: "history", Usage: "show who has done what with it, when and why"},
			figureFlag(),
			&cli.StringFlag{Name: "why", Usage: "show which machines could be given a `PIECE`, and why"}),
		Run: func(c *app.Call) error {
			if c.NArg() != 1 {
				return app.Usage("found %d arguments, want the ID or the name of an experiment", c.NArg())
			}
			if c.IsSet("why") {
				return showWhy(c, c.Args().First())
			}
			return withFleet(c, func(ctx context.Context, fl *fleet.Client) error {
				e, err := fl.Find(ctx, c.Args().First())
				if err != nil {
					return err
				}
				return showExperiment(ctx, c, fl, e)
			})
		},
	}
}

func showExperiment(ctx context.Context, c *app.Call, fl *fleet.Client, e *fleet.Experiment) error {
	s := shownOf(e)
	s.Spec = e.Spec
	var err error
	if s.Begun, err = begun(ctx, fl, e, &s.Malformed); err != nil {
		return err
	}
	if s.Figures, err = figuresOf(c, e, s.Begun); err != nil {
		return err
	}
	if err := s.unattended(ctx, c, fl); err != nil {
		return err
	}
	if c.Bool("history") {
		if err := s.history(ctx, fl, e); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		return groupcall.WriteJSON(c.Stdout, s, false)
	}
	out := &strings.Builder{}
	s.head(out)
	s.standing(out)
	s.steps(out)
	s.figures(out)
	if c.Bool("history") {
		s.deeds(out)
	}
	s.pieces(out, c.Bool("pieces"))
	for _, text := range s.Malformed {
		fmt.Fprintln(out, text)
	}
	_, err = io.WriteString(c.Stdout, out.String())
	return err
}

// begun reads the pieces that have begun, in order, and how far those are that run.
func begun(ctx context.Context, fl *fleet.Client, e *fleet.Experiment, malformed *[]string) ([]shownPiece, error) {
	pieces, bad, err := fl.Pieces(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	var all []shownPiece
	for id, p := range pieces {
		s := shownPiece{ID: id, Settings: settings(e.Spec, id), Piece: p.Piece}
		if p.State.Holds() && len(p.Gang) > 0 {
			r, err := fl.Report(ctx, p.Gang[0].Member, e.ID, id)
			wrong := (*fleet.MalformedError)(nil)
			switch {
			case errors.As(err, &wrong):
				bad = append(bad, err)
			case err != nil:
				return nil, err
			case r != nil && r.Report.Attempt == p.Attempt:
				s.Progress = &r.Report.Progress
			}
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b shownPiece) int {
		return cmp.Or(cmp.Compare(a.ID.Step, b.ID.Step), cmp.Compare(a.ID.Point, b.ID.Point),
			cmp.Compare(a.ID.Replication, b.ID.Replication))
	})
	for _, err := range bad {
		*malformed = append(*malformed, err.Error())
	}
	return all, nil
}

// settings are those of a piece's point.
func settings(spec *fleet.Spec, id fleet.PieceID) []string {
	if spec == nil || id.Step >= len(spec.Steps) || id.Point >= len(spec.Steps[id.Step].Points) {
		return nil
	}
	return spec.Steps[id.Step].Points[id.Point]
}

// stepFileText is the name of a step's file, for people.
func stepFileText(step *fleet.Step) string {
	if step.File == fleet.FromInput {
		return step.FileName()
	}
	return step.File
}

func (s *shownExperiment) head(out *strings.Builder) {
	fmt.Fprintf(out, "%s  %s  %v\n", s.ID, s.Name, s.Status)
	if s.Spec == nil {
		return
	}
	fmt.Fprintf(out, "submitted by %s, %s ago, for program %s\n", s.Spec.User, groupcall.Since(s.Spec.Submitted),
		s.Spec.Version)
	for _, step := range s.Spec.Steps {
		begin := "run"
		if step.From != "" {
			begin = "goes on from " + step.From
		}
		fmt.Fprintf(out, "%s: %s; %s %s\n", cmp.Or(step.Name, stepFileText(&step)), stepText(&step), begin,
			strings.Join(step.Args, " "))
	}
	for _, label := range slices.Sorted(maps.Keys(s.Spec.Labels)) {
		fmt.Fprintf(out, "on machines with the label %s=%s\n", label, s.Spec.Labels[label])
	}
	s.route(out)
	fmt.Fprintf(out, "results are kept in %s\n", cmp.Or(s.Spec.Place, "the group's store"))
	if w := s.Wish; w != nil {
		fmt.Fprintf(out, "it is to %s, with priority %s", wanting[w.Want], w.Priority)
		if w.Number > 1 {
			fmt.Fprintf(out, " (%s, %s ago; %s)", w.By, groupcall.Since(w.At),
				cmp.Or(strings.Join(strings.Fields(w.Why), " "), "no reason given"))
		}
		fmt.Fprintln(out)
	}
}

// route says at which site an experiment of a door is, and where it was before.
func (s *shownExperiment) route(out *strings.Builder) {
	if h := s.Spec.Home; h != nil {
		fmt.Fprintf(out, "it is %s of a door, by its decision %d\n", h.ID, h.Epoch)
	}
	if s.Route == nil {
		return
	}
	fmt.Fprintf(out, "it is at site %s, by decision %d: %s\n", s.Route.Site, s.Route.Epoch, s.Route.Why)
	for _, t := range s.Route.Tried {
		fmt.Fprintf(out, "before, it was at site %s, until %s ago: %s\n", t.Site, groupcall.Since(t.At), t.Why)
	}
}

func (s *shownExperiment) standing(out *strings.Builder) {
	if s.Waits != "" {
		fmt.Fprintln(out, s.Waits)
	}
	st := s.Standing
	if st == nil {
		fmt.Fprintf(out, "no machine has looked at its %s yet\n", table.Plural(s.Count, "piece"))
		return
	}
	var counts []string
	for _, state := range slices.Sorted(maps.Keys(st.Pieces)) {
		if n := st.Pieces[state]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %v", n, state))
		}
	}
	fmt.Fprintf(out, "pieces: %d: %s\n", s.Count, cmp.Or(strings.Join(counts, ", "), "none was looked at"))
	s.rule(out)
	if st.Reason != "" {
		fmt.Fprintln(out, st.Reason)
	}
	if s.Wish != nil && st.Wish < s.Wish.Number && s.Wish.Number > 1 && !s.Ended { // the first is the submission
		fmt.Fprintln(out, "what was asked for last isn't carried out yet")
	}
	for _, e := range st.Errors {
		where := cmp.Or(e.Error.Where, "the leader")
		if e.Error.Where == "" && e.Error.Type == fleet.ErrorMachine {
			where = "one of its machines"
		}
		fmt.Fprintf(out, "piece %v, attempt %d: %s error at %s: %s\n", e.Piece, e.Attempt, e.Error.Type, where,
			e.Error.Message)
	}
	if more := st.Failed - len(st.Errors); more > 0 {
		fmt.Fprintf(out, "and %d more with errors: --pieces shows all\n", more)
	}
	for _, server := range st.Left {
		fmt.Fprintf(out, "wouldn't stop in time, and is used for nothing until it has: %s\n", server)
	}
}

// triedAgainMost is how many pieces are shown that wait to be tried again, beside those that run.
const triedAgainMost = 10

// pieces shows those that run, and some that wait to be tried again, or all.
func (s *shownExperiment) pieces(out *strings.Builder, all bool) {
	rows, again := [][]string{{"piece", "state", "attempt", "at", "on", "settings", ""}}, 0
	for _, p := range s.Begun {
		waits := p.State == fleet.Waiting && p.Error != nil
		if waits {
			again++
		}
		if !all && !p.State.Holds() && (!waits || again > triedAgainMost) {
			continue
		}
		row := []string{p.ID.String(), p.State.String(), fmt.Sprint(p.Attempt), "-", "-",
			strings.Join(p.Settings, " "), ""}
		if p.Progress != nil && p.Progress.Horizon > 0 {
			row[3] = fmt.Sprintf("%.0f%%", 100*p.Progress.Now/p.Progress.Horizon)
		}
		if len(p.Gang) > 0 {
			row[4] = p.Gang[0].Name
		}
		if p.Error != nil {
			row[6] = p.Error.Type + ": " + firstLine(p.Error.Message)
		}
		rows = append(rows, row)
	}
	if len(rows) > 1 {
		fmt.Fprintln(out)
		groupcall.Columns(out, rows)
	}
	if more := again - triedAgainMost; more > 0 && !all {
		fmt.Fprintf(out, "and %d more that wait to be tried again: --pieces shows all\n", more)
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/disco-sim/disco/metastore"
	"github.com/urfave/cli/v2"
)

func auditCommand() app.Command {
	return app.Command{
		Name: "audit", Usage: "shows who has done what with the experiments of a group, when and why",
		Description: "Each submission, each change of what is wanted, and each role that was given, the newest\n" +
			"last. Behind a name is a ? where the store hasn't asked who it was: then it is what a program has\n" +
			"said. TIME is a time of day, a date, both (2026-11-28T14:05), or how long ago: 2h.",
		Examples: []string{"audit --store etcd://127.0.0.1:2379", "audit --user ann --since 24h",
			"audit --experiment night --json", "audit -f"},
		Flags: append(groupcall.DoorFlags(),
			&cli.StringFlag{Name: "user", Usage: "only what `NAME` has done"},
			&cli.StringFlag{Name: "experiment", Usage: "only what was done with the experiment `ID`"},
			&cli.StringFlag{Name: "since", Usage: "only what was done from `TIME` on"},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on with what is done from now on"},
			&cli.BoolFlag{Name: "json", Usage: "write JSON; with -f one object a line"}),
		Run: runAudit,
	}
}

// shownDeed is an entry for JSON output.
type shownDeed struct {
	fleet.Deed
	Known bool `json:"known"` // it was asked who that is
}

// wantedDeeds are those that are shown.
type wantedDeeds struct {
	user  string
	id    string
	since time.Time // zero: all
}

// takes tells whether an entry is shown.
func (w *wantedDeeds) takes(d *fleet.Deed) bool {
	name, _, _ := strings.Cut(d.By, "@")
	return (w.user == "" || d.By == w.user || name == w.user) && (w.id == "" || d.ID == w.id) && !d.At.Before(w.since)
}

func runAudit(c *app.Call) error {
	if c.NArg() > 0 {
		return app.Usage("found the argument %q, want flags alone, such as --experiment %s", c.Args().First(),
			c.Args().First())
	}
	w := &wantedDeeds{user: c.String("user")}
	var err error
	if w.since, err = sinceOf(c.String("since"), time.Now()); err != nil {
		return err
	}
	return groupcall.WithStore(c, groupcall.Looks, func(ctx context.Context, s *metastore.Store) error {
		once, cancel, err := groupcall.Bounded(ctx, c)
		if err != nil {
			return err
		}
		defer cancel()
		fl, err := fleet.New(once, s, fleet.Options{})
		if err != nil {
			return err
		}
		deeds, malformed, err := fl.Audit(once)
		if err == nil {
			w.id, err = experimentOf(once, fl, c.String("experiment"), deeds)
		}
		if err != nil {
			return err
		}
		if c.Bool("follow") {
			return followAudit(ctx, c, fl, w)
		}
		return showAudit(c, w, deeds, malformed)
	})
}

// sinceOf reads a time, or how long ago it was.
func sinceOf(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return t, nil
		}
	}
	day := now.Format(time.DateOnly)
	for _, form := range []string{"15:04:05", "15:04"} {
		if t, err := time.ParseInLocation(time.DateOnly+" "+form, day+" "+text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, app.Usage("--since: found %.80q, want how long ago, such as 2h, or a time, such as 14:05, "+
		"2026-11-28 or 2026-11-28T14:05", text)
}

// experimentOf is the id of the experiment that a text names: one that is there, or was.
func experimentOf(ctx context.Context, fl *fleet.Client, found string, deeds []fleet.Deed) (id string, err error) {
	if found == "" {
		return "", nil
	}
	e, err := fl.Find(ctx, found)
	unknown := (*fleet.UnknownError)(nil)
	if errors.As(err, &unknown) && unknown.Count < 2 {
		ids := map[string]bool{}
		for _, d := range deeds {
			if strings.HasPrefix(d.ID, found) || strings.HasPrefix(d.ID[strings.LastIndexByte(d.ID, '-')+1:], found) {
				id, ids[d.ID] = d.ID, true
			}
		}
		if len(ids) == 1 {
			return id, nil
		}
	}
	if err != nil {
		return "", asUsage(err)
	}
	return e.ID, nil
}

func showAudit(c *app.Call, w *wantedDeeds, deeds []fleet.Deed, malformed []error) error {
	shown := []shownDeed{}
	for _, d := range deeds {
		if w.takes(&d) {
			shown = append(shown, shownDeed{d, d.Known})
		}
	}
	for _, err := range malformed {
		fmt.Fprintf(c.Stderr, "%s: %v\n", c.Program, err)
	}
	if c.Bool("json") {
		return groupcall.WriteJSON(c.Stdout, shown, false)
	}
	out := &strings.Builder{}
	if len(shown) == 0 {
		fmt.Fprintln(out, "There is no such entry.")
	} else {
		columnsOfDeeds(out, shown, true)
	}
	_, err := io.WriteString(c.Stdout, out.String())
	return err
}

// followAudit shows the entries that are there, and then those that come.
func followAudit(ctx context.Context, c *app.Call, fl *fleet.Client, w *wantedDeeds) error {
	return fl.FollowAudit(ctx, func(d fleet.Deed) error {
		if c.Unread() {
			return app.ErrUnread
		}
		s := shownDeed{d, d.Known}
		switch {
		case !w.takes(&d):
			return nil
		case c.Bool("json"):
			return groupcall.WriteJSON(c.Stdout, s, true)
		}
		_, err := fmt.Fprintln(c.Stdout, strings.TrimRight(strings.Join(s.row(true), "  "), " "))
		return err
	}, func(problem error) { fmt.Fprintf(c.Stderr, "%s: %v\n", c.Program, problem) })
}

// row is an entry in columns.
func (s *shownDeed) row(withID bool) []string {
	by := s.By
	if !s.Known {
		by += "?"
	}
	row := []string{s.At.Local().Format("2006-01-02 15:04:05"), by, strings.ReplaceAll(s.What, "\n", " ")}
	if withID {
		row = append(row, cmp.Or(s.ID, "-"))
	}
	return append(row, cmp.Or(s.From, "-"), cmp.Or(strings.Join(strings.Fields(s.Why), " "), "-"))
}

// columnsOfDeeds writes entries below each other. What may be long is the last column: nothing is padded to its width.
func columnsOfDeeds(out *strings.Builder, all []shownDeed, withID bool) {
	head := []string{"at", "by", "did"}
	if withID {
		head = append(head, "experiment")
	}
	rows := [][]string{append(head, "from", "why")}
	for i := range all {
		rows = append(rows, all[i].row(withID))
	}
	groupcall.Columns(out, rows)
}

// history reads who has done what with an experiment.
func (s *shownExperiment) history(ctx context.Context, fl *fleet.Client, e *fleet.Experiment) error {
	deeds, malformed, err := fl.Audit(ctx)
	if err != nil {
		return err
	}
	for _, err := range malformed {
		s.Malformed = append(s.Malformed, err.Error())
	}
	s.History = []shownDeed{}
	for _, d := range deeds {
		if d.ID == e.ID {
			s.History = append(s.History, shownDeed{d, d.Known})
		}
	}
	return nil
}

// deeds shows who has done what with it.
func (s *shownExperiment) deeds(out *strings.Builder) {
	fmt.Fprintln(out)
	if len(s.History) > 0 {
		columnsOfDeeds(out, s.History, false)
	}
	owner := fleet.Owner(s.ID)
	for _, d := range s.History {
		if owner == "" || d.What == "submit" && d.User == owner {
			return
		}
	}
	fmt.Fprintf(out, "no entry says that %s has submitted it: the audit keeps the last of each user, or somebody else "+
		"has taken the name\n", cmp.Or(owner, "somebody"))
}

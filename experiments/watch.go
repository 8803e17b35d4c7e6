// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"bytes"
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
	"github.com/disco-sim/disco/metastore"
	"github.com/urfave/cli/v2"
)

// lookPeriod is the least time between two looks at an experiment that is watched: as often as agents report. An
// experiment of very many pieces is looked at more seldom, so that who watches takes no more than a fifth of the time
// for it, and doesn't keep the store from those who simulate.
const (
	lookPeriod = time.Second
	lookShare  = 4
)

// untilLook is how long to wait behind a look that took so long.
func untilLook(took time.Duration) time.Duration { return max(lookPeriod, lookShare*took) }

func watchCommand() app.Command {
	return app.Command{
		Name: "watch", Usage: "shows an experiment until it has ended", ArgsUsage: "ID",
		Description: naming + "\n" +
			"On a terminal it is the picture of show, made anew each second, or more seldom where reading very\n" +
			"many pieces takes long; elsewhere, and where TERM is dumb, a line whenever something has changed.\n" +
			"The status is 0 where all of it has ended well, and else 1.",
		Examples: []string{"watch night --store etcd://127.0.0.1:2379", "watch night --json"},
		Flags: append(groupcall.DoorFlags(), &cli.BoolFlag{Name: "json",
			Usage: "write JSON, one object a line, whenever something has changed"}, figureFlag()),
		Run: func(c *app.Call) error {
			if c.NArg() != 1 {
				return app.Usage("found %d arguments, want the ID or the name of an experiment", c.NArg())
			}
			return followed(c, func(ctx context.Context, fl *fleet.Client, e *fleet.Experiment) error {
				return watchExperiment(ctx, c, fl, e)
			})
		},
	}
}

// followed runs a command that goes on until something has ended, or a signal comes.
func followed(c *app.Call, f func(ctx context.Context, fl *fleet.Client, e *fleet.Experiment) error) error {
	out := &outages{c: c}
	for {
		found := false
		err := withExperiment(c, func(ctx context.Context, fl *fleet.Client, e *fleet.Experiment) error {
			found = true
			out.passes(ctx, nil)
			return f(ctx, fl, e)
		})
		if found || !out.passes(context.Background(), err) {
			return err
		}
		if err := pause(c); err != nil {
			return err
		}
	}
}

// pause waits for the next look, or a signal, or that nobody reads any more.
func pause(c *app.Call) error {
	if c.Unread() {
		return app.ErrUnread
	}
	return interruptedIn(c, lookPeriod)
}

// interruptedIn waits. A signal ends that, and is the error, also when it comes together with the end of the time.
func interruptedIn(c *app.Call, d time.Duration) error {
	ctx, undo := c.Interruptible()
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	undo() // what has come until then is taken
	if ended := (*app.Ended)(nil); errors.As(context.Cause(ctx), &ended) {
		return ended
	}
	return nil
}

// withExperiment runs a command for the experiment that it names.
func withExperiment(c *app.Call, f func(ctx context.Context, fl *fleet.Client, e *fleet.Experiment) error) error {
	return groupcall.WithStore(c, groupcall.Looks, func(ctx context.Context, s *metastore.Store) error {
		once, cancel, err := groupcall.Bounded(ctx, c)
		if err != nil {
			return err
		}
		defer cancel()
		fl, err := fleet.New(once, s, fleet.Options{By: groupcall.Who(), From: c.Program + " " + c.Command.Name})
		if err != nil {
			return err
		}
		e, err := fl.Find(once, c.Args().First())
		if err != nil {
			return asUsage(err)
		}
		return f(ctx, fl, e)
	})
}

// outages says once when a store that is looked at again and again doesn't answer, and when it does again.
type outages struct {
	c    *app.Call
	said bool
}

// passes tells whether an error is an outage, which is waited for.
func (o *outages) passes(ctx context.Context, err error) bool {
	away := ctx.Err() == nil && (errors.Is(err, metastore.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded))
	if away && !o.said {
		fmt.Fprintf(o.c.Stderr, "%s: the store doesn't answer, and is waited for: %v\n", o.c.Program, err)
	}
	if err == nil && o.said {
		fmt.Fprintf(o.c.Stderr, "%s: the store answers again\n", o.c.Program)
	}
	o.said = away
	return away
}

// watchExperiment shows it until it has ended.
func watchExperiment(ctx context.Context, c *app.Call, fl *fleet.Client, e *fleet.Experiment) error {
	id, before := e.ID, ""
	out := &outages{c: c}
	for {
		looked := time.Now()
		shown, ended, err := lookAt(ctx, c, fl, id)
		took := time.Since(looked)
		switch {
		case out.passes(ctx, err):
			took = 0
		case err != nil:
			return err
		case shown != before:
			picture := shown
			if c.Redraws() {
				c.Clear()
				width, height := c.Size()
				picture = cutLines(shown, width, height)
			}
			if _, err := io.WriteString(c.Stdout, picture); err != nil {
				return err
			}
			before = shown
		}
		if err == nil && ended != nil {
			return ended.result()
		}
		if c.Unread() {
			return app.ErrUnread
		}
		select {
		case <-time.After(untilLook(took)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ending is how an experiment has ended.
type ending struct {
	status fleet.Status
	reason string
}

// result is nil where all is well.
func (e *ending) result() error {
	if e.status == fleet.StatusFinished {
		return nil
	}
	return fmt.Errorf("it has ended as %v%s", e.status, map[bool]string{true: ": " + e.reason}[e.reason != ""])
}

// lookAt is what an experiment shows now; ended isn't nil where it has ended.
func lookAt(ctx context.Context, c *app.Call, fl *fleet.Client, id string) (shown string, ended *ending, err error) {
	ctx, cancel, err := groupcall.Bounded(ctx, c)
	if err != nil {
		return "", nil, err
	}
	defer cancel()
	e, err := fl.Show(ctx, id)
	if err != nil {
		return "", nil, err
	}
	s := shownOf(e)
	if s.Begun, err = begun(ctx, fl, e, &s.Malformed); err != nil {
		return "", nil, err
	}
	if s.Figures, err = figuresOf(c, e, s.Begun); err != nil {
		return "", nil, err
	}
	if err = s.unattended(ctx, c, fl); err != nil {
		return "", nil, err
	}
	if e.Ended() {
		ended = &ending{e.Status(), e.Standing.Reason}
	}
	out := &strings.Builder{}
	switch {
	case c.Bool("json"):
		err = groupcall.WriteJSON(out, s, true)
	case c.Redraws():
		s.Spec = e.Spec
		s.head(out)
		s.standing(out)
		s.steps(out)
		s.figures(out)
		s.pieces(out, false)
	default:
		s.line(out)
	}
	return out.String(), ended, err
}

// line is an experiment in a line: what pieces do, and how far those are that run.
func (s *shownExperiment) line(out *strings.Builder) {
	fmt.Fprintf(out, "%s %s %v", s.ID, s.Name, s.Status)
	if s.Standing != nil {
		for _, state := range slices.Sorted(maps.Keys(s.Standing.Pieces)) {
			if n := s.Standing.Pieces[state]; n > 0 {
				fmt.Fprintf(out, ", %d %v", n, state)
			}
		}
	}
	if s.Waits != "" {
		fmt.Fprintf(out, ", %s", s.Waits)
	}
	if s.Standing != nil && !s.Ended && s.Standing.Reason != "" {
		fmt.Fprintf(out, ", %s", strings.Join(strings.Fields(s.Standing.Reason), " "))
	}
	fmt.Fprint(out, s.stepsLine())
	for _, p := range s.Begun {
		if p.State == fleet.Running && p.Progress != nil && p.Progress.Horizon > 0 {
			fmt.Fprintf(out, ", %v at %.0f%%", p.ID, 100*p.Progress.Now/p.Progress.Horizon)
		}
	}
	for i := range s.Figures[:min(len(s.Figures), figuresMost)] {
		out.WriteString(lineOf(&s.Figures[i]))
	}
	fmt.Fprintln(out)
}

func logsCommand() app.Command {
	return app.Command{
		Name: "logs", Usage: "shows the last of what a run of an experiment has written", ArgsUsage: "ID [PIECE]",
		Description: naming + "\n" +
			"PIECE is STEP.POINT.REPLICATION, or a replication alone; the first that runs, or has begun, if not\n" +
			"given: -f waits for it. Of each attempt the last 64 KiB are kept. Of several attempts it is the last\n" +
			"one's.",
		Examples: []string{"logs night --store etcd://127.0.0.1:2379", "logs night 0.0.17 -f"},
		Flags: append(groupcall.DoorFlags(), &cli.BoolFlag{Name: "follow", Aliases: []string{"f"},
			Usage: "show what comes, until the piece has ended"}),
		Run: func(c *app.Call) error {
			if c.NArg() < 1 || c.NArg() > 2 {
				return app.Usage("found %d arguments, want the ID of an experiment, and perhaps a PIECE", c.NArg())
			}
			return followed(c, func(ctx context.Context, fl *fleet.Client, e *fleet.Experiment) error {
				return showLog(ctx, c, fl, e)
			})
		},
	}
}

// pieceOf is the piece whose log is asked for. Where none is named, and what comes is to be shown, the first that
// begins is waited for, until the experiment has ended.
func pieceOf(ctx context.Context, c *app.Call, fl *fleet.Client, e *fleet.Experiment) (p fleet.PieceID, err error) {
	if text := c.Args().Get(1); text != "" {
		if !strings.Contains(text, ".") {
			text = "0.0." + text
		}
		if p, err = fleet.ParsePieceID(text); err != nil {
			return p, app.Usage("%v, or a replication alone", err)
		}
		if e.Spec != nil && !e.Spec.Has(p) {
			return p, app.Usage("%s has no piece %v", e.ID, p)
		}
		return p, nil
	}
	out := &outages{c: c}
	for {
		p, found, err := firstBegun(ctx, c, fl, e.ID)
		switch {
		case c.Bool("follow") && out.passes(ctx, err):
		case err != nil || found:
			return p, err
		case !c.Bool("follow"):
			return p, fmt.Errorf("%s: no piece has begun", e.ID)
		}
		if err := nextLook(ctx, c); err != nil {
			return p, err
		}
	}
}

// firstBegun is the first piece of an experiment that runs, or else has begun; found tells whether there is one. It
// fails where the experiment has ended, and there is none.
func firstBegun(ctx context.Context, c *app.Call, fl *fleet.Client, id string) (p fleet.PieceID, found bool,
	err error) {
	ctx, cancel, err := groupcall.Bounded(ctx, c)
	if err != nil {
		return p, false, err
	}
	defer cancel()
	e, err := fl.Show(ctx, id) // before its pieces: one may begin, and the experiment end, in between
	if err != nil {
		return p, false, err
	}
	var malformed []string
	all, err := begun(ctx, fl, e, &malformed)
	if err != nil {
		return p, false, err
	}
	for _, one := range all {
		if one.State == fleet.Running {
			return one.ID, true, nil
		}
	}
	switch {
	case len(all) > 0:
		return all[0].ID, true, nil
	case e.Ended():
		return p, false, fmt.Errorf("%s: it has ended as %v, and no piece has begun", id, e.Status())
	}
	return p, false, nil
}

// nextLook waits until what is followed is to be looked at again.
func nextLook(ctx context.Context, c *app.Call) error {
	if c.Unread() {
		return app.ErrUnread
	}
	select {
	case <-time.After(lookPeriod):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// showLog shows a piece's log, once or until the piece has ended.
func showLog(ctx context.Context, c *app.Call, fl *fleet.Client, e *fleet.Experiment) error {
	p, err := pieceOf(ctx, c, fl, e)
	if err != nil {
		return err
	}
	out := &outages{c: c}
	var last logShown
	for {
		ended, err := last.show(ctx, c, fl, e.ID, p)
		switch {
		case c.Bool("follow") && out.passes(ctx, err):
		case err != nil:
			return err
		case ended || !c.Bool("follow"):
			return nil
		}
		if err := nextLook(ctx, c); err != nil {
			return err
		}
	}
}

// logShown is what was shown of a log.
type logShown struct {
	attempt int
	text    []byte
}

// show shows what is new of a piece's log, and tells whether the piece has ended.
func (l *logShown) show(ctx context.Context, c *app.Call, fl *fleet.Client, id string, p fleet.PieceID) (ended bool,
	err error) {
	ctx, cancel, err := groupcall.Bounded(ctx, c)
	if err != nil {
		return false, err
	}
	defer cancel()
	piece, err := fl.Piece(ctx, id, p)
	if err != nil {
		return false, err
	}
	if piece.Attempt == 0 && !c.Bool("follow") {
		return false, fmt.Errorf("%s: piece %v hasn't begun", id, p)
	}
	if piece.Attempt == 0 {
		e, err := fl.Show(ctx, id)
		if err != nil || !e.Ended() {
			return false, err
		}
		// It may have begun, and ended, since it was looked at.
		if piece, err = fl.Piece(ctx, id, p); err == nil && piece.Attempt == 0 {
			err = fmt.Errorf("%s: it has ended as %v, and piece %v never began", id, e.Status(), p)
		}
		if err != nil {
			return false, err
		}
	}
	text, err := fl.Log(ctx, id, fleet.AttemptID{PieceID: p, Attempt: piece.Attempt})
	if err != nil {
		return false, err
	}
	if l.attempt != 0 && l.attempt != piece.Attempt {
		fmt.Fprintf(c.Stderr, "%s: attempt %d of piece %v\n", c.Program, piece.Attempt, p)
		l.text = nil
	}
	l.attempt = piece.Attempt
	_, err = c.Stdout.Write(behind(l.text, []byte(text)))
	l.text = []byte(text)
	if ended = piece.State.Ended(); text == "" && (ended || !c.Bool("follow")) {
		nothing := "has written nothing so far"
		if ended {
			nothing = "wrote nothing, or its machine, or its site's store, was lost with what it wrote"
		}
		fmt.Fprintf(c.Stderr, "%s: attempt %d of piece %v %s\n", c.Program, piece.Attempt, p, nothing)
	}
	return ended, err
}

// overlapBytes is how much of what was shown is looked for in what is there now.
const overlapBytes = 1000

// behind is what of a log comes behind what was shown of it: the log has only the last bytes, and what was shown may
// be gone from it in part, or whole.
func behind(shown, now []byte) []byte {
	if bytes.HasPrefix(now, shown) {
		return now[len(shown):]
	}
	tail := shown[max(0, len(shown)-overlapBytes):]
	if i := bytes.Index(now, tail); i >= 0 {
		return now[i+len(tail):]
	}
	return slices.Concat([]byte(leftOut), now)
}

// leftOut is shown in the place of what was written faster than it was looked at.
const leftOut = "[…]\n"

// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/disco-sim/disco/internal/fullscreen"
	"github.com/disco-sim/disco/internal/inspect"
	tables "github.com/disco-sim/disco/internal/table"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"
)

// samplePeriod lies between two looks at what workers are doing.
const samplePeriod = 40 * time.Millisecond

func (p *program) topCommand() *cli.Command {
	return p.command(cli.Command{
		Name:      "top",
		Usage:     "shows what the workers of a run that is under way are doing, live",
		ArgsUsage: "[PID]",
		Description: "PID is the process of the run or of one of its workers; it may be left out where\n" +
			"there is one run. The run isn't touched and doesn't notice. q ends it. Where standard\n" +
			"output is no terminal, one look is printed.",
		Flags: []cli.Flag{textFlag(groupOutput, "interval", "1s", "`TIME` between two pictures")},
	}, p.top)
}

// top shows one run.
func (p *program) top(c *cli.Context) error {
	v := &values{c: c}
	interval := max(v.duration("interval", time.Second), samplePeriod)
	if err := v.err(); err != nil {
		return err
	}
	pid, err := p.looked(c.Args().Slice())
	if err != nil {
		return err
	}
	l, err := inspect.Open(pid)
	if errors.Is(err, inspect.ErrNoRun) {
		return fmt.Errorf("%w: `%s ps` lists the runs that are under way", err, p.name)
	} else if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // only read
	in, okIn := p.stdin.(*os.File)
	out, okOut := p.raw.(*os.File)
	if !okIn || !okOut || !term.IsTerminal(int(out.Fd())) || !term.IsTerminal(int(in.Fd())) {
		return p.topOnce(l, interval)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	s, err := fullscreen.Open(in, out)
	if err != nil {
		return err
	}
	t := &topScreen{Screen: s, live: l, pid: pid, interval: interval}
	err = errors.Join(t.show(ctx), s.Close(), t.live.Close())
	if errors.Is(err, inspect.ErrNoRun) {
		fmt.Fprintf(p.stdout, "process %d: the run has ended\n", pid)
		return nil
	}
	return err
}

// looked is the process to look at: the only run, where none is named.
func (p *program) looked(args []string) (int, error) {
	if len(args) > 1 {
		return 0, usage("found %s (%s), want one PID, or none where there is one run",
			tables.Plural(len(args), "argument"), quoted(args))
	}
	if len(args) == 1 {
		pid, err := strconv.Atoi(args[0])
		if err != nil || pid < 1 {
			return 0, usage("found %q, want the PID of a run: `%s ps` lists them", args[0], p.name)
		}
		return pid, nil
	}
	pids, err := inspect.Runs()
	switch {
	case err != nil:
		return 0, err
	case len(pids) == 0:
		return 0, errors.New(noRuns)
	case len(pids) > 1:
		return 0, usage("%d runs are under way (%s), want the PID of one: `%s ps` lists them", len(pids),
			strings.Trim(fmt.Sprint(pids), "[]"), p.name)
	}
	return pids[0], nil
}

// topOnce looks twice, an interval apart, and prints what there is then.
func (p *program) topOnce(l *inspect.Live, interval time.Duration) error {
	first, err := l.Look()
	for began := time.Now(); err == nil && time.Since(began) < interval; time.Sleep(samplePeriod) {
		l.Sample()
	}
	if err == nil {
		first, err = l.Look()
	}
	if errors.Is(err, inspect.ErrNoRun) {
		fmt.Fprintln(p.stdout, "the run has ended")
		return nil
	}
	if err != nil {
		return err
	}
	for _, line := range topLines(first, 0, 0) {
		if _, err := io.WriteString(p.stdout, strings.TrimPrefix(line, fullscreen.Bold)+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// topScreen is a run on a terminal.
type topScreen struct {
	*fullscreen.Screen
	live     *inspect.Live
	pid      int
	interval time.Duration
	first    int  // worker of the first line
	held     bool // the picture stays as it is
	view     *inspect.View
}

// show draws until a key ends it, or ctx, or the run.
func (t *topScreen) show(ctx context.Context) error {
	for next := time.Now(); ctx.Err() == nil; {
		if now := time.Now(); !now.Before(next) {
			next = now.Add(t.interval)
			if err := t.look(); err != nil {
				return err
			}
		}
		t.live.Sample()
		key, err := t.Key(min(samplePeriod, t.interval))
		if err != nil || key == fullscreen.Quit {
			return err
		}
		if t.heed(key) {
			if err := t.draw(); err != nil {
				return err
			}
		}
	}
	return nil
}

// look looks at the run, and draws it. One that has begun anew, from a checkpoint, is opened again.
func (t *topScreen) look() error {
	v, err := t.live.Look()
	if errors.Is(err, inspect.ErrNoRun) {
		again, failed := inspect.Open(t.pid)
		if failed != nil {
			return failed
		}
		err = t.live.Close()
		if t.live = again; err == nil {
			v, err = again.Look()
		}
	}
	if err != nil || t.held {
		return err
	}
	t.view = v
	return t.draw()
}

// heed does what a key asks for, and reports whether the picture changes.
func (t *topScreen) heed(key fullscreen.Key) bool {
	_, rows := t.Size()
	switch key {
	case fullscreen.Up:
		t.first--
	case fullscreen.Down:
		t.first++
	case fullscreen.PageUp:
		t.first -= rows / 2
	case fullscreen.PageDown:
		t.first += rows / 2
	case fullscreen.Hold:
		t.held = !t.held
	default:
		return false
	}
	t.first = max(0, min(t.first, len(t.view.Workers)-1))
	return true
}

func (t *topScreen) draw() error {
	_, rows := t.Size()
	lines := topLines(t.view, rows, t.first)
	if t.held {
		lines[0] = fullscreen.Bold + "held, p goes on; " + strings.TrimPrefix(lines[0], fullscreen.Bold)
	}
	return t.Draw(lines)
}

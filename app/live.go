// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/outdir"
	"github.com/disco-sim/disco/internal/selfprofile"
	"github.com/disco-sim/disco/internal/viewproc"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"
)

// viewProgram serves what a run shows.
const viewProgram = "disco-view"

// livePeriod is the least time between two results so far, and between two states.
const livePeriod = time.Second

// liveFlags have a run be seen while it goes on (docs/live.md).
func liveFlags() []cli.Flag {
	return []cli.Flag{
		textFlag(groupOutput, "web", "none", "show the run while it goes on as pages at `ADDR`, such as 8080 or "+
			"127.0.0.1:0; of other machines only where that is said, 0.0.0.0:8080"),
		textFlag(groupOutput, "metrics", "none", "serve metrics of the run for Prometheus, and profiles of its "+
			"processes, at `ADDR`"),
		&cli.BoolFlag{Category: groupOutput, Name: "live", DisableDefaultText: true, Usage: "write what --out writes " +
			"about every second while the run goes on, too"},
	}
}

// live is a run that is seen while it goes on. nil: it isn't.
type live struct {
	p         *program
	o         *order
	screen    *screen
	dir       *outdir.Dir // that is written to; nil: none is
	temp      string      // it, where it is temporary
	web       string      // URL
	view      *viewproc.Process
	unprofile func() // nil: there are no profiles
	over      chan struct{}
	began     time.Time
	ended     sync.WaitGroup
	failed    sync.Once // writing, which was said

	mu       sync.Mutex // guards the rest
	progress launch.Progress
	written  int // results so far
	state    liveState
	at       time.Time // of events in state
}

// values of --web and --metrics: a port of the loopback, or an address.
func (v *values) listen(flag string) string {
	text := v.text(flag, "an address")
	if text == "" {
		return ""
	}
	if port, err := strconv.ParseUint(text, 10, 16); err == nil {
		return fmt.Sprintf("127.0.0.1:%d", port)
	}
	host, port, ok := strings.Cut(text, ":")
	if i := strings.LastIndexByte(text, ':'); ok {
		host, port = strings.Trim(text[:i], "[]"), text[i+1:]
	}
	_, bad := strconv.ParseUint(port, 10, 16)
	if _, err := netip.ParseAddr(host); bad != nil || err != nil && host != "" && host != "localhost" {
		v.refuse(flag, strconv.Quote(text), "a port, or an IP address and a port with : between")
	}
	if host == "" || host == "localhost" {
		return "127.0.0.1:" + port
	}
	return text
}

// checkLive refuses what doesn't go with being seen.
func (o *order) checkLive() error {
	switch {
	case o.web == "" && o.metrics == "" && !o.live:
		return nil
	case o.live && o.out == "":
		return usage("--live: there is no --out DIR to write to")
	case len(o.sweeps) > 0 && (o.web != "" || o.live):
		return usage("--web and --live show one run: found --sweep, want one of them")
	case o.compare:
		return usage("found --compare with --web, --live or --metrics, which would count as well: want one of them")
	}
	return nil
}

// beginLive has the run be seen, where that is wanted. What it gives is to be ended.
func (p *program) beginLive(o *order, screen *screen) (*live, error) {
	if o.web == "" && o.metrics == "" && !o.live && !traced() {
		return nil, nil
	}
	l := &live{p: p, o: o, screen: screen, over: make(chan struct{}), began: time.Now()}
	l.state.PID = os.Getpid()
	if o.web != "" || o.live {
		l.dir = o.outDir
		if o.out == "" {
			var err error
			if l.temp, err = os.MkdirTemp("", "disco-view-"); err == nil {
				l.dir, err = outdir.Open(l.temp)
			}
			if err != nil {
				return nil, errors.Join(fmt.Errorf("--web: a directory for its files: %w", err), l.remove())
			}
		}
		o.config.SoFar = &launch.SoFar{Take: l.take, Least: livePeriod}
		before := o.config.Progress
		o.config.Progress = func(g launch.Progress) {
			l.mu.Lock()
			l.progress = g
			l.mu.Unlock()
			if before != nil {
				before(g)
			}
		}
	}
	if err := l.serve(); err != nil {
		if l.unprofile != nil {
			l.unprofile()
		}
		return nil, errors.Join(err, l.remove())
	}
	if l.dir != nil {
		l.ended.Go(l.watch)
	}
	return l, nil
}

// serve starts the process that serves pages and metrics.
func (l *live) serve() error {
	o := l.o
	if o.web == "" && o.metrics == "" && !traced() {
		return nil
	}
	path, err := workerproc.Beside(viewProgram)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		if o.web == "" && o.metrics == "" { // the environment of many programs has it
			fmt.Fprintf(l.screen, "%s: OTEL_EXPORTER_OTLP_ENDPOINT: %s isn't there, nor in PATH: there are no spans\n",
				l.p.name, path)
			return nil
		}
		return missing(path, err)
	}
	cfg := viewproc.Config{Executable: path, Log: workerproc.NewLineWriter(l.screen), Begin: viewproc.Begin{
		PID: os.Getpid(), Web: o.web, Metrics: o.metrics, Version: Version(), Temporary: l.temp != "",
		Trace: traced()},
		Gone: func(how string) {
			fmt.Fprintf(l.screen, "%s: %s, which shows the run, has ended (%s): the run goes on\n", l.p.name,
				viewProgram, how)
		}}
	if o.web != "" {
		cfg.Begin.Dir = l.dir.Path()
	}
	if o.metrics != "" { // before there are workers: they inherit it
		l.unprofile = selfprofile.Begin()
	}
	view, serving, err := viewproc.Start(cfg)
	refused := (*viewproc.Refused)(nil)
	if errors.As(err, &refused) && refused.Usage {
		return usage("%v", err)
	} else if err != nil {
		return err
	}
	l.view, l.web = view, serving.Web
	if traced() {
		o.config.Phases = l.phase
	}
	for _, line := range serving.Remarks {
		fmt.Fprintf(l.screen, "%s: %s\n", l.p.name, line)
	}
	for _, at := range []struct{ what, url string }{{"the run is shown at", serving.Web},
		{"metrics of the run are at", serving.Metrics}} {
		if at.url != "" {
			fmt.Fprintf(l.screen, "%s: %s %s\n", l.p.name, at.what, at.url)
		}
	}
	return nil
}

// traced reports whether somebody collects spans.
func traced() bool {
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// phase tells who collects spans of a phase, or of a replication.
func (l *live) phase(s launch.PhaseSpan) {
	m := &viewproc.Phase{Name: s.Name, Began: s.Began, Ended: s.Ended}
	if r := s.Replication; r != nil {
		m.About = map[string]string{"replication": strconv.Itoa(r.Index), "events": strconv.FormatUint(r.Events, 10),
			"reached_s": strconv.FormatFloat(r.Reached, 'g', -1, 64)}
	}
	l.view.Send(&viewproc.Message{Phase: m})
}

// output is that the results were written since.
func (l *live) output(since time.Time) {
	if l != nil && l.view != nil && traced() {
		l.phase(launch.PhaseSpan{Name: "output", Began: since, Ended: time.Now()})
	}
}

// whole is that the run has ended.
func (l *live) whole(failed error) {
	c := &l.o.config
	m := &viewproc.Phase{Name: "run", Began: l.began, Ended: time.Now(), Whole: true, About: map[string]string{
		"file": l.o.file, "seed": strconv.FormatUint(c.Seed, 10), "workers": strconv.Itoa(c.Workers),
		"replications": strconv.Itoa(c.Replications)}}
	if failed != nil {
		m.Error = failed.Error()
	}
	l.view.Send(&viewproc.Message{Phase: m})
}

// take writes results so far.
func (l *live) take(out *launch.Outcome) {
	d := newDocument(l.o, out.Launch, out)
	d.SoFar, d.Ended = true, "not yet"
	for _, r := range out.Replications {
		if r.Interrupted {
			d.ReachedSeconds = r.Reached
			break
		}
	}
	l.results(out.Launch, out, d)
	l.mu.Lock()
	l.written++
	l.mu.Unlock()
}

// writeLast writes the results for who looks at them, where that isn't --out's directory. A run that can't is one that
// nobody can look at, and no other: all else of its results is written.
func (l *live) writeLast(of *launch.Launch, out *launch.Outcome, d *document) {
	if l != nil && l.temp != "" {
		l.results(of, out, d)
	}
}

// results writes results to what is shown.
func (l *live) results(of *launch.Launch, out *launch.Outcome, d *document) {
	err := l.p.writeOut(l.o, l.dir.Begin(Version()), of, out, d)
	if l.temp != "" {
		err = errors.Unwrap(err) // it names --out, which isn't given
	}
	l.note(err)
}

// note says, once, that files can't be written.
func (l *live) note(err error) {
	if err == nil {
		return
	}
	l.failed.Do(func() {
		todo := ""
		if l.temp != "" {
			todo = "; give its folder room, or set TMPDIR to another one"
		}
		fmt.Fprintf(l.screen, "%s: what is shown of the run can't be written, which goes on without: %v%s\n",
			l.p.name, err, todo)
	})
}

// end ends what shows the run, which has failed with an error or hasn't; where a person looks at it, when that person
// wants it to. All files of the run are written.
func (l *live) end(failed error) {
	if l == nil {
		return
	}
	close(l.over)
	l.ended.Wait()
	if l.dir != nil {
		l.mu.Lock()
		l.state.State = "ended"
		if failed != nil && !errors.Is(failed, errInterrupted) && statusOf(failed) != ExitUnmet {
			l.state.State = "failed"
		}
		l.mu.Unlock()
		l.note(l.write())
	}
	if l.view != nil {
		if traced() {
			l.whole(failed)
		}
		if l.web != "" && person(l.p.raw) && (failed == nil || statusOf(failed) == ExitUnmet) {
			l.stay()
		}
		l.view.Close()
	}
	l.note(l.remove())
	if l.unprofile != nil {
		l.unprofile()
	}
}

// person reports whether somebody looks at what is written.
func person(w io.Writer) bool {
	f, isFile := w.(*os.File)
	return isFile && term.IsTerminal(int(f.Fd()))
}

// stay keeps the pages there until a signal.
func (l *live) stay() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	l.screen.clear()
	fmt.Fprintf(l.screen, "%s: the run stays at %s until Ctrl-C\n", l.p.name, l.web)
	select {
	case <-signals:
	case <-l.view.Ended():
	}
}

// remove removes the temporary directory.
func (l *live) remove() error {
	if l.temp == "" {
		return nil
	}
	return os.RemoveAll(l.temp)
}

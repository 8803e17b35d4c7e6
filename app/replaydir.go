// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/nodediff"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/outfile"
	tables "github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/node"
)

// errReplayDir is the end of a replay that has found something.
var errReplayDir = errors.New("the replay isn't as the run that is recorded")

// dirReplayer runs a recorded run again.
type dirReplayer struct {
	p       *program
	o       *order
	repo    *checkpoint.Repo
	start   *launch.Resume // what the run began with, of another one; nil: its begin
	at      string         // what it begins with; "": the begin
	began   float64        // of the latest replication
	until   float64
	scratch string // a folder for what it makes meanwhile
	names   *launch.Launch
	title   string
	screen  *screen
	ctx     context.Context
	places  []*checkpoint.Repo // of states that replays have saved, in scratch
	remarks []string           // on where replications begin
}

// replayDir is the command for a run with a journal of activations.
func (p *program) replayDir(c *cli.Context, dir string) (err error) {
	for _, name := range []string{"seed", "replications", "horizon", "set"} {
		if c.IsSet(name) {
			return usage("--%s: found it with DIR, want it with TRACE FILE only: the run in DIR has its own", name)
		}
	}
	o, err := p.order(c, dir, "")
	if err != nil {
		return err
	}
	v := &values{c: c}
	r := &dirReplayer{p: p, o: o, until: v.seconds("until")}
	if c.IsSet("at") {
		r.at = v.which()
	}
	if err := v.err(); err != nil {
		return err
	}
	return storeError(p.readStore(c.Context, dir, func(repo *checkpoint.Repo) error {
		r.repo = repo
		if err := r.prepare(c.Context); err != nil {
			return err
		}
		return r.propose(c.Context, r.carryOut(c.Bool("other-build")))
	}))
}

// propose adds to an error about a chunk that is damaged how to replay without it: what is recorded behind a checkpoint
// needs its states, and nothing that was recorded before.
func (r *dirReplayer) propose(ctx context.Context, err error) error {
	var damaged *checkpoint.DamagedError
	if !errors.As(err, &damaged) || damaged.Chunk == nil {
		return err
	}
	points, errPoints := r.repo.PointsAt(ctx, "")
	if errPoints != nil {
		return errors.Join(err, errPoints)
	}
	epochs := []float64{}
	for _, p := range points { // by replication and epoch
		if p.Finished || p.Epoch == r.began || damaged.Chunk.Kind == checkpoint.Hashes &&
			p.Epoch <= damaged.Chunk.From {
			continue
		}
		m, errLoad := r.repo.Load(ctx, p)
		if errLoad == nil && launch.StatesWhole(ctx, r.repo, m) == nil {
			epochs = append(epochs, p.Epoch)
		}
	}
	dir := r.repo.String()
	switch {
	case damaged.Chunk.Kind == checkpoint.Hashes && len(epochs) > 0:
		return fmt.Errorf("%w\n`%s replay %s --at %v` compares what comes behind it", err, r.p.name, dir,
			slices.Min(epochs))
	case damaged.Chunk.Kind == checkpoint.Nodes || damaged.Chunk.Kind == checkpoint.Pending:
		before := slices.DeleteFunc(epochs, func(e float64) bool { return e > r.began })
		if r.began > 0 && len(before) > 0 {
			return fmt.Errorf("%w\n`%s replay %s --at %v` begins with the checkpoint before it, which is as it was "+
				"written", err, r.p.name, dir, slices.Max(before))
		}
		if r.began > 0 {
			return fmt.Errorf("%w\n`%s replay %s` begins at the begin, and needs no checkpoint", err, r.p.name, dir)
		}
	case damaged.Chunk.Kind == checkpoint.Results && len(epochs) > 0:
		return fmt.Errorf("%w\n`%s replay %s --until %v` compares what comes before the last checkpoint", err, r.p.name,
			dir, slices.Max(epochs))
	}
	return fmt.Errorf("%w\nwhat is there can't be compared: `%s checkpoints verify %s` shows what else is damaged", err,
		r.p.name, dir)
}

// prepare finds what is replayed, and from where.
func (r *dirReplayer) prepare(ctx context.Context) error {
	run, cfg := r.repo.Run(), &r.o.config
	if !run.Replayable {
		return usage("%v: found checkpoints of a run without a journal of activations, want one that was begun with "+
			"--replayable", r.repo)
	}
	r.o.file = run.File
	cfg.File, cfg.Text, cfg.Attached, cfg.Set = run.File, run.Text, storedFiles(run), storedSettings(run)
	cfg.Seed, cfg.Replications, cfg.Horizon, cfg.Series = run.Seed, run.Replications, run.Horizon, run.Series
	replay := &launch.Replay{Repo: r.repo, Until: r.until}
	all, err := launch.ResumeAt(ctx, r.repo, newest)
	var none *checkpoint.FoundError
	if errors.As(err, &none) {
		return usage("%v: found no checkpoint, and no replication that has ended, want one: nothing is recorded yet",
			r.repo)
	}
	if err != nil {
		return err
	}
	replay.To = all.From
	if cfg.Resume, err = launch.Begin(ctx, r.repo); err != nil {
		return err
	}
	if r.start = cfg.Resume; r.at != "" {
		if cfg.Resume, err = r.begin(ctx, replay); err != nil {
			return err
		}
	}
	if err := r.findStates(ctx, replay); err != nil {
		return err
	}
	if err := r.checkEnds(replay); err != nil {
		return err
	}
	cfg.Replay = replay
	return nil
}

// begin is what replications begin with: the checkpoint that --at names, where they have it, or the one before it where
// no leg of what is recorded ended there; nil: all begin at the begin. Others aren't replayed.
func (r *dirReplayer) begin(ctx context.Context, replay *launch.Replay) (*launch.Resume, error) {
	to := replay.To
	resume := r.resume(len(to))
	if m, err := r.repo.Find(ctx, r.at, 0); err == nil && r.start != nil && m.Epoch == r.start.Variant {
		return r.start, nil // it is all replications'
	}
	var none error
	there := false
	for n := range to {
		if to[n] == nil {
			continue
		}
		m, err := r.repo.Find(ctx, r.at, n)
		var found *checkpoint.FoundError
		if errors.As(err, &found) {
			none, to[n] = err, nil
			continue
		}
		if err != nil {
			return nil, err
		}
		there = true
		begin, err := replay.BeginOf(ctx, n, m)
		if err != nil {
			return nil, err
		}
		if begin != nil {
			resume.From[n] = begin
		}
		r.began = max(r.began, pointEpoch(resume.From[n]))
		if at := pointEpoch(resume.From[n]); at != m.Epoch {
			r.remarks = append(r.remarks, fmt.Sprintf("replication %d begins at %v s: the journal that is compared "+
				"wasn't made over the checkpoint at %v s, since the run has gone back", n, at, m.Epoch))
		}
	}
	var found *checkpoint.FoundError
	if errors.As(none, &found) && len(found.Points) == 0 && !there {
		return nil, usage("--at %s: found no checkpoint in %v, only the end of the run, want no --at: `%s replay %v` "+
			"compares all of it from its begin", r.at, r.repo, r.p.name, r.repo)
	}
	if !there {
		return nil, none
	}
	if !slices.ContainsFunc(resume.From, func(m *checkpoint.Manifest) bool { return m != nil }) {
		return nil, nil
	}
	return resume, nil
}

// resume begins so many replications where the run began.
func (r *dirReplayer) resume(replications int) *launch.Resume {
	resume := &launch.Resume{Repo: r.repo, From: make([]*checkpoint.Manifest, replications)}
	if r.start != nil {
		copy(resume.From, r.start.From)
		resume.Variant = r.start.Variant
	}
	return resume
}

// beginOf is where replication n begins.
func (r *dirReplayer) beginOf(n int) float64 {
	if r.o.config.Resume == nil {
		return 0
	}
	return pointEpoch(r.o.config.Resume.From[n])
}

// findStates finds the checkpoints whose states are compared.
func (r *dirReplayer) findStates(ctx context.Context, replay *launch.Replay) error {
	points, err := r.repo.Points(ctx)
	if err != nil {
		return err
	}
	replay.States = make([][]*checkpoint.Manifest, len(replay.To))
	for _, p := range points { // by epoch
		n := p.Replication
		if p.Finished || n >= len(replay.To) || replay.To[n] == nil || r.until > 0 && p.Epoch > r.until ||
			p.Epoch <= r.beginOf(n) {
			continue
		}
		m, err := r.repo.Load(ctx, p)
		var missing *checkpoint.MissingError
		if errors.As(err, &missing) {
			continue // pruned meanwhile
		}
		if err != nil {
			return err
		}
		replay.States[n] = append(replay.States[n], m)
	}
	return nil
}

// checkEnds refuses what ends before it begins.
func (r *dirReplayer) checkEnds(replay *launch.Replay) error {
	left := 0
	for n, to := range replay.To {
		if to == nil {
			continue
		}
		begin := r.beginOf(n)
		if r.until > 0 && r.until <= begin {
			return usage("--until: found %v, want later than %v, where replication %d begins", r.until, begin, n)
		}
		if !to.Finished && to.Epoch <= begin {
			replay.To[n] = nil
			continue
		}
		left++
	}
	if left == 0 && r.at == "" {
		return usage("%s: found no checkpoint, want one: what a run has recorded can be compared up to its last one",
			r.repo.String())
	}
	if left == 0 {
		return usage("--at %s: found the end of the journal, want an earlier checkpoint, or no --at for the begin",
			r.at)
	}
	return nil
}

// carryOut runs, compares and shows.
func (r *dirReplayer) carryOut(otherBuild bool) (err error) {
	cfg := &r.o.config
	r.screen = newScreen(r.p.terminal, r.p.name)
	defer r.screen.watch()()
	cfg.Stderr, cfg.Doing = r.screen, r.screen.doing
	if r.screen.terminal {
		cfg.Progress = r.screen.progress
	}
	signals := watchSignals(r.screen, r.p.name)
	defer signals.close()
	cfg.Stop, r.ctx = signals.stop, signals.ctx
	end, err := r.o.join(r.screen)
	if err != nil {
		return err
	}
	defer end()
	if r.scratch, err = os.MkdirTemp("", "disco-replay-"); err != nil {
		return fmt.Errorf("a folder for the replay: %w", outfile.Error(os.TempDir(), err))
	}
	defer func() {
		for _, place := range r.places {
			err = errors.Join(err, place.Close())
		}
		err = errors.Join(err, os.RemoveAll(r.scratch))
	}()
	return signals.cause(r.compare(otherBuild))
}

// compare runs once, and shows what came of it.
func (r *dirReplayer) compare(otherBuild bool) error {
	cfg := r.o.config
	l, err := r.run(cfg, "states", func(l *launch.Launch) error { return r.check(l, otherBuild) })
	if l != nil {
		r.names = l
	}
	if err != nil {
		return r.beforeAsked(l, err)
	}
	got := cfg.Replay.Replayed()
	if u := got.First; u != nil {
		r.screen.end()
		r.head()
		return cmp.Or(r.show(u, &got), errReplayDir)
	}
	r.screen.end()
	r.head()
	fmt.Fprintf(r.p.stdout, "equal: %s compared", r.compared(&got))
	fmt.Fprintf(r.p.stdout, ", in %s", count(got.Done, "replication"))
	if got.Results > 0 {
		fmt.Fprintf(r.p.stdout, ", and the results of %s that ended", count(got.Results, "replication"))
	}
	fmt.Fprintln(r.p.stdout)
	return nil
}

// beforeAsked is what a replay finds that has ended because a call of the outside world wasn't as recorded, which may
// follow from something else: the calls before it are compared first.
func (r *dirReplayer) beforeAsked(l *launch.Launch, failed error) error {
	if l == nil || l.Unlike() == nil || r.ctx.Err() != nil {
		return failed
	}
	unlike, was := l.Unlike(), r.o.config.Replay
	n, until := unlike.Replication, unlike.Key.Epoch
	if until <= r.beginOf(n) {
		return failed // it is the first call
	}
	replay := &launch.Replay{Repo: r.repo, To: make([]*checkpoint.Manifest, len(was.To)), Until: until,
		States: make([][]*checkpoint.Manifest, len(was.To))}
	replay.To[n] = was.To[n]
	for _, m := range was.States[n] {
		if m.Epoch <= until {
			replay.States[n] = append(replay.States[n], m)
		}
	}
	r.o.config.Replay = replay
	if _, err := r.run(r.o.config, "asked", nil); err != nil {
		return errors.Join(failed, fmt.Errorf("a look at the calls before it: %w", err))
	}
	r.screen.end()
	got := replay.Replayed()
	if got.First == nil {
		return fmt.Errorf("%w\n%s before %v s compared, and equal: the call itself is the first that isn't as recorded",
			failed, r.compared(&got), until)
	}
	r.head()
	if err := r.show(got.First, &got); err != nil {
		return err
	}
	return fmt.Errorf("%w; behind that, %w", errReplayDir, failed)
}

// head writes what was replayed.
func (r *dirReplayer) head() {
	fmt.Fprintf(r.p.stdout, "%s\n", strings.Join(append([]string{r.title}, r.remarks...), "\n"))
	fmt.Fprintln(r.p.stdout)
}

// compared says how much was compared.
func (r *dirReplayer) compared(got *launch.Replayed) string {
	text := tables.Plural(int(got.Calls), "call") + " of handlers"
	if got.States > 0 {
		text += " and " + tables.Plural(int(got.States), "state") + " of nodes"
	}
	return text
}

// check refuses another program, and a scenario that isn't what it was.
func (r *dirReplayer) check(l *launch.Launch, otherBuild bool) error {
	is, err := r.o.storedRun(l)
	if err != nil {
		return err
	}
	return (&resumed{otherBuild: otherBuild}).check(r.repo.Run(), is)
}

// run runs a replay, with a place of its own for the states that it saves.
func (r *dirReplayer) run(cfg launch.Config, name string, check func(*launch.Launch) error) (*launch.Launch,
	error) {
	if cfg.Replay.SavesStates() {
		run := *r.repo.Run()
		run.ID, run.Replayable, run.Trace, run.Records, run.From = checkpoint.ID{}, false, false, false, nil
		scratch, err := checkpoint.Create(r.ctx, checkpoint.NewDir(filepath.Join(r.scratch, name)), run)
		if err != nil {
			return nil, err
		}
		r.places = append(r.places, scratch)
		cfg.Checkpoint = &launch.Checkpoint{Repo: scratch, Keep: 2, TempDir: r.scratch}
	}
	r.screen.next("", false)
	l, err := prepare(cfg)
	if err == nil && check != nil {
		err = check(l)
	}
	if err != nil {
		return nil, err
	}
	if r.title == "" {
		r.title = describe(l)
	}
	_, err = simulate(r.ctx, l, cfg.Stop, r.screen)
	select {
	case <-cfg.Stop:
		err = cmp.Or(err, fmt.Errorf("%w: nothing was found up to there", errInterrupted))
	default:
	}
	return l, err
}

// show writes the first difference.
func (r *dirReplayer) show(u *launch.Unequal, got *launch.Replayed) error {
	w := r.p.stdout
	switch {
	case u.Calls != nil:
		return r.showCalls(u)
	case u.States != nil:
		names := storeNames{}
		names, _ = r.p.namesOf(r.repo.Run())
		fmt.Fprintf(w, "DIFFERENT states at %v s, replication %d, though all calls up to there are equal: %s of %s\n",
			u.Until, u.Replication, tables.Plural(int(u.States.Nodes), "node"),
			tables.Plural(int(r.repo.Run().Nodes), "node"))
		fmt.Fprintf(w, "A: as recorded; B: in the replay\n")
		r.showStates(u, &names)
	case u.Reports != nil:
		r.showReports(u)
	default:
		fmt.Fprintf(w, "DIFFERENT at the end of replication %d: trace hash %s was recorded, and is %s\n", u.Replication,
			u.TraceHash[0], u.TraceHash[1])
	}
	return nil
}

// showReports writes the first report that differs, at the end of a replication.
func (r *dirReplayer) showReports(u *launch.Unequal) {
	w, d := r.p.stdout, u.Reports
	g := r.names.Structure()
	fmt.Fprintf(w, "DIFFERENT results of replication %d, though all calls of it are equal: of %s of %d, the first of "+
		"them %s\n", u.Replication, tables.Plural(d.Simprocs, "simproc"), g.NumSimprocs(),
		g.Name(node.SimprocID(d.First)))
	at := 0
	for at < min(len(d.Was), len(d.Is)) && d.Was[at] == d.Is[at] {
		at++
	}
	for _, side := range []struct {
		name   string
		report []byte
	}{{"recorded ", d.Was}, {"in replay", d.Is}} {
		text := "none"
		if side.report != nil {
			from := max(at-reportShown/2, 0)
			shown := side.report[min(from, len(side.report)):min(from+reportShown, len(side.report))]
			text = (&diffState{Version: 1, HandlerBytes: len(side.report), ShownFrom: from,
				Shown: fmt.Sprintf("%x", shown)}).handler(at)
		}
		fmt.Fprintf(w, "%s  %s\n", side.name, text)
	}
	fmt.Fprintf(w, "not known: the call that has made the difference, since states are compared at checkpoints only: "+
		"`run FILE\n--print node=NAME` shows what the node got and did\n")
}

// reportShown is how many bytes of a report are shown.
const reportShown = 16

// showStates writes nodes whose states differ, as `checkpoints diff` does.
func (r *dirReplayer) showStates(u *launch.Unequal, names *storeNames) {
	for i := range u.States.Most {
		n := &u.States.Most[i]
		text := strings.TrimSpace(names.node(n.Index))
		fmt.Fprintf(r.p.stdout, "\nnode %d (%s): %s differ\n", n.Index, text, tables.Plural(int(n.Bytes), "byte"))
		r.showNode(n, names)
	}
}

// showNode writes what both sides have of a node.
func (r *dirReplayer) showNode(n *nodediff.Node, names *storeNames) {
	for k := range n.Simprocs {
		s := &n.Simprocs[k]
		showDiffSimproc(r.p.stdout, &diffSimproc{s.Rank, names.layer(s.Rank), s.Handler, s.Floors,
			newDiffState(&s.States[0], names), newDiffState(&s.States[1], names)})
	}
}

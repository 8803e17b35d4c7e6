// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/doorway"
	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/s3"
	"github.com/disco-sim/disco/internal/checkpoint/storeblobs"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/dial"
	"github.com/urfave/cli/v2"
)

// resultsKept are the flags of results that merge gets as they are.
var resultsKept = []string{"out", "json", "csv", "report", "columns", "tables"}

func resultsCommand() app.Command {
	flags := append(groupcall.DoorFlags(), groupcall.ProgramFlag(),
		&cli.BoolFlag{Name: "partial", Usage: "also of an experiment that hasn't ended: what is there"},
		&cli.StringFlag{Name: "step", DefaultText: "all", Usage: "of a pipeline: `NAME` of a step; --out DIR has a " +
			"folder for each otherwise"})
	for _, name := range resultsKept {
		flags = append(flags, &cli.StringFlag{Name: name, Usage: map[string]string{
			"out":     "write results, tables and time series to files in `DIR`, which is new or has earlier ones",
			"json":    "write the results to `FILE` as JSON, - for standard output",
			"csv":     "write the table of a sweep to `FILE` as CSV, - for standard output",
			"report":  "write the results to `FILE` as a page of HTML",
			"columns": "`NAMES` of the columns of a sweep's table, with commas between",
			"tables":  "show further tables: `NAMES` with commas between, or all"}[name]})
	}
	return app.Command{
		Name: "results", Usage: "gives the results of an experiment", ArgsUsage: "ID",
		Description: naming + "\n" +
			"The results are those of one run of all replications on this machine, to the bit, but for wall\n" +
			"times and which worker had which node; those of a sweep are one table. Until all pieces have\n" +
			"ended well nothing is written, and the status is 1, unless --partial asks for what is there.",
		Examples: []string{"results night --store etcd://127.0.0.1:2379 --out night",
			"results night --json - --partial"},
		Flags: flags, Run: runResults,
	}
}

func runResults(c *app.Call) error {
	if c.NArg() != 1 {
		return app.Usage("found %d arguments, want the ID of an experiment", c.NArg())
	}
	program, digest, err := groupcall.OpenProgram(c)
	if err != nil {
		return err
	}
	defer program.Close()
	temp, err := os.MkdirTemp("", "disco-results-")
	if err != nil {
		return err
	}
	status := 0
	err = groupcall.WithStore(c, groupcall.Looks, func(ctx context.Context, s *metastore.Store) error {
		e, pieces, err := look(ctx, c, s)
		if err == nil {
			err = checkProgram(e, program.Name(), digest)
		}
		if err != nil {
			return err
		}
		calls, err := gather(ctx, c, e, pieces, temp)
		for _, call := range calls {
			if err != nil {
				break
			}
			if call.step != "" && !c.IsSet("out") {
				fmt.Fprintf(c.Stdout, "step %s\n", call.step)
			}
			var one int
			one, err = mergeBy(ctx, c, program.Name(), call.args)
			if status = cmp.Or(status, one); call.unmet != "" && err == nil {
				fmt.Fprintf(c.Stderr, "step %s: %s\n", call.step, call.unmet)
				status = cmp.Or(status, app.ExitUnmet)
			}
		}
		return err
	})
	_, undo := c.Interruptible() // very many parts take a while: a signal ends it with nothing left behind
	err = errors.Join(err, os.RemoveAll(temp))
	if undo(); err != nil {
		return err
	}
	return groupcall.Exit(status)
}

// checkProgram refuses another program than the one by which an experiment was submitted, before anything is fetched:
// it may have no such model, and merge refuses parts that others have made.
func checkProgram(e *fleet.Experiment, program string, digest [sha256.Size]byte) error {
	was, is := e.Spec.Labels[ProgramLabel], programMark(digest)
	if was == "" || was == is {
		return nil
	}
	return app.Usage("--program: found %s (version %s, digest %s…), want the program by which %s was submitted "+
		"(version %s, digest %s…): call results by that one, or name its file", program, app.Version(), is,
		strings.TrimSpace(e.Name()+" "+e.ID), e.Spec.Version, was)
}

// merging is a call of merge.
type merging struct {
	step  string // of a pipeline: its name
	unmet string // what it requires and doesn't have
	args  []string
}

// gather brings the parts of an experiment to this machine, and gives the calls of merge: one for each step.
func gather(ctx context.Context, c *app.Call, e *fleet.Experiment, pieces map[fleet.PieceID]fleet.PieceAt,
	temp string) (calls []merging, err error) {
	steps, err := stepsWanted(c, e)
	if err != nil {
		return nil, err
	}
	ended, steps, err := endedSteps(c, e, pieces, steps)
	if err != nil {
		return nil, err
	}
	if e.Spec.Pipeline() && c.IsSet("out") && !c.IsSet("step") {
		if err := os.MkdirAll(c.String("out"), 0o777); err != nil {
			return nil, app.Usage("--out: %v", err)
		}
	}
	for _, step := range steps {
		args, err := gatherStep(ctx, c, e, step, ended[step], filepath.Join(temp, strconv.Itoa(step)))
		if err != nil {
			return nil, err
		}
		call := merging{args: args}
		if e.Spec.Pipeline() {
			call.step, call.unmet = e.Spec.Steps[step].Name, unmet(e, pieces, step)
		}
		calls = append(calls, call)
	}
	return calls, nil
}

// unmet says what a step of a pipeline requires of its results and they don't have; "": nothing.
func unmet(e *fleet.Experiment, pieces map[fleet.PieceID]fleet.PieceAt, step int) string {
	closing := pieces[e.Spec.Closing(step)]
	if closing.State == fleet.Failed && closing.Error != nil && closing.Error.Type == fleet.ErrorRequire {
		return closing.Error.Message
	}
	return ""
}

// look finds the experiment and its pieces, within --store-timeout.
func look(ctx context.Context, c *app.Call, s *metastore.Store) (e *fleet.Experiment,
	pieces map[fleet.PieceID]fleet.PieceAt, err error) {
	ctx, cancel, err := groupcall.Bounded(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	defer cancel()
	client, err := fleet.New(ctx, s, fleet.Options{})
	if err != nil {
		return nil, nil, err
	}
	e, err = client.Find(ctx, c.Args().First())
	if unknown := (*fleet.UnknownError)(nil); errors.As(err, &unknown) {
		return nil, nil, app.Usage("%v", err)
	}
	if err != nil {
		return nil, nil, err
	}
	if e.Spec == nil {
		return nil, nil, errors.Join(e.Malformed...)
	}
	pieces, malformed, err := client.Pieces(ctx, e.ID)
	return e, pieces, errors.Join(append(malformed, err)...)
}

// gatherStep brings the parts of a step here, and gives the arguments of merge.
func gatherStep(ctx context.Context, c *app.Call, e *fleet.Experiment, number int, ended []fleet.PieceID,
	temp string) (args []string, err error) {
	spec, step := e.Spec, &e.Spec.Steps[number]
	whole := !c.Bool("partial")
	if n := countOf(e, number); len(step.Until) > 0 && len(ended) >= n {
		whole = true // the rule says which count, and how many are enough
	}
	for _, text := range step.Until {
		if whole {
			args = append(args, "--until", text)
		}
	}
	if step.Has("--records") {
		args = append(args, "--records")
		if !c.IsSet("out") {
			args = append(args, "--out", temp+"-out") // where parts have records they go to a folder
		}
	}
	args = append(args, "--named="+step.File)
	for _, name := range resultsKept {
		switch {
		case !c.IsSet(name):
		case name == "out" && spec.Pipeline() && !c.IsSet("step"):
			args = append(args, "--out="+filepath.Join(c.String("out"), step.Name))
		default:
			args = append(args, "--"+name+"="+c.String(name))
		}
	}
	if len(step.Points) > 1 || len(step.Sweep) > 0 {
		for _, axis := range step.Sweep {
			args = append(args, "--sweep", axis)
		}
	}
	if !whole {
		args = append(args, "--partial")
	}
	place := func(p fleet.PieceID) string { return PlaceOf(groupcall.URL(c), c.String("group"), spec, p) }
	if err := os.MkdirAll(temp, 0o700); err != nil {
		return nil, err
	}
	dirs, err := FetchResults(ctx, c, ended, place, temp, c.Duration("store-timeout"))
	if err != nil {
		return nil, err
	}
	list := filepath.Join(temp, "parts") // a command line takes some ten thousand only
	for i := range dirs {
		if len(step.Sweep) > 0 && dirs[i] != "" {
			dirs[i] = strconv.Itoa(ended[i].Point) + "\t" + dirs[i]
		}
	}
	dirs = slices.DeleteFunc(dirs, func(dir string) bool { return dir == "" })
	return append(args, "--parts", list), os.WriteFile(list, []byte(strings.Join(dirs, "\n")+"\n"), 0o600)
}

// stepsWanted are the numbers of the steps whose results are asked for.
func stepsWanted(c *app.Call, e *fleet.Experiment) (steps []int, err error) {
	if c.IsSet("step") {
		step, err := e.Spec.StepOf(c.String("step"))
		if err != nil {
			return nil, app.Usage("--step: %v", err)
		}
		return []int{step}, nil
	}
	for i := range e.Spec.Steps {
		steps = append(steps, i)
	}
	for _, name := range resultsKept {
		if len(steps) > 1 && name != "out" && name != "tables" && c.IsSet(name) {
			return nil, app.Usage("--%s: found it with an experiment of %d steps, want --step NAME with it, or --out "+
				"DIR for all", name, len(steps))
		}
	}
	return steps, nil
}

// endedSteps are the pieces of some steps that have ended well; they must be all, unless --partial is given: then steps
// without any are left out.
func endedSteps(c *app.Call, e *fleet.Experiment, pieces map[fleet.PieceID]fleet.PieceAt, steps []int) (
	ended map[int][]fleet.PieceID, some []int, err error) {
	ended = map[int][]fleet.PieceID{}
	var errs []error
	for _, step := range steps {
		all, err := endedPieces(c, e, pieces, step)
		if errs = append(errs, err); err == nil {
			ended[step], some = all, append(some, step)
		}
	}
	err = errors.Join(errs...)
	if err == nil || c.Bool("partial") && len(some) > 0 {
		return ended, some, nil
	}
	for _, step := range some {
		if text := unmet(e, pieces, step); text != "" {
			name := e.Spec.Steps[step].Name
			err = fmt.Errorf("%w\n%s, step %s: %s; its results are those of --step %s", err, e.ID, name, text, name)
		}
	}
	return nil, nil, err
}

// endedPieces are those of a step that have ended well; they must be all, unless --partial is given.
func endedPieces(c *app.Call, e *fleet.Experiment, pieces map[fleet.PieceID]fleet.PieceAt, number int) (
	ended []fleet.PieceID, err error) {
	step := &e.Spec.Steps[number]
	states, never := map[fleet.PieceState]int{}, fleet.Waiting
	if e.Ended() {
		never = fleet.Canceled // what has never begun by the end was cancelled
	}
	for point := range step.Points {
		for r := range countOf(e, number) {
			p := fleet.PieceID{Step: number, Point: point, Replication: r}
			state := never
			if there, ok := pieces[p]; ok {
				state = there.State
			}
			if states[state]++; state == fleet.Finished {
				ended = append(ended, p)
			}
		}
	}
	all := len(step.Points) * countOf(e, number)
	if len(ended) == all || c.Bool("partial") && len(ended) > 0 {
		return ended, nil
	}
	var text []string
	for state := fleet.Waiting; state <= fleet.Canceled; state++ {
		if states[state] > 0 {
			text = append(text, fmt.Sprintf("%d %v", states[state], state))
		}
	}
	name := e.ID
	if e.Spec.Pipeline() {
		name += ", step " + step.Name
	}
	err = fmt.Errorf("%s: %d of %d pieces have ended well (%s): nothing is written", name, len(ended), all,
		strings.Join(text, ", "))
	if len(ended) > 0 {
		err = fmt.Errorf("%w; --partial gives what is there", err)
	}
	return nil, err
}

// countOf is how many replications of each point of a step count, at most as long as that isn't known.
func countOf(e *fleet.Experiment, step int) int {
	if n := e.Enough(step); n > 0 {
		return n
	}
	return e.Spec.Steps[step].Replications
}

// mergeBy has the program put the parts together, and gives its exit status.
func mergeBy(ctx context.Context, c *app.Call, program string, args []string) (status int, err error) {
	cmd := exec.CommandContext(ctx, program, append([]string{"merge", "--called", "results"}, args...)...)
	out := &passing{w: c.Stdout}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, out, c.Stderr
	err = cmd.Run()
	if out.err != nil { // the program only sees that nobody reads any more
		return 0, out.err
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// passing keeps the error of a writer.
type passing struct {
	w   io.Writer
	err error
}

// Write implements io.Writer.
func (p *passing) Write(b []byte) (n int, err error) {
	n, p.err = p.w.Write(b)
	return n, p.err
}

// fetcher brings parts here that lie in a store; directories are read where they are.
type fetcher struct {
	c     *app.Call
	temp  string
	quiet time.Duration    // for which a store that doesn't answer is waited for
	store *metastore.Store // with the parts of the experiment; nil: it isn't open
}

// close ends what fetch has opened.
func (f *fetcher) close() error {
	if f.store == nil {
		return nil
	}
	return f.store.Close()
}

// fetch gives the directory with a piece's part, which was there when the piece had ended.
func (f *fetcher) fetch(ctx context.Context, p fleet.PieceID, place string) (dir string, err error) {
	if dir = place; strings.Contains(place, "://") {
		from, err := f.open(ctx, place, p)
		if err != nil {
			return "", err
		}
		dir = filepath.Join(f.temp, p.String())
		if err := copyBlobs(ctx, from, checkpoint.NewDir(dir)); err != nil {
			return "", err
		}
	}
	if is, err := checkpoint.Begun(ctx, checkpoint.NewDir(dir)); err != nil || is {
		return dir, err
	}
	return "", &goneError{place}
}

// open opens the place of a part. Those in the group's store are reached over one connection.
func (f *fetcher) open(ctx context.Context, place string, p fleet.PieceID) (checkpoint.Blobs, error) {
	if strings.HasPrefix(place, s3.Scheme) {
		return s3.Open(ctx, place, s3.Config{Getenv: os.Getenv, Owner: "results " + strconv.Itoa(os.Getpid())})
	}
	whole := strings.TrimSuffix(place, "/"+p.String())
	root, id := whole[:strings.LastIndex(whole, "/")], whole[strings.LastIndex(whole, "/")+1:]
	if strings.HasPrefix(place, doorway.Scheme) {
		return f.openDoor(ctx, place, id, p)
	}
	if f.store == nil {
		c := f.c
		// At the root of the place, which users may read who may write nothing.
		ctx, cancel, err := groupcall.Bounded(ctx, c)
		if err != nil {
			return nil, err
		}
		defer cancel()
		store, err := dial.Open(ctx, dial.Options{URL: root, CA: c.String("store-ca"), Cert: c.String("store-cert"),
			Key: c.String("store-key"), PasswordFile: c.String("store-password-file"),
			Password: os.Getenv("DISCO_STORE_PASSWORD"), Store: storeblobs.Options("")})
		if err != nil {
			return nil, err
		}
		f.store = store
	}
	return f.place(id, p, place), nil
}

// openDoor opens the place of a part that lies in the home of a door.
func (f *fetcher) openDoor(ctx context.Context, place, id string, p fleet.PieceID) (checkpoint.Blobs, error) {
	if f.store == nil {
		store, err := groupcall.OpenResults(ctx, f.c, storeblobs.Options(""))
		if err != nil {
			return nil, err
		}
		f.store = store
	}
	return f.place(id, p, place), nil
}

// place is that of a part in the store that is open.
func (f *fetcher) place(id string, p fleet.PieceID, name string) *storeblobs.Place {
	place := storeblobs.New(f.store, partKey(id, p), name, "results")
	place.Quiet = f.quiet
	return place
}

// partKey is where the part of a piece lies in the tree of a group's parts.
func partKey(id string, p fleet.PieceID) string {
	return strings.Join([]string{id, p.String(), storeblobs.Group, storeblobs.Key}, "/")
}

// copyBlobs copies all blobs of a place, but its lock.
func copyBlobs(ctx context.Context, from, to checkpoint.Blobs) error {
	var copyFolder func(prefix string) error
	copyFolder = func(prefix string) error {
		blobs, err := from.List(ctx, prefix)
		if err != nil {
			return err
		}
		for _, b := range blobs {
			if strings.HasSuffix(b.Name, "/") {
				err = copyFolder(b.Name)
			} else if b.Name != checkpoint.LockName {
				r := &blobReader{ctx: ctx, from: from, name: b.Name, size: b.Size}
				err = to.Put(ctx, b.Name, r, b.Size, false)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return copyFolder("")
}

// blobReader reads a blob piece by piece.
type blobReader struct {
	ctx      context.Context
	from     checkpoint.Blobs
	name     string
	at, size int64
	buf      []byte
	rest     []byte // of buf, that wasn't read yet
}

// readStep is how much of a blob is read at a time, in bytes.
const readStep = 1 << 20

// Read implements io.Reader.
func (r *blobReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.at == r.size {
			return 0, io.EOF
		}
		var err error
		if r.buf, err = r.from.Get(r.ctx, r.name, r.at, min(readStep, r.size-r.at), r.buf); err != nil {
			return 0, err
		}
		if len(r.buf) == 0 {
			return 0, io.ErrUnexpectedEOF
		}
		r.at, r.rest = r.at+int64(len(r.buf)), r.buf
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

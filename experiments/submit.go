// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/checkpoint/s3"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/internal/submission"
	"github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

// scenarioFlags are those of submit that the program with the models reads, as of its run.
func scenarioFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "replications", DefaultText: "1; 1000 with --until", Usage: "repeat each point `R` " +
			"times, each with its own random numbers; with --until at most"},
		&cli.StringSliceFlag{Name: "until", Usage: "end when the interval of a figure is narrow enough, " +
			"`FIGURE ± WIDTH`: 'latency_s.p99 ± 2 %' (or +-2%), or in the figure's unit; may be given several times"},
		&cli.StringSliceFlag{Name: "figure", Usage: "have machines report this figure of each replication, `NAME`, " +
			"as watch shows it; may be repeated"},
		&cli.StringSliceFlag{Name: "sweep", Usage: "simulate each value of a field, `KEY=A,B,C`; several make a grid"},
		&cli.StringSliceFlag{Name: "set", Usage: "put a value into the scenario, `KEY=VALUE`; may be repeated"},
		&cli.StringFlag{Name: "seed", DefaultText: "1", Usage: "`SEED` of all random numbers"},
		&cli.StringFlag{Name: "horizon", DefaultText: "the scenario's own",
			Usage: "simulated `SECONDS` at which a replication ends"},
		&cli.StringFlag{Name: "warmup", DefaultText: "the scenario's own",
			Usage: "simulated `SECONDS` before which nothing is counted; or auto"},
		&cli.StringFlag{Name: "workers", DefaultText: "1", Usage: "`N` servers for each replication"},
		&cli.BoolFlag{Name: "records", DisableDefaultText: true, Usage: "record each request, packet, customer or " +
			"order, for results --out"},
		&cli.BoolFlag{Name: endsFlag, DisableDefaultText: true, Usage: "keep no checkpoints: of a model of which " +
			"only a call shows that it can't be saved; where its setup does it is so anyway. What is lost begins anew"},
	}
}

// endsFlag is a flag of submit, and a field of a step.
const endsFlag = "checkpoint-ends"

func submitCommand() app.Command {
	return app.Command{
		Name: "submit", Usage: "has the machines of a group simulate a scenario many times", ArgsUsage: "FILE",
		Description: "FILE is a scenario (- for standard input), or has steps that wait for each other, each with\n" +
			"a scenario of its own. A scenario is read and checked as run does it, with all\n" +
			"points of the sweep, and then given to the group with the files that it refers to. The command\n" +
			"doesn't wait for results. The last word that it prints is the experiment's id.\n" +
			"What is submitted twice with one --idempotency-key is one experiment. Without one a random key\n" +
			"is kept below XDG_STATE_HOME until there is an answer: repeat the same command when there was none.",
		Examples: []string{"submit shop.yml --store etcd://127.0.0.1:2379 --replications 100 --name night",
			"submit shop.yml --until 'latency_s.p99 ± 2 %' --figure throughput_rps",
			"submit shop.yml --replications 20 --sweep rqs_input.avg_active_users.mean=10,20,40 --workers 2",
			"submit shop.yml --place /shared/night --priority low --label rack=a --idempotency-key night-17",
			"submit pipeline.yml --name night"},
		Flags: slices.Concat(groupcall.DoorFlags(), scenarioFlags(), []cli.Flag{groupcall.ProgramFlag(),
			&cli.StringFlag{Name: "db", DefaultText: "DISCO_DB", Usage: "`URL` of the database for the file's graph: " +
				"section, which is read once and sent along: sqlite:FILE or postgres://USER@HOST/DATABASE"},
			&cli.StringFlag{Name: "name", Usage: "`NAME` of the experiment; that of FILE if not given"},
			&cli.StringFlag{Name: "priority", Value: string(fleet.Normal),
				Usage: "`CLASS` in the queue: high, normal, low"},
			&cli.StringFlag{Name: "place", DefaultText: "the group's store",
				Usage: "`DIR` or s3://… in which machines keep results and checkpoints; all of them must reach it"},
			&cli.StringSliceFlag{Name: "label", Usage: "only machines with `KEY=VALUE`; may be repeated"},
			&cli.IntFlag{Name: "attempts", DefaultText: "3",
				Usage: "`N` times a replication is begun whose machine or process fails"},
			&cli.DurationFlag{Name: "start-timeout", DefaultText: "2m30s",
				Usage: "`TIME` from a replication's dispatch until all of its servers simulate"},
			&cli.DurationFlag{Name: "no-progress", DefaultText: "2m",
				Usage: "`TIME` without progress in simulated time after which an attempt is looked at"},
			&cli.DurationFlag{Name: "timeout", DefaultText: "none", Usage: "`TIME` that one attempt may take"},
			&cli.StringFlag{Name: "idempotency-key", DefaultText: "a random one",
				Usage: "`KEY` by which the same submission is known again"},
			&cli.BoolFlag{Name: "json", Usage: "write the answer as JSON"}}),
		Run: runSubmit,
	}
}

func runSubmit(c *app.Call) error {
	if c.NArg() > 1 {
		return app.Usage("found %d arguments, want one FILE", c.NArg())
	}
	if groupcall.URL(c) == "" { // before anything is read
		_, err := groupcall.Connect(context.Background(), c, groupcall.Looks)
		return err
	}
	group, err := groupcall.Group(c)
	if err != nil {
		return err
	}
	s, err := submissionOf(c)
	if err != nil {
		return err
	}
	digest, err := s.Check()
	if err != nil {
		return app.Usage("%v", err)
	}
	key := &savedKey{key: c.String("idempotency-key")}
	if !c.IsSet("idempotency-key") {
		if key, err = saveKey(strings.Join([]string{groupcall.URL(c), group, digest}, "\n")); err != nil {
			return err
		}
		if key.again {
			fmt.Fprintf(c.Stderr, "%s: the same was submitted before without an answer: this is the same submission\n",
				c.Program)
		}
	} else if key.key == "" {
		return app.Usage("--idempotency-key: found nothing, want a text of one's own, such as night-17")
	} else if err := fleet.CheckKey(key.key); err != nil {
		return app.Usage("--%v", err)
	}
	s.Key = key.key
	err = submitTries(c, s)
	return errors.Join(err, key.done(!unanswered(err)))
}

// unanswered tells whether an experiment may be there, or a later try may make it.
func unanswered(err error) bool {
	if err == nil {
		return false
	}
	full, taken, busy := (*fleet.FullError)(nil), (*fleet.KeyTakenError)(nil), (*fleet.BusyError)(nil)
	return !errors.As(err, &full) && !errors.As(err, &busy) && !errors.As(err, &taken) && !app.IsUsage(err) &&
		!errors.Is(err, metastore.ErrDenied)
}

// submitTries is how often it is tried, with waits of up to 1 s, 2 s between.
const submitTriesMost = 3

// submitTries submits, again where the store couldn't be reached.
func submitTries(c *app.Call, s *fleet.Submission) error {
	for try := 1; ; try++ {
		err := submitOnce(c, s)
		lost := errors.Is(err, metastore.ErrUnavailable) || errors.Is(err, metastore.ErrUnknown) ||
			errors.Is(err, metastore.ErrSessionLost)
		ended := (*app.Ended)(nil)
		if !lost || try == submitTriesMost || errors.As(err, &ended) {
			return err
		}
		wait := rand.N(time.Second << (try - 1))
		fmt.Fprintf(c.Stderr, "%s: submit: %v: it is tried again in %v (%d of %d)\n", c.Program, err,
			wait.Round(time.Millisecond), try+1, submitTriesMost)
		if err = interruptedIn(c, wait); err != nil {
			return err
		}
	}
}

// submitOnce submits, and says what was answered.
func submitOnce(c *app.Call, s *fleet.Submission) error {
	return withFleet(c, func(ctx context.Context, fl *fleet.Client) error {
		id, duplicate, err := fl.Submit(ctx, s)
		if err != nil {
			return err
		}
		if c.Bool("json") {
			return groupcall.WriteJSON(c.Stdout, struct {
				ID        string `json:"id"`
				Name      string `json:"name"`
				Duplicate bool   `json:"duplicate"`
			}{id, s.Name, duplicate}, false)
		}
		what := stepText(&s.Steps[0].Step)
		if n := len(s.Steps); n > 1 {
			what = table.Plural(n, "step")
		}
		if duplicate {
			what += "; it was submitted before"
		}
		_, err = fmt.Fprintf(c.Stdout, "%s: %s: %s\n", s.Name, what, id)
		return err
	})
}

// stepText is what is simulated of a step.
func stepText(s *fleet.Step) string {
	most, until := "", ""
	if len(s.Until) > 0 {
		most, until = "at most ", ", until "+strings.Join(s.Until, " and ")
	}
	return fmt.Sprintf("%s × %s%s, %s each%s", table.Plural(len(s.Points), "point"), most,
		table.Plural(s.Replications, "replication"), table.Plural(s.Workers, "worker"), until)
}

// submissionOf reads the flags, and has the program with the models check the scenario.
func submissionOf(c *app.Call) (*fleet.Submission, error) {
	class, err := priority(c.String("priority"))
	if err != nil {
		return nil, err
	}
	labels := map[string]string{}
	for _, label := range c.StringSlice("label") {
		if err := groupcall.AddLabel(labels, label); err != nil {
			return nil, app.Usage("--label: %v", err)
		}
	}
	if labels[ProgramLabel], err = ProgramMark(c, labels); err != nil {
		return nil, err
	}
	if quiet := c.Duration("no-progress"); c.IsSet("no-progress") && quiet < quietLeast {
		return nil, app.Usage("--no-progress: found %v, want at least %v: machines report each second", quiet,
			quietLeast)
	}
	for _, flag := range []string{"attempts", "start-timeout", "timeout"} {
		d, isTime := c.Value(flag).(time.Duration)
		if c.IsSet(flag) && (isTime && d <= 0 || !isTime && c.Int(flag) < 1) {
			return nil, app.Usage("--%s: found %v, want more than 0", flag, c.Value(flag))
		}
	}
	place, err := absolutePlace(c.String("place"))
	if err != nil {
		return nil, err
	}
	s, err := stepsOf(c)
	if err != nil {
		return nil, err
	}
	s.User, s.Place, s.Labels, s.Priority = groupcall.Who(), place, labels, class
	s.Version = app.Version() // that of agents; the program with the models is known by its digest
	if name := c.String("name"); name != "" {
		s.Name = name
	}
	s.Limits = fleet.Limits{Attempts: c.Int("attempts"), Start: c.Duration("start-timeout"),
		NoProgress: c.Duration("no-progress"), Total: c.Duration("timeout")}
	return s, nil
}

// stepsOf is what is to be simulated: a scenario, or the steps of a pipeline.
func stepsOf(c *app.Call) (*fleet.Submission, error) {
	file := c.Args().First()
	s := &fleet.Submission{Name: strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))}
	from := scenarioFile{name: file}
	if file != "" && file != fleet.FromInput {
		text, pipe, err := readSubmitted(file)
		if err != nil {
			return nil, err
		}
		p, err := parsePipeline(file, text)
		if err != nil {
			return nil, err
		}
		if p != nil {
			s.FailFast = p.failFast
			s.Steps, err = p.submitted(c)
			return s, err
		}
		if pipe {
			from.text = text
		}
	}
	checked, err := checkScenario(c, scenarioArgs(c), from)
	if err != nil {
		return nil, err
	}
	s.Steps = []fleet.SubmittedStep{submittedStep(fleet.Step{Args: checked.Args}, checked)}
	base := s.Steps[0].FileName()
	s.Name = strings.TrimSuffix(base, filepath.Ext(base))
	return s, nil
}

// scenarioFile is what the program with the models reads.
type scenarioFile struct {
	name string // "": flags make the scenario
	text []byte // of a pipe, which was read; nil: the program reads the file
}

// readSubmitted reads a file, and tells whether it is a pipe: that is empty then. Without an error there is no text
// where it can't be read, and the program with the models says why.
func readSubmitted(file string) (text []byte, pipe bool, err error) {
	info, err := os.Stat(file)
	pipe = err == nil && info.Mode()&fs.ModeNamedPipe != 0
	text, err = infile.Read(file, infile.Kind{Name: "a scenario file in YAML", BytesMax: scenario.FileBytesMax})
	if err != nil && pipe {
		return nil, true, app.Usage("%v", err)
	}
	return text, pipe, nil
}

// scenarioArgs are the flags that the program with the models reads, as they were given.
func scenarioArgs(c *app.Call) (args []string) {
	for _, f := range scenarioFlags() {
		name := f.Names()[0]
		switch {
		case !c.IsSet(name):
		case name == endsFlag:
			args = append(args, fmt.Sprintf("--%s=%v", submission.Ends, c.Bool(name)))
		case name == "records":
			args = append(args, "--records="+strconv.FormatBool(c.Bool(name)))
		case name == "set" || name == "sweep" || name == "until" || name == "figure":
			for _, text := range c.StringSlice(name) {
				args = append(args, "--"+name, text)
			}
		default:
			args = append(args, "--"+name+"="+c.String(name))
		}
	}
	return args
}

// quietLeast is how long a run may be silent in any case.
const quietLeast = 5 * time.Second

// ProgramLabel is the label of machines that says which program simulates there, and of experiments that says which one
// has read the scenario: another one might give other results, or know no such model.
const ProgramLabel = "program"

// ProgramMark is the value of ProgramLabel: the beginning of the digest of the program's file.
func ProgramMark(c *app.Call, labels map[string]string) (string, error) {
	if given, ok := labels[ProgramLabel]; ok {
		return "", app.Usage("--label: found %s=%s, want another name: this one says which program simulates",
			ProgramLabel, given)
	}
	f, digest, err := groupcall.OpenProgram(c)
	if err != nil {
		return "", err
	}
	return programMark(digest), f.Close()
}

func programMark(digest [sha256.Size]byte) string { return hex.EncodeToString(digest[:8]) }

// placeSchemes are those of places that are no folders.
var placeSchemes = []string{"s3", "etcd", "zk"}

// placeMore are the most bytes that an experiment's id and a piece's add to its place: more than PlaceOf ever does.
const placeMore = 64

// absolutePlace makes a folder's path one that is the same everywhere, and refuses what can't be a place.
func absolutePlace(place string) (string, error) {
	wrong := app.Usage("--place: found %.200q, want a folder, s3://BUCKET/PREFIX, etcd://HOST:PORT/NAME or "+
		"zk://HOST:PORT/NAME", place)
	if scheme, rest, ok := strings.Cut(place, "://"); ok && !strings.Contains(scheme, "/") {
		if !slices.Contains(placeSchemes, scheme) || strings.Trim(rest, "/") == "" {
			return "", wrong
		}
		if scheme == "s3" {
			if err := s3.Check(place, placeMore); err != nil {
				return "", app.Usage("--place: %v", err)
			}
		}
		return place, nil
	}
	if scheme, _, ok := strings.Cut(place, ":"); ok && slices.Contains(placeSchemes, scheme) {
		return "", wrong // two slashes are missing: a folder of this name can be written as ./s3:NAME
	}
	// A folder that isn't here may be on the machines.
	if at, err := os.Stat(place); place != "" && err == nil && !at.IsDir() {
		return "", app.Usage("--place: found %.200q, which is no folder here, want a folder that all machines reach",
			place)
	}
	if place == "" || filepath.IsAbs(place) {
		return place, nil
	}
	path, err := filepath.Abs(place)
	if err != nil {
		return "", fmt.Errorf("--place: %w", err)
	}
	return path, nil
}

// checkScenario has the program with the models read the scenario as its run does.
func checkScenario(c *app.Call, flags []string, from scenarioFile) (s *submission.Submission,
	err error) {
	path, err := groupcall.ProgramPath(c)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "disco-submit-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	args := append([]string{submission.Command, "--" + submission.Into + "=" + dir}, flags...)
	file, stdin := from.name, c.Stdin
	switch {
	case from.text != nil:
		args = append(args, "--"+submission.Named+"="+file, "--", "-")
		stdin = bytes.NewReader(from.text)
	case file != "":
		args = append(args, "--", file)
	}
	ctx, undo := c.Interruptible()
	defer undo()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Args[0] = c.Program
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, c.Stderr, c.Stderr
	if url := c.String("db"); url != "" { // it may have a password
		cmd.Env = append(os.Environ(), "DISCO_DB="+url)
	}
	if err := cmd.Run(); err != nil {
		exit := (*exec.ExitError)(nil)
		ended := (*app.Ended)(nil)
		switch {
		case errors.As(context.Cause(ctx), &ended):
			return nil, ended
		case errors.As(err, &exit) && exit.ExitCode() == app.ExitUsage: // it has said why
			return nil, app.Usage("%s can't be submitted: nothing was sent", orNothing(file))
		case errors.As(err, &exit):
			return nil, fmt.Errorf("the check of %s by %s: %w", orNothing(file), path, err)
		}
		return nil, app.Usage("--program: the program whose models run: %v: call this command by that program, or "+
			"name its file", err)
	}
	s, err = submission.Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, app.Usage("--program: found %s, which has no models, or is of another version: it ended well and "+
			"left no checked scenario. Want disco-run, or a program of your own models", path)
	}
	return s, err
}

// orNothing names the file, for messages.
func orNothing(file string) string {
	if file == "" {
		return "the scenario"
	}
	return file
}

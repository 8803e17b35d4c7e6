// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/internal/inspect"
	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/procfs"
	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/internal/worker"
)

// markEnv marks all processes of one try, down to those that a model may start.
const markEnv = "DISCO_CHAOS_MARK"

// tryMax is after how long a run that has not ended is taken to hang.
const tryMax = 20 * time.Second

// ground is what all tries share: folders and programs, and the undisturbed hashes.
type ground struct {
	dir     string
	plain   string // this executable
	program string // simulates what disco-run can simulate
	checked string // this executable with -tags invariants; empty: there is none
	slack   float64
	stopFor time.Duration // how long a worker is stopped
	hang    time.Duration // after so long without an end a run is taken to hang

	mu     sync.Mutex
	hashes map[string]*undisturbed // by scenario; guarded by mu
}

type undisturbed struct {
	once sync.Once
	hash string
	err  error
}

func newGround(program, checked string, slack float64) (*ground, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for _, path := range []*string{&program, &checked} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return nil, err
		}
		if _, err := os.Stat(*path); err != nil {
			return nil, err
		}
	}
	if program == "" {
		program = self
	}
	if checked == "" && invariants.Enabled {
		checked = self
	}
	dir, err := os.MkdirTemp("", "disco-chaos-")
	if err != nil {
		return nil, err
	}
	return &ground{dir: dir, plain: self, program: program, checked: checked, slack: slack, stopFor: 10 * time.Second,
		hang: tryMax, hashes: map[string]*undisturbed{}}, nil
}

func (g *ground) close() { os.RemoveAll(g.dir) }

// guard ensures that nothing is left when a signal ends this process. It also resets these signals for the
// processes started here, because a shell may have set them to be ignored. It returns a function that ends this.
func (g *ground) guard() (end func()) {
	ignored := signal.Ignored(syscall.SIGINT)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for s := range signals {
			if s == syscall.SIGINT && ignored {
				continue
			}
			for _, pid := range markedWith(filepath.Base(g.dir)) {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
			g.close()
			os.Exit(2)
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
	}
}

// longer is a promised time multiplied by the slack.
func (g *ground) longer(d time.Duration) time.Duration { return time.Duration(float64(d) * g.slack) }

// try is one run with a fault. One goroutine uses it, except for the fields about its end, which the run sets.
type try struct {
	*ground
	cell   *cell
	random *rand.Rand
	mark   string
	dir    string // working directory of the run: scenario, results, post-mortem
	temp   string // its folder for temporary files
	logs   string // its output, outside of the folders that are searched for leftovers
	known  []string

	cmd      *exec.Cmd
	launcher int // its process id
	struck   time.Time
	over     chan struct{} // closed when the run has ended
	ended    time.Time     // valid once over is closed
	term     *terminal
	after    []func() // clean-up functions, in the order of the steps that they undo
}

// errMissed is what an injector returns for a run that was over before the fault.
var errMissed = errors.New("the run was over before the fault")

// errCannot is what an injector returns where the machine doesn't allow its fault.
var errCannot = errors.New("")

// seedOf draws what a try needs from its own seed and the cell's name.
func seedOf(name string, seed uint64) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// try tries a cell once.
func (g *ground) try(c *cell, seed uint64) (o outcome) {
	if c.checked && g.checked == "" {
		return outcome{skipped: "only the checked build finds it (-checked FILE)"}
	}
	if c.proof != nil {
		if err := c.proof(); err != nil {
			o.wrong = append(o.wrong, err.Error())
		}
		return o
	}
	t := &try{ground: g, cell: c, random: seedOf(c.name(), seed), over: make(chan struct{})}
	defer t.clean()
	if err := t.prepare(); err != nil {
		return outcome{wrong: []string{err.Error()}}
	}
	err := t.start()
	if err == nil && c.inject != nil {
		err = c.inject(t)
	}
	switch {
	case errors.Is(err, errCannot):
		return outcome{skipped: err.Error()}
	case errors.Is(err, errMissed):
		o.missed = true
	case err != nil:
		o.wrong = append(o.wrong, "the fault didn't come about: "+err.Error())
	}
	t.judge(&o)
	return o
}

// prepare makes the folders and writes the scenario.
func (t *try) prepare() error {
	root, err := os.MkdirTemp(t.ground.dir, "try-")
	if err != nil {
		return err
	}
	t.mark = filepath.Base(t.ground.dir) + "/" + filepath.Base(root)
	t.dir, t.temp, t.logs = filepath.Join(root, "run"), filepath.Join(root, "tmp"), filepath.Join(root, "logs")
	for _, dir := range []string{t.dir, t.temp, t.logs} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			return err
		}
	}
	t.after = append(t.after, func() { os.RemoveAll(root) })
	t.known = []string{scenarioFile, topologyFile, diskDir}
	return writeScenario(t.dir, t.cell)
}

const (
	scenarioFile = "scenario.yml"
	diskDir      = "disk" // where the small file system is mounted
)

func writeScenario(dir string, c *cell) error {
	l := loadOf(c.kind)
	text := l.text
	if c.kind == "network" {
		if err := os.WriteFile(filepath.Join(dir, topologyFile), []byte(text), 0o666); err != nil {
			return err
		}
		text = networkScenario
	}
	if c.trouble != "" {
		text += "trouble: " + c.trouble + "\n"
	}
	return os.WriteFile(filepath.Join(dir, scenarioFile), []byte(text), 0o666)
}

// arguments are those of the run.
func (t *try) arguments() []string {
	l := loadOf(t.cell.kind)
	args := []string{"run", filepath.Join(t.dir, scenarioFile), "--horizon", t.cell.end()}
	if !slices.Contains(t.cell.args, "--json") {
		args = append(args, "--json", "-")
	}
	if len(l.args) > 0 && !slices.Contains(t.cell.args, l.args[0]) {
		args = append(args, l.args...)
	}
	return append(args, t.cell.args...)
}

// start starts the run, in its terminal and with its limits.
func (t *try) start() error {
	program := t.program
	switch {
	case t.cell.checked:
		program = t.checked
	case strings.HasPrefix(t.cell.kind, "tiny"):
		program = t.plain
	}
	role, args := roleProgram, t.arguments()
	t.cmd = exec.Command(program, args...)
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	env := append(os.Environ(), markEnv+"="+t.mark, "TMPDIR="+t.temp)
	if t.cell.limits != nil {
		limits := *t.cell.limits
		if limits.Disk != "" {
			limits.Disk = filepath.Join(t.dir, diskDir)
			if err := os.Mkdir(limits.Disk, 0o777); err != nil {
				return err
			}
			t.cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
			if os.Getuid() != 0 {
				return fmt.Errorf("%wmounting a small file system takes the rights of root", errCannot)
			}
		}
		text, err := json.Marshal(limits)
		if err != nil {
			return err
		}
		role, env = roleLimited, append(env, limitsEnv+"="+string(text))
		t.cmd.Path, t.cmd.Args = t.plain, append([]string{t.plain, program}, args...)
	}
	var err error
	if t.cmd.Stdout, t.cmd.Stderr, err = t.streams(); err != nil {
		return err
	}
	if t.cell.terminal {
		if t.term, err = openTerminal(); err != nil {
			return fmt.Errorf("%wno terminal can be made: %v", errCannot, err)
		}
		t.after = append(t.after, func() { t.term.window.Close() })
		defer t.term.line.Close()
		role, t.cmd.Stdin = roleTerminal, t.term.line
		t.cmd.Path, t.cmd.Args = t.plain, append([]string{t.plain, program}, args...)
		t.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	}
	t.cmd.Env, t.cmd.Dir = append(env, roleEnv+"="+role), t.dir
	if err := t.join(); err != nil {
		return err
	}
	t.struck = time.Now() // for faults that exist from the start
	go func() {
		defer close(t.over)
		_ = t.cmd.Wait() // its state says more
		t.ended = time.Now()
	}()
	t.launcher = t.cmd.Process.Pid
	if t.term != nil {
		return t.until("the program in the terminal", t.findProgram)
	}
	return nil
}

// findProgram looks for the program that the shell has started. A child that hasn't become
// the program is none: Go's runtime starts one to see what the kernel can do.
func (t *try) findProgram() bool {
	for _, pid := range childrenOf(t.cmd.Process.Pid) {
		if slices.Equal(procfs.Command(pid), t.cmd.Args[1:]) {
			t.launcher = pid
			return true
		}
	}
	return false
}

// join starts the run, in a control group if the cell needs one.
func (t *try) join() error {
	if t.cell.limits == nil || t.cell.limits.Group == 0 {
		return t.cmd.Start()
	}
	join, remove, err := memoryGroup(strings.ReplaceAll(t.mark, "/", "-"), t.cell.limits.Group)
	if err != nil {
		return fmt.Errorf("%w%v", errCannot, err)
	}
	t.after = append(t.after, remove)
	// It is in the group before it does anything: it waits for its first byte.
	gate, open, err := os.Pipe()
	if err != nil {
		return err
	}
	defer gate.Close()
	defer open.Close()
	t.cmd.ExtraFiles = []*os.File{gate}
	if err := t.cmd.Start(); err != nil {
		return err
	}
	if err := join(t.cmd.Process.Pid); err != nil {
		return err
	}
	_, err = open.Write([]byte{0})
	return err
}

// streams opens the files for the output of the run.
func (t *try) streams() (stdout, stderr *os.File, err error) {
	if stderr, err = os.Create(filepath.Join(t.logs, "stderr")); err != nil {
		return nil, nil, err
	}
	t.after = append(t.after, func() { stderr.Close() })
	if t.cell.deaf {
		reader, writer, err := os.Pipe()
		if err != nil {
			return nil, nil, err
		}
		reader.Close()
		t.after = append(t.after, func() { writer.Close() })
		return writer, stderr, nil
	}
	stdout, err = os.Create(filepath.Join(t.logs, "stdout"))
	if err == nil {
		t.after = append(t.after, func() { stdout.Close() })
	}
	return stdout, stderr, err
}

// clean ends all processes that are left and undoes what the try has set up.
func (t *try) clean() {
	if t.cmd != nil && t.cmd.Process != nil {
		for _, pid := range t.marked() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		<-t.over
	}
	for i := len(t.after) - 1; i >= 0; i-- {
		t.after[i]()
	}
}

// until polls a condition; errMissed when the run ends before it holds.
func (t *try) until(what string, condition func() bool) error { return t.poll(t.hang, what, condition) }

// within is until for something that is promised within a time.
func (t *try) within(limit time.Duration, what string, condition func() bool) error {
	return t.poll(t.longer(limit), what, condition)
}

func (t *try) poll(limit time.Duration, what string, condition func() bool) error {
	deadline := time.Now().Add(limit)
	for !condition() {
		select {
		case <-t.over:
			return errMissed
		case <-time.After(time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not within %v", what, limit)
		}
	}
	return nil
}

// simulating waits until all workers handle events.
func (t *try) simulating() error {
	return t.until("workers that simulate", func() bool {
		live, err := inspect.Process(t.launcher)
		if err != nil || len(live.Workers) == 0 {
			return false
		}
		for i := range live.Workers {
			if w := &live.Workers[i]; w.PID == 0 || w.Number(worker.NumberEvents) == 0 {
				return false
			}
		}
		return true
	})
}

// pause waits for a time between the two; errMissed when the run ends meanwhile.
func (t *try) pause(least, most time.Duration) error {
	select {
	case <-time.After(least + time.Duration(t.random.Int64N(int64(most-least)+1))):
		return nil
	case <-t.over:
		return errMissed
	}
}

// said is the output of a run, which may be long after a fault.
var said = infile.Kind{Name: "output of a run", BytesMax: 64 << 20}

// result is what the run printed as JSON.
type result struct {
	Hash         string          `json:"trace_hash"`
	Events       uint64          `json:"events"`
	Results      json.RawMessage `json:"results"`
	Replications []struct {
		Reached float64 `json:"reached_s"`
	} `json:"per_replication"`
}

func (t *try) said(stream string) string {
	text, err := infile.Read(filepath.Join(t.logs, stream), said)
	if err != nil {
		return ""
	}
	return string(text)
}

// expected is the trace hash of the cell's scenario when nothing goes wrong.
func (t *try) expected() (string, error) {
	// A trouble that ends leaves the results as they are, so the hash is that without.
	t.mu.Lock()
	key := t.cell.kind + " to " + t.cell.end()
	u := t.hashes[key]
	if u == nil {
		u = &undisturbed{}
		t.hashes[key] = u
	}
	t.mu.Unlock()
	u.once.Do(func() {
		r, err := t.simulate(t.cell.kind, t.cell.end())
		if u.hash, u.err = r.Hash, err; err == nil && r.Hash == "" {
			u.err = fmt.Errorf("the undisturbed run of %s has no hash", t.cell.kind)
		}
	})
	return u.hash, u.err
}

// end is the horizon of the cell's runs.
func (c *cell) end() string {
	switch l := loadOf(c.kind); {
	case !c.soon:
		return l.long
	case c.horizon != "":
		return c.horizon
	case (invariants.Enabled || race.Enabled) && l.slow != "":
		return l.slow
	default:
		return l.soon
	}
}

// simulate simulates a kind with one worker and nothing that goes wrong.
func (g *ground) simulate(kind, horizon string) (r result, err error) {
	dir, err := os.MkdirTemp(g.dir, "calm-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	if err := writeScenario(dir, &cell{kind: kind}); err != nil {
		return r, err
	}
	cmd := exec.Command(g.plain, append([]string{"run", filepath.Join(dir, scenarioFile), "--horizon", horizon,
		"--json", "-"}, loadOf(kind).args...)...)
	cmd.Env = append(os.Environ(), roleEnv+"="+roleProgram)
	var said bytes.Buffer
	cmd.Stderr = &said
	text, err := cmd.Output()
	if err != nil {
		return r, fmt.Errorf("the undisturbed run of %s: %w: %s", kind, err, said.String())
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("the undisturbed run of %s: %w", kind, err)
	}
	return r, nil
}

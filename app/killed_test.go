// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/s3"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/internal/storeserver"
)

var kills = flag.Int("kills", 30, "how often TestKilledAgainAndAgain ends a process of a run, in all")

// mortal is a run whose processes are killed, and what it is to end with.
type mortal struct {
	t         *testing.T
	dir       string
	file      string
	store     func(n int) string // the address of the n-th place for its checkpoints
	blobs     func(address string) checkpoint.Blobs
	begin     []string // the command that begins the run, without the place for its checkpoints
	flags     []string
	want      savedResults
	trace     []byte // nil: none is asked for
	rnd       *rand.Rand
	stores    int             // places that were used so far; the last one is in use
	reached   map[int]float64 // by replication: the newest checkpoint that was found there; +Inf: its end
	killed    map[string]int  // by place
	goneOn    int             // starts that went on from a checkpoint
	tokens    int             // for aims
	recovered int             // runs that went back by themselves
	apart     bool            // several workers share each replication, so that nodes can move
}

// newMortal runs the scenario undisturbed.
func newMortal(t *testing.T, text string, traced bool, flags ...string) *mortal {
	t.Helper()
	if race.Enabled {
		t.Skip("what is looked at is what killed processes leave in files, which the race detector sees nothing of")
	}
	dir := t.TempDir()
	m := &mortal{t: t, dir: dir, file: filepath.Join(dir, "tiny.yml"), killed: map[string]int{},
		rnd: rand.New(rand.NewPCG(seed.Of(t), 0)), reached: map[int]float64{}}
	m.store = func(n int) string { return filepath.Join(dir, fmt.Sprint("store", n)) }
	m.blobs = func(address string) checkpoint.Blobs { return checkpoint.NewDir(address) }
	if err := os.WriteFile(m.file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(dir, "trace")
	m.begin = []string{"run", m.file, "--replications", "2"}
	m.want = runSaved(t, launchtest.Kind(), append(slices.Clone(m.begin), "--transport", "inproc", "--trace", trace)...)
	var err error
	if m.trace, err = os.ReadFile(trace); err != nil {
		t.Fatal(err)
	}
	m.flags = append(flags, "--checkpoint-at", "2.5=early", "--keep", "2", "--json", m.out(), "--crash-dir", "none")
	if traced {
		m.flags = append(m.flags, "--trace", trace)
	} else {
		m.trace = nil
	}
	m.stores = 1
	return m
}

func (m *mortal) out() string { return filepath.Join(m.dir, "out.json") }

// atServer has the checkpoints be in an object store.
func (m *mortal) atServer() {
	m.t.Helper()
	startServer(m.t)
	prefix := serverAddress + filepath.Base(m.dir)
	m.store = func(n int) string { return prefix + fmt.Sprint("-", n) }
	m.blobs = func(address string) checkpoint.Blobs {
		s, err := s3.Open(m.t.Context(), address, s3.Config{Getenv: os.Getenv, Owner: "the test"})
		if err != nil {
			m.t.Fatal(err)
		}
		m.t.Cleanup(s.Close)
		return s
	}
}

// startServer starts a server of an object store for a test and the programs that it starts, or skips the test.
func startServer(t *testing.T) *storeserver.S3 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // it may be built
	defer cancel()
	server, err := storeserver.StartS3(ctx, t.TempDir(), "checkpoints")
	storeserver.Need(t, err)
	t.Cleanup(server.Kill)
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": "http://" + server.Addr(),
		"AWS_ACCESS_KEY_ID": storeserver.S3Key, "AWS_SECRET_ACCESS_KEY": storeserver.S3Secret,
		"AWS_SESSION_TOKEN": "", "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL_S3": ""} {
		t.Setenv(name, value)
	}
	return server
}

// command is how the run begins, or goes on, with any number of workers.
func (m *mortal) command(more ...string) *exec.Cmd {
	args := append(slices.Clone(m.begin), "--checkpoint-to", m.store(m.stores))
	if points, _ := m.look(); points >= 0 {
		args = []string{"resume", m.store(m.stores)}
		m.goneOn += min(points, 1)
	}
	spread, workers := "nodes", 1+m.rnd.IntN(3)
	switch {
	case m.apart:
		workers = max(2, workers)
	case m.rnd.IntN(4) == 0:
		spread = "replications"
	}
	args = append(args, "--workers", fmt.Sprint(workers), "--spread", spread)
	cmd := exec.Command(os.Args[0], slices.Concat(args, m.flags, more)...)
	cmd.Env = append(os.Environ(), programEnv+"=1")
	return cmd
}

// look reads all checkpoints, which must be whole, and no older than what was there before. It gives their number, -1
// where the run hasn't come to have a place for them.
func (m *mortal) look() (points int, ended bool) {
	m.t.Helper()
	ctx := m.t.Context()
	repo, err := checkpoint.Open(ctx, m.blobs(m.store(m.stores)))
	if none := (*checkpoint.NotRepoError)(nil); errors.As(err, &none) && len(m.reached) == 0 {
		return -1, false
	} else if err != nil {
		m.t.Fatal(err)
	}
	newest := map[int]float64{}
	err = repo.Verify(ctx, func(p checkpoint.Point, _ *checkpoint.Manifest, damage error) error {
		points++
		newest[p.Replication] = max(newest[p.Replication], p.Epoch)
		if p.Finished {
			newest[p.Replication] = math.Inf(1)
		}
		return damage
	})
	if err != nil {
		m.t.Fatalf("a checkpoint that was committed isn't good any more: %v", err)
	}
	for r, epoch := range m.reached {
		if newest[r] < epoch {
			m.t.Fatalf("the newest checkpoint of replication %d is at %v, and was at %v before", r, newest[r], epoch)
		}
	}
	m.reached = newest
	return points, len(newest) == 2 && math.IsInf(newest[0], 1) && math.IsInf(newest[1], 1)
}

// start starts a command; a lock that a process that was killed has had in an object store is free soon.
func (m *mortal) start(cmd *exec.Cmd, disturb func(pid int)) (said string, err error) {
	m.t.Helper()
	_, _ = os.Remove(m.out()), os.Remove(filepath.Join(m.dir, "trace"))
	for deadline := time.Now().Add(watchdog); ; {
		var stderr bytes.Buffer
		again := exec.CommandContext(m.t.Context(), cmd.Path, cmd.Args[1:]...)
		again.Env, again.Stderr = cmd.Env, &stderr
		again.WaitDelay = watchdog
		if err := again.Start(); err != nil {
			m.t.Fatal(err)
		}
		late := time.AfterFunc(watchdog, func() { again.Process.Signal(syscall.SIGQUIT) })
		disturb(again.Process.Pid)
		err = again.Wait()
		if said = stderr.String(); !late.Stop() {
			m.t.Fatalf("%v: not through within %v: %s", cmd.Args[1:], watchdog, said)
		}
		// What writes for a launcher that was killed gives the lock back when it has noticed.
		if again.ProcessState.ExitCode() != ExitFailed || !strings.Contains(said, "writes to it: wait for its end") {
			break
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("%v: the lock of a process that was killed stays: %s", cmd.Args[1:], said)
		}
		time.Sleep(20 * time.Millisecond)
	}
	m.files(err == nil)
	return said, err
}

// files looks at what a run has written: each file is there whole or not at all, and all of them behind its end.
func (m *mortal) files(ended bool) {
	m.t.Helper()
	text, err := os.ReadFile(m.out())
	var got struct {
		savedResults
		Recoveries []json.RawMessage `json:"recoveries"`
	}
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	m.recovered += len(got.Recoveries)
	if !ended && errors.Is(err, fs.ErrNotExist) {
		err, got.savedResults = nil, m.want
	}
	if err != nil || !got.same(&m.want) {
		m.t.Fatalf("found %+v, %v, want %+v", got, err, m.want)
	}
	if trace, err := os.ReadFile(filepath.Join(m.dir, "trace")); !errors.Is(err, fs.ErrNotExist) ||
		ended && m.trace != nil {
		if err != nil || !bytes.Equal(trace, m.trace) {
			m.t.Fatalf("found a trace of %d bytes, %v, want the one of %d bytes", len(trace), err, len(m.trace))
		}
	}
}

// killedAt has a process of the run be killed somewhere, and checks what stays. Behind a run that has come to its end
// another one begins, at another place.
func (m *mortal) killedAt(place, who string, n int, more ...string) {
	m.t.Helper()
	for range 3 {
		m.tokens++
		a := aim{place, n, who, filepath.Join(m.dir, fmt.Sprint("token", m.tokens))}
		if err := os.WriteFile(a.token, nil, 0o666); err != nil {
			m.t.Fatal(err)
		}
		cmd := m.command(more...)
		cmd.Env = append(cmd.Env, killEnv+"="+a.String())
		said, err := m.start(cmd, func(int) {})
		_, errToken := os.Stat(a.token)
		done := errToken != nil
		switch signal := signalOf(err); {
		case done && who == "launcher" && signal != syscall.SIGKILL:
			m.t.Fatalf("%v, killed at %q: found %v, want its death: %s", cmd.Args[1:], place, err, said)
		case done && who == "worker" && err != nil && !strings.Contains(said, "killed"):
			m.t.Fatalf("%v, a worker killed at %q: found %v: %s", cmd.Args[1:], place, err, said)
		case !done && err != nil:
			m.t.Fatalf("%v: %v: %s", cmd.Args[1:], err, said)
		}
		m.next()
		if done {
			m.killed[who+" "+place]++
			return
		}
	}
	m.t.Errorf("no run came to %q %d times", place, n)
}

// next looks at what is there, and takes another place where the run has ended.
func (m *mortal) next() {
	m.t.Helper()
	if _, ended := m.look(); ended {
		m.stores++
		m.reached = map[int]float64{}
	}
}

func signalOf(err error) syscall.Signal {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() {
		return exit.Sys().(syscall.WaitStatus).Signal()
	}
	return 0
}

// finish ends the run.
func (m *mortal) finish() {
	m.t.Helper()
	cmd := m.command()
	if said, err := m.start(cmd, func(int) {}); err != nil {
		m.t.Fatalf("%v: %v: %s", cmd.Args[1:], err, said)
	}
	m.look()
	m.t.Logf("%d times on from a checkpoint, %d times back without a new start; killed: %v", m.goneOn, m.recovered,
		m.killed)
}

// payloads are 60 kB, which are in pools, and what nodes ask is recorded.
func payloads(dir string) string {
	return launchtest.Scenario(6, 12, "") + "payload: 60000\nasking: {file: " +
		filepath.Join(dir, "asked") + ", ms: 0}\n"
}

// TestKilledAtEachPlace: the launcher, or a worker, is killed at each place of saving, committing, pruning and loading,
// and the run goes on with another number of workers: the last checkpoint is always good, and in the end there are
// results and trace of one that wasn't disturbed.
func TestKilledAtEachPlace(t *testing.T) {
	for v, c := range []struct {
		name, text string
		server     bool
		flags      []string
	}{
		{"directory", launchtest.Scenario(6, 12, ""), false, nil},
		{"no trace", launchtest.Scenario(6, 12, ""), false, nil},
		{"payloads", payloads(t.TempDir()), false, []string{"--sync", "link", "--inline-max", "64"}},
		{"server", launchtest.Scenario(6, 12, ""), true, []string{"--sync", "link"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMortal(t, c.text, c.name != "no trace", c.flags...)
			for epoch := range 11 { // none of them is left out
				m.flags = append(m.flags, "--checkpoint-at", fmt.Sprint(epoch+1))
			}
			places := []string{"create run.json", "name run.json", "sync folder run.json", "create packs",
				"write packs",
				"sync packs", "name packs", "sync folder packs", "create points", "write points", "sync points",
				"name points", "sync folder points", "delete points", "name labels",
				"sync folder labels", "name done", "sync folder done"}
			if m.trace == nil { // which is in all packs
				places = append(places, "delete packs")
			}
			if c.server {
				m.atServer()
				places = []string{"half run.json", "put packs", "half packs", "behind packs", "put points",
					"half points", "behind points", "delete points", "half labels", "half done",
					"behind done", "get packs", "get points"}
			}
			for i, place := range places {
				n := 1 + m.rnd.IntN(2)
				if strings.HasSuffix(place, "run.json") || strings.HasSuffix(place, "labels") {
					n = 1
					m.stores, m.reached = m.stores+1, map[int]float64{}
				}
				// Of the three variants on a file system one or two come to each place.
				if !c.server && (i+v)%2 > 0 && place != "delete packs" || testing.Short() && i%3 > 0 {
					continue
				}
				m.killedAt(place, "launcher", n)
				if i%4 < 2 && !strings.HasSuffix(place, "run.json") {
					m.killedAt(place, "worker", n, "--recover", fmt.Sprint(m.rnd.IntN(3)))
				}
			}
			for _, place := range []string{"encode", "write", "load"} {
				for i, who := range []string{"launcher", "worker", "worker"} {
					n := 1 + m.rnd.IntN(4)
					if place == "load" {
						m.beginning()
						n = 1 + n%2 // a worker has two nodes at least
					}
					m.killedAt(place, who, n, "--recover", fmt.Sprint(i))
				}
			}
			m.finish()
		})
	}
}

// TestKilledVariants: a run that goes on from another one's checkpoint, as often as is asked for, is killed while it
// copies that, and at each place later, and ends with results and trace of one that wasn't disturbed. Where it was
// killed before it had what it begins with, it is said so, and what to do.
func TestKilledVariants(t *testing.T) {
	m := newMortal(t, launchtest.Scenario(6, 12, ""), true)
	warm, trace := filepath.Join(m.dir, "warm"), filepath.Join(m.dir, "trace")
	runSaved(t, launchtest.Kind(), "run", m.file, "--transport", "inproc", "--trace", trace, "--checkpoint-to", warm,
		"--checkpoint-at", "2=warm")
	m.begin = []string{"resume", warm, "--at", "warm", "--replications", "2"}
	m.want = runSaved(t, launchtest.Kind(), append(slices.Clone(m.begin), "--transport", "inproc", "--trace", trace)...)
	var err error
	if m.trace, err = os.ReadFile(trace); err != nil {
		t.Fatal(err)
	}
	before := filesOf(t, warm)
	for epoch := range 8 { // none of them is left out
		m.flags = append(m.flags, "--checkpoint-at", fmt.Sprint(epoch+4))
	}
	for _, place := range []string{"create run.json", "name run.json", "create packs", "name packs", "create points",
		"name points", "sync folder points", "delete points", "name done", "sync folder done"} {
		m.stores, m.reached = m.stores+1, map[int]float64{} // the first of each kind are those of the copy
		m.killedAt(place, "launcher", 1)
		m.orRemove()
		if !strings.HasSuffix(place, "run.json") {
			m.killedAt(place, "worker", 1, "--recover", fmt.Sprint(m.rnd.IntN(3)))
		}
		m.finish()
	}
	if after := filesOf(t, warm); after != before {
		t.Errorf("the place of the other run's checkpoints has\n%s, want\n%s", after, before)
	}
}

// orRemove removes a place that doesn't have what a variant begins with, behind a look at what is said of it.
func (m *mortal) orRemove() {
	m.t.Helper()
	if points, _ := m.look(); points != 0 {
		return
	}
	var stdout, stderr bytes.Buffer
	status := Run([]string{"disco-run", "resume", m.store(m.stores), "--trace", filepath.Join(m.dir, "trace")},
		strings.NewReader(""), &stdout, &stderr, launchtest.Kind())
	if status != ExitUsage || !strings.Contains(stderr.String(), "remove the directory and begin again") {
		m.t.Fatalf("exit status %d, %s: want %d, and what to do", status, stderr.String(), ExitUsage)
	}
	m.stores++
}

// beginning has the run have a checkpoint and not be through, so that something is loaded.
func (m *mortal) beginning() {
	m.t.Helper()
	for range 5 {
		if points, ended := m.look(); points > 0 && !ended {
			return
		}
		place := "name points"
		if _, dir := m.blobs(m.store(m.stores)).(*checkpoint.Dir); !dir {
			place = "put points"
		}
		m.killedAt(place, "launcher", 2)
	}
	m.t.Fatal("there is no checkpoint")
}

// TestKilledAgainAndAgain: a run whose launcher or one of whose workers is killed at any moment, again and again, and
// goes on with another number of workers each time, ends with the results and the trace of one that wasn't.
func TestKilledAgainAndAgain(t *testing.T) {
	for i, c := range []struct {
		name   string
		server bool
		text   string
		flags  []string
	}{
		{"directory", false, launchtest.Scenario(4, 400, ""), []string{"--external-sync"}},
		{"payloads", false, strings.Replace(payloads(t.TempDir()), "horizon: 12", "horizon: 100", 1),
			[]string{"--sync", "link"}},
		{"server", true, launchtest.Scenario(4, 400, ""), nil},
		{"resident", false, launchtest.Scenario(6, 200, ""), []string{"--resident", "100"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMortal(t, c.text, i > 0, append(c.flags, "--checkpoint-every", "1")...)
			if c.server {
				m.atServer()
			}
			times := *kills / 3
			if testing.Short() {
				times = 2
			}
			for n := range times {
				cmd := m.command("--recover", fmt.Sprint((i+n)%3))
				who := "any time: launcher"
				said, err := m.start(cmd, func(pid int) {
					time.Sleep(time.Duration(20+m.rnd.IntN(400)) * time.Millisecond) // any moment will do
					if worker := anyWorker(pid); worker != 0 && m.rnd.IntN(3) == 0 {
						pid, who = worker, "any time: worker"
					}
					_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
				})
				if err != nil && !strings.Contains(err.Error()+said, "killed") {
					t.Fatalf("%v: %v: %s", cmd.Args[1:], err, said)
				}
				m.killed[who]++
				m.next()
			}
			m.finish()
		})
	}
}

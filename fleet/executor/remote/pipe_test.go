// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/fleet/executor/executortest"
	"github.com/disco-sim/disco/fleet/executor/remote"
)

// suite runs the suite over two machines, which are this one.
func suite(t *testing.T, command func(work string) []string) {
	var work string
	executortest.Run(t, executortest.Config{
		New: func(t *testing.T, fetch func(context.Context, fleet.Digest) ([]byte, error)) executor.Executor {
			work = filepath.Join(t.TempDir(), "work")
			o := options(t)
			o.Fetch = fetch
			o.Machines = []remote.Machine{{Name: "a", Slots: 8, Command: command(work)},
				{Name: "b", Slots: 12, Command: command(work)}}
			return open(t, o)
		},
		Program:   program(t),
		Left:      func(t *testing.T) []string { return left(t, work) },
		Processes: func(job string) []int { return markedBy(t, work, job) },
	})
}

// TestPipe: the suite, with hosts as children of the agent.
func TestPipe(t *testing.T) { suite(t, hostCommand) }

// oneMachine is an executor with one machine, and its folder.
func oneMachine(t *testing.T, silent time.Duration) (e *remote.Remote, work string) {
	t.Helper()
	work = filepath.Join(t.TempDir(), "work")
	o := options(t)
	o.Machines, o.Silent = []remote.Machine{{Name: "a", Slots: 4, Command: hostCommand(work)}}, silent
	return open(t, o), work
}

// hosts are the processes of hosts, but not of their attempts.
func hosts(t *testing.T, work string) []int {
	return processesOf(t, hostVariable+"="+work, func(c string) bool {
		return strings.HasSuffix(strings.Fields(c + " x")[0], ".test")
	})
}

// TestHostKilled: its attempts end, the agent says that none is left when the next host has looked, and that one takes
// the same job.
func TestHostKilled(t *testing.T) {
	e, work := oneMachine(t, 0)
	defer closes(t, e)
	j := newJob(t, "x")
	r := runs(t, e, j)
	kill(t, hosts(t, work), syscall.SIGKILL)
	ends(t, r, "a: the connection has ended", "signal: killed", "none of its processes is left")
	if all := left(t, work); len(all) > 0 {
		t.Errorf("this is left: %q", all)
	}
	again(t, e, j)
}

// again has a machine that is there again take the next attempt, which is stopped.
func again(t *testing.T, e *remote.Remote, j *executor.Job) {
	t.Helper()
	next := *j
	next.Attempt.Attempt++
	until(t, "the machine takes jobs", func() bool { return e.Prepare(t.Context(), &next) == nil })
	r := runs(t, e, &next)
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if out := r.Outcome(); !out.Stopped {
		t.Errorf("found %+v, %+v, want it stopped", out, out.Error)
	}
}

// TestHostStopped: one that is stopped (SIGSTOP) doesn't answer, and is ended by the next one.
func TestHostStopped(t *testing.T) {
	e, work := oneMachine(t, 5*time.Second)
	defer closes(t, e)
	j := newJob(t, "x")
	r := runs(t, e, j)
	kill(t, hosts(t, work), syscall.SIGSTOP)
	ends(t, r, "nothing has come from the other side for 5s", "none of its processes is left")
	if all := left(t, work); len(all) > 0 {
		t.Errorf("this is left: %q", all)
	}
	again(t, e, j)
}

// TestForeign: what isn't a host of the same version is refused, and the message says what it is.
func TestForeign(t *testing.T) {
	work := filepath.Join(t.TempDir(), "work")
	host := strings.Join(hostCommand(work), " ")
	shell := func(text string) []string { return []string{"sh", "-c", text} }
	for name, c := range map[string]struct {
		command []string
		want    []string
	}{
		"no program":   {[]string{"/nowhere/ssh"}, []string{"the command can't be started", "/nowhere/ssh"}},
		"ends at once": {shell("echo no room >&2; exit 7"), []string{"the command has ended (exit status 7): no room"}},
		"banner": {shell("echo Welcome to h1; exec " + host), []string{`found "Welcome to h1\n" before the first frame`,
			"a startup file of the login shell", "only where standard output is a terminal"}},
		"banner at the end": {shell("echo Bye"), []string{`found "Bye\n" before the first frame`}},
		"endless":           {[]string{"yes"}, []string{`found "y\ny\ny`}},
		"another version": {shell("exec env " + strings.Replace(host, version, "v9.9.9", 1)), []string{
			`the host is version "v9.9.9", this agent is "v1.2.3": install the same version on both machines`}},
		"no folder": {shell("exec " + strings.Replace(host, work, "/dev/null/x", 1)), []string{
			"the folder for work: mkdir /dev/null"}},
		"silent": {[]string{"sleep", "1000"}, []string{"nothing has come from the other side for 2s"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			o.Machines = []remote.Machine{{Name: "h1", Slots: 1, Command: c.command}}
			if name == "silent" {
				o.Connect = 2 * time.Second
			}
			e, err := remote.Open(t.Context(), o)
			if err == nil {
				closes(t, e)
				t.Fatal("it opens")
			}
			for _, want := range append(c.want, "h1: ") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("found %v, want %q in it", err, want)
				}
			}
		})
	}
}

// TestBadOptions are refused before anything is started.
func TestBadOptions(t *testing.T) {
	m := remote.Machine{Name: "a", Slots: 1, Command: []string{"false"}}
	for want, change := range map[string]func(o *remote.Options){
		"there is no Fetch":          func(o *remote.Options) { o.Fetch = nil },
		"there are neither machines": func(o *remote.Options) { o.Machines = nil },
		"found 0 slots": func(o *remote.Options) {
			o.Machines, o.Scheduler = nil, remote.Slurm{}
		},
		"found silence 1ns":       func(o *remote.Options) { o.Silent = 1 },
		"grace 2h0m0s":            func(o *remote.Options) { o.Grace = 2 * time.Hour },
		`found the machine "a" w`: func(o *remote.Options) { o.Machines = append(o.Machines, m) },
		"with 0 slots":            func(o *remote.Options) { o.Machines[0].Slots = 0 },
	} {
		o := options(t)
		o.Machines = []remote.Machine{m}
		change(&o)
		if _, err := remote.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, want %q in it", err, want)
		}
	}
}

// TestMachinesFull: slots are taken until they are released, machines with more room first, and a machine that isn't
// there doesn't keep the others from work.
func TestMachinesFull(t *testing.T) {
	work := filepath.Join(t.TempDir(), "work")
	o := options(t)
	o.Machines = []remote.Machine{{Name: "a", Slots: 2, Command: hostCommand(work)},
		{Name: "b", Slots: 3, Command: hostCommand(work)}, {Name: "c", Slots: 100, Command: []string{"false"}}}
	e := open(t, o)
	defer closes(t, e)
	first, second, third := newJob(t, "x1"), newJob(t, "x2"), newJob(t, "x3")
	for _, j := range []*executor.Job{first, second} {
		if err := e.Prepare(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	err := e.Prepare(t.Context(), third)
	for _, want := range []string{"it wants 2 slots", "a has 2 of 2 taken", "b has 2 of 3 taken", "c isn't connected"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, want %q in it", err, want)
		}
	}
	if err := e.Release(first); err != nil {
		t.Error(err)
	}
	if err := e.Prepare(t.Context(), third); err != nil {
		t.Error(err)
	}
}

// TestReadMachines: what is wrong has its line.
func TestReadMachines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "machines")
	write(t, path, "# ours\nh1 8\n\nme@h2.example 16 # large\n")
	all, err := remote.ReadMachines(path)
	if err != nil || len(all) != 2 || all[0].Name != "h1" || all[1].Name != "me@h2.example" || all[1].Slots != 16 {
		t.Errorf("found %+v, %v", all, err)
	}
	for text, want := range map[string]string{
		"":                                "found no machine",
		"h1":                              `machines:1: found "h1", want MACHINE SLOTS`,
		"\nh1 x":                          `machines:2: found "h1 x"`,
		"h1 0":                            "with 1 to 4096 slots",
		"h1 5000":                         "with 1 to 4096 slots",
		"h1 1 2":                          `found "h1 1 2"`,
		"-oProxyCommand=x 1":              `found "-oProxyCommand=x 1"`,
		"h1 1\nh1 2":                      "machines:2: found h1 for the second time, the first is in line 1",
		strings.Repeat("h", 300) + " 1":   "want MACHINE SLOTS",
		strings.Repeat("# a line\n", 1e6): "want",
	} {
		write(t, path, text)
		if all, err := remote.ReadMachines(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: found %+v, %v, want %q", text, all, err, want)
		}
	}
	var many strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&many, "h%d 1\n", i)
	}
	write(t, path, many.String())
	if _, err := remote.ReadMachines(path); err == nil || !strings.Contains(err.Error(), ":1001: found more than") {
		t.Errorf("found %v, want that there are too many", err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/inspect"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/worker"
)

// watchdog bounds every wait of these tests. It is long because nothing is measured.
const watchdog = 60 * time.Second

// launched is the program in a process of its own, running the tiny model.
type launched struct {
	t              *testing.T
	cmd            *exec.Cmd
	dir            string
	stdout, stderr bytes.Buffer
	workers        []int
}

// launchProgram starts the program and waits until it simulates with two workers.
func launchProgram(t *testing.T, text string, args ...string) *launched {
	t.Helper()
	return launchWorkers(t, 2, text, args...)
}

// launchWorkers is launchProgram with so many workers.
func launchWorkers(t *testing.T, workers int, text string, args ...string) *launched {
	t.Helper()
	l := &launched{t: t, dir: t.TempDir()}
	file := filepath.Join(l.dir, "tiny.yml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	l.cmd = exec.Command(os.Args[0], append([]string{"run", file, "--workers", strconv.Itoa(workers)}, args...)...)
	l.cmd.Env = append(os.Environ(), programEnv+"=1")
	l.cmd.Stdout, l.cmd.Stderr, l.cmd.Dir = &l.stdout, &l.stderr, l.dir
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a shell does: Ctrl-Z stops no other process
	l.simulating(workers)
	return l
}

// simulating starts the program and waits until so many workers simulate.
func (l *launched) simulating(workers int) {
	l.t.Helper()
	if err := l.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = l.cmd.Process.Kill() }) // it has ended, as a rule
	l.until(fmt.Sprint(workers, " workers that simulate"), func() bool {
		live, err := inspect.Process(l.cmd.Process.Pid)
		if err != nil || len(live.Workers) != workers {
			return false
		}
		l.workers = nil
		for _, w := range live.Workers {
			if w.PID == 0 || w.Number(worker.NumberEvents) < 100 {
				return false
			}
			l.workers = append(l.workers, w.PID)
		}
		return true
	})
}

func (l *launched) until(what string, condition func() bool) {
	l.t.Helper()
	deadline := time.Now().Add(watchdog)
	for !condition() {
		if time.Now().After(deadline) {
			_ = l.cmd.Process.Kill()
			_ = l.cmd.Wait() // else its standard error is being written
			l.t.Fatalf("%s: not within %v; standard error:\n%s", what, watchdog, l.stderr.String())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// end waits for the end of the program and checks that its workers are gone and that
// it has left no files.
func (l *launched) end(files ...string) {
	l.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.cmd.Wait() // the exit status is looked at by the caller
	}()
	select {
	case <-done:
	case <-time.After(watchdog):
		l.t.Fatalf("it doesn't end; standard error:\n%s", l.stderr.String())
	}
	l.until("the end of the workers", func() bool {
		for _, pid := range l.workers {
			if syscall.Kill(pid, 0) == nil && !zombie(pid) {
				return false
			}
		}
		return true
	})
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		l.t.Fatal(err)
	}
	want := append(files, "tiny.yml")
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), launch.CrashName) && strings.Contains(l.stderr.String(), e.Name()) {
			continue // a post-mortem, as the error says
		}
		if !contains(want, e.Name()) {
			l.t.Errorf("the file %s is left", e.Name())
		}
	}
	for _, name := range want {
		if _, err := os.Stat(filepath.Join(l.dir, name)); err != nil {
			l.t.Error(err)
		}
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// zombie reports whether a process has ended and only waits for its parent to read the status: orphans may have to
// wait long where nobody does.
func zombie(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	return len(fields) > 0 && fields[0] == "Z"
}

// Ctrl-C and SIGTERM end a run with the results so far and the exit status of the signal,
// and nothing is left.
func TestInterrupt(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		l := launchProgram(t, launchtest.Scenario(4, 1e9, ""), "--json", "-", "--trace", "trace.txt")
		if err := l.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		l.end("trace.txt")
		if status := l.cmd.ProcessState.ExitCode(); status != ExitSignal+int(signal) {
			t.Errorf("%v: exit status %d, want %d", signal, status, ExitSignal+int(signal))
		}
		var d document
		if err := json.Unmarshal(l.stdout.Bytes(), &d); err != nil {
			t.Fatalf("%v: standard output is no JSON object: %v\n%s", signal, err, l.stdout.String())
		}
		results, ok := d.Results.(map[string]any)
		if !ok || d.Events == 0 || !d.Interrupted || d.TraceHash != "" || results["handled"] != float64(d.Events) {
			t.Errorf("%v: %d events, interrupted %v, hash %q, results %v", signal, d.Events, d.Interrupted, d.TraceHash,
				d.Results)
		}
		if !strings.Contains(l.stderr.String(), "interrupted at ") {
			t.Errorf("%v: standard error says %q", signal, l.stderr.String())
		}
	}
}

// Ctrl-C and SIGTERM end a verification in its first run and in a later one, with the exit status of the signal.
// Neither journals nor workers are left.
func TestVerifyInterrupted(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		for workers, horizon := range map[int]float64{1: 1e9, 2: 5000} {
			if testing.Short() && (signal == syscall.SIGINT) != (workers == 1) {
				continue // each signal, and each run, once
			}
			l := &launched{t: t, dir: t.TempDir()}
			file, temporary := filepath.Join(l.dir, "tiny.yml"), t.TempDir()
			if err := os.WriteFile(file, []byte(launchtest.Scenario(4, horizon, "")), 0o644); err != nil {
				t.Fatal(err)
			}
			l.cmd = exec.Command(os.Args[0], "verify", file)
			l.cmd.Env = append(os.Environ(), programEnv+"=1", "TMPDIR="+temporary)
			l.cmd.Stdout, l.cmd.Stderr, l.cmd.Dir = &l.stdout, &l.stderr, l.dir
			l.simulating(workers)
			if err := l.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			l.end()
			if status := l.cmd.ProcessState.ExitCode(); status != ExitSignal+int(signal) || l.stdout.Len() > 0 {
				t.Errorf("%v, %d workers: exit status %d, want %d: %s%s", signal, workers, status,
					ExitSignal+int(signal), l.stdout.String(), l.stderr.String())
			}
			if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
				t.Errorf("%v, %d workers: %v is left, %v", signal, workers, left, err)
			}
		}
	}
}

// A second Ctrl-C ends a run at once, even one that a model holds up.
func TestInterruptTwice(t *testing.T) {
	l := launchProgram(t, launchtest.Scenario(4, 1e9, ""), "--trace", "trace.txt")
	for _, pid := range l.workers { // they can't answer
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	for range 2 {
		if err := l.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		time.Sleep(sameSignal + 50*time.Millisecond) // two that are meant as two
	}
	l.end()
	if status := l.cmd.ProcessState.ExitCode(); status != 130 {
		t.Errorf("exit status %d, want 130", status)
	}
	if said := l.stderr.String(); !strings.Contains(said, "ended at once") && time.Since(began) < 2*sameSignal {
		t.Errorf("standard error says %q", said)
	}
}

// Signals that follow each other closely are meant as one: timeout(1) signals the process
// and then its group.
func TestSignalsMeantAsOne(t *testing.T) {
	l := launchProgram(t, launchtest.Scenario(4, 1e9, ""), "--json", "-")
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT, syscall.SIGHUP, syscall.SIGTERM} {
		if err := l.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	l.end()
	if status := l.cmd.ProcessState.ExitCode(); status != 143 {
		t.Errorf("exit status %d, want 143", status)
	}
	var d document
	if err := json.Unmarshal(l.stdout.Bytes(), &d); err != nil || d.Results == nil {
		t.Errorf("no results: %v\n%s%s", err, l.stdout.String(), l.stderr.String())
	}
}

// A signal ends a run whose scenario is still being read.
func TestInterruptWhileLoading(t *testing.T) {
	l := &launched{t: t, dir: t.TempDir()}
	file := filepath.Join(l.dir, "tiny.yml")
	if err := os.WriteFile(file, []byte(launchtest.Scenario(4, 1, "{node: 0, at: 0, how: load}")), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"out.json", "trace.txt"} { // which stay as they are
		if err := os.WriteFile(filepath.Join(l.dir, name), []byte("before"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l.cmd = exec.Command(os.Args[0], "run", file, "--json", "out.json", "--trace", "trace.txt")
	l.cmd.Env, l.cmd.Dir = append(os.Environ(), programEnv+"=1"), l.dir
	l.cmd.Stderr = &l.stderr
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.cmd.Process.Kill() }) // it has ended, as a rule
	l.until("watching for signals", func() bool {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(l.cmd.Process.Pid) + "/status")
		_, rest, _ := strings.Cut(string(text), "SigCgt:")
		caught, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
		mask, errMask := strconv.ParseUint(caught, 16, 64)
		return err == nil && errMask == nil && mask&(1<<(syscall.SIGTSTP-1)) != 0
	})
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	l.end("out.json", "trace.txt")
	if status, said := l.cmd.ProcessState.ExitCode(), l.stderr.String(); status != 143 ||
		!strings.Contains(said, "interrupted before anything was simulated") {
		t.Errorf("exit status %d, standard error %q", status, said)
	}
	for _, name := range []string{"out.json", "trace.txt"} {
		if text, err := os.ReadFile(filepath.Join(l.dir, name)); err != nil || string(text) != "before" {
			t.Errorf("%s has %q, %v", name, text, err)
		}
	}
}

// stateOf is a process's state in /proc: R, S, T, …
func stateOf(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))[0]
}

// Ctrl-Z stops the workers too, and fg lets all of them go on.
func TestSuspend(t *testing.T) {
	l := launchProgram(t, launchtest.Scenario(4, 1e9, ""))
	all := append([]int{l.cmd.Process.Pid}, l.workers...)
	stopped := func(want bool) func() bool {
		return func() bool {
			for _, pid := range all {
				if s := stateOf(pid); s == "" || (s == "T") != want {
					return false
				}
			}
			return true
		}
	}
	events := func() (n float64) {
		live, err := inspect.Process(l.cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range live.Workers {
			n += w.Number(worker.NumberEvents)
		}
		return n
	}
	for range 3 {
		if err := l.cmd.Process.Signal(syscall.SIGTSTP); err != nil {
			t.Fatal(err)
		}
		l.until("all stopped", stopped(true))
		before := events()
		time.Sleep(20 * time.Millisecond)
		if after := events(); after != before {
			t.Errorf("%v events were handled while all was stopped", after-before)
		}
		if err := l.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		l.until("all going on", func() bool { return stopped(false)() && events() > before })
	}
	if err := l.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	l.end()
	if status := l.cmd.ProcessState.ExitCode(); status != 130 {
		t.Errorf("exit status %d, want 130; standard error %q", status, l.stderr.String())
	}
}

// Workers end by themselves when their launcher is killed, also those that wait for
// each other.
func TestLauncherKilled(t *testing.T) {
	l := launchProgram(t, launchtest.Scenario(4, 1e9, ""), "--json", "out.json", "--trace", "trace.txt")
	if err := l.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	l.end()
}

// A worker that is killed ends the run with its name, and nothing is left.
func TestWorkerKilled(t *testing.T) {
	l := launchProgram(t, launchtest.Scenario(4, 1e9, ""), "--json", "out.json", "--trace", "trace.txt")
	if err := syscall.Kill(l.workers[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.end()
	if status := l.cmd.ProcessState.ExitCode(); status != ExitFailed {
		t.Errorf("exit status %d, want %d", status, ExitFailed)
	}
	said := l.stderr.String()
	if !strings.Contains(said, "worker ") || !strings.Contains(said, "died: killed by SIGKILL") {
		t.Errorf("standard error says %q", said)
	}
}

// A worker that is killed while --print is on: the run ends with its name, what nodes got before is in the file, and
// nothing else is left.
func TestWorkerKilledWhilePrinting(t *testing.T) {
	l := launchProgram(t, launchtest.Scenario(4, 1e9, ""), "--print", "node=n0,file=print.txt")
	if err := syscall.Kill(l.workers[1], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.end("print.txt")
	said := l.stderr.String()
	if status := l.cmd.ProcessState.ExitCode(); status != ExitFailed ||
		!strings.Contains(said, "died: killed by SIGKILL") {
		t.Errorf("exit status %d, standard error says %q", status, said)
	}
	text, err := os.ReadFile(filepath.Join(l.dir, "print.txt"))
	if err != nil || !strings.Contains(string(text), " s  n0/") {
		t.Errorf("%v, the file begins with %.200q", err, text)
	}
}

// A closed standard output is a failure and not a death by a signal.
func TestClosedPipe(t *testing.T) {
	l := &launched{t: t, dir: t.TempDir()}
	file := filepath.Join(l.dir, "tiny.yml")
	if err := os.WriteFile(file, []byte(launchtest.Scenario(4, 5, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	l.cmd = exec.Command(os.Args[0], "run", file)
	l.cmd.Env = append(os.Environ(), programEnv+"=1")
	l.cmd.Stdout, l.cmd.Stderr = writer, &l.stderr
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	l.end()
	if status := l.cmd.ProcessState.ExitCode(); status != ExitFailed ||
		!strings.Contains(l.stderr.String(), "standard output can't be written") {
		t.Errorf("exit status %d, standard error %q", status, l.stderr.String())
	}
}

// A reader that has read enough (`| head -1`) ends the program in silence, with the status
// that shells give to what SIGPIPE has ended.
func TestReaderThatStops(t *testing.T) {
	l := &launched{t: t, dir: t.TempDir()}
	file := filepath.Join(l.dir, "tiny.yml")
	if err := os.WriteFile(file, []byte(launchtest.Scenario(4, 5, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	l.cmd = exec.Command(os.Args[0], "run", file, "--set", "trouble={node: 1, at: 1, how: slow}", "--set",
		"horizon=100")
	l.cmd.Env = append(os.Environ(), programEnv+"=1")
	l.cmd.Stdout, l.cmd.Stderr = writer, &l.stderr
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	if _, err := reader.Read(make([]byte, 10)); err != nil {
		t.Error(err)
	}
	reader.Close()
	l.end()
	if status := l.cmd.ProcessState.ExitCode(); status != ExitPipe || l.stderr.Len() > 0 {
		t.Errorf("exit status %d, standard error %q", status, l.stderr.String())
	}
}

// descendants lists the live processes below pid.
func descendants(t *testing.T, pid int) (all []int) {
	t.Helper()
	lists, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			all = append(append(all, child), descendants(t, child)...)
		}
	}
	return all
}

// What a model has started ends with its worker and with the launcher, however these
// end, also while everything is stopped.
func TestModelsOwnProcess(t *testing.T) {
	for _, c := range []struct {
		what string
		end  func(l *launched) error
	}{
		{"the launcher is killed", func(l *launched) error { return l.cmd.Process.Kill() }},
		{"the launcher is killed, and all is stopped", func(l *launched) error {
			for _, pid := range l.workers {
				if err := syscall.Kill(-pid, syscall.SIGSTOP); err != nil {
					return err
				}
			}
			return l.cmd.Process.Kill()
		}},
		{"its worker is killed", func(l *launched) error { return syscall.Kill(l.workers[0], syscall.SIGKILL) }},
		{"the run is interrupted", func(l *launched) error { return l.cmd.Process.Signal(os.Interrupt) }},
	} {
		t.Run(c.what, func(t *testing.T) {
			l := launchProgram(t, launchtest.Scenario(4, 1e9, "{node: 0, at: 1, how: child}"))
			var all []int
			l.until("a process of the model's own", func() bool {
				all = descendants(t, l.cmd.Process.Pid)
				return len(all) == 3
			})
			if err := c.end(l); err != nil {
				t.Fatal(err)
			}
			l.workers = all
			l.end()
		})
	}
}

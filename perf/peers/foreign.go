// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/disco-sim/disco/perf/bench"
	"github.com/disco-sim/disco/shm"
)

// sources are small clients of libraries in C, which are built when they are needed
// and the library's headers are there.
//
//go:embed c/*.c c/*.h
var sources embed.FS

// programMax is how long a program of another project may take.
const programMax = 60 * time.Second

// program is an alternative that is a program of its own.
type program struct {
	name   string
	absent string // why it can't be run; "": it can
	// why its rate can't be measured, though its round trips can; "": as absent
	absentStream string
	wait         string // how its sides wait; "": in blocking calls
	latency      func(ctx context.Context, payload int) (bench.Result, error)
	stream       func(ctx context.Context, payload int) (bench.Result, error)
}

// foreign are all alternatives that are programs of their own, and the folder that their clients are built in.
type foreign struct {
	ctx   context.Context
	once  sync.Once
	dir   string
	built error
}

func newForeign(ctx context.Context) *foreign { return &foreign{ctx: ctx} }

// release takes the folder away.
func (f *foreign) release() {
	if f.dir != "" {
		os.RemoveAll(f.dir)
		f.dir = ""
	}
}

func (f *foreign) programs(o bench.Options) []program {
	return []program{newAeron(o).program(), f.ucx(), f.openMPI(), f.client("zeromq", "zmq", "libzmq3-dev"),
		f.client("nng", "nng", "libnng-dev")}
}

func (f *foreign) latency(o bench.Options, p program, payload int) bench.Spec {
	s := latency(o, p.name, payload)
	s.Absent, s.Row.Wait = p.absent, p.waits()
	s.Measure = func(ctx context.Context, _ bench.Task) (bench.Result, error) { return p.latency(ctx, max(8, payload)) }
	return s
}

func (f *foreign) throughput(o bench.Options, p program, payload int) bench.Spec {
	s := throughput(o, p.name, payload, 1)
	s.Row.Wait = p.waits()
	if s.Absent = p.absent; s.Absent == "" {
		s.Absent = p.absentStream
	}
	s.Measure = func(ctx context.Context, _ bench.Task) (bench.Result, error) { return p.stream(ctx, max(8, payload)) }
	return s
}

func (p *program) waits() string {
	if p.wait == "" {
		return "block"
	}
	return p.wait
}

// absentProgram is the note that a program isn't installed.
func absentProgram(name, deb string) string {
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Sprintf("%s is not installed (Debian package %s)", name, deb)
	}
	return ""
}

// command is a program to run, and where.
type command struct {
	name string
	args []string
	env  []string // beside this process's own
	cpu  int      // processor that it and its children are bound to; bench.AnyCPU: none
}

// run runs a program to its end, on any processor.
func run(ctx context.Context, env []string, name string, args ...string) (out string, cpu float64, err error) {
	return runOn(ctx, command{name: name, args: args, env: env, cpu: bench.AnyCPU})
}

// runOn runs a program to its end in a process group of its own, and ends all of that group when ctx ends or the
// program takes too long. It also ends when this process dies. cpu is what it and its children used, s.
func runOn(ctx context.Context, c command) (out string, cpu float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, programMax)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.name, c.args...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var text []byte
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The program inherits the thread's processor, and dies with the thread: it is never unlocked, and ends with
		// this goroutine.
		runtime.LockOSThread()
		if c.cpu >= 0 {
			if err = shm.SetAffinity(c.cpu); err != nil {
				return
			}
		}
		text, err = cmd.CombinedOutput()
	}()
	<-done
	if s := cmd.ProcessState; s != nil {
		cpu = (s.UserTime() + s.SystemTime()).Seconds()
	}
	if err != nil {
		return "", cpu, fmt.Errorf("peers: %s: %w: %s", c.name, err, lastLine(string(text)))
	}
	return string(text), cpu, nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// counts are how many events a program sends: enough for a figure, and few enough for a shared machine.
func counts(payload int) (trips, events int) {
	scale := max(1, payload/1024)
	return max(200, 20000/scale), max(1000, 200000/scale)
}

// client is a C client of a library, built from sources.
func (f *foreign) client(name, source, deb string) program {
	p := program{name: name}
	binary, err := f.build(source)
	if err != nil {
		p.absent = fmt.Sprintf("its client can't be built here (Debian package %s): %v", deb, err)
		return p
	}
	p.latency = func(ctx context.Context, payload int) (bench.Result, error) {
		trips, _ := counts(payload)
		out, cpu, err := run(ctx, nil, binary, "latency", strconv.Itoa(payload), strconv.Itoa(trips))
		if err != nil {
			return bench.Result{}, err
		}
		var r bench.RTT
		if _, err := fmt.Sscan(out, &r.P50, &r.P90, &r.P99, &r.P999, &r.Max); err != nil {
			return bench.Result{}, fmt.Errorf("peers: %s printed %q: %w", name, out, err)
		}
		return tripResult(trips, r, cpu), nil
	}
	p.stream = func(ctx context.Context, payload int) (bench.Result, error) {
		_, events := counts(payload)
		out, cpu, err := run(ctx, nil, binary, "stream", strconv.Itoa(payload), strconv.Itoa(events))
		if err != nil {
			return bench.Result{}, err
		}
		r := bench.Result{CPU: cpu}
		if _, err := fmt.Sscan(out, &r.Events, &r.Nanos); err != nil {
			return bench.Result{}, fmt.Errorf("peers: %s printed %q: %w", name, out, err)
		}
		return r, nil
	}
	return p
}

// tripResult is the result of round trips of which only the distribution is known.
func tripResult(trips int, r bench.RTT, cpu float64) bench.Result {
	return bench.Result{Events: uint64(trips), Trips: true, Nanos: int64(trips) * r.P50, CPU: cpu, RTT: &r}
}

// build compiles one client and returns its path.
func (f *foreign) build(source string) (string, error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", fmt.Errorf("there is no C compiler (cc)")
	}
	f.once.Do(func() { f.built = f.unpack() })
	if f.built != nil {
		return "", f.built
	}
	binary := filepath.Join(f.dir, source)
	if _, _, err := run(f.ctx, nil, cc, "-O2", "-o", binary, filepath.Join(f.dir, "c", source+".c"), "-l"+source,
		"-lpthread"); err != nil {
		return "", fmt.Errorf("cc: %s", lastLine(err.Error()))
	}
	return binary, nil
}

// unpack writes the sources into a folder of its own.
func (f *foreign) unpack() (err error) {
	if f.dir, err = os.MkdirTemp("", "disco-bench-"); err != nil {
		return err
	}
	return fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(f.dir, path)
		if d.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		text, err := sources.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o600)
	})
}

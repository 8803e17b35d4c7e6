// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// cell is one fault on one kind of scenario, and the expected result.
type cell struct {
	fault    string   // row and variant
	kind     string   // of a load
	args     []string // of the run, beside the load's own
	soon     bool     // the run ends by itself, after about a second
	horizon  string   // of a run that ends by itself, where the load's own takes too long
	trouble  string   // of the tiny model
	limits   *limits
	checked  bool // only the checked build finds it
	terminal bool // the run has a terminal
	deaf     bool // standard output is closed
	inject   func(*try) error
	proof    func() error // instead of a run: what can be tested without one
	want     want
}

func (c *cell) name() string { return c.fault + "/" + c.kind }

// Promises of docs/running.md.
const (
	deathMax = time.Second     // from the death of a worker or the launcher to the end of all
	stopMax  = 2 * time.Second // from the first signal
	// … where the results are those of 300,000 nodes, or none; 0.1 s by itself, but other tries run at the same time
	anyPhaseMax = 500 * time.Millisecond
	startMax    = 5 * time.Second // of a run with 64 workers, or of one that can't start
)

// grid is every cell: the table of faults in the order of the rows.
func grid() []*cell {
	var g []*cell
	g = append(g, deaths()...)
	g = append(g, launchers()...)
	g = append(g, stops()...)
	g = append(g, handlers()...)
	g = append(g, shortages()...)
	g = append(g, hostiles()...)
	g = append(g, pressures()...)
	g = append(g, interruptions()...)
	return append(g, outputs()...)
}

// each makes a cell for each of the kinds.
func each(kinds []string, c cell) []*cell {
	var list []*cell
	for _, k := range kinds {
		one := c
		one.kind = k
		list = append(list, &one)
	}
	return list
}

func words(text string) []string { return strings.Fields(text) }

// killed is the expected result when a worker is killed while it works.
func killed() want {
	return want{exit: []int{1}, stderr: []string{`worker \d+ died: killed by SIGKILL`, `epoch|simulated`,
		launch.CrashName}, within: deathMax}
}

// deaths: SIGKILL of any worker at a random moment.
func deaths() []*cell {
	early := want{exit: []int{1}, stderr: []string{`worker \d+ died: killed by SIGKILL`}, within: deathMax}
	late := want{exit: []int{0, 1}, stderr: []string{`worker \d+ died: killed by SIGKILL`}, within: deathMax,
		sameHash: true}
	g := each(outside, cell{fault: "kill-worker/random", args: words("--workers 3"),
		inject: killWorker(0, 500*time.Millisecond), want: killed()})
	g = append(g, each(outside, cell{fault: "kill-worker/parked", args: words("--workers 2 --wait park"),
		inject: killWorker(0, 300*time.Millisecond), want: killed()})...)
	g = append(g, each([]string{"phold-large", "tiny-large"},
		cell{fault: "kill-worker/holding-blocks", args: words("--workers 2"),
			inject: killWorker(0, 300*time.Millisecond), want: killed()})...)
	g = append(g, each(outside, cell{fault: "kill-worker/start", args: words("--workers 4"),
		inject: killStarting(60 * time.Millisecond), want: early})...)
	g = append(g, each(outside, cell{fault: "kill-worker/end", soon: true, args: words("--workers 2"),
		inject: killEnding, want: late})...)
	for _, kind := range []string{"tiny", "tiny-large"} {
		// A payload of 1 MiB inside the ring takes long to copy, so the moment is nearly always between claim and
		// commit.
		g = append(g, &cell{fault: "kill-worker/in-a-send", kind: kind, trouble: trouble(4, 5, launchtest.Claim),
			args:   words("--workers 2 --partition block --ring-bytes 64M --inline-max 8M --pool-bytes 32M"),
			inject: never, want: want{exit: []int{1}, stderr: killed().stderr, within: startMax}})
	}
	return g
}

func trouble(node int, at float64, how string) string {
	return fmt.Sprintf("{node: %d, at: %g, how: %s}", node, at, how)
}

// launchers: death of the launcher, hang-up, Ctrl-Z and fg.
func launchers() []*cell {
	g := each(outside, cell{fault: "kill-launcher/random", args: words("--workers 3"),
		inject: killLauncher(0, 300*time.Millisecond),
		want:   want{exit: []int{shellStatus + int(syscall.SIGKILL)}, within: deathMax, orphans: true}})
	g = append(g, each(outside, cell{fault: "kill-launcher/start", args: words("--workers 4"),
		inject: killLauncherStarting,
		want:   want{exit: []int{shellStatus + int(syscall.SIGKILL)}, within: deathMax, orphans: true}})...)
	g = append(g, each([]string{"service", "phold"},
		cell{fault: "terminal/hang-up", args: words("--workers 2"), terminal: true, inject: hangUp,
			want: want{exit: []int{shellStatus + int(syscall.SIGHUP)}, within: stopMax, orphans: true}})...)
	return append(g, each(outside, cell{fault: "terminal/ctrl-z-fg", soon: true, args: words("--workers 2"),
		terminal: true, inject: background,
		want: want{exit: []int{0}, sameHash: true}})...)
}

// stops: a worker that is stopped for a while.
func stops() []*cell {
	return each(outside, cell{fault: "stop-worker/10s", soon: true, args: words("--workers 2 --stall 1s"),
		inject: stopWorker,
		want:   want{exit: []int{0}, stderr: []string{`worker \d`}, sameHash: true}})
}

// handlers: errors of a model's author.
func handlers() []*cell {
	where := []string{`n4/token`, `epoch`, `worker 1`}
	own := append([]string{`launchtest\.\(\*handler\)`}, where...)
	var g []*cell
	add := func(how string, c cell) {
		c.fault, c.trouble = "handler/"+how, trouble(4, 5, how)
		c.args = append(words("--workers 2 --partition block"), c.args...)
		g = append(g, each([]string{"tiny", "tiny-large"}, c)...)
	}
	add(launchtest.Panic, cell{want: want{exit: []int{1}, stderr: append([]string{`tiny: a token broke`}, own...),
		within: startMax}})
	add(launchtest.Fail, cell{want: want{exit: []int{1}, stderr: append([]string{`tiny: a token is lost`}, where...),
		within: startMax}})
	add(launchtest.Hang, cell{args: words("--stall 1s --on-stall end"),
		want: want{exit: []int{1}, stderr: where, within: startMax}})
	add(launchtest.Exit, cell{want: want{exit: []int{1},
		stderr: []string{`worker 1 died: exit status 3`, `tiny: going home`, `epoch|simulated`}, within: startMax}})
	add(launchtest.Alloc, cell{limits: &limits{Memory: 3 << 30},
		want: want{exit: []int{1}, stderr: []string{`worker 1`, `out of memory|cannot allocate`,
			`launchtest\.\(\*handler\)`}, crash: true, within: 3 * startMax}})
	add(launchtest.Goroutine, cell{checked: true, soon: true,
		want: want{exit: []int{1}, stderr: []string{`goroutine`, `n4/token`, `epoch`}, within: startMax}})
	keep := cell{fault: "handler/" + launchtest.Keep, kind: "tiny-large", trouble: trouble(4, 5, launchtest.Keep),
		checked: true, soon: true,
		args: words("--workers 2 --partition block"), want: want{exit: []int{1},
			stderr: []string{`n4/token`, `epoch`, `(?i)lease|kept|keep`}, within: startMax}}
	return append(g, &keep)
}

// shortages: what the machine can refuse.
func shortages() []*cell {
	clear := func(pattern string) want { // an error that names what to change, or a fallback
		return want{exit: []int{0, 1, 2}, stderr: []string{pattern}, within: startMax, sameHash: true}
	}
	var g []*cell
	add := func(variant string, l limits, args string, w want) {
		g = append(g, each([]string{"tiny", "phold-large"},
			cell{fault: "shortage/" + variant, soon: true, limits: &l, args: words(args), want: w})...)
	}
	call := func(nr uintptr, errno syscall.Errno) limits { return limits{Deny: &deny{Call: nr, Errno: errno}} }
	add("descriptors", limits{Files: 24}, "--workers 8", clear(`open files|ulimit -n`))
	add("descriptors-few", limits{Files: 12}, "--workers 2", clear(`open files|ulimit -n`))
	add("addresses", limits{Memory: 3 << 30}, "--workers 4 --pool-bytes 768M", clear(`(?i)memory`))
	add("group", limits{Group: 64 << 20}, "--workers 2 --pool-bytes 64M", clear(`(?i)memory`))
	add("no-memfd", call(unix.SYS_MEMFD_CREATE, syscall.ENOSYS), "--workers 2", clear(`memfd|inproc|kernel`))
	add("memfd-descriptors", call(unix.SYS_MEMFD_CREATE, syscall.EMFILE), "--workers 2", clear(`ulimit -n|open files`))
	add("no-sealing", limits{Deny: &deny{Call: unix.SYS_FCNTL, Arg: 1, Mask: ^uint32(0), Value: unix.F_ADD_SEALS,
		Errno: syscall.EINVAL}}, "--workers 2", clear(`seal|inproc`))
	add("shm-full", call(unix.SYS_FALLOCATE, syscall.ENOSPC), "--workers 2", clear(`(?i)memory|space`))
	add("no-fallocate", call(unix.SYS_FALLOCATE, syscall.ENOSYS), "--workers 2", clear(`fallocate|inproc|kernel`))
	add("no-truncate", call(unix.SYS_FTRUNCATE, syscall.ENOMEM), "--workers 2", clear(`(?i)memory|truncate`))
	add("no-mapping", limits{Deny: &deny{Call: unix.SYS_MMAP, Arg: 3, Mask: unix.MAP_SHARED | unix.MAP_PRIVATE,
		Value: unix.MAP_SHARED, Errno: syscall.ENOMEM}}, "--workers 2", clear(`(?i)memory|ulimit`))
	add("no-socketpair", call(unix.SYS_SOCKETPAIR, syscall.EMFILE), "--workers 2",
		clear(`ulimit -n|open files|control stream`))
	add("no-fork", limits{Deny: &deny{Call: unix.SYS_CLONE, Arg: 0, Mask: unix.CLONE_THREAD, Value: 0,
		Errno: syscall.EAGAIN}}, "--workers 2", clear(`can't be started|processes`))
	add("no-death-signal", limits{Deny: &deny{Call: unix.SYS_PRCTL, Arg: 0, Mask: ^uint32(0),
		Value: unix.PR_SET_PDEATHSIG, Errno: syscall.EPERM}}, "--workers 2", clear(`can't be started|prctl`))
	add("no-affinity", call(unix.SYS_SCHED_SETAFFINITY, syscall.EPERM), "--workers 2 --pin",
		clear(`(?i)pin|affinity|CPU`))
	return g
}

// hostiles: a worker that overwrites shared memory.
func hostiles() []*cell {
	var g []*cell
	for _, what := range launchtest.GarbleWhat {
		// The contents of a peer's own events can't be checked, so a run may also succeed; it must not crash, hang
		// or leave anything.
		c := cell{fault: "hostile/" + strings.TrimPrefix(what, launchtest.Garble), soon: true, horizon: "200",
			trouble: trouble(4, 5, what),
			args:    words("--workers 2 --partition block --stall 2s --on-stall end"),
			want: want{exit: []int{0, 1}, stderr: []string{`worker [01]`}, never: []string{`worker 0 died`, `panic: `},
				within: 3 * startMax}}
		g = append(g, each([]string{"tiny", "tiny-large"}, c)...)
	}
	return g
}

// pressures: full rings, smallest sizes, many workers.
func pressures() []*cell {
	same := want{exit: []int{0}, sameHash: true, within: tryMax}
	const small = "--workers 2 --ring-bytes 1K --inline-max 1 --batch 1"
	g := each([]string{"service", "network", "queueing", "supply", "phold", "tiny"},
		cell{fault: "pressure/smallest", soon: true, args: words(small + " --pool-bytes 64K"), want: same})
	// The smallest valid pool is one whose largest block holds the payload.
	g = append(g, each([]string{"phold-large", "tiny-large"},
		cell{fault: "pressure/smallest", soon: true, args: words(small), want: same})...)
	g = append(g, each([]string{"network", "phold", "phold-large"},
		cell{fault: "pressure/parked", soon: true, args: words("--workers 4 --ring-bytes 1K --batch 1 --wait park"),
			want: same})...)
	g = append(g, each([]string{"phold-large", "tiny-large"},
		cell{fault: "pressure/goroutine", soon: true, args: words("--workers 2 --ingress goroutine --ring-bytes 1K"),
			want: same})...)
	// Many workers on few cores take long for every simulated second, so there are few.
	return append(g, each([]string{"phold"},
		cell{fault: "pressure/64-workers", soon: true, horizon: "2", args: words(
			"--workers 64 --ring-bytes 1K --pool-bytes 64K"), want: same})...)
}

// interruptions: SIGINT and SIGTERM, once and twice.
func interruptions() []*cell {
	var g []*cell
	for name, s := range map[string]syscall.Signal{"sigint": syscall.SIGINT, "sigterm": syscall.SIGTERM} {
		status := shellStatus + int(s)
		g = append(g, each(outside, cell{fault: name + "/once", args: words("--workers 2"), inject: interrupt(s, 0),
			want: want{exit: []int{status}, stderr: []string{`interrupted`}, within: stopMax, partial: true}})...)
		g = append(g, each(outside, cell{fault: name + "/twice", args: words("--workers 2"),
			inject: interrupt(s, 400*time.Millisecond), want: want{exit: []int{status}, within: 3 * time.Second}})...)
		for _, transport := range []string{"shm", "inproc"} {
			g = append(g, &cell{fault: name + "/any-phase-" + transport, kind: "phold-many",
				args: words("--workers 2 --transport " + transport), inject: interruptAnywhere(s),
				want: want{exit: []int{status}, stderr: []string{`interrupted`}, within: anyPhaseMax}})
		}
	}
	return g
}

// outputs: standard output is closed, the disk is full.
func outputs() []*cell {
	full := `no space left`
	g := each([]string{"service", "network", "queueing", "phold"},
		cell{fault: "output/closed", soon: true, deaf: true, args: words("--workers 2"),
			want: want{exit: []int{1}, stderr: []string{`standard output`}, within: tryMax}})
	g = append(g, each([]string{"phold", "tiny"},
		cell{fault: "output/trace-full-disk", soon: true, args: words("--workers 2 --trace trace.txt"),
			limits: &limits{Disk: "run"},
			want:   want{exit: []int{1}, stderr: []string{full, `trace\.txt`}, within: tryMax}})...)
	g = append(g, each([]string{"phold", "tiny"},
		cell{fault: "output/trace-dev-full", soon: true, args: words("--workers 2 --trace /dev/full"),
			want: want{exit: []int{1}, stderr: []string{full, `/dev/full`}, within: tryMax}})...)
	return append(g, each([]string{"phold", "network"},
		cell{fault: "output/json-dev-full", soon: true, args: words("--workers 2 --json /dev/full"),
			want: want{exit: []int{1}, stderr: []string{full, `/dev/full`}, within: tryMax}})...)
}

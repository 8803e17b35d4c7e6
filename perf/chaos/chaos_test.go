// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/race"
)

func TestMain(m *testing.M) {
	if launch.IsWorker() || os.Getenv(roleEnv) != "" {
		serve()
	}
	leaktest.Main(m)
}

// testSlack is for machines that run other tests at the same time: what has to end
// within a second is over within some seconds there.
const testSlack = 5

func testGround(t *testing.T) *ground {
	t.Helper()
	g, err := newGround("", "", testSlack)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.close)
	t.Cleanup(g.guard())
	g.stopFor = 2 * time.Second
	return g
}

// Every cell of the grid, once. -short keeps one kind of scenario for each fault.
func TestEveryCell(t *testing.T) {
	g := testGround(t)
	seen := map[string]bool{}
	for i, c := range grid() {
		if testing.Short() && seen[c.fault] {
			continue
		}
		seen[c.fault] = true
		t.Run(c.name(), func(t *testing.T) {
			t.Parallel()
			if race.Enabled && c.limits != nil && (c.limits.Memory > 0 || c.limits.Group > 0) {
				t.Skip("the race detector takes more memory than the limit")
			}
			o := g.try(c, uint64(i))
			if o.skipped != "" {
				t.Skip(o.skipped)
			}
			for _, w := range o.wrong {
				t.Error(w)
			}
			if t.Failed() {
				t.Logf("again: go run ./perf/chaos -cell %s -seed %d", c.name(), i)
			}
		})
	}
}

// The canaries: each of these expectations is wrong, and the judge must say so.
func TestTheJudgeFindsWhatIsWrong(t *testing.T) {
	if testing.Short() {
		t.Skip("the judge is the same in every build")
	}
	calm := want{exit: []int{0}, sameHash: true}
	started := func(t *try) error { return t.simulating() }
	for _, c := range []struct {
		what string
		cell cell
		want string
	}{
		{"a good run", cell{soon: true, want: calm}, ""},
		{"another status", cell{soon: true, want: want{exit: []int{1}}}, "exit status 0, want one of [1]"},
		{"another seed", cell{soon: true, args: words("--seed 2"), want: calm}, "trace hash"},
		{"silence", cell{soon: true, want: want{exit: []int{0}, stderr: []string{"worker 17"}}},
			`doesn't say "worker 17"`},
		{"a word too much", cell{trouble: trouble(4, 5, "error"), want: want{exit: []int{1}, never: []string{"token"}}},
			`says "token"`},
		{"a crash", cell{trouble: trouble(4, 5, "alloc"), limits: &limits{Memory: 3 << 30}, want: want{exit: []int{1}}},
			"goroutine"},
		{"a late end", cell{soon: true, want: want{exit: []int{0}, within: time.Nanosecond}}, "to end, want at most"},
		{"a file", cell{soon: true, args: words("--trace trace.txt"), want: calm}, "left behind: file trace.txt"},
		{"a file that was asked for", cell{soon: true, args: words("--trace trace.txt"),
			want: want{exit: []int{0}, files: []string{"trace.txt"}}}, ""},
		{"a process", cell{soon: true, inject: leaveSleeper, want: calm}, "left behind: process"},
		{"a hang", cell{inject: func(t *try) error {
			return errors.Join(started(t), t.strike(t.launcher, syscall.SIGSTOP))
		}, want: calm}, "it hangs"},
		{"a fault that can't be", cell{soon: true, inject: func(*try) error { return errors.New("no way") },
			want: calm}, "no way"},
		{"a fault that comes too late", cell{soon: true, inject: func(t *try) error { <-t.over; return errMissed },
			want: want{exit: []int{1}}}, "missed"},
	} {
		t.Run(c.what, func(t *testing.T) {
			if race.Enabled && c.cell.limits != nil && c.cell.limits.Memory > 0 {
				t.Skip("the race detector takes more addresses than the limit")
			}
			g := testGround(t)
			if g.slack = 1; strings.Contains(c.want, "hangs") {
				g.hang = time.Second
			}
			c.cell.kind, c.cell.fault = "tiny", "canary"
			o := g.try(&c.cell, 1)
			stderrText := strings.Join(o.wrong, "; ")
			if o.missed {
				stderrText = strings.TrimSpace("missed " + stderrText)
			}
			if c.want == "" && stderrText != "" || !strings.Contains(stderrText, c.want) {
				t.Errorf("the judge says %q, want %q", stderrText, c.want)
			}
		})
	}
}

// leaveSleeper leaves a process that has the run's mark.
func leaveSleeper(t *try) error {
	cmd := exec.Command(t.plain)
	cmd.Env = append(t.cmd.Env, roleEnv+"="+roleSleeper)
	if err := cmd.Start(); err != nil {
		return err
	}
	t.after = append(t.after, func() { _ = cmd.Wait() }) // killed by clean
	return nil
}

// Seeds repeat: the same cell and seed draw the same, others something else.
func TestSeedsRepeat(t *testing.T) {
	draw := func(name string, seed uint64) uint64 { return seedOf(name, seed).Uint64() }
	first := draw("a", 1)
	if again := draw("a", 1); again != first {
		t.Errorf("the same cell and seed draw %d and %d", first, again)
	}
	if first == draw("a", 2) || first == draw("b", 1) {
		t.Error("another seed or cell draws the same")
	}
}

// Rows count what happened, and failures end with status 1.
func TestRows(t *testing.T) {
	r := newRow(&cell{fault: "f", kind: "k"})
	r.add(1, outcome{detect: 3 * time.Millisecond})
	r.add(2, outcome{detect: 9 * time.Millisecond, wrong: []string{"x"}, left: leftovers{Files: 2}})
	r.add(3, outcome{detect: 5 * time.Millisecond})
	r.add(4, outcome{missed: true})
	if r.Tried != 3 || r.Survived != 2 || r.Missed != 1 || r.MedianMs != 5 || r.MaxMs != 9 || r.Left.Files != 2 ||
		len(r.Failures) != 1 || r.Failures[0].Seed != 2 {
		t.Errorf("%+v", r)
	}
	var stderrText strings.Builder
	if verdict(&stderrText, 1, []*row{r}) != 1 || verdict(&stderrText, 1, nil) != 0 {
		t.Errorf("verdict: %s", stderrText.String())
	}
	file := filepath.Join(t.TempDir(), "out.json")
	if err := writeJSON(file, 1, []*row{r}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), `"survived": 2`) ||
		!strings.Contains(string(text), `"detect_max_ms": 9`) {
		t.Errorf("%s, %v", text, err)
	}
}

// A soak finds what grows, and nothing where nothing does.
func TestWeigh(t *testing.T) {
	flat := func(i int) sample {
		return sample{memory: 1e8 + 1e5*float64(i%3), files: 40, threads: float64(20 + i%2)}
	}
	for _, c := range []struct {
		what string
		at   func(i int) sample
		n    int
		want string
	}{
		{"flat", flat, 90, ""},
		{"too few", flat, 8, "soak for longer"},
		{"memory", func(i int) sample { s := flat(i); s.memory += 4e4 * float64(i); return s }, 90, "memory grows"},
		{"memory at first", func(i int) sample { s := flat(i); s.memory += 1e6 * float64(min(i, 25)); return s }, 90,
			""},
		{"replications", func(i int) sample { // two workers count each
			s := flat(i)
			s.begun, s.memory = 200*float64(i), s.memory+8e4*float64(i)
			return s
		}, 90, ""},
		{"replications that leave more", func(i int) sample {
			s := flat(i)
			s.begun, s.memory = 20*float64(i), s.memory+6e4*float64(i)
			return s
		}, 90, "memory grows"},
		{"files", func(i int) sample { s := flat(i); s.files += float64(i / 20); return s }, 90, "open files"},
		{"threads", func(i int) sample { s := flat(i); s.threads += float64(i / 20); return s }, 90, "threads"},
	} {
		var samples []sample
		for i := range c.n {
			samples = append(samples, c.at(i))
		}
		if s := weigh(workload{set: 2}, samples); c.want == "" && s.Wrong != "" || !strings.Contains(s.Wrong, c.want) {
			t.Errorf("%s: %+v, want %q", c.what, s, c.want)
		}
	}
	rising := func(bytes float64) (samples []sample) {
		for i := range 90 {
			samples = append(samples, sample{memory: 1e8 + bytes*float64(i)/30})
		}
		return samples
	}
	for rise, wrong := range map[float64]bool{1.5e6: false, 2.5e6: true} { // from a third to the next
		if s := weigh(workload{marks: 2e6}, rising(rise)); s.Wrong != "" != wrong {
			t.Errorf("%.0f bytes more where high-water marks may take 2 MB: %+v", rise, s)
		}
	}
}

// What a process shares of its program's file isn't its own: it changes with whoever runs the program beside it.
func TestOwnMemory(t *testing.T) {
	const rollup = "Pss:   7100 kB\nPss_Dirty: 5000 kB\nPss_Anon: 4000 kB\nPss_File: 2000 kB\nPss_Shmem: 1100 kB\n"
	if got, err := ownMemory(rollup); err != nil || got != 5100*1024 {
		t.Errorf("%v, %v, want 5100 KiB", got, err)
	}
	if got, err := ownMemory("Pss: many kB\n"); err == nil {
		t.Errorf("%v of what is no number", got)
	}
}

// Every workload runs and is sampled.
func TestWorkloads(t *testing.T) {
	if testing.Short() {
		t.Skip("it is about what is measured")
	}
	g := testGround(t)
	for _, b := range workloads {
		samples, err := g.watch(b, 1200*time.Millisecond)
		if err != nil {
			t.Errorf("%s: %v", b.Name, err)
		}
		if len(samples) == 0 || samples[0].memory < 1e6 || samples[0].files < 10 || samples[0].threads < 3 {
			t.Errorf("%s: samples %v", b.Name, samples)
		}
	}
}

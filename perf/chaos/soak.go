// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/disco-sim/disco/internal/inspect"
	"github.com/disco-sim/disco/internal/worker"
)

// A soak simulates for long and checks that nothing grows: memory within growthMax, open files and threads not at
// all. Memory is a process's own and its share of shared memory (PSS) without what it maps of files, sampled once a
// pause; the mean of the last third of the samples is compared with that of the third before. In the first third caches
// and heaps reach their size. The program's text is left out because a process's share of it is larger whenever another
// process of the same program ends, on whatever run that works. What the launcher keeps of each replication, at most
// keptBytes (docs/running.md, "Memory"), is allowed by their number: how many there are in a while depends on the
// machine. So does when the Go runtime has made the last thread and its heaps have reached their size: settleBytes. And
// what is reused has reached its fullest moment only after very long, where that is one of chance: workload.marks.
//
// A process that allocates little fills its first heap in minutes: 4 MiB or two minutes, whatever comes first, pass
// until the Go runtime collects garbage (a launcher of "long run", 16 KB/s: 3.1 MB after 20 s, 6.3 after 240, 6.0 to
// 6.7 from there to 900, while its workers stayed the same to 20 KB). The processes of a soak therefore collect when
// a tenth of their live heap, or 400 KB, has come (gogc): that is done with within the first third.
const (
	growthMax   = 0.01
	settleBytes = 1e6
	gogc        = "GOGC=10"
	keptBytes   = 1000
	soakPause   = 500 * time.Millisecond
	soakRounds  = 9 // samples at the least
)

// workload is one long run.
type workload struct {
	Name    string   `json:"name"`
	kind    string   // of a load
	args    []string // of the run
	horizon string   // that is not reached in time
	set     int      // workers that simulate each replication together
	marks   float64  // bytes by which high-water marks may still rise after the first third
}

// workloads are the ways in which something could grow: simulated time, events that travel by
// block, and replications, which start over again and again.
var workloads = []workload{
	{Name: "long run", kind: "phold", horizon: "1e9", set: 2, args: words("--workers 2")},
	// 96 payloads of 200 KB, of which either worker has more or fewer, in blocks or its own memory: ten of them.
	{Name: "large payloads", kind: "phold-large", horizon: "1e9", set: 2, args: words("--workers 2"), marks: 2e6},
	{Name: "replications over nodes", kind: "tiny", horizon: "50", set: 2, args: words(
		"--workers 2 --spread nodes --replications 100000")},
	{Name: "replications spread", kind: "phold", horizon: "200", set: 1, args: words(
		"--workers 2 --spread replications --replications 100000")},
}

// sample is what the processes of a run hold at one moment.
type sample struct {
	memory  float64 // bytes
	files   float64 // open
	threads float64
	begun   float64 // replications, summed over the workers: where all simulate each, more than there are
}

// soaked is the result of one workload.
type soaked struct {
	workload
	Samples     int     `json:"samples"`
	MemoryBytes float64 `json:"memory_bytes"` // mean of the last third
	MemoryRise  float64 `json:"memory_rise"`  // against the third before, as a share, but for KeptBytes
	KeptBytes   float64 `json:"kept_bytes"`   // that the replications between the two may have left
	Files       float64 `json:"files"`
	FilesRise   float64 `json:"files_rise"` // open files, on average
	Threads     float64 `json:"threads"`
	ThreadsRise float64 `json:"threads_rise"`
	Wrong       string  `json:"wrong,omitempty"`
}

// soak runs all workloads, each for its part of the time, and is the exit status.
func (g *ground) soak(w io.Writer, limit time.Duration, file string) int {
	var all []soaked
	status := 0
	for _, b := range workloads {
		s := g.runFor(b, limit/time.Duration(len(workloads)))
		all = append(all, s)
		fmt.Fprintf(w, "%-24s %4d samples; memory %7.1f MB, %+.2f %% and %.1f MB of results; open files %.1f, %+.2f; "+
			"threads %.1f, %+.2f\n", s.Name, s.Samples, s.MemoryBytes/1e6, 100*s.MemoryRise, s.KeptBytes/1e6, s.Files,
			s.FilesRise, s.Threads, s.ThreadsRise)
		if s.Wrong != "" {
			fmt.Fprintf(w, "    %s\n", s.Wrong)
			status = 1
		}
	}
	if file == "" {
		return status
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err == nil {
		err = os.WriteFile(file, append(text, '\n'), 0o666)
	}
	if err != nil {
		fmt.Fprintln(w, "chaos:", err)
		return 1
	}
	return status
}

// runFor runs one workload for some time.
func (g *ground) runFor(b workload, limit time.Duration) soaked {
	samples, err := g.watch(b, limit)
	if err != nil {
		return soaked{workload: b, Samples: len(samples), Wrong: err.Error()}
	}
	return weigh(b, samples)
}

// watch runs one workload and takes samples of its processes.
func (g *ground) watch(b workload, limit time.Duration) (samples []sample, err error) {
	dir, err := os.MkdirTemp(g.dir, "soak-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := writeScenario(dir, &cell{kind: b.kind}); err != nil {
		return nil, err
	}
	program := g.program
	if strings.HasPrefix(b.kind, "tiny") {
		program = g.plain
	}
	cmd := exec.Command(program, append([]string{"run", filepath.Join(dir, scenarioFile), "--horizon", b.horizon,
		"--json", "-"}, b.args...)...)
	cmd.Env = append(os.Environ(), roleEnv+"="+roleProgram, gogc,
		markEnv+"="+filepath.Base(g.dir)+"/"+filepath.Base(dir))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stderrText strings.Builder
	cmd.Stderr = &stderrText
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ticks := time.NewTicker(soakPause)
	defer ticks.Stop()
	for over := time.After(limit); ; {
		select {
		case <-ticks.C:
			if s, err := takeSample(cmd.Process.Pid); err == nil {
				samples = append(samples, s)
			}
		case err := <-ended:
			return samples, fmt.Errorf("the run ended by itself: %v: %s", err, excerpt(stderrText.String()))
		case <-over:
			err := cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-ended:
			case <-time.After(g.hang):
				err = errors.Join(err, errors.New("the run doesn't end when it is told to"), cmd.Process.Kill(),
					<-ended)
			}
			return samples, err
		}
	}
}

// takeSample adds up what a launcher and its workers hold.
func takeSample(launcher int) (sum sample, err error) {
	for _, pid := range append(workersOf(launcher), launcher) {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
		if err != nil {
			return sum, err
		}
		memory, err := ownMemory(string(text))
		if err != nil {
			return sum, err
		}
		sum.memory += memory
		for of, dir := range map[*float64]string{&sum.files: "fd", &sum.threads: "task"} {
			entries, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), dir))
			if err != nil {
				return sum, err
			}
			*of += float64(len(entries))
		}
	}
	run, err := inspect.Process(launcher)
	if err != nil {
		return sum, err
	}
	for i := range run.Workers {
		sum.begun += run.Workers[i].Number(worker.NumberReplications)
	}
	return sum, nil
}

// ownMemory is what a process holds by its smaps_rollup, in bytes: its PSS without that of files.
func ownMemory(rollup string) (bytes float64, err error) {
	for line := range strings.Lines(rollup) {
		sign := 1.0
		rest, ok := strings.CutPrefix(line, "Pss:")
		if !ok {
			sign = -1
			if rest, ok = strings.CutPrefix(line, "Pss_File:"); !ok {
				continue
			}
		}
		kilobytes, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
		if err != nil {
			return 0, err
		}
		bytes += sign * kilobytes * 1024
	}
	return bytes, nil
}

// weigh compares the last third of the samples with the third before.
func weigh(b workload, samples []sample) soaked {
	s := soaked{workload: b, Samples: len(samples)}
	if len(samples) < soakRounds {
		s.Wrong = fmt.Sprintf("%d samples, want at least %d: soak for longer", len(samples), soakRounds)
		return s
	}
	third := len(samples) / 3
	before, after := meanOf(samples[third:2*third]), meanOf(samples[2*third:])
	s.KeptBytes = keptBytes * (after.begun - before.begun) / float64(max(b.set, 1))
	s.MemoryBytes, s.MemoryRise = after.memory, (after.memory-s.KeptBytes)/before.memory-1
	s.Files, s.FilesRise = after.files, after.files-before.files
	s.Threads, s.ThreadsRise = after.threads, after.threads-before.threads
	switch {
	case s.MemoryRise*before.memory > max(growthMax*before.memory, settleBytes, b.marks):
		s.Wrong = fmt.Sprintf("memory grows: by %.2f %% and %.0f bytes from the second third to the last, at most "+
			"%.0f %% (or %.0f MB) and these are allowed", 100*s.MemoryRise, s.KeptBytes, 100*growthMax,
			max(settleBytes, b.marks)/1e6)
	case s.FilesRise >= 1:
		s.Wrong = "open files become more"
	case s.ThreadsRise >= 1:
		s.Wrong = "threads become more"
	}
	return s
}

func meanOf(samples []sample) (mean sample) {
	for _, s := range samples {
		mean.memory += s.memory
		mean.files += s.files
		mean.threads += s.threads
		mean.begun += s.begun
	}
	n := float64(len(samples))
	return sample{memory: mean.memory / n, files: mean.files / n, threads: mean.threads / n, begun: mean.begun / n}
}

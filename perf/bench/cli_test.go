// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// testJobs break down in the middle of a measurement.
func testJobs() []Job {
	wait := func(s *Side) error {
		for !s.Aborted() {
			time.Sleep(time.Millisecond)
		}
		return ErrAborted
	}
	breaking := func(name string, breakDown func() error) Job {
		return Job{Name: name, Open: func(s *Side) (*Run, error) {
			return &Run{Do: func(m *Meter) error {
				if s.Lead() {
					return wait(s)
				}
				return breakDown()
			}}, nil
		}}
	}
	return []Job{
		breaking("test-exits", func() error { os.Exit(3); return nil }),
		breaking("test-killed", func() error {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}),
		breaking("test-errs", func() error { return damaged("test-errs", 1, 2, 3) }),
		{Name: "test-falls", Open: openFalling},
	}
}

// openFalling: the following side dies when it is ready, and the leading side tells of a lost connection before anybody
// has looked at what became of the other one.
func openFalling(s *Side) (*Run, error) {
	if !s.Lead() {
		time.AfterFunc(20*time.Millisecond, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
		return &Run{Address: strconv.Itoa(os.Getpid()), Do: func(*Meter) error { select {} }}, nil
	}
	for !s.Aborted() {
		stat, err := os.ReadFile("/proc/" + s.Address + "/stat")
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			return nil, errors.New("the connection is lost")
		}
		time.Sleep(time.Millisecond)
	}
	return nil, ErrAborted
}

// breaking is a command `peers` with one row of a job that breaks down.
func breaking(job string) []Command {
	return []Command{{Name: "peers", Jobs: testJobs(), Specs: func(context.Context, Options) ([]Spec, func(), error) {
		return []Spec{{Bench: job, Row: Task{Job: job, CPU: AnyCPU, Time: time.Second}, LimitName: job}}, func() {}, nil
	}}}
}

func execute(more []Command, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = Execute(append([]string{"disco-bench"}, args...), &out, &errs, more...)
	return status, out.String(), errs.String()
}

// children are the processes that this one has started and not yet taken leave of.
func children(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range files {
		text, _ := os.ReadFile(f)
		all = append(all, strings.Fields(string(text))...)
	}
	return all
}

// segments are the arenas that this process has mapped or open.
func segments(t *testing.T) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	n := strings.Count(string(maps), "disco:bench-")
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.Contains(to, "disco:bench-") {
			n++
		}
	}
	return n
}

func TestEveryCommandInBothModes(t *testing.T) {
	for _, c := range commands {
		if c.name == "all" {
			continue // it is the others one by one
		}
		for _, mode := range []string{"processes", "threads"} {
			t.Run(c.name+"/"+mode, func(t *testing.T) {
				args := []string{c.name, "--time", "2ms", "--rounds", "2", "--json", "-"}
				if mode == "threads" {
					args = append(args, "--threads")
				}
				status, out, errs := execute(nil, args...)
				if status != ExitOK {
					t.Fatalf("exit %d: %s", status, errs)
				}
				checkJSON(t, out, mode)
				if left := children(t); len(left) > 0 {
					t.Errorf("processes left behind: %v", left)
				}
				if n := segments(t); n > 0 {
					t.Errorf("%d arenas left behind", n)
				}
			})
		}
	}
}

// checkJSON holds the output against the form that docs/bench.md promises, key by key.
func checkJSON(t *testing.T, out, mode string) {
	t.Helper()
	var rows []map[string]any
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) == 0 {
		t.Fatalf("%v in %q", err, out)
	}
	want := []string{"allocs_per_event", "batch", "bench", "bytes_per_s", "cpu_ns_per_event", "cpu_ratio_to_limit",
		"cpu_s", "limit", "limit_pauses", "payload_bytes", "processes", "rate_per_s", "ratio_to_limit", "rtt_ns",
		"wait"}
	for _, r := range rows {
		delete(r, "remark") // of few processors
		if got := keys(r); !slices.Equal(got, want) {
			t.Errorf("row with the keys %q, want %q", got, want)
		}
		if rtt, ok := r["rtt_ns"].(map[string]any); ok {
			if got := keys(rtt); !slices.Equal(got, []string{"max", "p50", "p90", "p99", "p999"}) {
				t.Errorf("%v: rtt_ns with the keys %q", r["bench"], got)
			}
			if rtt["p50"].(float64) <= 0 || rtt["p50"].(float64) > rtt["max"].(float64) {
				t.Errorf("%v: rtt_ns %v", r["bench"], rtt)
			}
		}
		transfers := r["cpu_s"].(float64) > 0 && r["rate_per_s"].(float64) > 0 && r["bench"] != "idle"
		if each := r["cpu_ns_per_event"].(float64); each < 0 || (each > 0) != transfers {
			t.Errorf("%v: %v s of CPU, %v ns an event", r["bench"], r["cpu_s"], each)
		}
		limit, _ := r["limit"].(string)
		pauses, has := r["limit_pauses"].(float64)
		polls := limit == LimitFlag || limit == LimitTouch || limit == LimitCopy
		if has != polls || pauses < 0 || pauses > 2 {
			t.Errorf("%v against %q: limit_pauses %v", r["bench"], limit, r["limit_pauses"])
		}
		ratio, ok := r["ratio_to_limit"].(map[string]any)
		if !ok || !slices.Equal(keys(ratio), []string{"max", "median", "min"}) {
			t.Fatalf("%v: ratio_to_limit %v", r["bench"], r["ratio_to_limit"])
		}
		if lo, mid, hi := ratio["min"].(float64), ratio["median"].(float64), ratio["max"].(float64); lo > mid ||
			mid > hi || hi < 0 {
			t.Errorf("%v: ratio_to_limit %v", r["bench"], ratio)
		}
		if processes := r["processes"].(float64); (processes == 1) != (mode == "threads") {
			t.Errorf("%v: %v processes", r["bench"], processes)
		}
		if r["limit"] == "" || r["limit"] == nil {
			t.Errorf("%v has no limit", r["bench"])
		}
	}
}

func keys(m map[string]any) (k []string) {
	for name := range m {
		k = append(k, name)
	}
	slices.Sort(k)
	return k
}

func TestChosenRows(t *testing.T) {
	status, out, errs := execute(nil, "latency", "--time", "2ms", "--rounds", "1", "--payload", "100",
		"--wait", "park", "--pin", "--json", "-")
	if status != ExitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	rows, err := ReadJSON(strings.NewReader(out))
	if err != nil || len(rows) != 1 || rows[0].PayloadBytes != 100 || rows[0].Wait != "park" {
		t.Fatalf("%+v, %v", rows, err)
	}
}

// With --read the rows have another name and a remark; payloads without a number are measured too, and such as need
// a block.
func TestRead(t *testing.T) {
	for read, remark := range map[string]string{ReadNumber: "reads only the number", ReadEcho: "a copy of what came"} {
		for _, payload := range []string{"0", "7", "8", "1024", "200000"} {
			status, out, errs := execute(nil, "latency", "--read", read, "--payload", payload, "--wait",
				"spin", "--threads", "--time", "2ms", "--rounds", "1", "--json", "-")
			if status != ExitOK || !strings.Contains(out, `"latency-`+read+`"`) || !strings.Contains(out, remark) {
				t.Errorf("%s, payload %s: exit %d, %s%s", read, payload, status, out, errs)
			}
		}
	}
}

func TestFilesAndPlot(t *testing.T) {
	dir := t.TempDir()
	rows, curves := filepath.Join(dir, "rows.json"), filepath.Join(dir, "curves")
	status, out, errs := execute(nil, "payload", "--time", "2ms", "--rounds", "1", "--payload", "4096",
		"--threads", "--json", rows, "--hgrm", curves)
	if status != ExitOK || !strings.Contains(out, "payload-loan, 4 KiB") || !strings.Contains(out, "ratio") {
		t.Fatalf("exit %d: %s%s", status, out, errs)
	}
	for _, name := range []string{"page.svg", "page.html"} {
		page := filepath.Join(dir, name)
		if status, _, errs := execute(nil, "plot", "--from", rows, "--hgrm", curves, "--out",
			page); status != ExitOK {
			t.Fatalf("exit %d: %s", status, errs)
		}
		text, err := os.ReadFile(page)
		if err != nil || !bytes.Contains(text, []byte("payload-copied")) || bytes.Contains(text, []byte("href")) {
			t.Fatalf("%v in a page of %d bytes", err, len(text))
		}
		if name == "page.svg" {
			wellFormed(t, text)
		}
	}
	if status, out, errs := execute(nil, "plot", "--from", rows, "--out", filepath.Join(dir, "rows.svg")); status !=
		ExitOK || !strings.Contains(out, "0 curves of round trips, and beside their limits 2 round trips and 3 rates") {
		t.Fatalf("exit %d: %s%s", status, out, errs)
	}
	text, err := os.ReadFile(filepath.Join(dir, "rows.svg"))
	if err != nil || bytes.Contains(text, []byte("by percentile")) || bytes.Count(text, []byte("times limit-")) == 0 {
		t.Errorf("%v, a panel without curves, or no limits, in %s", err, text)
	}
	if status, out, errs := execute(nil, "plot", "--time", "1ms", "--rounds", "1", "--payload", "64",
		"--threads", "--out", filepath.Join(dir, "own.svg")); status != ExitOK {
		t.Fatalf("exit %d: %s%s", status, out, errs)
	}
}

func wellFormed(t *testing.T, text []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestGobenchLines(t *testing.T) {
	status, out, errs := execute(nil, "throughput", "--time", "2ms", "--rounds", "3", "--payload", "64",
		"--batch", "16", "--threads", "--gobench")
	if status != ExitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	lines := 0
	for _, line := range strings.Split(out, "\n") {
		if !strings.HasPrefix(line, "Benchmark") {
			continue
		}
		lines++
		if f := strings.Fields(line); len(f)%2 != 0 || !strings.HasPrefix(f[0],
			"BenchmarkThroughput/bytes=64/batch=16/wait=spin/processes=1-") || f[3] != "ns/op" {
			t.Errorf("line %q", line)
		}
	}
	if lines != 3 {
		t.Errorf("%d lines, want one for each of 3 rounds:\n%s", lines, out)
	}
}

// Whatever way the other side goes, the one who measures ends with a message and exit
// status 1, and nothing is left behind.
func TestTheOtherSideBreaksDown(t *testing.T) {
	for job, want := range map[string]string{
		"test-exits":  "has ended in the middle of a measurement: exit status 3",
		"test-killed": "has ended in the middle of a measurement: signal: killed",
		"test-falls":  "has ended in the middle of a measurement: signal: killed",
		"test-errs":   "what was read is not what was written",
	} {
		t.Run(job, func(t *testing.T) {
			status, out, errs := execute(breaking(job), "peers", "--time", "1s", "--rounds", "1")
			if status != ExitFailed || !strings.Contains(errs, want) || strings.Contains(errs, "goroutine ") {
				t.Fatalf("exit %d, want 1 and %q: %s%s", status, want, out, errs)
			}
			if left := children(t); len(left) > 0 {
				t.Errorf("processes left behind: %v", left)
			}
			if n := segments(t); n > 0 {
				t.Errorf("%d arenas left behind", n)
			}
		})
	}
}

// A real job notices the death of the other side as well: a spinning loop.
func TestASpinningSideIsStopped(t *testing.T) {
	bytes, err := ArenaBytes(64, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range []string{LimitFlag, LimitCopy, LimitFutex, JobTrip, JobTripNumber, JobTripEcho, JobStream,
		JobByNameTrip, JobByNameStream} {
		f, err := NewFleet(FleetConfig{Processes: true, Pairs: 1, ArenaBytes: bytes, Jobs: Jobs()})
		if err != nil {
			t.Fatal(err)
		}
		other := f.members[0][1].(*process)
		time.AfterFunc(20*time.Millisecond, func() { _ = syscall.Kill(other.cmd.Process.Pid, syscall.SIGKILL) })
		task := Task{Job: job, Payload: 64, Batch: 1, Wait: "spin", Ring: 1 << 16, CPU: AnyCPU, Time: TimeMax,
			Senders: 1}
		_, err = f.Run(context.Background(), []Task{task})
		if err == nil || !strings.Contains(err.Error(), "signal: killed") {
			t.Errorf("%s: %v", job, err)
		}
		dir := f.dir
		f.Close()
		f.Close()
		if _, err := os.Stat(dir); dir != "" && !os.IsNotExist(err) {
			t.Errorf("%s: the directory %s is left behind: %v", job, dir, err)
		}
	}
}

// A process that waits for orders does so in the runtime's poller: a thread inside a system call may keep Go 1.26 from
// stopping the world, for as long as there is no order.
func TestOrdersDontBlock(t *testing.T) {
	bytes, _ := ArenaBytes(64, 1<<16)
	f, err := NewFleet(FleetConfig{Processes: true, Pairs: 1, ArenaBytes: bytes, Jobs: Jobs()})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	task := Task{Job: LimitFlag, Payload: 64, Batch: 1, Ring: 1 << 16, CPU: AnyCPU, Time: time.Millisecond}
	if _, err := f.Run(context.Background(), []Task{task}); err != nil { // so the process has come to its orders
		t.Fatal(err)
	}
	file := fmt.Sprintf("/proc/%d/fdinfo/%d", f.members[0][1].(*process).cmd.Process.Pid, orderFD)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var position, flags int
	if _, err := fmt.Sscanf(string(text), "pos:\t%d\nflags:\t%o\n", &position, &flags); err != nil {
		t.Fatalf("%s: %v: %s", file, err, text)
	}
	if flags&syscall.O_NONBLOCK == 0 {
		t.Errorf("orders are read with flags %#o, want O_NONBLOCK in them", flags)
	}
}

func TestInterrupted(t *testing.T) {
	bytes, _ := ArenaBytes(64, 1<<16)
	f, err := NewFleet(FleetConfig{Processes: true, Pairs: 1, ArenaBytes: bytes, Jobs: Jobs()})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	task := Task{Job: JobTrip, Payload: 64, Batch: 1, Wait: "spin", Ring: 1 << 16, CPU: AnyCPU, Time: TimeMax}
	if _, err := f.Run(ctx, []Task{task}); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Fatal(err)
	}
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	cases := map[string][]string{
		"there is no command":                                    {},
		`there is no command "letency": want one of limit`:       {"letency"},
		"latency: there is no flag --nonsense: ":                 {"latency", "--nonsense"},
		`latency: "extra" is too much`:                           {"latency", "extra"},
		"--payload: found -5, want 0 or more bytes":              {"latency", "--payload", "-5"},
		"--payload: found -1, want 0 or more bytes":              {"latency", "--payload", "-1"},
		`there is no command "letency": want one of`:             {"help", "letency"},
		`version: "x" is too much`:                               {"version", "x"},
		"--from: /dev/zero: found a device":                      {"plot", "--from", "/dev/zero"},
		"--payload: found 99999999999, want 0 to 67108864 bytes": {"latency", "--payload", "99999999999"},
		"throughput: --batch: found 0, want 1 or more events":    {"throughput", "--batch", "0"},
		"--wait: found nap, want spin, yield, park or adaptive":  {"latency", "--wait", "nap"},
		"--rounds: found 0, want 1 to 1000":                      {"latency", "--rounds", "0"},
		"--time: found 1ns, want 1ms to 1m0s":                    {"latency", "--time", "1ns"},
		"--ring: found 1000, want a power of two":                {"latency", "--ring", "1000"},
		`--read: found "some", want all, number or echo`:         {"latency", "--read", "some"},
		"throughput: there is no flag --read":                    {"throughput", "--read", "number"},
		`invalid value "many" for flag -payload`:                 {"latency", "--payload", "many"},
		"--json - and --gobench both want standard output":       {"latency", "--json", "-", "--gobench"},
		"--json: open /dev/null/rows.json":                       {"latency", "--json", "/dev/null/rows.json"},
		"--out rows.png: want a name that ends in .svg or .html": {"plot", "--out", "rows.png"},
		"--from: rows-that-are-not-there.json: found no file":    {"plot", "--from", "rows-that-are-not-there.json"},
	}
	for want, args := range cases {
		status, out, errs := execute(nil, args...)
		if status != ExitUsage || !strings.Contains(errs, want) || strings.Contains(out, "ns") {
			t.Errorf("%q: exit %d, want 2 and %q on standard error: %s%s", args, status, want, errs, out)
		}
	}
}

// TestVersion: both forms say which version this is.
func TestVersion(t *testing.T) {
	for _, arg := range []string{"version", "--version"} {
		if status, out, errs := execute(nil, arg); status != ExitOK ||
			!strings.HasPrefix(out, "disco-bench ") || errs != "" {
			t.Errorf("%s: exit %d: %q %q", arg, status, out, errs)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"latency", "--help"}, {"plot", "--help"}} {
		if status, out, errs := execute(nil, args...); status != ExitOK ||
			!strings.Contains(out, "disco-bench") {
			t.Errorf("%q: exit %d: %s%s", args, status, out, errs)
		}
	}
}

// TestRowsBesideLimits: a row stands where its limit was by its ratio, limits have no row of their own, and what has no
// figure isn't drawn.
func TestRowsBesideLimits(t *testing.T) {
	p := &page{rows: []Row{
		{Bench: "limit-x", Limit: "limit-x", BytesPerSecond: 5, Ratio: &Range{Median: 1}},
		{Bench: "a", Limit: "limit-x", PayloadBytes: 64, Batch: 256, Wait: "spin", BytesPerSecond: 1e6,
			Ratio: &Range{Median: 0.1}},
		{Bench: "b", RTT: &RTT{P50: 100, P99: 1000}, Limit: "limit-y", Ratio: &Range{Median: 10}},
		{Bench: "c", BytesPerSecond: 100},
		{Bench: "idle"},
	}}
	rates, trips := p.rowsOf(false), p.rowsOf(true)
	if len(rates) != 2 || len(trips) != 1 || rates[0].Name != "a, 64 B, batch 256, spin" || rates[0].X != 6 ||
		math.Abs(rates[0].Limit-7) > 1e-12 || rates[0].Text != "0.1 times limit-x" || !math.IsNaN(rates[1].Limit) ||
		trips[0].X != 2 || trips[0].To != 3 || trips[0].Limit != 1 {
		t.Errorf("%+v, %+v", rates, trips)
	}
	for text, x := range map[string]float64{"100 ns": 2, "1 µs": 3, "10 ms": 7, "1000 s": 12} {
		if got := tickNanos(x); got != text {
			t.Errorf("%s, want %s", got, text)
		}
	}
	if charts := (&page{rows: p.rows[:1]}).charts(); len(charts) != 0 {
		t.Errorf("%d panels of limits alone", len(charts))
	}
}

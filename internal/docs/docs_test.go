// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// watchdog bounds one command; the first go run on a machine builds a lot.
const watchdog = 10 * time.Minute

// rule says what the test does with the commands that match.
type rule struct {
	match  string // a regular expression for the whole command
	skip   string // why the command is not run
	add    string // put behind it, so that it doesn't take long
	status int    // exit status wanted
	want   string // stands in its output
}

// rules, of which the first that matches counts.
var rules = []rule{
	{match: `make profile .*`, want: "s of CPU"},
	{match: `make( .*)?`, skip: "the gate runs this test, and make build is what this test does itself"},
	{match: `go test (\./|-race|-run TestStop|-fuzz|-bench|.*-schedules).*|go test \./(node|model/service) -run .*`,
		skip: "tests are what the gate runs; which ones exist is checked by TestNamedTests"},
	{match: `go tool pprof .*`, skip: "a tool of Go's own"},
	{match: `kill .*`, skip: "it needs the process of a run"},
	{match: `bin/disco-run man( run)?`, want: ".SH SYNOPSIS"},
	{match: `bin/disco-run schema service`, want: `"additionalProperties": false`},
	{match: `bin/disco-run completion bash`, want: "complete -o bashdefault"},
	{match: `bin/disco-run explain .* --json -`, add: " --pilot 50ms", want: `"speedup"`},
	{match: `bin/disco-run explain .*`, add: " --pilot 50ms", want: "speed-up"},
	{match: `(bin/disco-run )?(ps|top)( PID)?`, skip: "it needs a run under way: app tests it"},

	{match: `bin/disco-run submit .*`, skip: "it needs a store with agents: group tests it"},
	{match: `(bin/disco-run )?web .*`, skip: "it runs until Ctrl-C: internal/view tests it"},
	{match: `duckdb .*`, skip: "it needs duckdb"},
	{match: `jq -r .*`, skip: "it needs jq"},
	{match: `bin/disco-run graph diff .*`, status: 1, want: "the scenarios differ"},
	{match: `bin/disco-run graph .*`, want: ""},
	{match: `bin/disco-run compare a.json b.json`, status: 1, want: "replication by replication"},
	{match: `bin/disco-run compare .*`, want: "0 of 9 figures differ by more than 500"},
	{match: `bin/disco-run (run|validate) FILE( .*)?`, add: "", want: "mini"},
	{match: `bin/disco-run validate .*`, want: "good"},
	{match: `sh examples/supply-graph.sh tables`, want: ""},
	{match: `bin/disco-run run examples/shop.yml .* --json -`, add: " --horizon 2", want: `"trace_hash"`},
	{match: `bin/disco-run run examples/shop.yml .*`, add: " --horizon 2", want: ""},
	{match: `bin/disco-run run examples/mini.yml --until .*`, add: " --horizon 600", want: "reached after"},
	{match: `bin/disco-run run examples/mini.yml --report .* --sweep rqs_input.*`, add: " --horizon 10",
		want: "avg_active_users.mean"},
	{match: `bin/disco-run run examples/mini.yml .*--sweep.*`, add: " --horizon 10", want: "cpu_cores"},
	{match: `bin/disco-run run examples/mini.yml --checkpoint-to .*`, want: "trace hash"},
	// Of the lines before it.
	{match: `bin/disco-run merge part-a part-b .*`, want: "put together from 2 parts"},
	{match: `bin/disco-run resume .*--sweep.*`, want: "cpu_cores"}, // of the run of the line before it
	{match: `bin/disco-run run examples/\S*( .*)?`, add: " --horizon 10", want: "trace hash"},
	{match: `bin/disco-run phold.*`, add: " --lps 200 --end 5", want: "trace hash"},
	{match: `bin/disco-bench peers`, skip: "other programs are needed for some of its rows"},
	{match: `bin/disco-bench plot .*`, want: ""},
	{match: `bin/disco-bench checkpoint .*--before .*`, skip: "it needs an earlier build"},
	{match: `bin/disco-bench checkpoint --program .*`, add: " --time 1ms --rounds 1 --horizon 20 --between 5",
		want: "checkpoint-replayable-wall"},
	{match: `bin/disco-bench rebalance .*`, add: " --rounds 2 --wander 3 --heat 100 --even 2 --horizon 20",
		want: "rebalance-wander-wall"},
	{match: `bin/disco-bench bridge --delays .*`, add: " --lookaheads 1 --time 1ms --rounds 1", want: "x one worker"},
	{match: `bin/disco-bench .*`, add: " --time 1ms --rounds 1", want: ""},
	{match: `go run ./perf/compare perf/baselines/all.json rows.json`,
		skip: "it ends with 1 where this machine is slower than that of the baselines"},
	{match: `go run ./perf/gen .*`, add: " --horizon 0.5", want: "trace hash"},
	{match: `go run ./perf/scale draw .*`, want: "| phold, 1 worker |"},
	{match: `go run ./perf/scale model .* -rounds 0`, add: " -most 2", want: "times as fast on 2 cores as on 1"},
	{match: `go run ./perf/scale model .*`, add: " -rounds 1 -events 10000 -most 2", want: "times as fast on 2 cores"},
	{match: `go run ./perf/scale .*`, add: " -most 100 -rounds 1 -events 10000 -budget 1s", want: "workers: "},
	{match: `go run ./internal/tiny .*`, status: 1, want: "a token broke"},
	{match: `go run ./examples/ipc`, want: "100000 messages"},
	{match: `go run ./examples/simpy/.*`, want: "trace hash"},
	{match: `go (run|build) .*`, want: ""},
}

// commands finds what a page shows to be typed: indented lines, and the first cells of
// tables. A line may go on in the next one behind a backslash, and end in a comment.
func commands(page string) []string {
	var all []string
	text := strings.ReplaceAll(page, "\\\n", "")
	fence := false
	row := regexp.MustCompile("^\\| `((?:bin/|go |… )[^`]*)` \\|")
	block := regexp.MustCompile(`^    ((?:bin/|go |make|kill |sh ).*)$`)
	last := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "```") {
			fence = !fence
		}
		m := row.FindStringSubmatch(line)
		if m == nil && !fence {
			m = block.FindStringSubmatch(line)
		}
		if m == nil {
			continue
		}
		command, _, _ := strings.Cut(m[1], "   #")
		command = strings.Join(strings.Fields(command), " ")
		if rest, ok := strings.CutPrefix(command, "…"); ok {
			command = last + rest
		} else {
			last = command
		}
		all = append(all, command)
	}
	return all
}

// pages are all documents of the tree.
func pages(t *testing.T, root string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/format/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all[file] = string(text)
		}
	}
	return all
}

// clone copies the files that git knows into a folder of its own.
func clone(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	git := exec.Command("git", "-C", "../..", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list, err := git.Output()
	if err != nil {
		t.Skipf("this is no clone of the repository: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// goFlags has all of the gate share what Go has built: with -trimpath it doesn't depend on the folder, and without
// the profile of cmd/disco-run all packages need to be compiled once only.
const goFlags = "GOFLAGS=-trimpath -pgo=off"

// programs are those that make build makes, once they are built: with goFlags they are the same in each clone.
var programs map[string][]byte

// built is a clone with the programs that make build makes.
func built(t *testing.T) string {
	t.Helper()
	dir := clone(t)
	bin := filepath.Join(dir, "bin")
	for name, text := range programs {
		err := errors.Join(os.MkdirAll(bin, 0o777), os.WriteFile(filepath.Join(bin, name), text, 0o777))
		if err != nil {
			t.Fatal(err)
		}
	}
	if programs != nil {
		return dir
	}
	if status, out := shell(t, dir, "go build -buildvcs=false -o bin/ ./cmd/..."); status != 0 {
		t.Fatalf("the programs can't be built:\n%s", out)
	}
	entries, err := os.ReadDir(bin)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]byte)
	for _, e := range entries {
		if all[e.Name()], err = os.ReadFile(filepath.Join(bin, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	programs = all
	return dir
}

// shell runs a line as a person would, and gives what it printed.
func shell(t *testing.T, dir, line string, env ...string) (status int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), watchdog)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir = dir
	// Where ipc has its sockets, which stay; the clone goes.
	cmd.Env = append(append(os.Environ(), "XDG_RUNTIME_DIR="+dir, goFlags), env...)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil || ctx.Err() != nil {
		t.Fatalf("%s: %v %v\n%s", line, err, ctx.Err(), text.String())
	}
	return cmd.ProcessState.ExitCode(), text.String()
}

// TestCommands runs every command of every page.
func TestCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the programs and runs every command of the documents")
	}
	dir := built(t)
	done := make(map[string]bool)
	found := 0
	for page, text := range pages(t, dir) {
		if strings.HasSuffix(page, tutorial) {
			continue // TestTutorial's
		}
		for _, command := range commands(text) {
			found++
			if !done[command] {
				done[command] = true
				check(t, dir, strings.TrimPrefix(page, dir+"/"), command)
			}
		}
	}
	if found < 25 {
		t.Errorf("found %d commands: the search is broken", found)
	}
}

// check does with a command what the first rule says.
func check(t *testing.T, dir, page, command string) {
	t.Helper()
	for _, r := range rules {
		if !regexp.MustCompile("^(?:" + r.match + ")$").MatchString(command) {
			continue
		}
		if r.skip != "" {
			return
		}
		if strings.Contains(command, "--from rows.json") {
			// It draws what the line before it on the page has measured.
			measure := "bin/disco-bench latency --time 1ms --rounds 3 --json rows.json --hgrm curves"
			if status, out := shell(t, dir, measure); status != 0 {
				t.Errorf("%s: what %s draws can't be measured: %s", page, command, out)
			}
		}
		line := strings.ReplaceAll(command, "FILE", "examples/mini.yml")
		line = strings.ReplaceAll(line, "KEY=A,B,C",
			"topology_graph.nodes.servers.web-1.server_resources.cpu_cores=1,2")
		if strings.Contains(line, "prof/*") {
			profile := "bin/disco-run run examples/mini.yml --workers 2 --horizon 5 --cpuprofile prof"
			if status, out := shell(t, dir, profile); status != 0 {
				t.Errorf("%s: no profiles for %s: %s", page, command, out)
			}
		}
		status, out := shell(t, dir, line+r.add)
		if status != r.status || !strings.Contains(out, r.want) {
			t.Errorf("%s: %s ends with %d, want %d and %q in\n%s", page, command, status, r.status, r.want, tail(out))
		}
		return
	}
	t.Errorf("%s: no rule says what to do with the command: %s", page, command)
}

// TestSample: what README.md shows of the first scenario is what it prints, line by line;
// … stands for any lines.
func TestSample(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the programs")
	}
	dir := built(t)
	page, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n    bin/disco-run run examples/mini.yml\n")
	_, rest, _ = strings.Cut(rest, "\n```\n")
	sample, _, found := strings.Cut(rest, "\n```\n")
	if !found || strings.Count(sample, "\n") < 4 {
		t.Fatalf("README.md has no sample behind the first scenario: %q", sample)
	}
	status, out := shell(t, dir, "bin/disco-run run examples/mini.yml")
	if status != 0 {
		t.Fatalf("it ends with %d:\n%s", status, out)
	}
	shows(t, "README.md", sample, out)
}

func tail(text string) string { return text[max(0, len(text)-2000):] }

// TestNewModel follows the first lines of examples/mymodel/README.md to the letter, in
// another folder and with a home of its own.
func TestNewModel(t *testing.T) {
	if testing.Short() {
		t.Skip("builds another module")
	}
	dir, home := clone(t), t.TempDir()
	text, err := os.ReadFile(filepath.Join(dir, "examples/mymodel/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			lines = append(lines, strings.TrimSpace(command))
		}
	}
	if len(lines) < 4 {
		t.Fatalf("examples/mymodel/README.md shows %d commands: %q", len(lines), lines)
	}
	env := append(goFolders(t), "HOME="+home, "GOFLAGS=-mod=readonly -trimpath", "GOWORK=off")
	status, out := shell(t, dir, "set -e\n"+strings.Join(lines, "\n"), env...)
	done := regexp.MustCompile(`person/knew ×1000 +1,000 `).MatchString(out) && strings.Contains(out, "ok ")
	if status != 0 || !done {
		t.Errorf("%s\nends with %d:\n%s", strings.Join(lines, "\n"), status, tail(out))
	}
}

// goFolders is the environment that keeps Go's caches where they are: a new home would make Go fetch and build all
// anew.
func goFolders(t *testing.T) (env []string) {
	t.Helper()
	for _, name := range []string{"GOPATH", "GOCACHE", "GOMODCACHE"} {
		value, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, fmt.Sprintf("%s=%s", name, strings.TrimSpace(string(value))))
	}
	return env
}

// TestNamedTests: tests and targets that the documents name exist.
func TestNamedTests(t *testing.T) {
	sources := ""
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		sources += string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z][A-Za-z]+\b`)
	target := regexp.MustCompile("`make ([a-z0-9-]+)`|(?m:^    make ([a-z0-9-]+))")
	count := 0
	for page, text := range pages(t, "../..") {
		text = fenced.ReplaceAllString(text, "")
		for _, name := range named.FindAllString(text, -1) {
			count++
			if !strings.Contains(sources, "func "+name) {
				t.Errorf("%s names the test %s, which doesn't exist", page, name)
			}
		}
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			count++
			if !regexp.MustCompile("(?m)^" + m[1] + m[2] + ":").Match(makefile) {
				t.Errorf("%s names the target %s, which doesn't exist", page, m[0])
			}
		}
	}
	if count < 20 {
		t.Errorf("found %d names: the search is broken", count)
	}
}

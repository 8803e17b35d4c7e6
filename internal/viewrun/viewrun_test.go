// SPDX-License-Identifier: Apache-2.0

package viewrun

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/helptest"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/viewproc"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// The test's own program is both: a run of the tiny model, and disco-view beside it.
const asRun = "VIEWRUN_TEST"

func TestMain(m *testing.M) {
	switch {
	case workerproc.Started(viewproc.Command):
		app.MainWith([]app.Command{Command(Files)})
	case os.Getenv(asRun) != "" || workerproc.IsWorker():
		app.Main(launchtest.Kind())
	}
	leaktest.Main(m)
}

const timeout = 60 * time.Second

// shown is a run that is under way.
type shown struct {
	t    *testing.T
	cmd  *exec.Cmd
	temp string // where it makes temporary directories
	url  map[string]string
	said chan string // all of standard error, at its end
	line chan string // lines of it
}

// start starts a run over a scenario with those flags, and returns when it has said all URLs that are wanted.
func start(t *testing.T, trouble string, urls int, flags ...string) *shown {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &shown{t: t, temp: filepath.Join(dir, "temp"), url: map[string]string{}, said: make(chan string, 1),
		line: make(chan string, 1000)}
	file := filepath.Join(dir, "tiny.yml")
	for _, err := range []error{os.Symlink(self, filepath.Join(dir, "disco-view")), os.Mkdir(s.temp, 0o700),
		os.WriteFile(file, []byte(launchtest.Scenario(4, 1e6, trouble)), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.cmd = exec.Command(self, append([]string{"run", file, "--workers", "2", "--crash-dir", "none"}, flags...)...)
	s.cmd.Env = append(os.Environ(), asRun+"=1", "PATH="+dir, "TMPDIR="+s.temp)
	pipe, err := s.cmd.StderrPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	go func() {
		var all strings.Builder
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			fmt.Fprintln(&all, lines.Text())
			s.line <- lines.Text()
		}
		s.said <- all.String()
	}()
	for len(s.url) < urls {
		line := s.next()
		for what, words := range map[string]string{"web": "shown at ", "metrics": "metrics of the run are at "} {
			if _, url, ok := strings.Cut(line, words); ok {
				s.url[what] = url
			}
		}
	}
	return s
}

func (s *shown) next() string {
	s.t.Helper()
	select {
	case line := <-s.line:
		return line
	case said := <-s.said:
		s.t.Fatalf("the run has ended: %s", said)
	case <-time.After(timeout):
		s.t.Fatal("the run says nothing")
	}
	return ""
}

// get reads a page.
func (s *shown) get(url string) (string, *http.Response) {
	s.t.Helper()
	client := http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(url)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b), r
}

// end waits for the run's end, and gives status and standard error.
func (s *shown) end() (int, string) {
	s.t.Helper()
	said := ""
	select {
	case said = <-s.said:
	case <-time.After(timeout):
		s.t.Fatal("the run doesn't end")
	}
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode(), said
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > timeout {
			t.Fatalf("it doesn't come to it that %s", what)
		}
	}
}

// viewer is the process that shows the run; 0: there is none.
func (s *shown) viewer() (pid int) {
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, path := range entries {
		env, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(env), "TMPDIR="+s.temp+"\x00") {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if strings.Contains(string(line), "\x00"+viewproc.Command+"\x00") {
			_, _ = fmt.Sscanf(path, "/proc/%d/", &pid)
		}
	}
	return pid
}

// gone waits until nothing is left beside the run.
func (s *shown) gone() {
	s.t.Helper()
	until(s.t, "its viewer ends", func() bool { return s.viewer() == 0 })
	until(s.t, "its directory is removed", func() bool {
		entries, err := os.ReadDir(s.temp)
		return err == nil && len(entries) == 0
	})
}

const slow = "{node: 1, at: 0, how: slow}"

// TestShown: a run is shown while it goes on, with what there is so far, and Ctrl-C ends it, and what shows it.
func TestShown(t *testing.T) {
	s := start(t, slow, 1, "--web", "0")
	var live struct {
		State   string
		Written int
		Workers []struct{ Events uint64 }
	}
	until(t, "there are results", func() bool {
		text, r := s.get(s.url["web"] + "live.json")
		return r.StatusCode == http.StatusOK && json.Unmarshal([]byte(text), &live) == nil && live.Written > 0 &&
			len(live.Workers) == 2
	})
	var result struct {
		SoFar   bool    `json:"so_far"`
		Reached float64 `json:"reached_s"`
		Results struct{ Handled uint64 }
	}
	text, r := s.get(s.url["web"] + "result.json")
	if err := json.Unmarshal([]byte(text), &result); err != nil || !result.SoFar || !(result.Reached > 0) ||
		result.Results.Handled == 0 || live.State != "running" {
		t.Errorf("so far %+v, %+v: %v", result, live, err)
	}
	if r.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers %v", r.Header)
	}
	for path, want := range map[string]int{"": 200, "secret": 404, "..%2f..%2fetc%2fpasswd": 404} {
		if _, r := s.get(s.url["web"] + path); r.StatusCode != want {
			t.Errorf("%q: status %d, want %d", path, r.StatusCode, want)
		}
	}
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if status, said := s.end(); status != 128+int(syscall.SIGINT) {
		t.Errorf("status %d: %s", status, said)
	}
	s.gone()
}

// TestRunKilled: nothing is left of what shows a run that was killed.
func TestRunKilled(t *testing.T) {
	s := start(t, slow, 1, "--web", "0")
	if s.viewer() == 0 {
		t.Error("there is no viewer")
	}
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.end()
	s.gone()
}

// TestViewerKilled: the run goes on, and says so.
func TestViewerKilled(t *testing.T) {
	s := start(t, slow, 1, "--web", "0")
	if err := syscall.Kill(s.viewer(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for line := ""; !strings.Contains(line, "which shows the run, has ended (killed by SIGKILL"); {
		line = s.next()
	}
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if status, said := s.end(); status != 128+int(syscall.SIGINT) || !strings.Contains(said, "the run goes on") {
		t.Errorf("status %d: %s", status, said)
	}
	s.gone()
}

// TestPortInUse: a run that can't be shown where it is to be isn't begun.
func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, flag := range []string{"--web", "--metrics"} {
		s := start(t, slow, 0, flag, l.Addr().String())
		status, said := s.end()
		if want := flag + " " + l.Addr().String() + ": this port is in use: name another one"; status != 1 ||
			!strings.Contains(said, want) {
			t.Errorf("status %d: %s\nwant %s", status, said, want)
		}
		s.gone()
	}
}

// TestMetrics: what the run shows follows the conventions of Prometheus, and its own parser reads it.
func TestMetrics(t *testing.T) {
	s := start(t, slow, 1, "--metrics", "0")
	var text string
	until(t, "all is there", func() bool {
		text, _ = s.get(s.url["metrics"])
		return strings.Contains(text, `disco_worker_state_seconds_total{state="busy",worker="1"}`)
	})
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	for name, want := range map[string]int{"disco_worker_events_total": 2, "disco_worker_epoch_seconds": 2,
		"disco_lane_held_bytes": 2, "disco_process_private_bytes": 3, "disco_run_up": 1, "disco_build_info": 1,
		"disco_worker_state_seconds_total": 10} {
		if f := families[name]; f == nil || len(f.Metric) != want {
			t.Errorf("%s: %v, want %d of it", name, f, want)
		}
	}
	s.profiles()
	if events := families["disco_worker_events_total"]; events != nil && events.Metric[0].Counter.GetValue() == 0 {
		t.Errorf("events: %v", events)
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status, said := s.end(); status != 128+int(syscall.SIGTERM) {
		t.Errorf("status %d: %s", status, said)
	}
	s.gone()
}

// profiles: each process of the run gives profiles, in the form that go tool pprof reads; what isn't one is refused.
func (s *shown) profiles() {
	s.t.Helper()
	at := strings.TrimSuffix(s.url["metrics"], "metrics") + "debug/pprof/"
	if text, _ := s.get(at); !strings.Contains(text, "/debug/pprof/worker-1/heap") {
		s.t.Errorf("the index is %s", text)
	}
	for _, path := range []string{"launcher/heap", "worker-0/profile?seconds=1", "worker-1/goroutine", "heap"} {
		text, r := s.get(at + path)
		z, err := gzip.NewReader(strings.NewReader(text))
		if r.StatusCode != http.StatusOK || err != nil {
			s.t.Errorf("%s: status %d, %v", path, r.StatusCode, err)
			continue
		}
		if all, err := io.ReadAll(z); err != nil || len(all) == 0 {
			s.t.Errorf("%s: %d bytes, %v", path, len(all), err)
		}
	}
	for path, want := range map[string]int{"worker-2/heap": 404, "worker-0/x": 409, "worker-0/profile?seconds=0": 400,
		"profile?seconds=601": 400} {
		if text, r := s.get(at + path); r.StatusCode != want {
			s.t.Errorf("%s: status %d, want %d: %s", path, r.StatusCode, want, text)
		}
	}
}

// Without a run that shows anything the metrics are sound, too.
func TestMetricsOfNothing(t *testing.T) {
	if problems, err := testutil.CollectAndLint(newMetrics(os.Getpid(), "1")); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

// TestExamples: the help of each command ends with command lines that are right.
func TestExamples(t *testing.T) { helptest.Check(t, []app.Command{MetricsCommand()}) }

// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/counters"
	"github.com/disco-sim/disco/internal/fullscreen"
	"github.com/disco-sim/disco/internal/inspect"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/pty"
	"github.com/disco-sim/disco/internal/worker"
)

// said is what a command prints, and how it ends.
func said(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = Run(append([]string{"disco-run"}, args...), strings.NewReader(""), &out, &errs, launchtest.Kind())
	return status, out.String(), errs.String()
}

// TestPsAndTop: both show a run from outside, and say when there is none any more.
func TestPsAndTop(t *testing.T) {
	l := launchProgram(t, launchtest.Scenario(4, 1e9, ""))
	pid := strconv.Itoa(l.cmd.Process.Pid)
	status, out, errs := said("ps")
	line := regexp.MustCompile(`(?m)^ *` + pid + ` .* 2 .* s +[0-9.]+ ?[kM]? .*tiny.yml$`)
	if status != ExitOK || !line.MatchString(out) {
		t.Errorf("ps: exit status %d, %s%s", status, out, errs)
	}
	var listed struct{ Runs []seenRun }
	if status, out, errs = said("ps", "--json", "-"); status != ExitOK || json.Unmarshal([]byte(out), &listed) != nil {
		t.Fatalf("ps --json: exit status %d, %s%s", status, out, errs)
	}
	found := false
	for _, r := range listed.Runs {
		if found = r.Process == l.cmd.Process.Pid; found {
			if len(r.Workers) != 2 || r.PerSecond <= 0 || r.Seconds <= 0 ||
				r.Workers[1].Numbers[worker.NumberEvents] <= 0 {
				t.Errorf("ps --json: %+v", r)
			}
			break
		}
	}
	if !found {
		t.Errorf("ps --json: %+v, want process %s", listed, pid)
	}
	status, out, errs = said("top", pid, "--interval", "300ms")
	for _, want := range []string{"tiny.yml --workers 2", "2 workers", "worker  process", "lane from", " events/s"} {
		if status != ExitOK || !strings.Contains(out, want) {
			t.Errorf("top: exit status %d, want %q in\n%s%s", status, want, out, errs)
		}
	}
	if err := l.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	l.end()
	if status, out, errs = said("top", pid); status != ExitFailed || !strings.Contains(errs, "no run") {
		t.Errorf("behind the run: exit status %d, %s%s", status, out, errs)
	}
}

// TestTopOfSlowWorker: a worker that is never blocked shows how fast it is although its calls take long.
func TestTopOfSlowWorker(t *testing.T) {
	l := launchWorkers(t, 1, launchtest.Scenario(4, 1e9, "{node: 0, at: 0, how: slow}"))
	status, out, errs := said("top", strconv.Itoa(l.cmd.Process.Pid), "--interval", "400ms")
	if status != ExitOK || !regexp.MustCompile(` s, [1-9][0-9.]*( k)? events/s, `).MatchString(out) {
		t.Errorf("top: exit status %d, want some events a second in\n%s%s", status, out, errs)
	}
	if err := l.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	l.end()
}

// TestTopOnTerminal: on a terminal the picture moves, stands still when it is held, and ends with a key or the run.
func TestTopOnTerminal(t *testing.T) {
	l := launchProgram(t, launchtest.Scenario(4, 1e9, ""))
	pid := strconv.Itoa(l.cmd.Process.Pid)
	for _, end := range []string{"q", ""} {
		window, line, err := pty.Open()
		if err == nil {
			err = pty.Resize(line, 70, 20)
		}
		if err != nil {
			t.Fatal(err)
		}
		shown, ended, pictures := make(chan string), make(chan int), make(chan bool)
		go func() {
			var text []byte
			for some := false; ; { // until the other side is closed
				var more [4096]byte
				n, err := window.Read(more[:])
				text = append(text, more[:n]...)
				if now := bytes.Count(text, []byte("simulated s/s")) >= 2; now && !some {
					some = true
					close(pictures)
				}
				if err != nil {
					shown <- string(text)
					return
				}
			}
		}()
		go func() {
			ended <- Run([]string{"disco-run", "top", pid, "--interval", "50ms"}, line, line, io.Discard,
				launchtest.Kind())
		}()
		select {
		case <-pictures:
		case status := <-ended:
			t.Fatalf("it ended with %d before there were pictures", status)
		}
		if end != "" {
			_, err = window.WriteString("pp" + end)
		} else {
			err = l.cmd.Process.Signal(os.Interrupt)
		}
		if err != nil {
			t.Fatal(err)
		}
		if status := <-ended; status != ExitOK {
			t.Errorf("exit status %d", status)
		}
		line.Close()
		text := <-shown
		window.Close()
		if n := strings.Count(text, "simulated s/s"); n < 2 {
			t.Errorf("%d pictures, want some: %q", n, text)
		}
		if strings.Contains(text, "held") != (end != "") || strings.Contains(text, "the run has ended") != (end == "") {
			t.Errorf("ended by %q: %q", end, text)
		}
	}
	l.end()
}

// viewOf is a view of so many workers, each of which waits for the one before it.
func viewOf(workers int) *inspect.View {
	v := &inspect.View{Seconds: 1, Before: &inspect.Run{}}
	for i := range workers {
		w := inspect.Worker{Index: i, PID: 100 + i, State: "running", Numbers: []counters.Value{
			{Name: worker.NumberEvents, Kind: counters.Count, Count: 1000}}}
		v.Before.Workers = append(v.Before.Workers, w)
		w.Numbers = []counters.Value{{Name: worker.NumberEvents, Kind: counters.Count, Count: 3000},
			{Name: worker.NumberState, Kind: counters.Count, Count: worker.StateBound},
			{Name: worker.NumberPeer, Kind: counters.Count, Count: uint64(i)}}
		v.Workers = append(v.Workers, w)
		v.Shares = append(v.Shares, inspect.Shares{Blocked: 1})
		v.Lanes = append(v.Lanes, inspect.Lane{From: i, To: i + 1, Held: 1, Capacity: 2})
	}
	v.Slowest = &inspect.Slowest{Directly: 1, Through: 3}
	return v
}

// TestTopLines: a picture has the rows there are, moves through workers where they have no room, and shows all where
// there is no end of rows.
func TestTopLines(t *testing.T) {
	for _, c := range []struct{ workers, rows, first, shown, from int }{
		{3, 0, 0, 3, 0}, {40, 0, 0, 40, 0}, {40, 20, 0, 14, 0}, {40, 20, 30, 14, 26}, {40, 20, 7, 14, 7},
		{3, 20, 2, 3, 0}, {3, 2, 0, 1, 0}, {40, 1, 0, 1, 0},
	} {
		lines := topLines(viewOf(c.workers), c.rows, c.first)
		at := 4
		for i := range c.shown {
			if want := fmt.Sprint(c.from + i); strings.Fields(lines[at+i])[0] != want {
				t.Errorf("%+v: line %q, want worker %s", c, lines[at+i], want)
			}
		}
		if next := lines[at+c.shown]; next != "" {
			t.Errorf("%+v: %q behind the workers, want an empty line", c, next)
		}
		if room := c.rows >= 8; room && len(lines) > c.rows {
			t.Errorf("%+v: %d lines", c, len(lines))
		}
		text := strings.Join(lines, "\n")
		slowest := fullscreen.Bold + "slowest: worker 0, for which 3 wait, 2 of them for others that do"
		if !strings.Contains(text, slowest) || c.rows == 0 && !strings.Contains(text, "lane from") {
			t.Errorf("%+v:\n%s", c, text)
		}
	}
}

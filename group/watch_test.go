// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/pty"
)

// TestWatchExperiment: an experiment is watched, and its log followed, until it ends; the status says how.
func TestWatchExperiment(t *testing.T) {
	h := openByHand(t)
	h.leads()
	h.agent("h1", selfProgram(t))
	id := h.submit(launchtest.Scenario(6, 20, "{node: 2, at: 1, how: slow}"), "", 1, "", []string{})
	var p fleet.PieceID
	if r := runs(t, "logs", id, "--store", h.url); r.status != 1 || !strings.Contains(r.stderr, "no piece has begun") {
		t.Errorf("%+v", r)
	}
	first, early, problem := command("logs", id, "-f", "--store", h.url) // nothing has begun: it waits
	h.must(first.Start())
	time.Sleep(2 * time.Second) // it has looked
	h.dispatch(id, p, "h1")
	watch, watched, _ := command("watch", "tiny", "--store", h.url)
	follow, log, _ := command("logs", "tiny", "0", "-f", "--store", h.url)
	h.must(watch.Start())
	h.must(follow.Start())
	h.move(id, p, func(to *fleet.Piece) { to.State = fleet.Running }, nil)
	h.report(id, p, "h1", fleet.Finished)
	h.must(h.client.SetStanding(h.ctx, id, h.standingAt(id), fleet.Standing{Status: fleet.StatusFinished, Ended: true,
		Pieces: map[fleet.PieceState]int{fleet.Finished: 1}, Leader: "the test"}))
	if err := watch.Wait(); err != nil || !strings.Contains(watched.String(), "FINISHED, 1 FINISHED\n") {
		t.Errorf("%v: %s", err, watched)
	}
	if err := follow.Wait(); err != nil || strings.Count(log.String(), "trace hash ") != 1 {
		t.Errorf("%v: %s", err, log)
	}
	if err := first.Wait(); err != nil || early.String() != log.String() {
		t.Errorf("logs -f from before the first piece: %v: found %s%s, want %s", err, early, problem, log)
	}
	again := runs(t, "logs", id, "0.0.0", "--store", h.url)
	if again.status != 0 || again.stdout != log.String() {
		t.Errorf("found %+v, want %s", again, log)
	}
	json := runs(t, "watch", id, "--json", "--store", h.url)
	if json.status != 0 || strings.Count(json.stdout, "\n") != 1 || !strings.HasPrefix(json.stdout, `{"id":"`+id) {
		t.Errorf("%+v", json)
	}
	h.must(h.client.SetStanding(h.ctx, id, h.standingAt(id), fleet.Standing{Status: fleet.StatusFailed, Ended: true,
		Pieces: map[fleet.PieceState]int{fleet.Failed: 1}, Leader: "the test", Reason: "it was tried 3 times"}))
	if r := runs(t, "watch", id, "--store", h.url); r.status != 1 || !strings.Contains(r.stderr, "tried 3 times") {
		t.Errorf("%+v", r)
	}
	never := h.submit(launchtest.Scenario(6, 20, ""), "", 2, "", []string{})
	h.must(h.client.SetStanding(h.ctx, never, h.standingAt(never), fleet.Standing{Status: fleet.StatusCanceled,
		Ended: true, Pieces: map[fleet.PieceState]int{fleet.Canceled: 2}, Leader: "the test"}))
	r := runs(t, "logs", never, "1", "-f", "--store", h.url)
	if r.status != 1 || !strings.Contains(r.stderr, "ended as CANCELED, and piece 0.0.1 never began") {
		t.Errorf("%+v", r)
	}
	r = runs(t, "logs", never, "-f", "--store", h.url)
	if r.status != 1 || !strings.Contains(r.stderr, "it has ended as CANCELED, and no piece has begun") {
		t.Errorf("%+v", r)
	}
	for args, want := range map[string]string{"watch": "found 0 arguments", "logs " + id + " 7": "has no piece 0.0.7",
		"watch nosuch":      "no experiment",
		"logs " + id + " x": "want STEP.POINT.REPLICATION", "logs " + id + " 0 1": "found 3 arguments"} {
		r := runs(t, append(strings.Fields(args), "--store", h.url)...)
		r.refused(t, args, []string{want})
	}
}

// TestWatchOnTerminal: on a terminal of 60 columns no line is longer, and what is cut says so.
func TestWatchOnTerminal(t *testing.T) {
	h := openByHand(t)
	h.leads()
	place := filepath.Join(t.TempDir(), strings.Repeat("long", 20))
	id := h.submit(launchtest.Scenario(6, 20, ""), place, 1, "", []string{})
	h.must(h.client.SetStanding(h.ctx, id, h.standingAt(id), fleet.Standing{Status: fleet.StatusFinished, Ended: true,
		Pieces: map[fleet.PieceState]int{fleet.Finished: 1}, Leader: "the test"}))
	text := h.onTerminal("xterm", "watch", id, "--store", h.url)
	cut := false
	for _, l := range strings.Split(strings.TrimPrefix(text, "\x1b[H\x1b[2J"), "\r\n") {
		runes := []rune(l)
		cut = cut || strings.HasSuffix(l, "…")
		if len(runes) > 60 {
			t.Errorf("found %d columns, want at most 60: %q", len(runes), l)
		}
	}
	if !cut || !strings.Contains(text, "FINISHED") {
		t.Errorf("found %q, want a line that was cut", text)
	}
}

// onTerminal is what a command writes on a terminal of 60 columns.
func (h *byHand) onTerminal(kind string, args ...string) (text string) {
	window, line, err := pty.Open()
	h.must(err)
	h.must(pty.Resize(line, 60, 24))
	shown := make(chan string)
	go func() {
		text, _ := io.ReadAll(window) // it fails when the last program that has the other side ends
		shown <- string(text)
	}()
	cmd, _, _ := command(args...)
	cmd.Env, cmd.Stdout = append(cmd.Env, "TERM="+kind), line
	err = cmd.Run()
	h.must(line.Close())
	text = <-shown
	h.must(errors.Join(err, window.Close()))
	return text
}

// TestWatchOnDumbTerminal: a terminal that knows no escapes gets none, but whole lines, as a file does.
func TestWatchOnDumbTerminal(t *testing.T) {
	h := openByHand(t)
	h.leads()
	id := h.submit(launchtest.Scenario(6, 20, ""), "", 1, "", []string{})
	h.must(h.client.SetStanding(h.ctx, id, h.standingAt(id), fleet.Standing{Status: fleet.StatusFinished, Ended: true,
		Pieces: map[fleet.PieceState]int{fleet.Finished: 1}, Leader: "the test"}))
	want := id + " tiny FINISHED, 1 FINISHED\r\n"
	if text := h.onTerminal("dumb", "watch", id, "--store", h.url); text != want {
		t.Errorf("found %q, want %q", text, want)
	}
}

// TestWatchFromOutage: what is watched, and a log that is followed, while the store is away from the beginning, is
// shown when it is back; both say that they wait.
func TestWatchFromOutage(t *testing.T) {
	h := openByHand(t)
	h.leads()
	id := h.submit(launchtest.Scenario(6, 20, ""), "", 1, "", []string{})
	h.must(h.client.SetStanding(h.ctx, id, h.standingAt(id), fleet.Standing{Status: fleet.StatusFinished, Ended: true,
		Pieces: map[fleet.PieceState]int{fleet.Finished: 1}, Leader: "the test"}))
	proxy, cut := through(t, h.url)
	proxy.Isolate()
	all := []*started{start(t, nil, "watch", id, "--store", cut, "--store-timeout", "1s"),
		start(t, nil, "logs", id, "0", "-f", "--store", cut, "--store-timeout", "1s")}
	for _, s := range all {
		s.expect(t, "the store doesn't answer, and is waited for")
	}
	proxy.Heal()
	for i, want := range []string{"FINISHED, 1 FINISHED", "never began"} {
		all[i].expect(t, "the store answers again")
		all[i].expect(t, want)
		if err := all[i].Wait(); (err == nil) != (i == 0) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestNoServers: an experiment waits, since the one agent has no servers, and says so to who looks and who watches.
func TestNoServers(t *testing.T) {
	h := openByHand(t)
	const want = "no machine has servers for it: start an agent with --slots 1 or more"
	a := start(t, nil, "agent", "--name", "h1", "--slots", "0", "--executor", "local", "--work", t.TempDir(),
		"--program", selfProgram(t), "--store", h.url)
	a.expect(t, "h1 is up, with 0 servers")
	id := h.submit(launchtest.Scenario(6, 20, ""), "", 1, "", []string{})
	watch := start(t, nil, "watch", id, "--store", h.url)
	watch.expect(t, ", 1 WAITING, "+want)
	if r := runs(t, "show", id, "--store", h.url); !strings.Contains(r.stdout, "\n"+want) {
		t.Errorf("%+v", r)
	}
	watch.end(syscall.SIGTERM)
	if status := a.end(syscall.SIGTERM); status != 0 {
		t.Errorf("the agent has ended with %d", status)
	}
}

// TestNoMachine: an experiment of which nothing goes on, since no machine takes its pieces, says so and what to do, to
// who looks at it and to who watches it, also where a machine has looked at it before.
func TestNoMachine(t *testing.T) {
	h := openByHand(t)
	const want = " agent --store URL --executor local` on one"
	id := h.submit(launchtest.Scenario(6, 20, ""), "", 2, "", []string{})
	shows := func(when string, wanted bool) {
		t.Helper()
		for _, args := range [][]string{{"show", id}, {"show", id, "--json"}} {
			r := runs(t, append(args, "--store", h.url)...)
			if r.status != 0 || strings.Contains(r.stdout, want) != wanted {
				t.Errorf("%s, %v: found %+v", when, args, r)
			}
		}
	}
	shows("nobody was ever there", true)
	h.must(h.client.SetStanding(h.ctx, id, h.standingAt(id), fleet.Standing{Status: fleet.StatusSubmitted,
		Pieces: map[fleet.PieceState]int{fleet.Waiting: 2}, Leader: "the test"}))
	shows("who has looked at it is gone", true)
	watch := start(t, nil, "watch", id, "--store", h.url)
	watch.expect(t, " tiny SUBMITTED, 2 WAITING, no machine takes its pieces: start `")
	h.leads()
	agent := h.agent("h1", selfProgram(t))
	shows("a machine is there", false)
	if lines := watch.expect(t, " tiny SUBMITTED, 2 WAITING"); strings.Contains(lines[0], want) {
		t.Errorf("a machine is there: found %q", lines)
	}
	agent.end()
	watch.expect(t, want)
	h.must(h.client.SetStanding(h.ctx, id, h.standingAt(id), fleet.Standing{Status: fleet.StatusFinished, Ended: true,
		Pieces: map[fleet.PieceState]int{fleet.Finished: 2}, Leader: "the test"}))
	shows("it has ended", false)
	if err := watch.Wait(); err != nil {
		t.Error(err)
	}
}

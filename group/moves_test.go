// SPDX-License-Identifier: Apache-2.0

package group

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/app"
	running "github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/race"
)

// aimVariable has a process of a run over machines get a signal at a step of moving nodes, in the launcher: the step,
// the how many-th time, who, a file that is there until it has happened, and the agent of the machine.
const aimVariable = "DISCO_GROUP_TEST_AIM"

// armAim sets up what aimVariable asks for.
func armAim() {
	part := strings.Split(os.Getenv(aimVariable), "|")
	if len(part) != 5 {
		return
	}
	n, _ := strconv.Atoi(part[1])
	agent, _ := strconv.Atoi(part[4])
	var count atomic.Int64
	launchtest.AtStep = func(step string) {
		if step != part[0] || count.Add(1) < int64(n) || os.Remove(part[3]) != nil {
			return
		}
		go func() {
			time.Sleep(time.Duration(rand.IntN(int(3 * time.Millisecond)))) // or while workers do what follows
			strike(part[2], agent)
		}()
	}
}

// strike sends the signal. Who isn't there any more has ended.
func strike(who string, agent int) {
	pid, signal := os.Getpid(), syscall.SIGKILL
	any := func(of int) int {
		if all, _ := childrenOf(of); len(all) > 0 {
			return all[rand.IntN(len(all))]
		}
		return 0
	}
	switch who {
	case "launcher":
	case "Ctrl-C":
		signal = syscall.SIGINT
	case "child":
		pid = any(pid)
	case "agent":
		pid = agent
	case "bridge":
		pid = any(agent)
	case "worker":
		pid = any(any(agent))
	}
	if pid > 0 {
		_ = syscall.Kill(pid, signal)
	}
}

// TestKilledAtEachStepOfAHandOffOverMachines: a run over machines whose nodes move gets Ctrl-C, or one of its processes
// is killed, at each step of moving nodes, and the run goes on by itself, or from its last checkpoint: in the end there
// is the trace hash of one that wasn't disturbed.
func TestKilledAtEachStepOfAHandOffOverMachines(t *testing.T) {
	if race.Enabled {
		t.Skip("it is about processes that are killed, which the race detector sees nothing of")
	}
	steps := []string{running.StepEnd, running.StepLook, running.StepMove, running.StepCame, running.StepLoad,
		running.StepLoaded, running.StepMoved}
	file := scenarioFile(t, 25, "{node: 2, at: 0, how: "+launchtest.Slow+"}")
	want := results(t, file, "--seed", "7")
	for i, who := range []string{"worker", "bridge", "child", "Ctrl-C", "launcher", "agent"} {
		for k, step := range steps {
			if (i+k)%2 > 0 || testing.Short() && (i+k)%4 > 0 { // internal/launch and app try the others
				continue
			}
			t.Run(who+", "+step, func(t *testing.T) { killedAt(t, file, who, step, want.Hash) })
		}
	}
}

// killedAt is one of these runs.
func killedAt(t *testing.T, file, who, step, want string) {
	m := startMachines(t, 2)
	defer m.stop(t)
	dir := t.TempDir()
	out, token := filepath.Join(dir, "out.json"), filepath.Join(dir, "token")
	if err := os.WriteFile(token, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--machines", m.file(t, 2), "--crash-dir", "none", "--insecure", "--connect-timeout", "10s",
		"--peer-timeout", "2s", "--reconnect-window", "2s", "--recover", "3", "--rebalance", "0.01", "--shards", "6",
		"--json", out}
	var store string
	for n, goesOn := 1+rand.IntN(12), false; ; n = 1 {
		args := []string{"resume", store}
		if !goesOn {
			store = filepath.Join(dir, fmt.Sprint("store", n))
			args = []string{"run", file, "--seed", "7", "--checkpoint-to", store, "--checkpoint-every", "1"}
		}
		cmd, _, stderr := command(append(args, flags...)...)
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%s|%d|%s|%s|%d", aimVariable, step, n, who, token,
			m.listeners[1].Process.Pid))
		err := cmd.Run()
		var got struct {
			shownResults
			Interrupted bool               `json:"interrupted"`
			Recoveries  []running.Recovery `json:"recoveries"`
		}
		text, _ := os.ReadFile(out)
		_ = json.Unmarshal(text, &got)
		_, left := os.Stat(token)
		ended := who == "launcher" && err != nil || got.Interrupted
		if exit := (*exec.ExitError)(nil); who == "Ctrl-C" && errors.As(err, &exit) {
			ended = exit.ExitCode() == app.ExitSignal+int(syscall.SIGINT) // perhaps before anything was simulated
		}
		switch {
		case left != nil && ended && !goesOn:
			goesOn = true
			_ = os.Remove(out)
			m.free(t, 0, 1)
		case err != nil || got.Hash != want:
			t.Fatalf("%v, hit: %v, found %+v: %s", err, left != nil, got, stderr)
		case left != nil:
			t.Logf("goes on by hand: %v, by itself: %+v", goesOn, got.Recoveries)
			return
		case n == 1:
			t.Fatalf("no run comes to %q: %+v", step, got)
		}
	}
}

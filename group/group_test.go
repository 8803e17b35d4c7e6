// SPDX-License-Identifier: Apache-2.0

package group

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/storeserver"
)

// programVariable makes the test's program the commands' own.
const programVariable = "DISCO_GROUP_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		app.MainWith(Commands())
	}
	leaktest.Main(m)
}

// run is a command in this process: its exit status and what it wrote.
func run(stdin string, args ...string) (status int, stdout, stderr string) {
	var out, err bytes.Buffer
	status = app.RunWith(append([]string{"disco-run"}, args...), strings.NewReader(stdin), &out, &err, Commands())
	return status, out.String(), err.String()
}

// stores starts a server of each engine, and gives its URL. Those that can't be had are skipped, saying so.
func stores(t *testing.T, f func(t *testing.T, url string)) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	t.Run("etcd", func(t *testing.T) { f(t, etcd(ctx, t)) })
	t.Run("zk", func(t *testing.T) {
		e, err := storeserver.StartEnsemble(ctx, t.TempDir(), 1, storeserver.ZKOptions{})
		if err != nil {
			t.Skipf("no ZooKeeper: %v", err)
		}
		t.Cleanup(e.Close)
		f(t, "zk://"+e.Addrs()[0]+"/chroot")
	})
}

func etcd(ctx context.Context, t *testing.T) (url string) {
	e, err := storeserver.StartEtcds(ctx, t.TempDir(), 1)
	if err != nil {
		t.Skipf("no etcd: %v", err)
	}
	t.Cleanup(e.Close)
	return "etcd://" + e.Addrs()[0]
}

// TestStore types the store's commands one after the other, and holds what they answer.
func TestStore(t *testing.T) {
	stores(t, func(t *testing.T, url string) {
		for _, c := range []struct {
			stdin, args string
			status      int
			stdout      string
			stderr      string // a part
		}{
			{"", "get a", 1, "", `there is no key "a"`},
			{"", "put a/b {\"x\":[1,null]}", 0, "", ""},
			{"", "get a/b", 0, "{\"x\":[1,null]}\n", ""},
			{"", "get a", 1, "", "is a directory"},
			{"some text\n", "put a/c", 0, "", ""},
			{"-3.5", "put a/d -", 0, "", ""},
			{"", "list a", 0, "b\nc\nd\n", ""},
			{"", "tree a", 0, "a/b = {\"x\":[1,null]}\na/c = \"some text\"\na/d = -3.5\n", ""},
			{"", "put --create a/c new", 1, "", "has a value already"},
			{"", "put --create a/e new", 0, "", ""},
			{"", "get a/e --json", 0, "{\n  \"key\": \"a/e\",\n  \"value\": \"new\"\n}\n", ""},
			{"", "rm a", 1, "", "-r deletes that, too"},
			{"", "rm a/c", 0, "", ""},
			{"", "rm a/c", 1, "", "there is no key"},
			{"", "rm -r a", 0, "", ""},
			{"", "list a", 1, "", "there is no key"},
			{"", "list a --json", 1, "", "there is no key"},
			{"", "tree a", 1, "", "there is no key"},
			{"", "queue q", 0, "", ""},
			{"", "queue q --pop", 1, "", "no item"},
			{"", "queue q --json", 0, "[]\n", ""},
			{"", "put ../x 1", 2, "", "out of its group"},
			{"", "get a//b", 2, "", "is empty"},
			{"", "get", 2, "", "found 0 arguments"},
			{"", "fetch a", 2, "", "there is no verb"},
			{"", "get a --pop", 2, "", "no meaning for get"},
			{"", "", 2, "", "there is no verb"},
			{"", "get a --store-timeout 0s", 2, "", "more than 0"},
			{"", "get a --group ../b", 2, "", "--group"},
			{strings.Repeat("x", 1_100_000), "put big", 1, "", "found more than 1000000 bytes"},
		} {
			for _, args := range [][]string{append([]string{"store", "--store", url}, strings.Fields(c.args)...),
				append(append([]string{"store"}, strings.Fields(c.args)...), "--store", url)} {
				if c.status == 0 && strings.HasPrefix(c.args, "put --create") || strings.HasPrefix(c.args, "rm") &&
					c.status == 0 {
					args = append([]string{"store", "--store", url}, strings.Fields(c.args)...)
				}
				status, stdout, stderr := run(c.stdin, args...)
				if status != c.status || stdout != c.stdout || !strings.Contains(stderr, c.stderr) ||
					(stderr == "") != (c.stderr == "") {
					t.Errorf("%.60q: %d, %q, %.200q; want %d, %q, %q", args, status, stdout, stderr, c.status,
						c.stdout, c.stderr)
				}
				if c.status == 0 && (strings.Contains(c.args, "--create") || strings.HasPrefix(c.args, "rm")) {
					break // done twice it is another thing
				}
			}
		}
		queueInOrder(t, url)
	})
}

func queueInOrder(t *testing.T, url string) {
	for i := range 3 {
		if status, _, stderr := run("", "store", "queue", "q", "--store", url, "--push", fmt.Sprint(i)); status != 0 {
			t.Fatalf("push: %s", stderr)
		}
	}
	status, stdout, stderr := run("", "store", "queue", "q", "--store", url)
	if status != 0 || strings.Count(stdout, "\n") != 3 || strings.Contains(stdout, "held") {
		t.Errorf("the items: %d %q %q", status, stdout, stderr)
	}
	for i := range 3 {
		status, stdout, stderr := run("", "store", "queue", "q", "--store", url, "--pop", "--wait", "5s")
		if status != 0 || stdout != fmt.Sprintf("%d\n", i) {
			t.Errorf("pop %d: %d %q %q", i, status, stdout, stderr)
		}
	}
}

// TestNoStore: what is missing or out of reach is said, and for how long it was tried.
func TestNoStore(t *testing.T) {
	t.Setenv("DISCO_STORE", "")
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"cluster", 2, "DISCO_STORE"},
		{"cluster --store etcd://u:secret@127.0.0.1:1", 2, "--store-password-file"},
		{"cluster --store etcd://192.0.2.7:1", 2, "--store-ca"},
		{"cluster --store etcd://127.0.0.1:1 --store-timeout 300ms", 1, " for 3"},
		{"cluster --store zk://127.0.0.1:1 --store-timeout 300ms", 1, " for 3"},
		{"cluster fill h1 --store etcd://127.0.0.1:1", 2, "drain or resume"},
		{"cluster drain --store etcd://127.0.0.1:1", 2, "the NAME"},
		{"cluster drain a/b --store etcd://127.0.0.1:1", 2, "can't be the name"},
		{"cluster drain h1 --json --store etcd://127.0.0.1:1", 2, "for showing"},
		{"agent --slots -1 --store etcd://127.0.0.1:1", 2, "0 to 1024"},
		{"agent --label x --store etcd://127.0.0.1:1", 2, "KEY=VALUE"},
		{"agent --name a/b --store etcd://127.0.0.1:1", 2, "without a slash"},
		{"agent --session 1ms --store etcd://127.0.0.1:1", 2, "--session"},
		{"agent now --store etcd://127.0.0.1:1", 2, "found the argument"},
	} {
		status, stdout, stderr := run("", strings.Fields(c.args)...)
		if status != c.status || stdout != "" || !strings.Contains(stderr, c.want) || strings.Contains(stderr,
			"secret") ||
			strings.Contains(stderr, "goroutine") {
			t.Errorf("%s: %d %q %q; want %d and %q", c.args, status, stdout, stderr, c.status, c.want)
		}
	}
}

// process is an agent with its supervisor.
type process struct {
	*exec.Cmd
	out  *bytes.Buffer
	done chan error
}

func startAgent(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command("/proc/self/exe", append([]string{"agent"}, args...)...), out: &bytes.Buffer{},
		done: make(chan error, 1)}
	file, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	p.Stdout, p.Stderr = file, file
	p.Env = append(os.Environ(), programVariable+"=1")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.Wait() }()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		text, _ := os.ReadFile(file.Name())
		t.Logf("the agent wrote:\n%s", text)
		file.Close()
	})
	return p
}

// picked is what `cluster --json` shows.
func shownCluster(t *testing.T, url string) picture {
	t.Helper()
	status, stdout, stderr := run("", "cluster", "--json", "--store", url)
	var p picture
	if err := json.Unmarshal([]byte(stdout), &p); status != 0 || err != nil {
		t.Fatalf("cluster --json: %d %q %q %v", status, stdout, stderr, err)
	}
	return p
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited 30 s until %s", what)
		}
	}
}

// TestAgent: a machine joins, shows itself, is drained, and leaves: in order, when its process is killed, and when
// its supervisor is. The session is long enough that its end can't be what removes the keys.
func TestAgent(t *testing.T) {
	stores(t, func(t *testing.T, url string) {
		flags := []string{"--store", url, "--name", "h1", "--slots", "2", "--roles", "front,db", "--label",
			"rack=a", "--session", "5m"}
		up := func() bool {
			p := shownCluster(t, url)
			return len(p.Members) == 1 && p.Members[0].Status == cluster.Up && len(p.Servers) == 2
		}
		gone := func() bool { p := shownCluster(t, url); return len(p.Members)+len(p.Servers) == 0 }

		agent := startAgent(t, flags...)
		await(t, "h1 is up", up)
		p := shownCluster(t, url)
		if m := p.Members[0]; m.Name != "h1" || m.Labels["rack"] != "a" || len(m.Roles) != 2 || m.Slots != 2 ||
			m.Digest == "" {
			t.Errorf("%+v", m)
		}
		if status, stdout, _ := run("", "cluster", "--store", url); status != 0 || !strings.Contains(stdout,
			"AVAILABLE") {
			t.Errorf("cluster: %d %s", status, stdout)
		}
		if status, _, stderr := run("", "cluster", "drain", "h1-1", "--store", url); status != 0 || stderr != "" {
			t.Errorf("drain: %d %s", status, stderr)
		}
		if p := shownCluster(t, url); len(p.Drained) != 1 || p.Drained[0] != "h1-1" {
			t.Errorf("%+v", p.Drained)
		}
		if status, _, stderr := run("", "cluster", "resume", "h1-1", "--store", url); status != 0 {
			t.Errorf("resume: %d %s", status, stderr)
		}
		if status, _, stderr := runAgentTwice(t, flags); status != 1 || !strings.Contains(stderr,
			"is taken by process") {
			t.Errorf("a second h1: %d %s", status, stderr)
		}
		_ = agent.Process.Signal(syscall.SIGTERM)
		if err := <-agent.done; err != nil {
			t.Errorf("ended by SIGTERM: %v", err)
		}
		await(t, "h1 has left", gone)

		agent = startAgent(t, flags...)
		await(t, "h1 is up again", up)
		if err := syscall.Kill(shownCluster(t, url).Members[0].Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := <-agent.done; err == nil {
			t.Error("the supervisor ended with 0")
		}
		if !gone() {
			t.Errorf("the supervisor has ended, and its agent's keys are there: %+v", shownCluster(t, url))
		}

		agent = startAgent(t, flags...)
		await(t, "h1 is up for the third time", up)
		_ = agent.Process.Kill()
		<-agent.done
		await(t, "h1 has left after its supervisor", gone)
	})
}

// runAgentTwice runs an agent to its end.
func runAgentTwice(t *testing.T, flags []string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", append([]string{"agent"}, flags...)...)
	cmd.Env = append(os.Environ(), programVariable+"=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

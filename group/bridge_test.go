// SPDX-License-Identifier: Apache-2.0

package group

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/bridge/offer"
	"github.com/disco-sim/disco/internal/bridge/stream"
	"github.com/disco-sim/disco/internal/certs"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/disco-sim/disco/internal/procfs"
	"github.com/disco-sim/disco/internal/session"
)

// launcherVariable makes the test's program a launcher: its value is the last step that it does, and the addresses.
const launcherVariable = "DISCO_TEST_LAUNCHER"

// Steps of a run.
const (
	stepOpen  = "open"  // all machines have accepted
	stepBegin = "begin" // all sessions are up
	stepGo    = "go"
)

var steps = []string{stepOpen, stepBegin, stepGo}

// launcher is the launcher's side of a run.
type launcher struct {
	*offer.Run
	what     offer.Offer
	targets  []offer.Target
	security *stream.Security
	sessions *sessions

	mu  sync.Mutex
	ups map[int]bool
}

// Timeouts of runs that go well, and of those in which somebody dies.
var (
	longBegin  = offer.Begin{ConnectTimeout: time.Minute, PeerTimeout: time.Minute, Window: time.Minute}
	shortBegin = offer.Begin{ConnectTimeout: time.Minute, PeerTimeout: 30 * time.Second, Window: 2 * time.Second}
)

// openRun offers a new run.
func openRun(ctx context.Context, name string, s *stream.Security, targets []offer.Target) (*launcher, error) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l := &launcher{targets: targets, security: s, ups: map[int]bool{},
		what: offer.Offer{Disco: app.Version(), Cluster: "disco", Name: name, Most: offer.SlotsMax}}
	if l.what.Program, err = groupcall.Digest(f); err != nil {
		return nil, err
	}
	_, _ = rand.Read(l.what.Run[:])
	_, _ = rand.Read(l.what.Token[:])
	l.what.Bridge = l.what.Program
	l.Run, err = offer.Open(ctx, targets, l.what, s)
	return l, err
}

func (l *launcher) identity() session.Identity {
	return session.Identity{Cluster: l.what.Cluster, Run: l.what.Run, Token: l.what.Token, Program: l.what.Program,
		Incarnation: 1}
}

// begin lets the bridges open their sessions, and waits until all of the launcher's are up.
func (l *launcher) begin(ctx context.Context, b offer.Begin) (err error) {
	if err := l.Begin(b); err != nil {
		return err
	}
	for i, t := range l.targets {
		b.Peers = append(b.Peers, offer.Peer{Machine: i, Name: t.Name, Address: t.Address})
	}
	all, lost := make(chan struct{}), make(chan loss, 1)
	var once sync.Once
	l.sessions, err = newSessions(sessionsConfig{self: launcherMachine, identity: l.identity(), security: l.security,
		begin: &b, lost: func(l loss) {
			select {
			case lost <- l:
			default:
			}
		}, contact: func(c offer.Contact) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.ups[c.Machine] = c.State.Connected(); len(l.ups) == len(l.targets) {
				once.Do(func() { close(all) })
			}
		}})
	if err != nil {
		return err
	}
	l.sessions.serve(nil)
	select {
	case <-all:
		return nil
	case l := <-lost:
		return l.reason
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// to does the steps of a run up to one.
func (l *launcher) to(ctx context.Context, step string, b offer.Begin) error {
	if step == stepOpen {
		return nil
	}
	err := l.begin(ctx, b)
	// All bridges have to be joined, too.
	joined := map[[2]int]bool{}
	for err == nil && len(joined) < len(l.targets)*len(l.targets) {
		var r offer.Report
		if r, err = l.Next(ctx); err == nil {
			err = r.Err
		}
		if err == nil && r.Message.Type != offer.TypeContact {
			err = fmt.Errorf("found %v: %+v", r.Message.Type, r.Message.Reason)
		}
		if err == nil && r.Message.Contact.State.Connected() {
			joined[[2]int{r.Machine, r.Message.Contact.Machine}] = true
		}
	}
	if err == nil && step == stepGo {
		err = l.Go()
	}
	return err
}

// end is how the run ends on each machine.
func (l *launcher) end(ctx context.Context, t *testing.T) []offer.Reason {
	t.Helper()
	reasons := make([]offer.Reason, len(l.targets))
	for left := len(l.targets); left > 0; {
		r, err := l.Next(ctx)
		switch {
		case err != nil:
			t.Fatal(err)
		case r.Err != nil:
			if left--; r.Err != io.EOF {
				reasons[r.Machine].Text = r.Err.Error()
			}
		case r.Message.Type == offer.TypeEnded:
			reasons[r.Machine] = *r.Message.Reason
		}
	}
	return reasons
}

// close ends what is left of the launcher.
func (l *launcher) close() {
	if l.sessions != nil {
		_ = l.sessions.close("the test is over")
	}
	l.Close()
}

// launch is a launcher as a process: it does the steps, and then nothing more.
func launch(arguments string) error {
	step, rest, _ := strings.Cut(arguments, " ")
	var targets []offer.Target
	for address := range strings.FieldsSeq(rest) {
		targets = append(targets, offer.Target{Name: address, Address: address, Slots: 1})
	}
	s, err := stream.NewSecurity("", 1)
	if err != nil {
		return err
	}
	l, err := openRun(context.Background(), "killed", s, targets)
	if err == nil {
		err = l.to(context.Background(), step, shortBegin)
	}
	if err != nil {
		return err
	}
	fmt.Println("the launcher is at", step)
	select {}
}

// machines are agents as processes.
type machines struct {
	listeners []*listener
	targets   []offer.Target
	security  *stream.Security
	done      []chan struct{} // closed when one has ended
}

func startMachines(t *testing.T, n int) *machines {
	t.Helper()
	s, err := stream.NewSecurity("", 1)
	if err != nil {
		t.Fatal(err)
	}
	m := &machines{security: s}
	for i := range n {
		m.add(startListener(t, fmt.Sprintf("127.0.0.%d", i+1), "--insecure", "--slots", "2", "--name",
			fmt.Sprint("h", i)))
	}
	return m
}

func (m *machines) add(l *listener) {
	m.listeners = append(m.listeners, l)
	m.targets = append(m.targets, offer.Target{Name: fmt.Sprint("h", len(m.targets)), Address: l.address, Slots: 1})
	done := make(chan struct{})
	m.done = append(m.done, done)
	go func() { // somebody has to read what it writes
		defer close(done)
		for l.lines.Scan() {
			continue
		}
		_ = l.Wait()
	}()
}

// stop ends the agents that are there.
func (m *machines) stop(t *testing.T) {
	t.Helper()
	for i, l := range m.listeners {
		_ = l.Process.Signal(syscall.SIGTERM) // one may have been killed
		<-m.done[i]
		if status, ok := l.ProcessState.Sys().(syscall.WaitStatus); !ok || status != 0 && status.Signal() !=
			syscall.SIGKILL {
			t.Errorf("agent %d: %v", i, l.ProcessState)
		}
	}
}

// status is how an agent is.
func (m *machines) status(t *testing.T, i int) *offer.Looked {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := offer.Dial(ctx, m.targets[i].Address, m.security)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l, err := c.Look(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// free holds that nothing is left of any run on machines.
func (m *machines) free(t *testing.T, numbers ...int) {
	t.Helper()
	for _, i := range numbers {
		await(t, fmt.Sprint("machine ", i, " is free"), func() bool { return m.status(t, i).Free == 2 })
		if left := bridgesOf(t, m.listeners[i].Process.Pid); len(left) > 0 {
			t.Errorf("machine %d has the bridges %v", i, left)
		}
	}
}

// bridgesOf are the processes of bridges that an agent has.
func bridgesOf(t *testing.T, agent int) []int {
	t.Helper()
	pids, err := childrenOf(agent)
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

func childrenOf(parent int) (pids []int, err error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil {
		return nil, err
	}
	for _, file := range tasks {
		text, _ := os.ReadFile(file) // the thread may have ended
		for field := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				return nil, err
			}
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// gone waits until a process has ended. Whoever is the parent of one whose own has ended may leave it in /proc.
func gone(t *testing.T, pid int) {
	t.Helper()
	await(t, fmt.Sprint("process ", pid, " has ended"), func() bool {
		stat, err := procfs.Stat(pid)
		return err != nil || stat.State == procfs.Dead
	})
}

func minute(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// open opens a run, or ends the test.
func (m *machines) open(t *testing.T, name string) *launcher {
	t.Helper()
	l, err := openRun(minute(t), name, m.security, m.targets)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l
}

// TestRunOverMachines: a run begins on three machines, all of which are joined with each other and with the launcher;
// it goes, is shown, and ends in order; then nothing is left of it. Its token is no argument, and in no environment.
func TestRunOverMachines(t *testing.T) {
	m := startMachines(t, 3)
	ctx := minute(t)
	l := m.open(t, "shop")
	if err := l.to(ctx, stepGo, longBegin); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		s := m.status(t, i)
		if s.Free != 1 || len(s.Runs) != 1 || s.Runs[0].Name != "shop" || s.Runs[0].Slots != 1 ||
			s.Runs[0].Run != l.what.Run {
			t.Errorf("machine %d: %+v", i, s.Status)
		}
		pids := bridgesOf(t, m.listeners[i].Process.Pid)
		if len(pids) != 1 {
			t.Fatalf("machine %d has the bridges %v", i, pids)
		}
		for _, file := range []string{"cmdline", "environ"} {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pids[0], file))
			for _, secret := range [][]byte{l.what.Token[:], []byte(hex.EncodeToString(l.what.Token[:]))} {
				if err != nil || bytes.Contains(text, secret) {
					t.Errorf("the token is in %s of process %d, or %v", file, pids[0], err)
				}
			}
		}
	}
	if err := l.Done(); err != nil {
		t.Fatal(err)
	}
	if err := l.sessions.close(""); err != nil {
		t.Error(err)
	}
	for i, r := range l.end(ctx, t) {
		if !r.OK || r.Text != "" {
			t.Errorf("machine %d: %+v", i, r)
		}
	}
	m.free(t, 0, 1, 2)
	m.stop(t)
}

// TestRunOverTLS: the same with certificates.
func TestRunOverTLS(t *testing.T) {
	dir := t.TempDir()
	authority, here := filepath.Join(dir, "a"), filepath.Join(dir, "h")
	if err := errors.Join(certs.Init(authority, certs.Period(1)),
		certs.Issue(authority, here, []string{"127.0.0.1", "127.0.0.2"}, certs.Period(1))); err != nil {
		t.Fatal(err)
	}
	s, err := stream.NewSecurity(here, 0)
	if err != nil {
		t.Fatal(err)
	}
	m := &machines{security: s}
	for _, ip := range []string{"127.0.0.1", "127.0.0.2"} {
		m.add(startListener(t, ip, "--tls-dir", here, "--slots", "2"))
	}
	ctx := minute(t)
	l := m.open(t, "shop")
	if err := l.to(ctx, stepGo, longBegin); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Done(), l.sessions.close("")); err != nil {
		t.Error(err)
	}
	for i, r := range l.end(ctx, t) {
		if !r.OK {
			t.Errorf("machine %d: %+v", i, r)
		}
	}
	m.free(t, 0, 1)
	m.stop(t)
}

// TestBridgeKilled: wherever the run is when one of its bridges is killed, its agent says so, the run ends on the other
// machine, which names the first one, and nothing is left.
func TestBridgeKilled(t *testing.T) {
	m := startMachines(t, 2)
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			ctx := minute(t)
			l := m.open(t, "killed")
			if err := l.to(ctx, step, shortBegin); err != nil {
				t.Fatal(err)
			}
			pids := bridgesOf(t, m.listeners[0].Process.Pid)
			if len(pids) != 1 {
				t.Fatalf("found the bridges %v", pids)
			}
			if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if step == stepOpen {
				r, err := l.Next(ctx)
				if err != nil || r.Machine != 0 || r.Err != nil || r.Message.Reason.OK ||
					!strings.Contains(r.Message.Reason.Text, "killed by SIGKILL") {
					t.Errorf("%+v, %v", r, err)
				}
				l.close()
			} else {
				ends := l.end(ctx, t)
				if !strings.Contains(ends[0].Text, "killed by SIGKILL") || ends[1].OK ||
					!strings.Contains(ends[1].Text, "machine h0") && !strings.Contains(ends[1].Text,
						"the launcher's machine") {
					t.Errorf("%+v", ends)
				}
				l.close()
			}
			m.free(t, 0, 1)
		})
	}
	m.stop(t)
}

// TestAgentKilled: wherever the run is when an agent is killed, the kernel ends its bridge, and the run ends on the
// other machine.
func TestAgentKilled(t *testing.T) {
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			m := startMachines(t, 2)
			ctx := minute(t)
			l := m.open(t, "killed")
			if err := l.to(ctx, step, shortBegin); err != nil {
				t.Fatal(err)
			}
			pids := bridgesOf(t, m.listeners[0].Process.Pid)
			_ = m.listeners[0].Process.Kill()
			if len(pids) != 1 {
				t.Fatalf("found the bridges %v", pids)
			}
			gone(t, pids[0])
			if step == stepOpen {
				l.close()
			} else if ends := l.end(ctx, t); ends[1].OK || ends[1].Text == "" || ends[0].Text == "" {
				t.Errorf("%+v", ends)
			}
			m.free(t, 1)
			m.stop(t)
		})
	}
}

// TestLauncherKilledOverMachines: wherever the run is when its launcher is killed, it ends on all machines.
func TestLauncherKilledOverMachines(t *testing.T) {
	m := startMachines(t, 2)
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			p := start(t, []string{launcherVariable + "=" + step + " " + m.targets[0].Address + " " +
				m.targets[1].Address}, "launch")
			p.expect(t, "the launcher is at "+step)
			for i := range 2 {
				if s := m.status(t, i); s.Free != 1 {
					t.Errorf("machine %d: %d slots are free", i, s.Free)
				}
			}
			p.end(syscall.SIGKILL)
			m.free(t, 0, 1)
		})
	}
	m.stop(t)
}

// TestAgentStopped: an agent that is told to end takes its runs with it, says why, and ends with 0.
func TestAgentStopped(t *testing.T) {
	m := startMachines(t, 2)
	ctx := minute(t)
	l := m.open(t, "stopped")
	if err := l.to(ctx, stepGo, longBegin); err != nil {
		t.Fatal(err)
	}
	_ = m.listeners[0].Process.Signal(syscall.SIGTERM)
	ends := l.end(ctx, t)
	if ends[0].OK || !strings.Contains(ends[0].Text, "the agent of its machine was ended") || ends[1].OK ||
		!strings.Contains(ends[1].Text, "on machine h0: the agent of its machine was ended") {
		t.Errorf("%+v", ends)
	}
	<-m.done[0] // a second signal would end it at once
	m.free(t, 1)
	m.stop(t)
}

// TestStoppedBridge: a bridge that does nothing any more is killed when its run ends.
func TestStoppedBridge(t *testing.T) {
	m := startMachines(t, 1)
	l := m.open(t, "stopped")
	pids := bridgesOf(t, m.listeners[0].Process.Pid)
	if len(pids) != 1 {
		t.Fatalf("found the bridges %v", pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	l.close()
	m.free(t, 0)
	m.stop(t)
}

// TestIntruders: a connection that names the run, and hasn't its token, or is of no machine of it, is refused; the run
// goes on.
func TestIntruders(t *testing.T) {
	m := startMachines(t, 2)
	ctx := minute(t)
	l := m.open(t, "shop")
	if err := l.to(ctx, stepGo, longBegin); err != nil {
		t.Fatal(err)
	}
	wrong := l.identity()
	wrong.Token[0]++
	other := l.identity()
	other.Incarnation++
	for _, c := range []struct {
		self, peer int
		identity   session.Identity
		want       string
	}{
		{0, 1, wrong, "token"},
		{-1, 1, wrong, "token"},
		{-1, 1, other, "incarnation"},
		{-1, 5, l.identity(), "from machine -1 to 5"},
		{1, 5, l.identity(), "awaits none"},
	} {
		d := &stream.Dialer{Address: m.targets[1].Address, Run: l.what.Run, Security: m.security}
		s, err := session.New(session.Config{Self: c.self, Peer: c.peer, Identity: c.identity,
			ConnectTimeout: time.Minute, PeerTimeout: time.Minute, Window: time.Minute, ResendBytes: 1 << 20,
			Dial: func(ctx context.Context) (session.Conn, error) { return d.Dial(ctx) }, Acked: func() {},
			Apply: func(session.Header, []byte) error { return nil }, Changed: func(session.State) {}})
		if err != nil {
			t.Fatal(err)
		}
		await(t, "the session is refused", func() bool { return s.Err() != nil })
		if err := s.Err(); !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d to %d: %v, want %q", c.self, c.peer, err, c.want)
		}
		s.Close("it was refused")
	}
	if err := errors.Join(l.Done(), l.sessions.close("")); err != nil {
		t.Error(err)
	}
	for i, r := range l.end(ctx, t) {
		if !r.OK {
			t.Errorf("machine %d: %+v", i, r)
		}
	}
	m.free(t, 0, 1)
	m.stop(t)
}

// TestRefusals: agents refuse what they can't take, with what is wanted, what there is, and who has it; all machines
// that refuse are named at once, and nothing is left on the others.
func TestRefusals(t *testing.T) {
	m := startMachines(t, 2)
	m.add(startListener(t, "127.0.0.3", "--insecure", "--slots", "1", "--program", "/bin/sh"))
	m.add(startListener(t, "127.0.0.3", "--insecure", "--slots", "1", "--group", "other"))
	dead := unused(t)
	good, all := m.targets[:2], append(m.targets, offer.Target{Name: "dead", Address: dead})
	ctx := minute(t)
	first, err := openRun(ctx, "first", m.security, good)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(first.close)
	all[1].Slots = 2
	_, err = openRun(ctx, "second", m.security, all)
	for _, want := range []string{
		`machine ` + good[1].Address + ` refuses: slots wanted: 2, free: 1 of 2: wait for it, or run without ` +
			`this machine, by a file without it or by --labels: the run "first" from 127.0.0.1:`,
		`machine ` + all[2].Address + ` refuses: found a program with the digest `,
		`machine ` + all[3].Address + ` refuses: found the group "disco", and the agent belongs to "other"`,
		`dead: machine ` + dead + `: no agent listens there`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
	all[1].Slots = 1
	if _, err = openRun(ctx, "first", m.security, good); err == nil ||
		strings.Count(err.Error(), `a run "first" is here already, from 127.0.0.1:`) != 2 {
		t.Errorf("two runs with one name: %v", err)
	}
	_, port, _ := strings.Cut(good[0].Address, ":")
	twice := append(good[:1:1], offer.Target{Name: "again", Address: "localhost:" + port, Slots: 1})
	if _, err = openRun(ctx, "third", m.security, twice); err == nil ||
		!strings.Contains(err.Error(), "both addresses lead to the agent of h0") {
		t.Errorf("two addresses of one agent: %v", err)
	}
	for i := range 2 {
		if s := m.status(t, i); s.Free != 1 || len(s.Runs) != 1 || s.Runs[0].Name != "first" {
			t.Errorf("machine %d: %+v", i, s.Status)
		}
	}
	second, err := openRun(ctx, "second", m.security, good)
	if err != nil {
		t.Fatalf("two runs at a time: %v", err)
	}
	first.close()
	second.close()
	m.free(t, 0, 1)
	m.stop(t)
}

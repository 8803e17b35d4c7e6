// SPDX-License-Identifier: Apache-2.0

// Package agents starts agents of disco-run as processes of this computer, each as the agent of a machine of its own
// with a forwarder in front of it, and runs scenarios over them: for demonstrations and measurements.
//
// Guarantee: every wait has a limit; when Close has returned, no process of the agents is left.
//
//	all, err := agents.Start(agents.Config{Program: "bin/disco-run", Dir: dir,
//		Hosts: []string{"127.0.0.1", "127.0.0.2"}, Slots: 1, Front: "127.0.0.1"})
//	all.Forwarders[1].Set(forward.Traffic{Delay: time.Millisecond})
//	run, err := all.Run(ctx, 2, nil, "examples/phold.yml", "--workers", "2")
//	err = all.Close()
package agents

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/disco-sim/disco/internal/forward"
	"github.com/disco-sim/disco/internal/infile"
)

// Config says what to start.
type Config struct {
	Program string   // disco-run, with disco-group beside it
	Dir     string   // for files; the caller's
	Hosts   []string // addresses, without ports
	Slots   int      // of each
	Secure  bool     // over TLS, with an authority of their own in Dir

	// Front is the address on which forwarders listen; "": none, and machines reach each other's agents themselves.
	Front string
	// Enter is what stands before the command of an agent; nil: nothing.
	Enter func(host int) []string
	// Output gets what agents write behind their first line, in lines of all of them: see Locked. nil: nobody.
	Output io.Writer
}

// Agents are those that run. One goroutine at a time calls their methods.
type Agents struct {
	Forwarders []*forward.Forwarder // by machine; none where Config.Front is empty

	cfg       Config
	processes []*process
	addresses []string // at which machines are reached
}

// process is one agent.
type process struct {
	cmd  *exec.Cmd
	read chan struct{} // closed when its output has ended
}

const (
	beginLimit = 20 * time.Second // until an agent takes runs
	endLimit   = 20 * time.Second // until it has ended
)

// Start starts all of them, and returns when they take runs.
func Start(cfg Config) (*Agents, error) {
	a := &Agents{cfg: cfg}
	err := a.certify()
	for i := 0; err == nil && i < len(cfg.Hosts); i++ {
		err = a.start(i)
	}
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// tls is the folder of the certificates that all share.
func (a *Agents) tls() string { return filepath.Join(a.cfg.Dir, "tls") }

// certify makes an authority, and a certificate of all addresses.
func (a *Agents) certify() error {
	if !a.cfg.Secure {
		return nil
	}
	hosts := strings.Join(a.cfg.Hosts, ",")
	if a.cfg.Front != "" {
		hosts += "," + a.cfg.Front
	}
	authority := filepath.Join(a.cfg.Dir, "authority")
	for _, args := range [][]string{{"certs", "init", authority},
		{"certs", "issue", "--host", hosts, "--dir", authority, "--out", a.tls()}} {
		if out, err := exec.Command(a.cfg.Program, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("agents: %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
		}
	}
	return nil
}

// Security are the flags of every command that reaches the agents.
func (a *Agents) Security() []string {
	if a.cfg.Secure {
		return []string{"--tls-dir", a.tls()}
	}
	return []string{"--insecure"}
}

// start starts one agent, and the forwarder in front of it.
func (a *Agents) start(i int) error {
	args := append([]string{a.cfg.Program, "agent", "--name", "h" + strconv.Itoa(i+1), "--listen",
		a.cfg.Hosts[i] + ":0", "--slots", strconv.Itoa(a.cfg.Slots), "--program", a.cfg.Program}, a.Security()...)
	if a.cfg.Enter != nil {
		args = append(a.cfg.Enter(i), args...)
	}
	p := &process{cmd: exec.Command(args[0], args[1:]...), read: make(chan struct{})}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("agents: %w", err)
	}
	p.cmd.Stderr = p.cmd.Stdout
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("agents: %w", err)
	}
	a.processes = append(a.processes, p)
	first := make(chan string, 1)
	go p.follow(out, first, a.cfg.Output)
	select {
	case line := <-first:
		_, rest, ok := strings.Cut(line, "takes runs at ")
		address, _, _ := strings.Cut(rest, ",")
		if !ok {
			return fmt.Errorf("agents: an agent at %s printed %q, and takes no runs", a.cfg.Hosts[i], line)
		}
		return a.front(address)
	case <-time.After(beginLimit):
		return fmt.Errorf("agents: the agent at %s took no runs within %v", a.cfg.Hosts[i], beginLimit)
	}
}

// follow passes on what an agent writes.
func (p *process) follow(out io.Reader, first chan<- string, to io.Writer) {
	defer close(p.read)
	lines := bufio.NewScanner(out)
	lines.Scan()
	first <- lines.Text()
	for lines.Scan() {
		if to != nil {
			fmt.Fprintln(to, lines.Text())
		}
	}
}

// front puts a forwarder in front of an agent.
func (a *Agents) front(address string) error {
	if a.cfg.Front == "" {
		a.addresses = append(a.addresses, address)
		return nil
	}
	f, err := forward.New(a.cfg.Front+":0", address)
	if err != nil {
		return err
	}
	a.Forwarders, a.addresses = append(a.Forwarders, f), append(a.addresses, f.Addr())
	return nil
}

// File writes a file of the first n machines, and gives its path.
func (a *Agents) File(n int) (path string, err error) {
	var text strings.Builder
	text.WriteString("machines:\n")
	for i := range n {
		fmt.Fprintf(&text, "  - {name: h%d, address: %q, slots: %d}\n", i+1, a.addresses[i], a.cfg.Slots)
	}
	path = filepath.Join(a.cfg.Dir, fmt.Sprintf("machines-%d.yaml", n))
	return path, os.WriteFile(path, []byte(text.String()), 0o600)
}

// Run is what a run came to.
type Run struct {
	Hash    string  `json:"trace_hash"`
	Events  uint64  `json:"events"`
	Seconds float64 `json:"wall_s"`
	Rate    float64 `json:"events_per_s"`
	Workers int     `json:"workers"`
	Ended   string  `json:"ended"`
}

// Run runs a scenario over the first n machines, 0: on this one alone, without agents. What disco-run writes for people
// goes to out, nil: nowhere.
func (a *Agents) Run(ctx context.Context, n int, out io.Writer, args ...string) (r Run, err error) {
	file := filepath.Join(a.cfg.Dir, "run.json")
	args = append([]string{"run"}, append(args, "--json", file)...)
	if n > 0 {
		machines, err := a.File(n)
		if err != nil {
			return r, err
		}
		args = append(append(args, "--machines", machines), a.Security()...)
	}
	cmd := exec.CommandContext(ctx, a.cfg.Program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endLimit
	var last bytes.Buffer
	cmd.Stderr = &last
	if out != nil {
		both := Locked(out)
		cmd.Stdout, cmd.Stderr = both, io.MultiWriter(&last, both)
	}
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("agents: disco-run %s: %w: %s", strings.Join(args, " "), err,
			bytes.TrimSpace(last.Bytes()))
	}
	text, err := infile.Read(file, infile.Kind{Name: "the JSON of a run", BytesMax: 64 << 20})
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err == nil && r.Hash == "" {
		err = errors.New("agents: the run has no trace hash")
	}
	return r, err
}

// Locked is a writer for what several write at a time: agents, and a run.
func Locked(w io.Writer) io.Writer { return &locked{w: w} }

type locked struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

// Write writes to the writer.
func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// Close ends all agents as Ctrl-C does, and forwarders. An error names what hasn't ended in order.
func (a *Agents) Close() error {
	var errs []error
	for i := len(a.processes) - 1; i >= 0; i-- {
		p := a.processes[i]
		_ = p.cmd.Process.Signal(syscall.SIGINT) // it may have ended
		late := time.AfterFunc(endLimit, func() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) })
		<-p.read
		if err := p.cmd.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("agents: agent %d: %w", i+1, err))
		}
		late.Stop()
	}
	for _, f := range a.Forwarders {
		f.Close()
	}
	a.processes, a.Forwarders = nil, nil
	return errors.Join(errs...)
}

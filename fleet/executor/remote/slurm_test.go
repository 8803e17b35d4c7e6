// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/fleet/executor/executortest"
	"github.com/disco-sim/disco/fleet/executor/remote"
)

// slurmConf is that of a cluster of one machine, which says that it has 32 processors.
const slurmConf = `ClusterName=test
SlurmctldHost=%[1]s(127.0.0.1)
SlurmctldPort=%[3]d
SlurmdPort=%[4]d
AuthType=auth/munge
AuthInfo=socket=%[2]s/munge/socket
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=%[2]s/state
SlurmdSpoolDir=%[2]s/spool
SlurmctldPidFile=%[2]s/slurmctld.pid
SlurmdPidFile=%[2]s/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=10
NodeName=%[1]s NodeAddr=127.0.0.1 CPUs=32 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`

// daemon starts a program that stays in the foreground, which the test ends.
func daemon(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &log, &log, 5*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
		if t.Failed() {
			t.Logf("%s: %s", name, log.Bytes())
		}
	})
}

// freePort is one of the loopback.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// newSlurm starts munged, slurmctld and slurmd, which the test ends. Slurm's commands find them by the environment.
func newSlurm(t *testing.T) {
	t.Helper()
	for _, name := range []string{"munged", "slurmctld", "slurmd", "srun", "squeue", "scancel", "sinfo"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("SKIPPED: there is no Slurm (Debian: munge, slurmctld, slurmd, slurm-client): %v", err)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: slurmd can't start jobs of a user: this isn't root")
	}
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	machine, _, _ = strings.Cut(machine, ".") // as Slurm names it
	dir, err := os.MkdirTemp("", "slurm-")    // a path that fits into a socket's name, where munged trusts all folders
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"munge", "state", "spool"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	munge := filepath.Join(dir, "munge")
	key := make([]byte, 1024)
	_, _ = rand.Read(key) // never fails
	write(t, filepath.Join(munge, "key"), string(key))
	conf := filepath.Join(dir, "slurm.conf")
	write(t, conf, fmt.Sprintf(slurmConf, machine, dir, freePort(t), freePort(t)))
	t.Setenv("SLURM_CONF", conf)
	daemon(t, "munged", "--foreground", "--force", "--socket="+filepath.Join(munge, "socket"), "--key-file="+
		filepath.Join(munge, "key"), "--pid-file="+filepath.Join(munge, "pid"), "--seed-file="+
		filepath.Join(munge, "seed"), "--log-file="+filepath.Join(munge, "log"))
	until(t, "munged answers", func() bool {
		return exec.Command("munge", "-n", "--socket="+filepath.Join(munge, "socket")).Run() == nil
	})
	daemon(t, "slurmctld", "-D", "-f", conf)
	daemon(t, "slurmd", "-D", "-f", conf)
	until(t, "Slurm has a machine", func() bool {
		out, err := exec.Command("sinfo", "--noheader", "--format=%T").Output()
		return err == nil && strings.TrimSpace(string(out)) == "idle"
	})
}

// slurmOptions are those of an executor whose hosts work in a folder.
func slurmOptions(t *testing.T, work string) remote.Options {
	o := options(t)
	o.Scheduler, o.Slots = remote.Slurm{Args: []string{"--partition=all"}, Host: hostCommand(work)}, 16
	return o
}

// slurmLeft are jobs, processes and folders that are left.
func slurmLeft(t *testing.T, work string) []string {
	all := append(left(t, work), strings.Fields(output(t, "squeue", "--noheader", "--format=%j"))...)
	folders, err := filepath.Glob(filepath.Join(work, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return append(all, folders...)
}

// TestSlurm: the suite, and what is said and left when something between agent and attempt is killed.
func TestSlurm(t *testing.T) {
	newSlurm(t)
	var work string
	t.Run("suite", func(t *testing.T) {
		executortest.Run(t, executortest.Config{
			New: func(t *testing.T, fetch func(context.Context, fleet.Digest) ([]byte, error)) executor.Executor {
				work = filepath.Join(t.TempDir(), "work")
				o := slurmOptions(t, work)
				o.Fetch = fetch
				return open(t, o)
			},
			Program:   program(t),
			Left:      func(t *testing.T) []string { return slurmLeft(t, work) },
			Processes: func(job string) []int { return markedBy(t, work, job) },
		})
	})
	for name, pids := range map[string]func(t *testing.T, work string) []int{
		"host": hosts,
		"srun": func(t *testing.T, work string) []int {
			return processesOf(t, work, func(c string) bool { return strings.HasPrefix(c, "srun ") })
		},
		"slurmstepd": func(t *testing.T, work string) []int {
			return processesOf(t, "slurmstepd: [", func(c string) bool { return strings.Contains(c, ".0]") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			work := filepath.Join(t.TempDir(), "work")
			e := open(t, slurmOptions(t, work))
			j := newJob(t, "x")
			r := runs(t, e, j)
			kill(t, pids(t, work), syscall.SIGKILL)
			ends(t, r, "x/0.0.0.1: the connection has ended", "none of its processes is left")
			// Slurm knows of what is left of a killed host where it has cgroups, which this test doesn't: the kernel
			// has told that to end.
			until(t, "no process is left", func() bool { return len(markedBy(t, work, "")) == 0 })
			again(t, e, j)
			closes(t, e)
			if all := slurmLeft(t, work); len(all) > 0 {
				t.Errorf("this is left: %q", all)
			}
		})
	}
	t.Run("cancelled", slurmCancelled)
	t.Run("full", slurmFull)
	t.Run("left", slurmSwept)
}

// slurmCancelled: a job that somebody ends in Slurm.
func slurmCancelled(t *testing.T) {
	work := filepath.Join(t.TempDir(), "work")
	e := open(t, slurmOptions(t, work))
	r := runs(t, e, newJob(t, "x"))
	output(t, "scancel", "--name="+strings.TrimSpace(output(t, "squeue", "--noheader", "--format=%j")))
	ends(t, r, "x/0.0.0.1: the connection has ended", "none of its processes is left")
	closes(t, e)
	if all := slurmLeft(t, work); len(all) > 0 {
		t.Errorf("this is left: %q", all)
	}
}

// slurmFull: a job waits for room until its caller gives up, and leaves nothing in the queue.
func slurmFull(t *testing.T) {
	work := filepath.Join(t.TempDir(), "work")
	o := slurmOptions(t, work)
	o.Scheduler = remote.Slurm{Args: []string{"--hold"}, Host: hostCommand(work)}
	e := open(t, o)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		until(t, "it waits", func() bool {
			return strings.Contains(output(t, "squeue", "--noheader", "--format=%j %T"), "PENDING")
		})
		cancel(context.DeadlineExceeded)
	}()
	if err := e.Prepare(ctx, newJob(t, "x")); err == nil || !strings.Contains(err.Error(), "waits for room") {
		t.Errorf("found %v, want that it waits for room", err)
	}
	if out := output(t, "squeue", "--noheader"); out != "" {
		t.Errorf("this is left: %s", out)
	}
	o.Slots = 1
	small := open(t, o)
	if err := small.Prepare(t.Context(), newJob(t, "x")); err == nil ||
		!strings.Contains(err.Error(), "it wants 2 slots, and 0 of 1 are taken") {
		t.Errorf("found %v, want that there are too few slots", err)
	}
	closes(t, small)
	closes(t, e)
}

// slurmSwept: what an agent has left that was killed with its srun is ended by the next one, and another agent's isn't.
func slurmSwept(t *testing.T) {
	for _, name := range []string{remote.Mark("disco/"+t.Name()) + "-x", "disco-other-x"} {
		cmd := exec.Command("srun", "--job-name="+name, "--ntasks=1", "sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
	}
	until(t, "both run", func() bool {
		return strings.Count(output(t, "squeue", "--noheader", "--format=%T"), "RUNNING") == 2
	})
	e := open(t, slurmOptions(t, filepath.Join(t.TempDir(), "work")))
	if out := output(t, "squeue", "--noheader", "--format=%j"); strings.TrimSpace(out) != "disco-other-x" {
		t.Errorf("found %q in the queue, want another agent's job alone", out)
	}
	if ended, err := e.Sweep(t.Context()); ended != 0 || err != nil {
		t.Errorf("a second sweep has ended %d, %v", ended, err)
	}
	output(t, "scancel", "--name=disco-other-x")
	closes(t, e)
}

// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// TestAgentSSH: an agent whose pieces are simulated by a host that a program called ssh starts. Package remote tests
// the real one.
func TestAgentSSH(t *testing.T) {
	h := openByHand(t)
	h.leads()
	dir := t.TempDir()
	work, hosts, log := filepath.Join(dir, "work"), filepath.Join(dir, "hosts"), filepath.Join(dir, "log")
	h.must(os.WriteFile(hosts, []byte("# ours\nfar 2\n"), 0o600))
	script := "#!/bin/sh\necho \"$*\" >>" + log + "\nwhile [ $# -gt 1 ]; do shift; done\nexec sh -c \"$1\"\n"
	h.must(os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o700))
	self := selfProgram(t)
	flags := []string{"agent", "--store", h.url, "--name", "h1", "--slots", "2", "--executor", "ssh",
		"--hosts", hosts, "--host-command", fmt.Sprintf("%s host --work %s --program %s", self, work, self),
		"--program", self, "--grace", "5s"}
	cmd, stdout, stderr := command(flags...)
	cmd.Env = append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"))
	a := &agentProcess{h: h, name: "h1", cmd: cmd, stdout: stdout, stderr: stderr}
	h.must(cmd.Start())
	h.Cleanup(a.end)
	h.must(h.view.Await(h.ctx, func() bool {
		s, ok := h.view.Server("h1-1")
		return ok && s.State == cluster.Available
	}))
	// Another one of its name is refused before it reaches a host: that would end what this one has there.
	before, err := os.ReadFile(log)
	h.must(err)
	second, _, refused := command(flags...)
	second.Env = cmd.Env
	if err := second.Run(); err == nil || !strings.Contains(refused.String(), `"h1": the name is taken by `) {
		t.Errorf("a second agent of the name: %v, %s", err, refused)
	}
	if after, err := os.ReadFile(log); err != nil || string(after) != string(before) {
		t.Errorf("a second agent of the name has called ssh: %q, %v, before %q", after, err, before)
	}
	id := h.submit(launchtest.Scenario(6, 20, ""), filepath.Join(dir, "place"), 1, "", []string{"tokens=3"})
	h.finish(id, fleet.PieceID{}, "h1")
	a.end()
	said, err := os.ReadFile(log)
	if err != nil || !strings.HasPrefix(string(said), "-T -o BatchMode=yes -- far '"+self+"' 'host' '--work' ") {
		t.Errorf("ssh was called as %q, %v", said, err)
	}
	left, err := filepath.Glob(filepath.Join(work, "*", "runs", "*"))
	if folders, _ := filepath.Glob(filepath.Join(work, "*")); err != nil || len(left) > 0 || len(folders) != 1 {
		t.Errorf("found %q of pieces in %q, %v, want one folder of the host, and none of a piece", left, folders, err)
	}
}

// TestHostCommand is no command for people.
func TestHostCommand(t *testing.T) {
	self := selfProgram(t)
	bare := runs(t, "host", "--program", self, "--work", t.TempDir())
	if bare.status != 1 || !strings.Contains(bare.stderr, "an agent of the fleet starts this") {
		t.Errorf("%+v", bare)
	}
	argument := runs(t, "host", "there")
	argument.refused(t, "host there", []string{`found the argument "there", want none`})
}

// TestExecutorFlags: what doesn't go together is refused.
func TestExecutorFlags(t *testing.T) {
	hosts := filepath.Join(t.TempDir(), "hosts")
	err := errors.Join(os.WriteFile(hosts, []byte("far 2\nnear x\n"), 0o600),
		os.WriteFile(hosts+".p", []byte(`{"spec": {"containers": []}}`), 0o600),
		os.WriteFile(hosts+".two", []byte("far 2\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--executor lsf":                                        "want local, ssh, slurm or kubernetes",
		"--executor ssh":                                        "found no --hosts",
		"--executor ssh --hosts " + hosts:                       `hosts:2: found "near x", want MACHINE SLOTS`,
		"--executor ssh --hosts " + hosts + "x":                 "found no file of that name",
		"--executor ssh --work x --hosts " + hosts:              "--work: found --executor ssh, want local",
		"--executor slurm --hosts " + hosts:                     "--hosts: found --executor slurm, want ssh",
		"--executor local --slurm-args x":                       "--slurm-args: found --executor local, want slurm",
		"--executor local --slurm-args --partition=short":       "--slurm-args: found --executor local, want slurm",
		"--executor local --host-command x":                     "want ssh or slurm or kubernetes",
		"--executor kubernetes":                                 "found no --image",
		"--executor kubernetes --image x --pod " + hosts:        "want an object with spec, container",
		"--executor kubernetes --image x --pod " + hosts + ".p": "found containers, which the agent says",
		"--executor slurm --host-command=":                      "found no command",
		"--executor ssh --slots 3 --hosts " + hosts + ".two":    "--slots: found 3, want at most the 2 of all machines",
	} {
		r := runs(t, append([]string{"agent", "--store", "etcd://127.0.0.1:1", "--program", selfProgram(t)},
			strings.Fields(args)...)...)
		r.refused(t, args, []string{want})
	}
}

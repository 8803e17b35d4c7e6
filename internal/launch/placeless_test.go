// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
	"github.com/disco-sim/disco/internal/child/childtest"
	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// startWithTMPDIR starts a child, all of whose machines have another TMPDIR than this process.
func startWithTMPDIR(t *testing.T, cfg Config, dir string, machines int) (_ Config, end func()) {
	t.Helper()
	before, there := os.LookupEnv("TMPDIR")
	t.Setenv("TMPDIR", dir)
	p := startChild(t, cfg, childtest.Options{Machines: machines})
	var err error
	if there {
		err = os.Setenv("TMPDIR", before)
	} else {
		err = os.Unsetenv("TMPDIR")
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg.Machines = p
	return cfg, p.Close
}

// A machine without a folder for temporary files is named, with what to do there; the run was asked for wrongly, and
// nothing is written down about workers that have never run.
func TestNoFolderForTemporaryFiles(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	inMemory := "/dev/shm"
	if in := (unix.Statfs_t{}); unix.Statfs(inMemory, &in) != nil || in.Type != unix.TMPFS_MAGIC {
		t.Log("NOT TESTED: there is no file system in memory here")
		inMemory = ""
	}
	const (
		scratch = "worker: a file for nodes that leave memory: "
		file    = "relay: a temporary file for a worker's trace, profile or checkpoints: "
		missing = " can't be written: no such file or directory"
		advice  = ": let TMPDIR of its agent name another folder"
	)
	for what, c := range map[string]struct {
		tmp  string
		set  func(*Config)
		want string
	}{
		"resident, in memory": {inMemory, func(c *Config) { c.Tuning.Resident, c.Profiles = 1, dir },
			scratch + inMemory + ": found a file system in memory, want one on a disk"},
		"resident, gone": {gone, func(c *Config) { c.Tuning.Resident = 1 },
			scratch + gone + missing},
		"trace": {gone, func(c *Config) { c.Trace = filepath.Join(dir, "trace") },
			file + gone + missing},
		"journal": {gone, func(c *Config) {
			c.Trace, c.Journal = filepath.Join(dir, "trace"), &Journal{Node: "n0"}
		}, file + gone + missing},
		"profile": {gone, func(c *Config) { c.Profiles = dir }, file + gone + missing},
		"checkpoints": {gone, func(c *Config) {
			c.Checkpoint = &Checkpoint{Repo: newRepo(t, *c, checkpointtest.NewMem()), Every: 2, Keep: 1}
		}, file + gone + missing},
	} {
		if c.tmp == "" {
			continue
		}
		for _, spread := range []string{SpreadNodes, SpreadReplications} {
			cfg := config(TransportShm, 3, launchtest.Scenario(6, 10, ""))
			cfg.CrashDir, cfg.Spread, cfg.Replications = dir, spread, 3
			if spread == SpreadReplications {
				cfg.Partition = ""
			}
			c.set(&cfg)
			cfg, end := startWithTMPDIR(t, cfg, c.tmp, 2)
			_, err := run(t, cfg)
			end()
			var w *WorkerError
			if !errors.As(err, &w) || !errors.Is(err, ErrConfig) || isFileError(err) {
				t.Errorf("%s, %s: %v is no *WorkerError about what was asked for", what, spread, err)
				continue
			}
			if want := "machine " + w.Machine + ": " + c.want + advice; err.Error() != want || w.Machine == "" {
				t.Errorf("%s, %s: found %q, want %q", what, spread, err, want)
			}
			nothingLeft(t, dir)
		}
	}
	here := &WorkerError{Wrong: true, File: true, Reason: "worker: the reason"}
	if got := here.Error(); got != here.Reason {
		t.Errorf("on this machine: found %q, want %q", got, here.Reason)
	}
}

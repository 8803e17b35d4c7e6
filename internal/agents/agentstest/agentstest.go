// SPDX-License-Identifier: Apache-2.0

// Package agentstest makes a test binary the program that package agents starts: disco-run, disco-group and their
// models.
//
// Guarantee: a test binary that wasn't started by a test is none.
//
//	func TestMain(m *testing.M) {
//		agentstest.Program() // if it is one: ends the process
//		leaktest.Main(m)
//	}
package agentstest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/group"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/model/phold"
)

// variable tells a test binary that it is the program.
const variable = "DISCO_AGENTS_TEST"

// Program is the program, if this process is one: then it doesn't return.
func Program() {
	if os.Getenv(variable) != "" || workerproc.IsWorker() {
		app.MainWith(group.Commands(), phold.Kind())
	}
}

// Install gives this test binary the name disco-run, and has the processes of this test be the program.
func Install(t *testing.T) (path string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "disco-run")
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	t.Setenv(variable, "1")
	return path
}

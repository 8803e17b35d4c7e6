// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint/blobproc"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/scenario"
)

// startedEnv names a file to which every worker process adds a byte, so that a test
// can tell that none was started.
const startedEnv = "DISCO_TEST_STARTED"

// programEnv makes this executable the program itself, for tests that need a process
// to send signals to.
const programEnv = "DISCO_TEST_PROGRAM"

func TestMain(m *testing.M) {
	version = "v0-test"
	slow = time.Hour // what is said about a busy machine isn't the same every time
	if launch.IsWorker() {
		noteStart()
		armKill()
		registry, err := scenario.NewRegistry(launchtest.Kind())
		if err != nil {
			panic(err)
		}
		os.Exit(launch.Serve(registry))
	}
	if workerproc.Started(blobproc.Command) {
		serveBlobs()
	}
	if os.Getenv(programEnv) != "" {
		armKill()
		MainWith([]Command{{Name: blobproc.Command, Hidden: true}}, launchtest.Moving())
	}
	leaktest.MainHalves(m, "^Test[A-O]")
}

func noteStart() {
	path := os.Getenv(startedEnv)
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString("x"); err != nil {
		panic(err)
	}
}

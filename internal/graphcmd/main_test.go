// SPDX-License-Identifier: Apache-2.0

package graphcmd

import (
	"os"
	"testing"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/leaktest"
)

// programEnv makes this executable the program, for tests that have two of them at a time: one process runs one.
const programEnv = "DISCO_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		os.Exit(app.RunWith(os.Args, os.Stdin, os.Stdout, os.Stderr, Commands()))
	}
	leaktest.Main(m)
}

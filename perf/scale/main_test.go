// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) {
	if launch.IsWorker() || os.Getenv(roleEnv) != "" {
		main()
	}
	leaktest.Main(m)
}

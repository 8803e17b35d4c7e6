// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/storeserver"
)

func TestMain(m *testing.M) {
	for variable, process := range map[string]func(args []string) error{memberEnv: beMember, partyEnv: beParty,
		askerEnv: beAsker} {
		if args := strings.Fields(os.Getenv(variable)); len(args) > 0 {
			if err := process(args); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	storeserver.ParallelTests(16)
	leaktest.Main(m)
}

// SPDX-License-Identifier: Apache-2.0

package helptest

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/urfave/cli/v2"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const faultyEnv = "DISCO_TEST_FAULTY"

// pond is a command with verbs and flags.
func pond(examples ...string) app.Command {
	return app.Command{Name: "pond", Usage: "keeps ducks", ArgsUsage: "feed|count-all [NAME] --food FILE",
		Examples: examples, Flags: []cli.Flag{&cli.IntFlag{Name: "ducks"}}}
}

var good = []string{"pond feed --ducks 3 > fed   # all of them", "pond count-all pond"}

func TestCheck(t *testing.T) { Check(t, []app.Command{pond(good...)}) }

// TestFaulty: each fault is found. A process of its own has it, whose tests fail.
func TestFaulty(t *testing.T) {
	faulty := map[string]app.Command{
		"there is no example\n":         pond(),
		"there is no example of feed":   pond("pond count-all"),
		"is one of another command":     pond(append(good, "lake feed")...),
		"no flag --geese":               pond(append(good, "pond feed --geese 3")...),
		`found "many"`:                  pond(append(good, "pond feed --ducks many")...),
		"has examples that nobody sees": {Name: "pond", Hidden: true, Examples: good},
	}
	if name := os.Getenv(faultyEnv); name != "" {
		Check(t, []app.Command{faulty[name]})
		return
	}
	for name := range faulty {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestFaulty$")
		cmd.Env = append(os.Environ(), faultyEnv+"="+name)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), name) {
			t.Errorf("%q isn't found: %v\n%s", name, err, out)
		}
	}
}

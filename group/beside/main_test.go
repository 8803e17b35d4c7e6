// SPDX-License-Identifier: Apache-2.0

package beside

import (
	"bytes"
	"strings"
	"testing"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// TestMissing: a test's program has no others beside it, and every command says what is missing and how to get it.
func TestMissing(t *testing.T) {
	for args, want := range map[string]string{
		"server --data x": "disco-server isn't there", "store get a": "disco-group isn't there",
		"cluster --no-such-flag": "disco-group isn't there", "agent": "disco-group isn't there",
		"server": "there is no --data", "server x --data y": `found the argument "x"`,
		"server --port 1": "no flag --port",
	} {
		var out, err bytes.Buffer
		status := app.RunWith(append([]string{"disco-run"}, strings.Fields(args)...), strings.NewReader(""), &out,
			&err,
			Commands())
		missing := strings.Contains(want, "isn't there")
		if !strings.Contains(err.String(), want) || out.Len() > 0 || missing != (status == app.ExitFailed) ||
			missing && !strings.Contains(err.String(), "make build") {
			t.Errorf("%s: %d %q %q; want %q", args, status, out.String(), err.String(), want)
		}
	}
}

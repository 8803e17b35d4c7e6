// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// What a run says of a handler that does wrong: which simproc, at which epoch, with which
// event, and where in its own code it was; of our code, and of Go's, nothing.
func TestHandlerInTrouble(t *testing.T) {
	const at = `node: n2/token at epoch [3-9][.0-9]*, handling `
	const call = at + `(event \d+ of n\d/token|\d+ events, the first is event \d+ of n\d/token|its first call): `
	const code = `\nin the model's code:\n    launchtest\.`
	const where = code + `\(\*handler\)[^\n]*\n        \S*/launchtest/\w+\.go:\d+(\n|$)`
	const kept = call + `it used memory that ended with an earlier call, of n2/token at epoch`
	const goroutine = `Schedule was called in a goroutine of the model's: .*` + code + `\(\*handler\)`
	for _, c := range []struct {
		how     string
		payload string
		checked bool   // only the checked build notices
		want    string // the first lines
	}{
		{how: launchtest.Panic, want: call + `panic: tiny: a token broke[^\n]*` + where},
		{how: launchtest.Nil,
			want: call + `panic: runtime error: invalid memory address or nil pointer dereference[^\n]*` + where},
		{how: launchtest.Fail, want: call + `tiny: a token is lost`},
		{how: launchtest.PanicMake,
			want: `node: n2/token, making its handler: panic: tiny: no token fits[^\n]*` + code +
				`\(\*Tiny\)\.NewHandler`},
		{how: launchtest.PanicReport,
			want: `node: n2/token, reporting its results: panic: tiny: the tokens can't be counted[^\n]*` + where},
		{how: launchtest.Keep, checked: true,
			want: kept + ` [3-9][.0-9]*, handling .*: a handler must copy what it keeps[^\n]*` + where},
		{how: launchtest.Keep, payload: "payload: 100000\n", checked: true, want: kept},
		{how: launchtest.KeepWrite, checked: true, want: kept},
		{how: launchtest.Write, checked: true,
			want: call + `it wrote into the memory of its events, which others share[^\n]*` + where},
		{how: launchtest.Goroutine, checked: true, want: at + `.*: ` + goroutine},
		{how: launchtest.LateSend, checked: true, want: `node: n2/token.*(at|before) epoch .*: ` + goroutine},
	} {
		if c.checked && !invariants.Enabled {
			continue
		}
		for _, transport := range transports() {
			t.Run(c.how+c.payload+"/"+transport, func(t *testing.T) {
				cfg := config(transport, 2, c.payload+launchtest.Scenario(4, 50, trouble(2, 3, c.how)))
				if c.how == launchtest.LateSend {
					cfg.Text = []byte(launchtest.Scenario(4, 50000, trouble(2, 3, c.how)))
				}
				_, err := run(t, cfg)
				var w *WorkerError
				if !errors.As(err, &w) || w.Worker != 1 || w.Died {
					t.Fatalf("error is %v, want that worker 1 failed", err)
				}
				text := err.Error()
				if !regexp.MustCompile(`^worker 1 failed: ` + c.want).MatchString(text) {
					t.Errorf("the run says\n%s\nwant %s", text, c.want)
				}
				for _, no := range []string{"goroutine ", "gopanic", "node.(*Engine)", "node.(*Simproc)", "worker."} {
					if strings.Contains(text, no) && !(no == "goroutine " && c.checked) {
						t.Errorf("the run says %q:\n%s", no, text)
					}
				}
				nothingLeft(t, t.TempDir())
			})
		}
	}
}

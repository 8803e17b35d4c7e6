// SPDX-License-Identifier: Apache-2.0

package phold

import (
	"fmt"

	"github.com/disco-sim/disco/scenario"
)

// varies is Kind.Varies. It allows what only events that are sent later are of, and what handlers take.
var varies = scenario.VaryLoaded(scenario.Vary("remote", "payload", "work", "hot", "heat", "wander"), Load, checkVaried)

// checkVaried refuses what only the whole scenario shows. There are links between processes where some event is remote.
func checkVaried(r *scenario.Reader, was, is Params) {
	if (was.Remote > 0) != (is.Remote > 0) {
		want := "0"
		if was.Remote > 0 {
			want = "more than 0"
		}
		r.Root(fields...).Field("remote").Refuse(fmt.Sprint(is.Remote), want+", as in the run that was saved",
			"a state can't go on with other links: begin a new run")
	}
}

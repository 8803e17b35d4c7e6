// SPDX-License-Identifier: Apache-2.0

package phold

import (
	"fmt"

	"github.com/disco-sim/disco/scenario"
)

// vary allows what only events that are sent later are of, and what handlers take.
var vary = scenario.Vary("remote", "payload", "work", "hot", "heat", "wander")

// varies is Kind.Varies. There are links between processes where some event is remote.
func varies(before, after *scenario.Document) error {
	if err := vary(before, after); err != nil {
		return err
	}
	was, err := Load(before, scenario.Options{})
	if err != nil {
		return err
	}
	is, err := Load(after, scenario.Options{})
	if err != nil {
		return err
	}
	r := scenario.NewReader(after)
	if (was.Remote > 0) != (is.Remote > 0) {
		want := "0"
		if was.Remote > 0 {
			want = "more than 0"
		}
		r.Root(fields...).Field("remote").Refuse(fmt.Sprint(is.Remote), want+", as in the run that was saved",
			"a state can't go on with other links: begin a new run")
	}
	return r.Err()
}

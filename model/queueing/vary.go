// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"fmt"
	"slices"

	"github.com/disco-sim/disco/scenario"
)

// varies is Kind.Varies. It allows what is about customers who come later. Who is inside has been sent on, for the time
// at which he leaves.
var varies = scenario.VaryLoaded(scenario.Vary("stations[].servers", "stations[].service", "stations[].buffer",
	"stations[].arrivals", "stations[].to"), Load, checkVaried)

// checkVaried refuses what only the whole scenario shows. A station keeps its lookahead and its ways on, and what it
// has saved: when those inside leave, where its buffer is limited, and a random stream, where somebody comes from
// outside.
func checkVaried(r *scenario.Reader, was, is *Spec) {
	stations := r.Root("horizon", "warmup", "transit", "stations").Field("stations").List()
	for i := range is.Stations {
		checkStation(&was.Stations[i], &is.Stations[i],
			stations[i].Section("id", "servers", "service", "buffer", "arrivals", "initial", "to"))
	}
}

// whatIf is what to do about a station that a state can't go on with.
const whatIf = "a state can't go on with it: begin a new run"

func checkStation(was, is *Station, s scenario.Section) {
	buffer := func(places int) string {
		if places == Unlimited {
			return "unlimited places to wait"
		}
		return fmt.Sprintf("%d places to wait", places)
	}
	if (was.Buffer == Unlimited) != (is.Buffer == Unlimited) {
		want := "a limit"
		if was.Buffer == Unlimited {
			want = "no limit"
		}
		s.Field("buffer").Refuse(buffer(is.Buffer), want+", as in the run that was saved", whatIf)
	}
	if (was.Arrivals == nil) != (is.Arrivals == nil) {
		found, want := "arrivals", "none"
		if is.Arrivals == nil {
			found, want = want, found
		}
		s.Field("arrivals").Refuse(found, want+", as in the run that was saved", whatIf)
	}
	if a, b := was.Service.least(), is.Service.least(); a != b {
		s.Field("service").Refuse(fmt.Sprintf("a least service time of %v s", b),
			fmt.Sprintf("%v s, as in the run that was saved, since it is the station's lookahead", a), whatIf)
	}
	same := func(a, b Route) bool { return a.Station == b.Station }
	if !slices.EqualFunc(was.To, is.To, same) {
		s.Field("to").Refuse("other stations, or another order of them", "those of the run that was saved", whatIf)
	}
}

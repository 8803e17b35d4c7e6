// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"strings"
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/scenario"
)

// A run goes on from what was saved anywhere, and a damaged state is refused or harmless.
func TestResume(t *testing.T) {
	s := modeltest.MustLoad(t, Kind(), everything)
	for seed := range uint64(3) {
		modeltest.ResumeEverywhere(t, s, seed)
	}
	modeltest.DamagedStates(t, s, 1)
}

// TestVaries: what may change under a state, each of which a run goes on with, and what may not.
func TestVaries(t *testing.T) {
	doc, err := scenario.Parse("test.yml", []byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	doc = Kind().Attach(doc, nil)
	for seed := range uint64(3) {
		modeltest.Varies(t, Kind(), doc, seed,
			"stock[0].up_to=20",
			"stock[1].reorder_point=9",
			"stock[1].quantity=12",
			"stock[4].forecast.cover=4",
			"stock[4].forecast.safety=9",
			"stock[7].quantity=25",
			"stock[7].costs.price=4",
			"production[0].time=exponential(0.1)",
			"production[0].queue=80",
			"links[2].lead_time=exponential(2)",
			"links[3].lead_time='uniform(0.5, 2)'",
			"demand[0].gap=exponential(0.2)",
			"demand[2].size='normal(30, 5)'")
	}
	for key, want := range map[string]string{
		"horizon=90":                  "horizon: found 90, want 60, as in the run that was saved",
		"period=1":                    "period: found 1, want 2",
		"stock[0].initial=3":          "stock[0].initial: found 3, want nothing",
		"stock[1].lot=2":              "stock[1].lot: found 2, want 3",
		"stock[2].every=1":            "stock[2].every: found 1, want 0.5",
		"stock[4].forecast.periods=4": "stock[4].forecast.periods: found 4, want 3",
		"links[0].lead_time='uniform(1, 3)'": "links: found a least lead time of 1 s from plant to " +
			"warehouse, want 0 s, as",
		"links[1].order_delay=1": "links[1].order_delay: found 1, want 0.25",
		"production[0].time='uniform(0.01, 0.02)'": "production: found a least time of 0.01 s for a lot at plant, " +
			"want 0 s",
		"calendars[0].cycle=2": "calendars[0].cycle: found 2, want 1",
		"demand[2].start=0.25": "demand[2].start: found 0.25, want 0.5",
	} {
		name, value, _ := strings.Cut(key, "=")
		after, err := doc.With([]scenario.Setting{{Key: name, Value: value}})
		if err == nil {
			err = Kind().Varies(doc, Kind().Attach(after, nil))
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "begin a new run") {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package phold_test

import (
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/scenario"
)

// TestSeries: with both generators, all events are in some window.
func TestSeries(t *testing.T) {
	for _, rng := range []string{phold.Default, phold.CLCG4} {
		sum, all := modeltest.CompareSeries(t, phold.Kind(), func(series bool) scenario.Scenario {
			p := small(rng)
			p.End, p.Series = 5, series
			return phold.New(p)
		}, 11)
		modeltest.Near(t, all, "events", float64(sum.(*phold.Results).EventsHandled)/modeltest.SeriesReplications)
	}
}

// TestSeriesRefused: windows that weren't asked for, or are cut short, are refused.
func TestSeriesRefused(t *testing.T) {
	p := small(phold.Default)
	p.End, p.Series = 5, true
	o, err := modeltest.Run(phold.New(p), modeltest.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	p.Series = false
	if _, err := modeltest.Sum(phold.New(p), o.Replication); err == nil {
		t.Error("windows that weren't asked for were taken")
	}
	p.Series = true
	one := &o.Replication.Reports[3]
	*one = (*one)[:len(*one)-1]
	if _, err := modeltest.Sum(phold.New(p), o.Replication); err == nil {
		t.Error("windows that are cut short were taken")
	}
}

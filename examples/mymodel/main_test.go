// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/disco-sim/disco/sim/simtest"
)

// TestMain lets this test's executable be the worker processes of the runs that it starts.
func TestMain(m *testing.M) { simtest.Main(m, kind) }

// The rumour reaches everybody, and all is the same over one worker and over several.
func TestGossip(t *testing.T) {
	office := simtest.Load(t, kind, "office.yml")
	simtest.Run(t, office)
	r := simtest.Results(t, office, 10)
	simtest.Agree(t, r, "person/knew", 1000)
	if mails, told := r.Figure("person/first_by_mail"), r.Figure("person/told"); !(mails > 0 && mails < told) {
		t.Errorf("%v people knew it by mail, and it was told %v times", mails, told)
	}
	if half := r.Statistic("person/heard").Percentile(50).Mean; half < 3600 || half > 2*3600 {
		t.Errorf("half of the people knew it after %v s", half)
	}
}

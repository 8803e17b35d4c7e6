// SPDX-License-Identifier: Apache-2.0

package group

import (
	"fmt"
	"slices"
	"testing"

	"github.com/disco-sim/disco/experiments"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/dial"
)

// Parts of experiments that were removed go; those of others stay, and so does what people keep under such a name.
func TestLeftParts(t *testing.T) {
	stores(t, func(t *testing.T, url string) {
		ctx := t.Context()
		open := func(group string) *metastore.Store {
			s, err := dial.Open(ctx, dial.Options{URL: url, Store: metastore.Options{Group: group, Base: fleet.Base()}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		}
		s, beside := open("disco"), open("disco-parts")
		client, err := fleet.New(ctx, s, fleet.Options{By: "ann@h1"})
		if err != nil {
			t.Fatal(err)
		}
		id, _, err := client.Submit(ctx, &fleet.Submission{Key: "k", Name: "night", User: "ann@h1", Version: "v1",
			Priority: fleet.Normal, Steps: []fleet.SubmittedStep{{Step: fleet.Step{File: "a.yml",
				Points: [][]string{nil}, Replications: 1, Workers: 1}, Scenario: []byte("x")}}})
		if err != nil {
			t.Fatal(err)
		}
		const gone, ann, given = "260101-000000-abc123", "ann.260101-000000-abc123", "260101-000000-xyz123"
		e, err := client.Show(ctx, id)
		if err == nil { // the parts of a door's experiment lie under the name that it has at home
			err = client.Adopt(ctx, e.Spec, *e.Wish, fleet.Home{ID: given, Epoch: 3, Door: "d"}, nil, client.Blob)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{id, gone, ann, given, "mine", "a.b.260101-000000-abc123"} {
			for piece := range 41 {
				if err := beside.Put(ctx, fmt.Sprintf("%s/0.0.%d/run/x", name, piece), 7); err != nil {
					t.Fatal(err)
				}
			}
		}
		removed, err := experiments.RemoveLeft(ctx, client, beside)
		slices.Sort(removed)
		if err != nil || !slices.Equal(removed, []string{gone, ann}) {
			t.Errorf("removed %q, %v", removed, err)
		}
		for name, want := range map[string]bool{id: true, given: true, gone: false, ann: false, "mine": true,
			"a.b.260101-000000-abc123": true} {
			if is, err := beside.Contains(ctx, name+"/0.0.40/run/x"); err != nil || is != want {
				t.Errorf("%s is there: %v, %v, want %v", name, is, err, want)
			}
		}
		if removed, err := experiments.RemoveLeft(ctx, client, beside); err != nil || len(removed) > 0 {
			t.Errorf("the second time: %q, %v", removed, err)
		}
	})
}

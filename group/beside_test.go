// SPDX-License-Identifier: Apache-2.0

package group

import (
	"slices"
	"testing"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/group/beside"
)

// TestBeside: disco-run has every command for people that disco-group has, and says of it what disco-group says.
func TestBeside(t *testing.T) {
	theirs, compared := beside.Commands(), 0
	for _, c := range Commands() {
		if c.Hidden {
			continue
		}
		compared++
		at := slices.IndexFunc(theirs, func(b app.Command) bool { return b.Name == c.Name })
		if at < 0 {
			t.Errorf("disco-group has the command %s, and disco-run doesn't", c.Name)
		} else if theirs[at].Usage != c.Usage || theirs[at].Hidden {
			t.Errorf("%s: disco-run says %q (hidden: %t), disco-group %q", c.Name, theirs[at].Usage,
				theirs[at].Hidden, c.Usage)
		}
	}
	if compared == 0 {
		t.Error("disco-group has no commands for people: nothing was compared")
	}
}

// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"strings"

	"github.com/disco-sim/disco/fleet"
)

// PlaceOf is where the part and the checkpoints of a piece are kept: below the experiment's place, or in the store.
func PlaceOf(storeURL, group string, spec *fleet.Spec, p fleet.PieceID) string {
	place := spec.Place
	if place == "" {
		place = strings.TrimRight(storeURL, "/") + "/" + group + partsSuffix
	}
	return strings.TrimRight(place, "/") + "/" + spec.ID + "/" + p.String()
}

// partsSuffix is behind the group's name in the name of what its parts are kept below, in the store.
const partsSuffix = "-parts"

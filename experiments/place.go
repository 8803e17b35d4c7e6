// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"strings"

	"github.com/disco-sim/disco/fleet"
)

// PlaceOf is where the part and the checkpoints of a piece are kept: below the experiment's place, or in the store.
func PlaceOf(storeURL, group string, spec *fleet.Spec, p fleet.PieceID) string {
	return placeRoot(storeURL, group, spec) + "/" + spec.PlaceID() + "/" + p.String()
}

// placeRoot is the place of an experiment, which may be that of others, too.
func placeRoot(storeURL, group string, spec *fleet.Spec) string {
	place := spec.Place
	if place == "" {
		place = strings.TrimRight(storeURL, "/") + "/" + group + KeptSuffix
	}
	return strings.TrimRight(place, "/")
}

// KeptSuffix is behind the group's name in the name of the group, beside it in the store, that keeps its parts.
const KeptSuffix = "-parts"

// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"

	"github.com/disco-sim/disco/internal/nearest"
)

// Suggest is a remark `did you mean x?` with the word that is nearest to what was found, or "" when none is near. Case
// and '-' against '_' count as nothing.
func Suggest(found string, words []string) string {
	best := nearest.Word(found, words)
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %s?", best)
}

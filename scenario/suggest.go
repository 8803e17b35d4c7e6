// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strings"

	"github.com/xrash/smetrics"
)

// suggestBytesMax bounds the words that are compared: nobody means a longer one.
const suggestBytesMax = 64

// Suggest is a remark `did you mean "x"?` with the word that is nearest to what
// was found, or "" when none is near. Case and '-' against '_' count as nothing.
func Suggest(found string, words []string) string {
	if found == "" || len(found) > suggestBytesMax {
		return ""
	}
	plain := strings.NewReplacer("-", "_", " ", "_")
	best, bestCost := "", min(1+len(found)/3, len(found)-1)
	for _, w := range words {
		if len(w) > suggestBytesMax {
			continue
		}
		cost := smetrics.WagnerFischer(plain.Replace(strings.ToLower(found)), plain.Replace(strings.ToLower(w)), 1, 1, 1)
		if cost < bestCost || (cost == bestCost && best == "") {
			best, bestCost = w, cost
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %s?", best)
}

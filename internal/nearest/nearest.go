// SPDX-License-Identifier: Apache-2.0

// Package nearest finds the name that somebody may have meant.
//
// Guarantee: what is found takes at most a third of the word's bytes, and one, to be inserted, deleted or changed,
// upper and lower case and '-', ' ' and '_' counting as the same; of several such names it is the first with the
// fewest changes. The search ends after a fixed amount of work, however many and long the names are.
//
//	nearest.Word("roundrobin", []string{"round_robin", "least_connection"}) // round_robin
package nearest

import "strings"

// workMax bounds a search: cells of distance tables, some 20 ms.
const workMax = 1 << 22

var plain = strings.NewReplacer("-", "_", " ", "_")

// Word is the name that is nearest to what was found, "" where none is near.
func Word(found string, names []string) string {
	limit := min(1+len(found)/3, len(found)-1) + 1 // one more than what is near
	found = plain.Replace(strings.ToLower(found))
	best, work := "", 0
	for _, name := range names {
		if work += (len(found) + 1) * (len(name) + 1); work > workMax {
			break
		}
		if edits := distance(found, plain.Replace(strings.ToLower(name)), limit); edits < limit {
			best, limit = name, edits
		}
	}
	return best
}

// distance is the number of bytes to insert, delete or change to make a into b (Wagner and Fischer, The
// string-to-string
// correction problem, J. ACM 21, 1974), and at least limit where that is reached.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1) // row[j]: from a[:i] to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal, least := row[0], i+1
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
			least = min(least, row[j+1])
		}
		if least >= limit {
			return limit
		}
	}
	return row[len(b)]
}

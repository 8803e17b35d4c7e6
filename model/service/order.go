// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"slices"
	"strings"
)

// keyed is one of many texts, with eight of its bytes.
type keyed struct {
	word  uint64 // the first of them is the highest; 0 behind the end
	index int32
}

// sorted are the numbers 0 … n-1 in the order of what text says of them, as the keys of a JSON object are.
func sorted(n int, text func(i int) string) []int32 {
	list, order := make([]keyed, n), make([]int32, n)
	for i := range list {
		list[i].index = int32(i)
	}
	sortFrom(list, 0, text)
	for i := range list {
		order[i] = list[i].index
	}
	return order
}

// sortFrom sorts texts that have their first bytes in common: a million ids compared as words are sorted several times
// as fast as by comparing texts, each of which is somewhere else in memory.
func sortFrom(list []keyed, first int, text func(i int) string) {
	for i := range list {
		list[i].word = wordAt(text(int(list[i].index)), first)
	}
	slices.SortFunc(list, func(a, b keyed) int { return cmp.Compare(a.word, b.word) })
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && list[to].word == list[from].word {
			to++
		}
		switch same := list[from:to]; {
		case len(same) == 1:
		case same[0].word&0xff == 0: // some may have ended
			slices.SortFunc(same, func(a, b keyed) int {
				return strings.Compare(text(int(a.index)), text(int(b.index)))
			})
		default:
			sortFrom(same, first+8, text)
		}
		from = to
	}
}

// wordAt is the eight bytes of a text from one on.
func wordAt(s string, from int) (word uint64) {
	for i := from; i < from+8; i++ {
		word <<= 8
		if i < len(s) {
			word |= uint64(s[i])
		}
	}
	return word
}

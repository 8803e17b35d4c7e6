// SPDX-License-Identifier: Apache-2.0

package service

import (
	"strconv"
	"strings"
)

// names finds boxes, or edges, by their ids. The members of a group aren't listed: member i of group g
// has the id g-i, and the last "-" of an id says which group that can be.
type names map[string]members

// members is what an id of the file stands for: a thing of its own, or a group.
type members struct {
	first int
	count int // 0: no group
}

// thing finds what has the id itself: a member of a group, and no group, has one.
func (x names) thing(id string) (n int, ok bool) {
	if m, ok := x[id]; ok && m.count == 0 {
		return m.first, true
	}
	return x.member(id)
}

// member finds a member of a group.
func (x names) member(id string) (n int, ok bool) {
	dash := strings.LastIndexByte(id, '-')
	if dash < 0 {
		return 0, false
	}
	m := x[id[:dash]]
	i, err := strconv.ParseUint(id[dash+1:], 10, 32)
	if err != nil || i >= uint64(m.count) || len(id)-dash-1 != digits(int(i)) {
		return 0, false
	}
	return m.first + int(i), true
}

// digits is the length of a number >= 0 in decimal.
func digits(n int) int {
	d := 1
	for ; n > 9; n /= 10 {
		d++
	}
	return d
}

// memberIDs are the ids of a group's members, in one piece of memory. A thing that is no group (count 0) has its own.
func memberIDs(id string, count int) []string {
	if count == 0 {
		return []string{id}
	}
	text := make([]byte, 0, count*(len(id)+1+digits(count-1)))
	for i := range count {
		text = append(append(text, id...), '-')
		text = strconv.AppendInt(text, int64(i), 10)
	}
	rest := string(text)
	ids := make([]string, count)
	for i := range ids {
		n := len(id) + 1 + digits(i)
		ids[i], rest = rest[:n], rest[n:]
	}
	return ids
}

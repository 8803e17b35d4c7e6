// SPDX-License-Identifier: Apache-2.0

package measure

// GroupsMax is the number of samples that Groups keeps.
const GroupsMax = 128

// Groups keeps what replications have left, as samples for intervals, in an amount of
// memory that doesn't depend on their number. Up to GroupsMax replications each is a
// group of its own. When there are more, neighbours are joined in pairs, and again when
// groups of two are too many: groups are always of equally many replications, a power of
// two, and depend on nothing but the order of Add. Replications are independent, so groups
// are, and half of GroupsMax of them make an interval nearly as good as all replications
// would.
type Groups[T any] struct {
	join func(into, from *T) // adds a neighbour that comes behind
	size int                 // replications in a whole group
	list []T                 // whole groups
	rest T                   // the group that isn't whole yet,
	left int                 // of so many replications
}

// NewGroups makes an empty set. join adds one replication, or group, to another, which
// owns it then.
func NewGroups[T any](join func(into, from *T)) *Groups[T] {
	return &Groups[T]{join: join, size: 1}
}

// Add takes in one replication.
func (g *Groups[T]) Add(one T) {
	if g.left == 0 {
		g.rest = one
	} else {
		g.join(&g.rest, &one)
	}
	if g.left++; g.left < g.size {
		return
	}
	if len(g.list) == GroupsMax {
		g.halve()
		// What has just become whole is half of a group now.
		g.left = g.size / 2
		return
	}
	g.list = append(g.list, g.rest)
	g.clear()
}

// halve joins neighbours.
func (g *Groups[T]) halve() {
	for i := range GroupsMax / 2 {
		g.list[i] = g.list[2*i]
		g.join(&g.list[i], &g.list[2*i+1])
	}
	clear(g.list[GroupsMax/2:])
	g.list = g.list[:GroupsMax/2]
	g.size *= 2
}

func (g *Groups[T]) clear() {
	var none T
	g.rest, g.left = none, 0
}

// Close returns the groups. What is left at the end, too little for a group, is joined to
// the last. Nothing may be added afterwards.
func (g *Groups[T]) Close() []T {
	if g.left > 0 { // there are whole ones: the first replication is one
		g.join(&g.list[len(g.list)-1], &g.rest)
		g.clear()
	}
	return g.list
}

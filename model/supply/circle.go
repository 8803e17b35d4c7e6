// SPDX-License-Identifier: Apache-2.0

package supply

import "slices"

// circle is locations each of which orders from the next without delay, the first one again at the end; nil: there are
// none. Orders for different products count alike: a location reviews all its policies at once.
func (s *Spec) circle() []int {
	const (
		unseen = iota
		under
		done
	)
	seen := make([]uint8, len(s.Locations))
	type step struct{ at, next int } // next: the next of its points
	for from := range s.Locations {
		if seen[from] != unseen {
			continue
		}
		path := []step{{at: from}}
		seen[from] = under
		for len(path) > 0 {
			top := &path[len(path)-1]
			points := s.Locations[top.at].Points
			if top.next == len(points) {
				seen[top.at] = done
				path = path[:len(path)-1]
				continue
			}
			p := &points[top.next]
			top.next++
			if p.Made || p.Delay > 0 {
				continue
			}
			switch to := int(p.Supplier); seen[to] {
			case unseen:
				seen[to] = under
				path = append(path, step{at: to})
			case under:
				at := slices.IndexFunc(path, func(s step) bool { return s.at == to })
				var circle []int
				for _, s := range path[at:] {
					circle = append(circle, s.at)
				}
				return append(circle, to)
			}
		}
	}
	return nil
}

// stages gives each point its Stage, and reports whether there is any demand.
func (s *Spec) stages() bool {
	type place struct{ loc, point int32 }
	var now, next []place
	for i := range s.Locations {
		loc := &s.Locations[i]
		for k := range loc.Points {
			if loc.Points[k].Demand != nil {
				loc.Points[k].Stage = 0
				now = append(now, place{int32(i), int32(k)})
			}
		}
		for _, f := range loc.File {
			if p := &loc.Points[f.Point]; p.Stage == NoStage {
				p.Stage = 0
				now = append(now, place{int32(i), f.Point})
			}
		}
	}
	any := len(now) > 0
	for len(now) > 0 {
		next = next[:0]
		for _, at := range now {
			p := &s.Locations[at.loc].Points[at.point]
			if p.Made {
				continue
			}
			own := s.Locations[p.Supplier].Customers[p.Slot].Own
			if own < 0 {
				continue
			}
			if up := &s.Locations[p.Supplier].Points[own]; up.Stage == NoStage {
				up.Stage = p.Stage + 1
				next = append(next, place{p.Supplier, own})
			}
		}
		now, next = next, now
	}
	return any
}

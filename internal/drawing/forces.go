// SPDX-License-Identifier: Apache-2.0

package drawing

import "math"

// Bounds of the work of forces.
const (
	pivotsMax  = 12      // boxes from which the distances of all are taken
	powerSteps = 60      // for each of the two axes
	pairsMax   = 3 << 20 // of boxes that push each other, in all steps together
	stepsMax   = 150
	stepsLeast = 20
	reach      = 3.0 // beyond which boxes of a large part don't push each other
	allPush    = 300 // boxes up to which all push each other
)

// forces lays out a part by links that pull and boxes that push.
func (p *part) forces() {
	n := len(p.boxes)
	if n == 1 {
		return
	}
	p.start()
	steps := min(max(pairsMax/(n*min(n, 64)), stepsLeast), stepsMax)
	most := 0.15 * math.Sqrt(float64(n)) // that a box moves in the first step
	push := make([]point, n)
	for step := range steps {
		clear(push)
		if n <= allPush {
			for i := range n {
				for k := range i {
					p.push(push, int32(i), int32(k))
				}
			}
		} else {
			p.pushNear(push)
		}
		for i := range n {
			for _, to := range p.out[i] {
				dx, dy, d := p.between(int32(i), to)
				push[i].x, push[i].y = push[i].x-float64(dx*d), push[i].y-float64(dy*d)
				push[to].x, push[to].y = push[to].x+float64(dx*d), push[to].y+float64(dy*d)
			}
		}
		may := most*(1-float64(step)/float64(steps)) + 0.01
		for i, f := range push {
			size := math.Sqrt(float64(f.x*f.x) + float64(f.y*f.y))
			if size > 0 {
				by := min(size, may) / size
				p.at[i].x, p.at[i].y = p.at[i].x+float64(f.x*by), p.at[i].y+float64(f.y*by)
			}
		}
	}
}

// between is the way from box k to box i, and its length. Boxes at one place are taken to be a little apart.
func (p *part) between(i, k int32) (dx, dy, d float64) {
	dx, dy = p.at[i].x-p.at[k].x, p.at[i].y-p.at[k].y
	if d = math.Sqrt(float64(dx*dx) + float64(dy*dy)); d < 1e-3 {
		sin, cos := math.Sincos(float64(i-k) * golden)
		return 1e-3 * cos, 1e-3 * sin, 1e-3
	}
	return dx, dy, d
}

// golden is the angle whose multiples lie nowhere close together.
var golden = math.Pi * (3 - math.Sqrt(5))

func (p *part) push(push []point, i, k int32) {
	dx, dy, d := p.between(i, k)
	by := 1 / float64(d*d)
	push[i].x, push[i].y = push[i].x+float64(dx*by), push[i].y+float64(dy*by)
	push[k].x, push[k].y = push[k].x-float64(dx*by), push[k].y-float64(dy*by)
}

// pushNear has each box pushed by those of its cell and the cells around it, at most a number of each cell.
func (p *part) pushNear(push []point) {
	const most = 24
	type cell struct{ x, y int32 }
	of := func(q point) cell { return cell{int32(math.Floor(q.x / reach)), int32(math.Floor(q.y / reach))} }
	cells := map[cell][]int32{}
	for i, q := range p.at {
		at := of(q)
		cells[at] = append(cells[at], int32(i))
	}
	for i, q := range p.at {
		at := of(q)
		for x := int32(-1); x <= 1; x++ {
			for y := int32(-1); y <= 1; y++ {
				list := cells[cell{at.x + x, at.y + y}]
				skip := max(1, len(list)/most)
				by := float64(skip) // those that aren't looked at push as the others do
				for k := i % skip; k < len(list); k += skip {
					if list[k] == int32(i) {
						continue
					}
					if dx, dy, d := p.between(int32(i), list[k]); d < reach {
						push[i].x += float64(dx * by / float64(d*d))
						push[i].y += float64(dy * by / float64(d*d))
					}
				}
			}
		}
	}
}

// start puts boxes so that distances in the plane are about those along links: the plane of the two widest axes of the
// distances to some boxes, each of which is the farthest from those before it.
func (p *part) start() {
	n := len(p.boxes)
	k := min(n, pivotsMax)
	columns, nearest, pivot := make([][]float64, k), make([]int, n), 0
	for i := range nearest {
		nearest[i] = math.MaxInt
	}
	rows, all := make([]float64, n), 0.0
	for c := range columns {
		d := p.distances(pivot)
		columns[c] = make([]float64, n)
		mean := 0.0
		for i, x := range d {
			columns[c][i] = float64(x * x)
			mean += columns[c][i] / float64(n)
			if nearest[i] = min(nearest[i], x); nearest[i] > nearest[pivot] {
				pivot = i
			}
		}
		all += mean / float64(k)
		for i := range d {
			rows[i] += columns[c][i] / float64(k)
			columns[c][i] -= mean
		}
	}
	for c := range columns {
		for i := range columns[c] {
			columns[c][i] = (columns[c][i] - rows[i] + all) / -2
		}
	}
	x := axis(columns, nil)
	y := axis(columns, x)
	scale := 0.0
	for i := range p.at {
		p.at[i] = point{along(columns, x, i), along(columns, y, i)}
		scale = max(scale, math.Abs(p.at[i].x), math.Abs(p.at[i].y))
	}
	// As wide as so many boxes need, and none on another.
	wide, few := math.Sqrt(float64(n)), float64(0.3)
	for i := range p.at {
		sin, cos := math.Sincos(float64(i) * golden)
		r := few * math.Sqrt(float64(i))
		q := point{float64(r * cos), float64(r * sin)}
		if scale > 0 {
			q.x, q.y = q.x*0.3+p.at[i].x/scale*wide, q.y*0.3+p.at[i].y/scale*wide
		}
		p.at[i] = q
	}
}

// distances are the numbers of links from a box to each.
func (p *part) distances(from int) []int {
	d := make([]int, len(p.boxes))
	for i := range d {
		d[i] = -1
	}
	d[from] = 0
	next := []int32{int32(from)}
	for i := 0; i < len(next); i++ {
		for _, list := range [][]int32{p.out[next[i]], p.in[next[i]]} {
			for _, to := range list {
				if d[to] < 0 {
					d[to] = d[next[i]] + 1
					next = append(next, to)
				}
			}
		}
	}
	return d
}

// axis is the direction in which rows differ most, by the power method; at right angles to another one.
func axis(columns [][]float64, other []float64) []float64 {
	k := len(columns)
	square := make([][]float64, k)
	for a := range k {
		square[a] = make([]float64, k)
		for b := range k {
			for i := range columns[a] {
				square[a][b] += float64(columns[a][i] * columns[b][i])
			}
		}
	}
	v, w := make([]float64, k), make([]float64, k)
	for a := range v {
		v[a] = 1 + float64(a)/float64(k)
		if other != nil && a%2 == 1 {
			v[a] = -v[a]
		}
	}
	for range powerSteps {
		if other != nil {
			dot := 0.0
			for a := range v {
				dot += float64(v[a] * other[a])
			}
			for a := range v {
				v[a] -= float64(dot * other[a])
			}
		}
		size := 0.0
		for a := range w {
			w[a] = 0
			for b := range v {
				w[a] += float64(square[a][b] * v[b])
			}
			size += float64(w[a] * w[a])
		}
		if size = math.Sqrt(size); !(size > 1e-12) {
			return v
		}
		for a := range v {
			v[a] = w[a] / size
		}
	}
	return v
}

// along is where row i lies on an axis.
func along(columns [][]float64, axis []float64, i int) (x float64) {
	for c := range columns {
		x += float64(columns[c][i] * axis[c])
	}
	return x
}

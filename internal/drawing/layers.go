// SPDX-License-Identifier: Apache-2.0

package drawing

import (
	"cmp"
	"math"
	"slices"
)

// Shapes of layouts in layers, in the distance of two boxes that stand one above the other.
const (
	layerGap   = 2.2 // from layer to layer: names stand between them
	columnGap  = 1.0 // between the columns of a layer that has several
	rowsLeast  = 12  // a layer that has more boxes than this, and than the root of all, has several columns
	orderSteps = 8   // walks over all layers, for their order
)

// layers lays out a part from left to right; false: it would be a long line, and nothing was done.
func (p *part) layers() bool {
	level := p.levels()
	var layers [][]int32
	for i, l := range level {
		for len(layers) <= l {
			layers = append(layers, nil)
		}
		layers[l] = append(layers[l], int32(i))
	}
	if float64(len(layers)) > 20+2*math.Sqrt(float64(len(p.boxes))) {
		return false
	}
	p.order(layers, level)
	most := 0
	rows := max(rowsLeast, int(math.Ceil(math.Sqrt(float64(len(p.boxes))))))
	for _, list := range layers {
		most = max(most, min(len(list), rows))
	}
	x := 0.0
	for _, list := range layers {
		columns := (len(list) + rows - 1) / rows
		each := (len(list) + columns - 1) / columns
		for i, b := range list {
			p.at[b] = point{x + float64(columnGap*float64(i/each)),
				(float64(i%each) + 0.5) * float64(most) / float64(each)}
		}
		x += columnGap*float64(columns-1) + layerGap*max(1, float64(columns)/8)
	}
	return true
}

// levels are the layers of boxes: the number of links of the longest way to each, without the links that lead back. A
// box that nothing leads to stands just before the first that it leads to.
func (p *part) levels() []int {
	n := len(p.boxes)
	back := p.leadBack()
	level, before, next := make([]int, n), make([]int, n), []int32{}
	for b := range n {
		for k, to := range p.out[b] {
			if !back[b][k] {
				before[to]++
			}
		}
	}
	start := []int32{}
	for b := range n {
		if before[b] == 0 {
			next = append(next, int32(b))
		}
	}
	start = append(start, next...)
	for i := 0; i < len(next); i++ {
		b := next[i]
		for k, to := range p.out[b] {
			if back[b][k] {
				continue
			}
			level[to] = max(level[to], level[b]+1)
			if before[to]--; before[to] == 0 {
				next = append(next, to)
			}
		}
	}
	for _, b := range start {
		first := math.MaxInt
		for k, to := range p.out[b] {
			if !back[b][k] {
				first = min(first, level[to])
			}
		}
		if first != math.MaxInt {
			level[b] = first - 1
		}
	}
	return level
}

// leadBack says of the links which close a cycle, when all are followed from where nothing leads to, and from the first
// boxes then.
func (p *part) leadBack() [][]bool {
	n := len(p.boxes)
	back := make([][]bool, n)
	for b := range n {
		back[b] = make([]bool, len(p.out[b]))
	}
	const open, done = 1, 2
	state, at := make([]int8, n), make([]int, n)
	follow := func(first int) {
		stack := []int32{int32(first)}
		state[first] = open
		for len(stack) > 0 {
			b := stack[len(stack)-1]
			if at[b] == len(p.out[b]) {
				state[b] = done
				stack = stack[:len(stack)-1]
				continue
			}
			k := at[b]
			at[b]++
			switch to := p.out[b][k]; state[to] {
			case open:
				back[b][k] = true
			case 0:
				state[to] = open
				stack = append(stack, to)
			}
		}
	}
	for _, all := range []bool{false, true} {
		for b := range n {
			if state[b] == 0 && (all || len(p.in[b]) == 0) {
				follow(b)
			}
		}
	}
	return back
}

// order orders the boxes of each layer so that few links cross: by the mean place of the neighbours in layers before
// it, then of those behind it, and so on.
func (p *part) order(layers [][]int32, level []int) {
	place, mean := make([]float64, len(p.boxes)), make([]float64, len(p.boxes))
	set := func(list []int32) {
		for i, b := range list {
			place[b] = (float64(i) + 0.5) / float64(len(list))
		}
	}
	for _, list := range layers {
		set(list)
	}
	for step := range orderSteps {
		for i := range layers {
			l, forth := i, step%2 == 0
			if !forth {
				l = len(layers) - 1 - i
			}
			for _, b := range layers[l] {
				sum, count := 0.0, 0
				for _, list := range [][]int32{p.in[b], p.out[b]} {
					for _, to := range list {
						if level[to] != l && level[to] < l == forth {
							sum, count = sum+place[to], count+1
						}
					}
				}
				if mean[b] = place[b]; count > 0 {
					mean[b] = sum / float64(count)
				}
			}
			slices.SortStableFunc(layers[l], func(a, b int32) int { return cmp.Compare(mean[a], mean[b]) })
			set(layers[l])
		}
	}
}

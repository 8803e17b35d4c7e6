package node

// The class's heap: a 4-ary heap of slots, one for every simproc of the class that
// has something pending. pos holds the place of each, -1 for none, so that an earlier
// event moves its target up without a search; it stands apart from the simprocs because
// a sift writes to it all the time. Together with the EventQueues this is
// the pending-event set; docs/pending-set.md says why it has this form.

func (a *slot) before(b *slot) bool {
	if a.epoch != b.epoch {
		return a.epoch < b.epoch
	}
	return a.order < b.order
}

// add puts a simproc that has nothing in the heap into it.
func (c *class) add(pos []int32, s slot) {
	c.heap = append(c.heap, s)
	c.up(pos, len(c.heap)-1, s)
}

// lower tells that p's first entry is now at epoch, earlier than before or the first
// of all.
func (c *class) lower(pos []int32, p *Simproc, epoch float64) {
	s := slot{epoch, p.order, p.local}
	if i := pos[p.local]; i >= 0 {
		c.up(pos, int(i), s)
	} else {
		c.add(pos, s)
	}
}

func (c *class) up(pos []int32, i int, s slot) {
	h := c.heap
	for i > 0 {
		parent := (i - 1) >> 2
		if !s.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		pos[h[i].proc] = int32(i)
		i = parent
	}
	h[i] = s
	pos[s.proc] = int32(i)
}

// replaceFirst gives the first simproc its next epoch.
func (c *class) replaceFirst(pos []int32, epoch float64) {
	s := c.heap[0]
	s.epoch = epoch
	c.down(pos, s)
}

// dropFirst takes the first simproc out of the heap.
func (c *class) dropFirst(pos []int32) {
	n := len(c.heap) - 1
	pos[c.heap[0].proc] = -1
	last := c.heap[n]
	c.heap = c.heap[:n]
	if n > 0 {
		c.down(pos, last)
	}
}

// down lets s sink from the root.
func (c *class) down(pos []int32, s slot) {
	h := c.heap
	n := len(h)
	i := 0
	for {
		k := i<<2 + 1
		if k >= n {
			break
		}
		least := k
		for j, end := k+1, min(k+4, n); j < end; j++ {
			if h[j].before(&h[least]) {
				least = j
			}
		}
		if !h[least].before(&s) {
			break
		}
		h[i] = h[least]
		pos[h[i].proc] = int32(i)
		i = least
	}
	h[i] = s
	pos[s.proc] = int32(i)
}

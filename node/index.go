package node

// The class's heap: a 4-ary heap of slots, one for every simproc of the class that
// has something pending. Simprocs know their place through pos, so that an earlier
// event moves its target up without a search. Together with the EventQueues this is
// the pending-event set; docs/pending-set.md says why it has this form.

func (a *slot) before(b *slot) bool {
	if a.epoch != b.epoch {
		return a.epoch < b.epoch
	}
	return a.order < b.order
}

// add puts a simproc that has nothing in the heap into it.
func (c *class) add(procs []Simproc, s slot) {
	c.heap = append(c.heap, s)
	c.up(procs, len(c.heap)-1, s)
}

// lower tells that p's first entry is now at epoch, earlier than before or the first
// of all.
func (c *class) lower(procs []Simproc, p *Simproc, epoch float64) {
	s := slot{epoch, p.order, p.local}
	if p.pos < 0 {
		c.add(procs, s)
		return
	}
	c.up(procs, int(p.pos), s)
}

func (c *class) up(procs []Simproc, i int, s slot) {
	h := c.heap
	for i > 0 {
		parent := (i - 1) >> 2
		if !s.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		procs[h[i].proc].pos = int32(i)
		i = parent
	}
	h[i] = s
	procs[s.proc].pos = int32(i)
}

// replaceFirst gives the first simproc its next epoch.
func (c *class) replaceFirst(procs []Simproc, epoch float64) {
	s := c.heap[0]
	s.epoch = epoch
	c.down(procs, s)
}

// dropFirst takes the first simproc out of the heap.
func (c *class) dropFirst(procs []Simproc) {
	n := len(c.heap) - 1
	procs[c.heap[0].proc].pos = -1
	last := c.heap[n]
	c.heap = c.heap[:n]
	if n > 0 {
		c.down(procs, last)
	}
}

// down lets s sink from the root.
func (c *class) down(procs []Simproc, s slot) {
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
		procs[h[i].proc].pos = int32(i)
		i = least
	}
	h[i] = s
	procs[s.proc].pos = int32(i)
}

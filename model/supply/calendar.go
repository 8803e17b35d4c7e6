// SPDX-License-Identifier: Apache-2.0

package supply

import "math"

// Calendar says when a location orders, or a line works: in windows of a cycle that repeats itself.
type Calendar struct {
	Cycle   float64
	Windows []Window // rising, apart from each other, within the cycle; at least one
}

// Window is the time from From on, before Until.
type Window struct{ From, Until float64 }

// split is where the cycle of an instant begins, and the instant's place in it.
func (c *Calendar) split(t float64) (base, at float64) {
	base = math.Floor(t/c.Cycle) * c.Cycle
	return base, min(max(t-base, 0), c.Cycle)
}

// next is the first instant from t on that is in a window; t itself for a nil Calendar.
func (c *Calendar) next(t float64) float64 {
	if c == nil {
		return t
	}
	base, at := c.split(t)
	for _, w := range c.Windows {
		if at < w.Until {
			return max(t, base+w.From)
		}
	}
	return max(t, base+c.Cycle+c.Windows[0].From)
}

// open is how much of a cycle is in windows.
func (c *Calendar) open() float64 {
	sum := 0.0
	for _, w := range c.Windows {
		sum += w.Until - w.From
	}
	return sum
}

// before is how much of the time before t is in windows.
func (c *Calendar) before(t float64) float64 {
	base, at := c.split(t)
	sum := math.Round(base/c.Cycle) * c.open()
	for _, w := range c.Windows {
		sum += max(0, min(at, w.Until)-w.From)
	}
	return sum
}

// between is how much of the time from a to b is in windows: all of it for a nil Calendar.
func (c *Calendar) between(a, b float64) float64 {
	if c == nil {
		return max(0, b-a)
	}
	return max(0, c.before(b)-c.before(a))
}

// work is when so many seconds of work are done that begin at t, or as soon after it as there is a window.
func (c *Calendar) work(t, seconds float64) float64 {
	if c == nil {
		return t + seconds
	}
	t = c.next(t)
	base, at := c.split(t)
	for _, w := range c.Windows {
		if from := max(at, w.From); from < w.Until {
			if seconds <= w.Until-from {
				return max(t, base+from+seconds)
			}
			seconds -= w.Until - from
		}
	}
	// Whole cycles, but for the last, which ends in a window.
	open := c.open()
	whole := max(0, math.Ceil(seconds/open)-1)
	seconds = max(0, seconds-whole*open)
	base += (1 + whole) * c.Cycle
	for _, w := range c.Windows {
		if seconds <= w.Until-w.From {
			return base + w.From + seconds
		}
		seconds -= w.Until - w.From
	}
	return base + c.Windows[len(c.Windows)-1].Until
}

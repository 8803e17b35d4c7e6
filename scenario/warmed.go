// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"math"
)

// Warmed is a Scenario whose results leave out what happens before a simulated time.
type Warmed interface {
	// Warmup is that time in seconds.
	Warmup() float64
}

// Settler is a Scenario whose file may leave the warm-up to a look at a replication (docs/warmup.md).
type Settler interface {
	Warmed

	// Settles reports whether it does. Then Warmup is 0, and the Summary is a Serial.
	Settles() bool

	// Course reports whether a series of the Summary tells how long the model takes to forget how it began.
	Course(s *Series) bool
}

// WarmupField is the name of the field that Warmup reads, and WarmupAuto what stands there for a Settler that settles.
const (
	WarmupField = "warmup"
	WarmupAuto  = "auto"
)

// Warmup reads the field warmup of a file: seconds below the horizon, as the file has it, which isn't known to be good,
// or auto, which is 0 and true. One that the file leaves out is a share of the horizon. With another horizon
// (opt.Horizon) it changes in proportion where it was left out, or would fill the run; one that was set beside the file
// (Document.Sets) is kept or refused.
func Warmup(root Section, doc *Document, opt Options, horizon, share float64) (seconds float64, auto bool) {
	v := root.Field(WarmupField)
	v.askedWord([]string{WarmupAuto})
	v.asked(ask{form: formNumber, rng: AtLeast(0)})
	if v.IsText() && follow(v.node).Value == WarmupAuto {
		return 0, true
	}
	left := !v.Present()
	if seconds = share * horizon; !left {
		rng := AtLeast(0)
		seconds, _ = v.number(rng, rng.String()+" of simulated seconds, or "+WarmupAuto)
	}
	end := horizon
	if opt.Horizon > 0 && doc.Sets(WarmupField) {
		end = opt.Horizon
	}
	if end > 0 && seconds >= end {
		v.Refuse(fmt.Sprintf("a warm-up of %g s of a run of %g s", seconds, end),
			"a warm-up that ends before the horizon", "")
		return 0, false
	}
	if opt.Horizon > 0 && horizon > 0 && (left || seconds >= opt.Horizon) {
		seconds = math.Min(seconds*(opt.Horizon/horizon), math.Nextafter(opt.Horizon, 0))
	}
	return seconds, false
}

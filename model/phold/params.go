// SPDX-License-Identifier: Apache-2.0

package phold

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/scenario"
)

// KindName is what a file's `model:` has for PHOLD.
const KindName = "phold"

// Generators of random numbers.
const (
	Default = "default" // disco's own, from the run's seed
	CLCG4   = "clcg4"   // ROSS's, with its own fixed start: the seed has no effect
)

// Params are the parameters of PHOLD, in the words of the file and of the command
// line's flags.
type Params struct {
	LPs       int     // logical processes, 1 to LPsMax
	Events    int     // that each of them starts with, 0 to EventsMax
	Idle      float64 // share of them that start without events and wait for one, 0 to 1
	Remote    float64 // probability that an event goes to a process drawn from all, 0 to 1
	Lookahead float64 // least time between an event and the one that it makes, seconds, > 0 and <= 1
	End       float64 // simulated seconds; events at or after it are not handled
	RNG       string  // Default or CLCG4
	Payload   int     // bytes of every event, 0 to PayloadMax
	Work      int     // steps of calculation that a handler makes for each event, 0 to WorkMax
	Hot       float64 // share of the processes that are in the hot spot, 0 to 1
	Heat      int     // steps for each event there instead, 0 to WorkMax
	Wander    float64 // simulated seconds in which the hot spot goes round over all processes, > 0; 0: it stays

	Series bool // time series are recorded; scenario.Options say it, not the file
}

// Limits of the parameters.
const (
	LPsMax     = 1 << 24
	EventsMax  = 1 << 20
	PendingMax = 1 << 30 // LPs × Events
	PayloadMax = 1 << 20
	WorkMax    = 1e9
	endMax     = 1e9
)

// fields of the file, in the order in which YAML writes them.
var fields = []string{"lps", "events", "idle", "remote", "lookahead", "end", "rng", "payload", "work", "hot",
	"heat", "wander"}

// Defaults are the parameters of a file that says nothing: those for which the speeds
// of other simulators are known.
func Defaults() Params {
	return Params{LPs: 1024, Events: 16, Remote: 0.1, Lookahead: 0.1, End: 200, RNG: Default}
}

// YAML is the file that means these parameters, whether or not they are allowed: Load
// of it says what is wrong with them, field by field. It is how a program makes a
// scenario.
func (p Params) YAML() []byte {
	var b strings.Builder
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	fmt.Fprintf(&b, "model: %s\nlps: %d\nevents: %d\nidle: %s\nremote: %s\nlookahead: %s\nend: %s\n"+
		"rng: %s\npayload: %d\nwork: %d\nhot: %s\nheat: %d\nwander: %s\n", KindName, p.LPs, p.Events, number(p.Idle),
		number(p.Remote), number(p.Lookahead), number(p.End), strconv.Quote(p.RNG), p.Payload, p.Work, number(p.Hot),
		p.Heat, number(p.Wander))
	return []byte(b.String())
}

// starts tells whether a process starts with events: those that don't are spread evenly over all.
func (p Params) starts(lp int) bool {
	return math.Floor(float64(lp+1)*p.Idle) == math.Floor(float64(lp)*p.Idle)
}

// started is how many do.
func (p Params) started() int { return p.LPs - int(math.Floor(float64(p.LPs)*p.Idle)) }

// Load reads the parameters from a file. The error is a scenario.Problems where the
// file is at fault.
func Load(doc *scenario.Document, opt scenario.Options) (Params, error) {
	if err := opt.AtMost(endMax); err != nil {
		return Params{}, err
	}
	r := scenario.NewReader(doc)
	root := r.Root(fields...)
	root.Field("model").WordOr(KindName, KindName)
	d := Defaults()
	p := Params{
		LPs:       root.Field("lps").IntOr(d.LPs, scenario.Between(1, LPsMax)),
		Events:    root.Field("events").IntOr(d.Events, scenario.Between(0, EventsMax)),
		Idle:      root.Field("idle").FloatOr(d.Idle, scenario.Between(0, 1)),
		Remote:    root.Field("remote").FloatOr(d.Remote, scenario.Between(0, 1)),
		Lookahead: root.Field("lookahead").FloatOr(d.Lookahead, scenario.MoreThan(0).AtMost(1)),
		End:       root.Field("end").FloatOr(d.End, scenario.MoreThan(0).AtMost(endMax)),
		RNG:       root.Field("rng").WordOr(d.RNG, Default, CLCG4),
		Payload:   root.Field("payload").IntOr(d.Payload, scenario.Between(0, PayloadMax)),
		Work:      root.Field("work").IntOr(d.Work, scenario.Between(0, WorkMax)),
		Hot:       root.Field("hot").FloatOr(d.Hot, scenario.Between(0, 1)),
		Heat:      root.Field("heat").IntOr(d.Heat, scenario.Between(0, WorkMax)),
		Wander:    root.Field("wander").FloatOr(d.Wander, scenario.Between(0, endMax)),
	}
	if p.LPs*p.Events > PendingMax {
		root.Field("events").Refuse(fmt.Sprintf("%d logical processes × %d events, which is %d", p.LPs, p.Events,
			p.LPs*p.Events),
			fmt.Sprintf("at most %d events in all", PendingMax), "")
	}
	if err := r.Err(); err != nil {
		return Params{}, err
	}
	if opt.Horizon > 0 {
		p.End = opt.Horizon
	}
	p.Series = opt.Series
	return p, nil
}

// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/internal/circuit"
)

// vitalsAtLeast is how often vitals are written of which nothing has changed.
const vitalsAtLeast = 10 * time.Second

// sendVitals writes the agent's vitals until Close: soon where something has changed.
func (a *Agent) sendVitals() {
	vital, ok := a.o.Executor.(executor.Vital)
	if !ok {
		a.sendNone()
		return
	}
	var last fleet.Vitals
	var written, due time.Time
	said := ""
	timer := time.NewTimer(rand.N(a.o.Vitals) + a.o.Vitals/2)
	defer timer.Stop()
	for {
		var told chan struct{}
		select {
		case <-timer.C:
		case told = <-a.vitalsNow:
			due = time.Time{}
		case <-a.closed.Done():
			return
		}
		v := fleet.Vitals{Number: last.Number + 1}
		if !due.IsZero() {
			v.Lag = max(0, time.Since(due)).Truncate(a.o.Vitals / 4)
		}
		vital.Vitals(&v)
		a.fill(&v)
		for _, x := range []*float64{&v.Processors, &v.Memory, &v.Disk} {
			*x = math.Round(*x*100) / 100
		}
		if !same(&v, &last) || time.Since(written) >= vitalsAtLeast {
			err := a.putVitals(v)
			switch {
			case err == nil:
				last, written, said = v, time.Now(), ""
			case a.closed.Err() == nil && said == "": // once, until they can be written again
				said = err.Error()
				a.o.Report(fmt.Errorf("the vitals of %s can't be written: %w", a.o.Member, err))
			}
		}
		if told != nil {
			close(told)
		}
		timer.Reset(a.o.Vitals)
		due = time.Now().Add(a.o.Vitals)
	}
}

// sendNone answers who wants vitals written, of an executor that has none.
func (a *Agent) sendNone() {
	for {
		select {
		case told := <-a.vitalsNow:
			close(told)
		case <-a.closed.Done():
			return
		}
	}
}

// vitalsMost is how long a writing of vitals may take.
const vitalsMost = 5 * time.Second

func (a *Agent) putVitals(v fleet.Vitals) error {
	ctx, cancel := context.WithTimeout(a.closed, vitalsMost)
	defer cancel()
	return a.o.Store.PutVitals(ctx, a.o.Member, v)
}

// same tells whether vitals say the same, but for how busy the processors are.
func same(a, b *fleet.Vitals) bool {
	return a.Memory == b.Memory && a.Disk == b.Disk && a.Lag == b.Lag && a.Refuses == b.Refuses && a.Trial == b.Trial &&
		a.Lacks == b.Lacks && a.Store == b.Store && maps.Equal(a.Away, b.Away) &&
		maps.Equal(a.Far, b.Far) && maps.Equal(a.Rates, b.Rates) && maps.Equal(a.Unreachable, b.Unreachable)
}

// troubleKept is for how long the store's trouble is told.
const troubleKept = time.Minute

// fill adds what the agent knows itself.
func (a *Agent) fill(v *fleet.Vitals) {
	why, trial := a.starts.Refusal(time.Now())
	v.Trial = trial
	if a.o.Trouble != nil {
		if why := a.o.Trouble(); why != nil {
			a.trouble, a.troubleAt = oneLine(circuit.Why(why).Error()), time.Now()
		}
		if time.Since(a.troubleAt) < troubleKept {
			v.Store = a.trouble // when it can be written again it is over
		}
	}
	if open := (*circuit.OpenError)(nil); errors.As(why, &open) {
		v.Refuses = oneLine(open.Why.Error())
	}
	a.ways.fill(v)
}

// oneLine makes a text one line.
func oneLine(text string) string { return short(fleet.Line(text)) }

// started notes what a start has come to, once for each attempt.
func (w *work) started(r circuit.Result, why error) {
	w.startedOnce.Do(func() { w.a.starts.Done(time.Now(), w.start, r, why) })
}

// judge notes whether a run that has ended had been started: it hadn't where it has done nothing, by this machine's
// fault.
func (w *work) judge(run executor.Run) {
	out, p := run.Outcome(), run.Progress()
	e := out.Error
	switch {
	case e == nil || e.Type != fleet.ErrorMachine || p.Events > 0 || p.Now > 0:
		w.started(circuit.Succeeded, nil)
	case len(w.job.Machines) > 0 && e.Where != w.a.o.Member, out.Behind != "",
		out.Own:
		// Nobody knows whose fault it is, or it is that of another one, or of a part, or the experiment's own: one bad
		// submission keeps no machine from what others have submitted.
		w.started(circuit.Neither, nil)
	default:
		w.started(circuit.HasFailed, errors.New(e.Message))
	}
}

// digits is a figure without what measurements don't know.
func digits(x float64) float64 {
	short, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 2, 64), 64) // what was formatted can be parsed
	return short
}

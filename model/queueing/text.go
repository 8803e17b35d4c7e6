// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/model/overview"
)

// rowsMax bounds a table of the text: a page for people. The JSON has all.
const rowsMax = 120

// WriteText writes the results for people.
func (r *Results) WriteText(w io.Writer) error { return overview.WriteTables(w, r.tables()) }

// tables are all that there is to show, in the order of tableNames.
func (r *Results) tables() []overview.Table {
	return []overview.Table{{Name: "stations", Write: r.writeStations}}
}

func (r *Results) writeStations(b *bufio.Writer) {
	fmt.Fprintf(b, "queueing network %s: %s of %s, the first %s not counted", r.spec.Name,
		table.Plural(r.Replications, "replication"), table.Seconds(r.HorizonSeconds), table.Seconds(r.WarmupSeconds))
	if r.Interrupted {
		b.WriteString(", INTERRUPTED")
	}
	fmt.Fprintf(b, "\nthe truth lies between from and to with a probability of %s\n", table.Percent(r.Confidence))
	t := table.New(rowsMax, "", "theory", "observed", "from", "to", "")
	for i := range r.spec.Stations {
		r.writeStation(t, &r.spec.Stations[i])
	}
	t.Row("network")
	row(t, "throughput", "/s", r.Network.Throughput)
	row(t, "customers", "", r.Network.InNetwork)
	row(t, "time in the network", " s", r.Network.TimeInNetwork)
	t.Write(b)
	if short := r.tooShort(); short != "" {
		fmt.Fprintln(b, short)
	}
	for i := range r.spec.Stations {
		id := r.spec.Stations[i].ID
		if why := r.Stations[id].NoTheory; why != "" && i < rowsMax {
			fmt.Fprintf(b, "%s: no theory: %s\n", id, why)
		}
	}
}

// tooShort says why there are no intervals, and what gives some; "" where there are.
func (r *Results) tooShort() string {
	switch {
	case math.IsInf(r.needed, 1):
		return fmt.Sprintf("Too short for intervals: a queue grows for ever; use %d replications.", replicationsEnough)
	case r.needed > 0:
		return fmt.Sprintf("Too short for intervals: simulate %s after the warm-up (all replications added), or use "+
			"%d replications.", table.Seconds(math.Ceil(r.needed)), replicationsEnough)
	}
	return ""
}

func (r *Results) writeStation(t *table.Table, st *Station) {
	s := r.Stations[st.ID]
	t.Row(st.ID + " (" + s.Model + ")")
	row(t, "arrivals", "/s", s.ArrivalRate)
	row(t, "throughput", "/s", s.Throughput)
	row(t, "utilisation", "", s.Utilisation)
	row(t, "probability of waiting", "", s.WaitProbability)
	if st.Buffer != Unlimited {
		row(t, "probability of no place", "", s.Blocking)
	}
	row(t, "customers", "", s.InSystem)
	row(t, "waiting", "", s.InQueue)
	row(t, "time", " s", s.TimeInSystem)
	row(t, "time waiting", " s", s.TimeInQueue)
}

// row writes one measure; a theory outside the interval is marked.
func row(t *table.Table, name, unit string, m Measure) {
	theory, observed, low, high, mark := "-", "-", "-", "-", ""
	step := 0.0
	if o := m.Observed; o != nil {
		low = "too short"
		if o.Known() {
			step = o.Width()
			low, high = digits(o.Low, step, 4), digits(o.High, step, 4)
		}
		observed = digits(o.Mean, step, 6) + unit
	}
	if m.Theory != nil {
		theory = digits(*m.Theory, step, 6) + unit
	}
	if m.Within != nil && !*m.Within {
		mark = "outside"
	}
	t.Row("  "+name, theory, observed, low, high, mark)
}

// digits writes so many of them, or more where it takes more to see a step, the width of
// an interval: theory and observation are compared by eye.
func digits(x, step float64, least int) string {
	return strconv.FormatFloat(x, 'g', table.Significant(x, step, least), 64)
}

// SPDX-License-Identifier: Apache-2.0

package dist

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/disco-sim/disco/scenario"
)

// SamplesBytesMax bounds a file of samples.
const SamplesBytesMax = 64 << 20

// readLists reads the kinds that take lists or a file.
func readLists(v scenario.Value, name string) Dist {
	own := map[string][]string{
		"discrete":  {"distribution", "values", "weights"},
		"empirical": {"distribution", "samples", "file", "column"},
		"linear":    {"distribution", "values", "sums"},
	}[name]
	refused := refusals(v)
	s := open(v, own)
	var d Dist
	var wrong *listFault
	var at []scenario.Value
	switch name {
	case "discrete":
		values := readList(s.Field("values"))
		weights := make([]float64, len(values))
		for i := range weights {
			weights[i] = 1
		}
		if at = []scenario.Value{s.Field("values"), s.Field("weights")}; at[1].Present() {
			weights = readList(at[1])
		}
		if !refused() {
			d, wrong = discrete(values, weights)
		}
	case "linear":
		at = []scenario.Value{s.Field("values"), s.Field("sums")}
		values, sums := readList(at[0]), readList(at[1])
		if !refused() {
			d, wrong = linear(values, sums)
		}
	case "empirical":
		at = []scenario.Value{s.Field("samples")}
		var samples []float64
		if file := s.Field("file"); file.Present() && !at[0].Present() {
			at[0] = file
			if column := s.Field("column").IntOr(1, scenario.Between(1, 1000)); !refused() {
				samples = readSamples(file, column)
			}
		} else {
			for _, name := range []string{"file", "column"} {
				if v := s.Field(name); v.Present() {
					v.Refuse("samples from two places", "samples, or file and perhaps column", "")
				}
			}
			samples = readList(at[0])
		}
		if !refused() {
			d, wrong = empirical(samples)
		}
	}
	if wrong != nil {
		field := at[wrong.list]
		if wrong.index >= 0 && field.IsList() {
			field = field.List()[wrong.index]
		}
		field.Refuse(wrong.found, wrong.want, "")
		return Dist{}
	}
	if refused() {
		return Dist{}
	}
	return change(s, own, d)
}

func readList(v scenario.Value) []float64 {
	items := v.List()
	all := make([]float64, len(items))
	for i, item := range items {
		all[i] = item.Float(anyRange)
	}
	return all
}

// readSamples reads a column of an attached file of comma-separated values. A first line without a number in it is a
// heading; empty lines count as nothing.
func readSamples(v scenario.Value, column int) (samples []float64) {
	path, text := v.File()
	if path == "" {
		return nil
	}
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord, r.ReuseRecord, r.TrimLeadingSpace = -1, true, true
	want := fmt.Sprintf("a number in column %d of each line", column)
	for first := true; ; first = false {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			v.Refuse(fmt.Sprintf("%s: %v", path, err), want, "")
			return nil
		}
		line, _ := r.FieldPos(0)
		cell := ""
		if column <= len(record) {
			cell = strings.TrimSpace(record[column-1])
		}
		x, ok := plainNumber(cell)
		switch {
		case ok && anyRange.Holds(x):
			samples = append(samples, x)
		case !first:
			v.Refuse(fmt.Sprintf("%q in line %d of %s", short(cell), line, path), want, "")
			return nil
		}
	}
	if len(samples) == 0 {
		v.Refuse("no numbers in "+path, want, "")
	}
	return samples
}

// References lists the file that a distribution refers to, for a scenario.Kind's References. v is of a reader of its
// own: nothing is refused that anybody sees.
func References(v scenario.Value) (all []scenario.Reference) {
	if !v.IsMapping() {
		return nil
	}
	for _, e := range v.Entries() {
		if e.Name == "file" && e.Value.IsText() {
			all = append(all, scenario.Reference{Name: e.Value.Text(), What: "numbers, one a line or in a column of " +
				"comma-separated values", BytesMax: SamplesBytesMax})
		}
	}
	return all
}

// ReadRate reads a rate, which gets the field's path as its name: a number, which is constant, in arrivals a second; a
// list of {from: 0, rate: 5}; or a mapping with rates, such a list, and period in seconds.
func ReadRate(v scenario.Value) Rate {
	want := scenario.MoreThan(0).AtMost(rateMax).Or("rates, such as [{from: 0, rate: 5}, {from: 3600, rate: 8}] or " +
		"{rates: […], period: 86400}")
	list, period, at := v, 0.0, v
	refused := refusals(v)
	switch {
	case v.IsMapping():
		s := v.Section("rates", "period")
		list, at = s.Field("rates"), s.Field("period")
		period = at.FloatOr(0, scenario.MoreThan(0).AtMost(epochMax))
	case !v.IsList():
		if x, ok := readNumber(v, want); ok {
			return ConstantRate(x).Named(v.Path())
		}
		return Rate{}
	}
	var all []Step
	items := list.List()
	for _, item := range items {
		s := item.Section("from", "rate")
		all = append(all, Step{s.Field("from").Float(scenario.Between(0, epochMax)),
			s.Field("rate").Float(scenario.Between(0, rateMax))})
	}
	if refused() {
		return Rate{}
	}
	r, wrong := rates(period, all)
	if wrong != nil {
		switch {
		case wrong.list == 1:
			at.Refuse(wrong.found, wrong.want, "")
		case wrong.index >= 0:
			items[wrong.index].Refuse(wrong.found, wrong.want, "")
		default:
			list.Refuse(wrong.found, wrong.want, "")
		}
		return Rate{}
	}
	return r.Named(v.Path())
}

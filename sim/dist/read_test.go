// SPDX-License-Identifier: Apache-2.0

package dist

import (
	"math"
	"strings"
	"testing"

	"github.com/disco-sim/disco/scenario"
)

// read reads a field x of a file, with a file times.csv attached.
func read(t testing.TB, text string) (Dist, string) {
	t.Helper()
	doc, err := scenario.Parse("a.yml", []byte(text))
	if err != nil {
		t.Skip(err)
	}
	doc = doc.Attach([]scenario.Attachment{{Name: "times.csv", Text: []byte("id,time\n1, 2.5\n\n2, 0.5\n3, 1\n")},
		{Name: "bad.csv", Text: []byte("1\n2\nx\n")}, {Name: "none.csv", Text: []byte("a\n")}})
	r := scenario.NewReader(doc)
	d := Read(r.Root("x").Field("x"))
	if err := r.Err(); err != nil {
		return d, err.Error()
	}
	return d, ""
}

func TestRead(t *testing.T) {
	for text, want := range map[string]Dist{
		"3":                                    Constant(3),
		"-2.5e3":                               Constant(-2500),
		"exponential(3)":                       Exponential(3),
		"exponential( 3 ) + 0.5":               Exponential(3).Plus(0.5),
		"uniform(1, 2) - 0.5":                  Uniform(1, 2).Plus(-0.5),
		"erlang(3, 2)+1":                       Erlang(3, 2).Plus(1),
		"normal(-1, 2)":                        Normal(-1, 2),
		"{distribution: exponential, mean: 3}": Exponential(3),
		"{distribution: exponential, mean: 3, min: 0.5}":             Exponential(3).Truncate(0.5, math.Inf(1)),
		"{distribution: gamma, mean: 3, cv: 0.5, times: 2, plus: 1}": Gamma(3, 0.5).Times(2).Plus(1),
		"{distribution: normal, mean: 1, stddev: 1, at_least: 0}":    Normal(1, 1).AtLeast(0),
		"{distribution: normal, mean: 1, stddev: 1, min: 0, max: 2}": Normal(1, 1).Truncate(0, 2),
		"{distribution: uniform, min: 1, max: 2}":                    Uniform(1, 2),
		"{distribution: triangular, min: 1, mode: 2, max: 2}":        Triangular(1, 2, 2),
		"{distribution: pareto, min: 1, shape: 2, max: 9}":           Pareto(1, 2).Truncate(math.Inf(-1), 9),
		"{distribution: erlang, mean: 1, shape: 2}":                  Erlang(1, 2),
		"{distribution: discrete, values: [1, 2], weights: [1, 3]}":  Discrete([]float64{1, 2}, []float64{1, 3}),
		"{distribution: discrete, values: [1, 2]}":                   Discrete([]float64{1, 2}, []float64{1, 1}),
		"{distribution: empirical, samples: [1, 2], plus: 1}":        Empirical([]float64{1, 2}).Plus(1),
		"{distribution: empirical, file: times.csv, column: 2}":      Empirical([]float64{2.5, 0.5, 1}),
		"{distribution: linear, values: [1, 2, 4], sums: [0, 0.5, 1]}": Linear([]float64{1, 2, 4}, []float64{0, 0.5,
			1}),
	} {
		d, problems := read(t, "x: "+text)
		if problems != "" {
			t.Errorf("%s: %s", text, problems)
			continue
		}
		if d.String() != want.String() || d.Name() != "x" {
			t.Errorf("%s: found %s, named %q, want %s", text, d, d.Name(), want)
		}
		for _, u := range []float64{0.1, 0.5, 0.77} {
			if d.Quantile(u) != want.Quantile(u) {
				t.Errorf("%s: Quantile(%v) is %v, want %v", text, u, d.Quantile(u), want.Quantile(u))
			}
		}
	}
}

// TestReadRefuses has what is wrong, and parts of what is reported: the place, what was found, what is wanted.
func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "x: found nothing, want a number",
		"[1]":                                  "x: found a list, want a number",
		"1e308":                                "found 1e308, want a number from -1e+18 to 1e+18 or a distribution",
		"1e999":                                "beyond the range of a float64",
		".nan":                                 "not finite",
		"true":                                 "found the boolean true",
		`"3"`:                                  "remove the quotes",
		"exponential":                          `found the text "exponential", want a distribution, such as`,
		"uniform(1":                            "put it in quotes",
		"exponential(":                         "want a distribution, such as",
		"exponental(3)":                        "did you mean exponential?",
		"exponential()":                        `found mean ""`,
		"exponential(0)":                       `found mean "0" in "exponential(0)", want a number > 0`,
		"exponential(-1)":                      "want a number > 0",
		"exponential(1e308)":                   "want a number > 0 and <= 1e+18",
		"exponential(nan)":                     `found mean "nan"`,
		"exponential(1e999)":                   `found mean "1e999"`,
		"exponential(0x10)":                    `found mean "0x10"`,
		"exponential(1, 2)":                    "want exponential(mean)",
		"exponential(3) 4":                     "want + or - and a number",
		"exponential(3) + ":                    "want + or - and a number",
		"exponential(3) * 2":                   "want + or - and a number",
		"exponential(3) + -2":                  "want + or - and a number",
		"constant(1e18) + 1e18":                "want numbers from -1e+18 to 1e+18",
		"uniform(2, 1)":                        `found max 1 in "uniform(2, 1)", want more than 2`,
		"erlang(3, 2.5)":                       "want a whole number",
		"discrete(1, 2)":                       "want a mapping: {distribution: discrete, …}",
		"{mean: 3}":                            "x.distribution: found nothing, want one of constant, exponential",
		"{distribution: exponental, mean: 3}":  "x.distribution: found the text \"exponental\", want one of",
		"{distribution: exponential}":          "x.mean: found nothing, want a number > 0",
		"{distribution: exponential, mean: 0}": "x.mean: found 0, want a number > 0",
		"{distribution: exponential, mean: 1, cv: 2}":                "x.cv: found an unknown field",
		"{distribution: erlang, mean: 1, shape: 1.5}":                "x.shape: found 1.5, want a whole number",
		"{distribution: uniform, min: 2, max: 1}":                    "x.max: found 1, want more than 2",
		"{distribution: triangular, min: 0, mode: 5, max: 1}":        "x.mode: found 5, want a number from 0 to 1",
		"{distribution: exponential, mean: 1, min: 99}":              "x.min: found 0 of all values",
		"{distribution: exponential, mean: 1, min: 3, max: 2}":       "x.max: found bounds from 3 to 2",
		"{distribution: exponential, mean: 1e18, times: 1e18}":       "x: found numbers beyond",
		"{distribution: exponential, mean: 1, times: 0}":             "x.times: found 0",
		"{distribution: discrete, values: []}":                       "x.values: found an empty list",
		"{distribution: discrete, values: [1], weights: [0]}":        "x.weights: found weights that are all 0",
		"{distribution: discrete, values: [1, 2], weights: [1]}":     "x.weights: found 1 numbers, want 2",
		"{distribution: discrete, values: [1, .inf]}":                "x.values[1]",
		"{distribution: discrete, values: [1, 2], weights: [1, -1]}": "x.weights[1]: found -1",
		"{distribution: empirical}":                                  "x.samples: found nothing",
		"{distribution: empirical, samples: [1], file: times.csv}":   "x.file: found samples from two places",
		"{distribution: empirical, file: other.csv}":                 "x.file: found a file that is not attached",
		"{distribution: empirical, file: bad.csv}":                   `x.file: found "x" in line 3 of bad.csv`,
		"{distribution: empirical, file: none.csv}":                  "x.file: found no numbers",
		"{distribution: empirical, file: times.csv, column: 7}":      "x.file: found",
		"{distribution: empirical, file: times.csv, column: 0}":      "x.column: found 0",
		"{distribution: linear, values: [1, 1], sums: [0, 1]}":       "x.values[1]: found 1, want more than 1",
		"{distribution: linear, values: [1, 2], sums: [0, 0.9]}":     "x.sums[1]: found 0.9, want 1",
	} {
		d, problems := read(t, "x: "+text)
		if !strings.Contains(problems, want) || strings.Count(problems, "\n") > 1 || d.IsSet() {
			t.Errorf("x: %s: found %s and\n\t%s\nwant\n\t%s", text, d, problems, want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, text := range []string{"3", "exponential(3)", "uniform(1, 2) + 0.5", "uniform(-1, 2) - 0.5",
		"erlang(2, 3)"} {
		if d, err := Parse(text); err != nil || d.String() != text {
			t.Errorf("Parse(%q) is %s, %v", text, d, err)
		}
	}
	for _, text := range []string{"", "x", "1e99", "0x1", "1_0", "exponential(0)", "inf", "nan", "+(", "(3)", ")("} {
		if d, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) is %s", text, d)
		}
	}
}

func TestReferences(t *testing.T) {
	for text, want := range map[string]int{"x: 3": 0, "x: {distribution: empirical, file: a.csv}": 1,
		"x: {file: [1]}": 0,
		"x: [1]":         0, "y: 1": 0} {
		doc, err := scenario.Parse("a.yml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if all := References(scenario.NewReader(doc).Root("x").Field("x")); len(all) != want {
			t.Errorf("%s refers to %v", text, all)
		}
	}
}

func readRate(t testing.TB, text string) (Rate, string) {
	doc, err := scenario.Parse("a.yml", []byte(text))
	if err != nil {
		t.Skip(err)
	}
	r := scenario.NewReader(doc)
	rate := ReadRate(r.Root("x").Field("x"))
	if err := r.Err(); err != nil {
		return rate, err.Error()
	}
	return rate, ""
}

func TestReadRate(t *testing.T) {
	for text, want := range map[string]string{
		"5":                    "5/s",
		"[{from: 0, rate: 5}]": "5/s",
		"[{from: 0, rate: 5}, {from: 60, rate: 0}]":                       "rates(2 steps)",
		"{rates: [{from: 0, rate: 5}, {from: 60, rate: 0}], period: 120}": "rates(2 steps) every 120 s",
	} {
		r, problems := readRate(t, "x: "+text)
		if problems != "" || r.String() != want || r.Name() != "x" {
			t.Errorf("%s: found %s, named %q, %s, want %s", text, r, r.Name(), problems, want)
		}
	}
	for text, want := range map[string]string{
		"0":                     "x: found 0, want a number > 0",
		"x":                     "or rates, such as",
		"[]":                    "x: found no rates",
		"[{from: 1, rate: 1}]":  "x[0]: found from 1, want from 0",
		"[{from: 0, rate: -1}]": "x[0].rate: found -1",
		"[{from: 0, rate: 0}]":  "x: found rates that are all 0",
		"[{from: 0, rate: 1}, {from: 0, rate: 2}]":                     "x[1]: found from 0, want a number > 0",
		"{rates: [{from: 0, rate: 1}], period: 0}":                     "x.period: found 0",
		"{rates: [{from: 0, rate: 1}, {from: 5, rate: 2}], period: 5}": "x.period: found the period 5, want",
		"{period: 5}": "x.rates: found nothing",
	} {
		if r, problems := readRate(t, "x: "+text); !strings.Contains(problems, want) || r.IsSet() {
			t.Errorf("x: %s: found %s and\n\t%s\nwant\n\t%s", text, r, problems, want)
		}
	}
}

// FuzzRead: whatever a file holds, it is refused or gives a distribution that is whole.
func FuzzRead(f *testing.F) {
	for _, text := range []string{"3", "exponential(3) + 0.5",
		"{distribution: gamma, mean: 3, cv: 0.5, min: 1, plus: 2}",
		"{distribution: discrete, values: [1, 2], weights: [1, 3], times: 3}",
		"{distribution: pareto, min: 1, shape: 0.2}",
		"{distribution: linear, values: [1, 2], sums: [0, 1], at_least: 1.5}", "beta(0, 1, 0.1, 0.1)", "poisson(1e9)",
		"{distribution: empirical, file: times.csv, column: 2}", "[{from: 0, rate: 5}, {from: 60, rate: 0}]", "1e308",
		"{rates: [{from: 0, rate: 1}], period: 5}", "{distribution: poisson, mean: 4, min: 2, max: 3}"} {
		f.Add("x: " + text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, problems := read(t, text)
		if d.IsSet() != (problems == "") {
			t.Fatalf("found %s and the problems %q", d, problems)
		}
		if d.IsSet() {
			s := MakeStream(1, 2, Unpaired)
			for range 10 {
				if x := d.Draw(&s); math.IsNaN(x) || math.IsInf(x, 0) || x < d.Min() || x > d.Max() {
					t.Errorf("%s: drew %v, want a finite number from %v to %v", d, x, d.Min(), d.Max())
				}
			}
		}
		if r, _ := readRate(t, text); r.IsSet() {
			s := MakeStream(1, 2, Unpaired)
			for now := 0.0; now < 1e6; now = 2*now + 1 {
				if x := r.Next(now, &s); !(x > now) {
					t.Errorf("%s: the arrival after %v is at %v", r, now, x)
				}
			}
		}
	})
}

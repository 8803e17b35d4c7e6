// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/internal/outdir"
	tables "github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// resultsKind is a file that compare reads.
var resultsKind = infile.Kind{Name: "results in JSON, as --json of run writes them", BytesMax: 1 << 30}

// compareRowsMost is how many figures the text shows without --all.
const compareRowsMost = 20

// compareCommand compares the results of two runs.
func (p *program) compareCommand() *cli.Command {
	return p.command(cli.Command{
		Name:      "compare",
		Usage:     "shows what differs between the results of two runs, with its confidence",
		ArgsUsage: "A.json B.json",
		Description: "Both are what `run --json FILE` writes, or directories of --out. With two replications or\n" +
			"more in each, a difference counts when chance doesn't explain it; without, every difference counts.\n" +
			"Exit status 1 where any counts that is greater than --tolerance, or where a figure is in one of\n" +
			"them only, unless --figures chooses.",
		Flags: []cli.Flag{
			textFlag(groupWhat, "figures", "all that both have",
				"`NAMES` of the figures to compare, with commas between; * stands for any text"),
			textFlag(groupWhat, "tolerance", "0", "differences of at most so much of A's figure don't count: "+
				"`SHARE`, such as 0.02 or 2%"),
			&cli.BoolFlag{Category: groupOutput, Name: "all", DisableDefaultText: true,
				Usage: fmt.Sprintf("show every figure, and not only the first %d of those that differ",
					compareRowsMost)},
			textFlag(groupOutput, "json", "none", "write all of it to `FILE` as JSON, - for standard output and "+
				"nothing else there"),
		},
	}, p.compareResults)
}

// comparedFigures is what compare shows, in JSON.
type comparedFigures struct {
	A         string        `json:"a"`
	B         string        `json:"b"`
	SameTrace bool          `json:"same_trace_hash"`
	Method    string        `json:"method"` // paired, welch, or none
	Tolerance float64       `json:"tolerance"`
	Compared  int           `json:"figures_compared"`
	Differ    int           `json:"figures_that_differ"` // by more than the tolerance
	OnlyA     []string      `json:"only_in_a,omitempty"`
	OnlyB     []string      `json:"only_in_b,omitempty"`
	Figures   []comparedRow `json:"figures"` // of which the two values aren't the same; those that count come first
}

// comparedRow is one figure. The interval has the truth with measure.Confidence, whatever is true of the others.
type comparedRow struct {
	Name       string           `json:"name"`
	A          float64          `json:"a"`
	B          float64          `json:"b"`
	Difference measure.Interval `json:"difference"` // b - a
	P          *float64         `json:"p_value"`    // of no difference; null: not known
	Differs    bool             `json:"differs"`
}

const (
	methodPaired = "paired"
	methodWelch  = "welch"
	methodNone   = "none"
)

// resultsFile is what of a file with results is compared.
type resultsFile struct {
	Seed         uint64          `json:"seed"`
	Replications int             `json:"replications"`
	TraceHash    string          `json:"trace_hash"`
	Results      json.RawMessage `json:"results"`
	Interrupted  bool            `json:"interrupted"`
	SoFar        bool            `json:"so_far"`
	Figures      []figureRow     `json:"figures"`
	Sweep        json.RawMessage `json:"sweep"`

	names []string
	of    map[string][]float64 // one value a replication, or one of all; NaN: none
}

func readResults(name string) (*resultsFile, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		name = filepath.Join(name, outdir.ResultFile) // of --out
	}
	text, err := infile.Read(name, resultsKind)
	if err != nil {
		return nil, usage("%v", err)
	}
	f := &resultsFile{of: map[string][]float64{}}
	if err := json.Unmarshal(text, f); err != nil {
		return nil, usage("%s: found no JSON of results (%v), want what `run --json FILE` writes", name, err)
	}
	switch {
	case f.Sweep != nil:
		return nil, usage("%s: found the JSON of a sweep, want that of one run: run the points with --set that are "+
			"to be compared", name)
	case len(f.Results) == 0 || string(f.Results) == "null":
		return nil, usage("%s: found no results in it, want what `run --json FILE` writes", name)
	case f.Interrupted:
		return nil, usage("%s: found a run that was interrupted, want one that has come to its end", name)
	case f.SoFar:
		return nil, usage("%s: found a run that goes on, or whose process was killed, want one that has come to its "+
			"end", name)
	}
	for _, row := range f.Figures {
		for _, x := range row.Values {
			if math.Abs(float64(x)) > measure.ValueMax { // its square has no sum
				return nil, usage("%s: found %g as a value of the figure %s, want numbers up to %g, whose "+
					"squares can be added up", name, float64(x), row.Name, measure.ValueMax)
			}
		}
		f.add(row.Name, row.Values)
	}
	if len(f.Figures) > 0 {
		return f, nil
	}
	cells, _, err := cellsOf(&sweepRow{document: &document{Results: f.Results}})
	for _, c := range cells {
		if x, err := strconv.ParseFloat(c.text, 64); err == nil && c.number && isFigure(c.name) {
			f.add(c.name, []figureValue{figureValue(x)})
		}
	}
	return f, err
}

func (f *resultsFile) add(name string, values []figureValue) {
	if _, known := f.of[name]; known {
		return
	}
	f.names = append(f.names, name)
	for _, x := range values {
		f.of[name] = append(f.of[name], float64(x))
	}
}

// compareResults is the command.
func (p *program) compareResults(c *cli.Context) error {
	v := &values{c: c}
	tolerance, to := v.share("tolerance"), v.path("json")
	chosen := v.text("figures", "names of figures with commas between")
	if err := v.err(); err != nil {
		return err
	}
	if c.NArg() != 2 {
		return usage("found %s, want two with results, A.json B.json", tables.Plural(c.NArg(), "file"))
	}
	a, err := readResults(c.Args().Get(0))
	if err != nil {
		return err
	}
	b, err := readResults(c.Args().Get(1))
	if err != nil {
		return err
	}
	d := &comparedFigures{A: c.Args().Get(0), B: c.Args().Get(1), Tolerance: tolerance,
		SameTrace: a.TraceHash == b.TraceHash && a.TraceHash != ""}
	if err := d.compare(a, b, chosen); err != nil {
		return err
	}
	if to != "-" {
		d.write(p, c.Bool("all"))
	}
	if to != "" {
		text, err := encode(d)
		if err == nil {
			err = p.write("--json", to, (&jsonText{before: text}).writeTo)
		}
		if err != nil {
			return err
		}
	}
	switch only := len(d.OnlyA) + len(d.OnlyB); {
	case d.Differ > 0:
		return fmt.Errorf("%w: %d of %s", errResultsDiffer, d.Differ, count(d.Compared, "figure"))
	case only > 0 && chosen == "": // a file of another scenario, or a box that has another name
		return fmt.Errorf("%w: %s in one of them only; --figures '*' compares those that both have",
			errResultsDiffer, count(only, "figure"))
	}
	return nil
}

var errResultsDiffer = errors.New("the results differ")

// compare fills in the figures that are chosen.
func (d *comparedFigures) compare(a, b *resultsFile, chosen string) error {
	names, err := d.names(a, b, chosen)
	if err != nil {
		return err
	}
	d.Compared, d.Method = len(names), methodNone
	if len(a.Figures) > 0 && len(b.Figures) > 0 {
		if d.Method = methodWelch; a.Seed == b.Seed && a.Replications == b.Replications {
			d.Method = methodPaired // by common random numbers
		}
	}
	for _, name := range names {
		if row, ok := d.row(name, a.of[name], b.of[name]); ok {
			d.Figures = append(d.Figures, row)
		}
	}
	d.judge()
	return nil
}

// names are those of the figures to compare, in the order of A.
func (d *comparedFigures) names(a, b *resultsFile, chosen string) (both []string, err error) {
	for _, name := range a.names {
		if b.of[name] != nil {
			both = append(both, name)
		} else {
			d.OnlyA = append(d.OnlyA, name)
		}
	}
	for _, name := range b.names {
		if a.of[name] == nil {
			d.OnlyB = append(d.OnlyB, name)
		}
	}
	if chosen == "" {
		if len(both) == 0 {
			return nil, usage("%s and %s have no figure of one name: are these results of one kind of scenario?", d.A,
				d.B)
		}
		return both, nil
	}
	var found []string
	for _, want := range splitColumns(chosen) {
		matching := slices.DeleteFunc(slices.Clone(both), func(name string) bool { return !matches(want, name) })
		if len(matching) == 0 {
			hint := cmp.Or(scenario.Suggest(want, both), "--all shows all that differ at all")
			return nil, usage("--figures: found %q, want the name of a figure of both files, * for any text: %s", want,
				hint)
		}
		for _, name := range matching {
			if !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
	}
	return found, nil
}

// row compares one figure; false: it is the same in both, or one of them has no value.
func (d *comparedFigures) row(name string, a, b []float64) (row comparedRow, ok bool) {
	if d.Method == methodPaired {
		var pairs []float64
		same := true
		for i := range min(len(a), len(b)) {
			if x := b[i] - a[i]; !math.IsNaN(x) {
				pairs, same = append(pairs, x), same && x == 0
			}
		}
		if same {
			return row, false
		}
		mean, variance := stat.MeanVariance(pairs, nil)
		row.estimate(mean, variance/float64(len(pairs)), float64(len(pairs)-1), len(pairs))
	}
	a, b = known(a), known(b)
	if len(a) == 0 || len(b) == 0 {
		return row, false
	}
	meanA, varianceA := stat.MeanVariance(a, nil)
	meanB, varianceB := stat.MeanVariance(b, nil)
	row.Name, row.A, row.B = name, meanA, meanB
	if d.Method == methodPaired {
		return row, true
	}
	if d.Method == methodNone || len(a) < 2 || len(b) < 2 {
		row.Difference = measure.Unknown(meanB-meanA, min(len(a), len(b)))
		return row, meanA != meanB
	}
	// Welch, The generalization of Student's problem when several different population variances are involved, 1947.
	ofA, ofB := varianceA/float64(len(a)), varianceB/float64(len(b))
	freedom := (ofA + ofB) * (ofA + ofB) / (ofA*ofA/float64(len(a)-1) + ofB*ofB/float64(len(b)-1))
	row.estimate(meanB-meanA, ofA+ofB, freedom, len(a)+len(b))
	return row, meanA != meanB || ofA+ofB > 0
}

// known are the values that are there.
func known(all []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(all), math.IsNaN)
}

// estimate sets the interval of a difference whose estimate has a variance, known with so many degrees of freedom.
func (row *comparedRow) estimate(mean, variance, freedom float64, samples int) {
	p := 0.0
	switch {
	case !(freedom >= 1) && variance > 0 || samples < 2:
		row.Difference = measure.Unknown(mean, samples)
		return
	case variance > 0:
		t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}
		half := t.Quantile(0.5+measure.Confidence/2) * math.Sqrt(variance)
		row.Difference = measure.Interval{Mean: mean, HalfWidth: half, Low: mean - half, High: mean + half, N: samples}
		p = 2 * t.Survival(math.Abs(mean)/math.Sqrt(variance))
	default: // the same in all replications
		row.Difference = measure.Interval{Mean: mean, Low: mean, High: mean, N: samples}
		if mean == 0 {
			p = 1
		}
	}
	row.P = &p
}

// judge says which differences count. Where many figures are compared, chance makes some of them look as if they
// differed: that any counts that doesn't differ has a probability of at most 1 - measure.Confidence, over all figures
// together (Holm, A simple sequentially rejective multiple test procedure, 1979).
func (d *comparedFigures) judge() {
	order := make([]*comparedRow, len(d.Figures))
	for i := range d.Figures {
		order[i] = &d.Figures[i]
	}
	slices.SortStableFunc(order, func(x, y *comparedRow) int { return cmp.Compare(x.p(), y.p()) })
	rejected := true // so far, chance was for every figure
	for i, row := range order {
		rejected = rejected && row.p() <= (1-measure.Confidence)/float64(d.Compared-i)
		significant := rejected || d.Method == methodNone
		if row.Differs = significant && math.Abs(row.Difference.Mean) > d.Tolerance*math.Abs(row.A); row.Differs {
			d.Differ++
		}
	}
	slices.SortStableFunc(d.Figures, func(x, y comparedRow) int {
		switch {
		case x.Differs == y.Differs:
			return 0
		case x.Differs:
			return -1
		}
		return 1
	})
}

// p is the value by which figures are judged, 2 where it isn't known.
func (row *comparedRow) p() float64 {
	if row.P == nil {
		return 2
	}
	return *row.P
}

// write shows it as text.
func (d *comparedFigures) write(p *program, all bool) {
	how := map[string]string{
		methodPaired: "replication by replication: both runs have one seed, and so common random numbers",
		methodWelch:  "as independent replications (Welch)",
		methodNone:   "one value of each: with --replications 2 or more in both runs, there are intervals",
	}[d.Method]
	fmt.Fprintf(p.stdout, "A is %s, B is %s; compared %s\n", d.A, d.B, how)
	if d.SameTrace {
		fmt.Fprintln(p.stdout, "the trace hash is the same: both runs did the same, event by event")
	}
	fmt.Fprintf(p.stdout, "%d of %s differ", d.Differ, count(d.Compared, "figure"))
	if d.Tolerance > 0 {
		fmt.Fprintf(p.stdout, " by more than %s", tables.Percent(d.Tolerance))
	}
	fmt.Fprintln(p.stdout)
	for _, only := range []struct {
		name  string
		names []string
	}{{"A", d.OnlyA}, {"B", d.OnlyB}} {
		if len(only.names) > 0 {
			fmt.Fprintf(p.stdout, "%s only in %s, such as %s\n", count(len(only.names), "figure"), only.name,
				only.names[0])
		}
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', 5, 64) }
	t := tables.New(len(d.Figures)+1, "figure", "A", "B", "B - A", "from", "to", "relative", "differs")
	shown := 0
	for _, row := range d.Figures {
		if !all && (!row.Differs || shown == compareRowsMost) {
			continue
		}
		shown++
		from, to, relative, differs := "-", "-", "-", "no"
		if row.Difference.Known() {
			from, to = number(row.Difference.Low), number(row.Difference.High)
		}
		if row.A != 0 {
			relative = tables.Percent(row.Difference.Mean / math.Abs(row.A))
		}
		if row.Differs {
			differs = "yes"
		}
		t.Row(row.Name, number(row.A), number(row.B), number(row.Difference.Mean), from, to, relative, differs)
	}
	if shown > 0 {
		b := bufio.NewWriter(p.stdout)
		t.Write(b)
		_ = b.Flush() // standard output keeps its errors
	}
	if left := d.Differ - shown; !all && left > 0 {
		fmt.Fprintf(p.stdout, "… and %d more: --all shows them\n", left)
	}
}

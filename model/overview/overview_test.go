// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/model/measure"
)

func text(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.Text() + "\n")
	}
	return b.String()
}

// sample is a page with everything that a page can have.
func sample() *Page {
	p := &Page{Notes: []string{"the first 10 s not counted"}, Alarm: "INTERRUPTED after 5 s",
		Figures: Block{Heads: []string{"figures", "", "95 % from", "to", "theory"}},
		Remarks: []string{"too short: simulate longer"}}
	p.Figures.Estimate("latency, mean", Num("/latency_s/mean", 0.0813, Seconds, ""), "/confidence/latency",
		&measure.Interval{Mean: 0.0813, HalfWidth: 0.001, Low: 0.0803, High: 0.0823})
	p.Figures.Estimate("dropped", Num("/dropped", 86, Count, "").BadIf(true), "", nil)
	b := Block{Heads: []string{"outages", "throughput/s", "from", "to"}, Table: "outages"}
	for i := range 9 {
		b.Row("server-"+string(rune('a'+i))+" down", Change(Num(At("outages", i, "before"), 10, Count, ""), Said(None),
			Num(At("outages", i, "after"), 12, Count, "")), Num("/x", 60, Seconds, ""))
	}
	p.Blocks = []Block{b, {Heads: []string{"busiest", "utilisation"}, Table: "servers", More: 7,
		Rows: []Row{{"web-1", []Cell{Num("/web-1", 0.95, Share, "").BadIf(true)}}}}}
	return p
}

func TestRender(t *testing.T) {
	const want = `the first 10 s not counted
INTERRUPTED after 5 s

figures              95 % from        to
latency, mean  81.3 ms    80.3 ms  82.3 ms
dropped             86          -        -
too short: simulate longer

outages        throughput/s  from
server-a down  10 → - → 12   60 s
server-b down  10 → - → 12   60 s
  … and 7 more: --tables outages

busiest  utilisation
web-1         95.0 %
  … and 7 more: --tables servers
`
	got := text(Render(sample(), Limits{Lines: 16, Columns: 80}))
	// Blanks between columns depend on the widest cell; what counts here is what stands where.
	if squeeze(got) != squeeze(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	lines := Render(sample(), Limits{Lines: 40, Columns: 80})
	bad, heads := 0, 0
	for _, l := range lines {
		for _, s := range l {
			switch s.Style {
			case Bad:
				bad++
			case Head:
				heads++
			}
		}
	}
	if bad != 3 || heads != 3 {
		t.Errorf("%d spans are bad and %d are heads, want 3 and 3", bad, heads)
	}
}

func squeeze(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

// TestFits: random pages fit into random rooms, and what is cut is counted.
func TestFits(t *testing.T) {
	r := rand.New(rand.NewPCG(seed.Of(t), 1))
	for range 2000 {
		p := &Page{Figures: Block{Heads: []string{"figures", ""}}}
		for i := range 1 + r.IntN(6) {
			p.Figures.Row(strings.Repeat("n", r.IntN(70)), Num(At("figures", i), r.Float64(), Plain, ""))
		}
		for range r.IntN(5) {
			b := Block{Heads: []string{"things", "a", "b", "c"}, Table: "things", More: r.IntN(3)}
			for range r.IntN(30) {
				b.Row(strings.Repeat("x", r.IntN(70)), Num("/x", 1e6*r.Float64(), Plain, " packets/s"),
					Said(None), Said(strings.Repeat("y", r.IntN(70))))
			}
			p.Blocks = append(p.Blocks, b)
		}
		room := Limits{Lines: 10 + r.IntN(40), Columns: 60 + r.IntN(60), Wrap: true}
		blocks := append([]Block{p.Figures}, slices.Clone(p.Blocks)...)
		sum := 0
		for i := range blocks {
			sum += blocks[i].height()
		}
		fit(blocks, room.Lines)
		for i, b := range blocks[1:] {
			if before := p.Blocks[i]; len(b.Rows) > 0 && b.More-before.More != len(before.Rows)-len(b.Rows) {
				t.Fatalf("of %d rows %d are there, and %d more counted", len(before.Rows), len(b.Rows),
					b.More-before.More)
			} else if sum <= room.Lines && len(b.Rows) < len(before.Rows) {
				t.Fatalf("of %d rows %d are there, and there was room for all", len(before.Rows), len(b.Rows))
			}
		}
		lines := Render(p, room)
		if len(lines) > room.Lines {
			t.Fatalf("%d lines, want at most %d", len(lines), room.Lines)
		}
		for _, l := range lines {
			if n := utf8.RuneCountInString(l.Text()); n > room.Columns {
				t.Fatalf("%d columns, want at most %d: %q", n, room.Columns, l.Text())
			}
		}
		if room.Lines >= 2+len(p.Figures.Rows) && !strings.HasPrefix(lines[0].Text(), "figures") {
			t.Fatalf("the figures are gone:\n%s", text(lines))
		}
	}
}

func TestSentence(t *testing.T) {
	long := strings.Repeat("word and word ", 60)
	lines := Limits{Columns: 60, Wrap: true}.Sentence(long, Usual)
	if len(lines) != sentenceLines || !strings.HasSuffix(lines[len(lines)-1].Text(), " …") {
		t.Errorf("%d lines, want %d and … at the end:\n%s", len(lines), sentenceLines, text(lines))
	}
	if lines := (Limits{Columns: 60}).Sentence("a\nb", Usual); len(lines) != 1 || lines[0].Text() != "a b" {
		t.Errorf("found %q, want one line", text(lines))
	}
}

func TestAt(t *testing.T) {
	if got := At("servers", "a/b~c", 3, "mean"); got != "/servers/a~1b~0c/3/mean" {
		t.Errorf("found %s", got)
	}
}

// TestTop: Top is what sorting all would give.
func TestTop(t *testing.T) {
	r := rand.New(rand.NewPCG(seed.Of(t), 2))
	for range 500 {
		most := 1 + r.IntN(6)
		top, values := NewTop(most), make([]float64, r.IntN(20))
		var all []int
		for i := range values {
			if values[i] = float64(r.IntN(8)); values[i] == 7 {
				values[i] = math.NaN()
			} else {
				all = append(all, i)
			}
			top.Add(i, values[i])
		}
		slices.SortStableFunc(all, func(a, b int) int { return int(values[b] - values[a]) })
		if want := all[:min(most, len(all))]; !slices.Equal(top.Items, want) {
			t.Fatalf("of %v the %d greatest: found %v, want %v", values, most, top.Items, want)
		}
	}
}

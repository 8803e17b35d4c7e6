// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/printable"
	tables "github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/model/overview"
	"github.com/disco-sim/disco/scenario"
	"golang.org/x/term"
)

// Names of tables that aren't a kind's own.
const (
	tablesAll     = "all"
	workersTable  = "workers"
	resultsTable  = "results" // of a kind that has no first screen: all of its text
	columnsLeast  = 60
	columnsMost   = 120 // and where standard output is no terminal
	repeatedShown = 3   // of lines of one kind under the figures
)

// tableNames are the tables that --tables may ask for.
func tableNames(s scenario.Scenario) []string {
	if shower, ok := s.(overview.Shower); ok {
		return append(shower.TableNames(), workersTable)
	}
	return []string{resultsTable, workersTable}
}

// checkTables refuses --tables where there is none of a name.
func (o *order) checkTables(s scenario.Scenario) error {
	names := tableNames(s)
	for _, name := range o.tables {
		if name != tablesAll && !slices.Contains(names, name) {
			hint := scenario.Suggest(name, names)
			if hint != "" {
				hint = "; " + hint
			}
			return usage("--tables: found %q, want names with commas between, or %s: of this scenario there are %s%s",
				name, tablesAll, strings.Join(names, ", "), hint)
		}
	}
	return nil
}

// wants reports whether --tables asks for a table.
func (o *order) wants(name string) bool {
	return slices.Contains(o.tables, name) || slices.Contains(o.tables, tablesAll)
}

// paper is standard output, for what people read.
type paper struct {
	p     *program
	room  overview.Limits
	color bool
}

// paper looks at what standard output is.
func (p *program) paper() *paper {
	w := &paper{p: p, room: overview.Limits{Lines: overview.Lines, Columns: columnsMost}}
	f, ok := p.raw.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return w
	}
	w.room.Wrap = true
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		w.room.Columns = min(max(width, columnsLeast), columnsMost)
	}
	w.color = os.Getenv("NO_COLOR") == "" && !isDumb()
	return w
}

// styles are the escapes of a terminal (ECMA-48, SGR): bold, and bold in red.
var styles = map[overview.Style]string{overview.Head: "\x1b[1m", overview.Bad: "\x1b[1;31m"}

// write writes lines.
func (w *paper) write(lines []overview.Line) {
	var b strings.Builder
	for _, line := range lines {
		for _, span := range line {
			text := printable.Text(span.Text)
			if style := styles[span.Style]; w.color && style != "" && strings.TrimSpace(text) != "" {
				text = style + text + "\x1b[m"
			}
			b.WriteString(text)
		}
		b.WriteByte('\n')
	}
	// It keeps its errors.
	_, _ = w.p.stdout.plain(b.String())
}

// sentences are texts as lines.
func (w *paper) sentences(text string) (lines []overview.Line) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); line == "" {
			lines = append(lines, nil)
		} else {
			lines = append(lines, w.room.Sentence(line, overview.Usual)...)
		}
	}
	return lines
}

// head prepares the head of the first screen, which what it returns writes once.
func (p *program) head(l *launch.Launch, o *order) (ready func()) {
	w := p.paper()
	lines := w.sentences(p.header(l, o))
	o.headLines = len(lines)
	return sync.OnceFunc(func() { w.write(lines) })
}

// results writes what a run has found out in so many lines, and the tables that are asked for.
func (w *paper) results(o *order, s scenario.Scenario, sum scenario.Summary, lines int) error {
	w.room.Lines = lines
	shower, ok := s.(overview.Shower)
	if !ok {
		return w.text(o, sum)
	}
	page := shower.Overview(sum)
	w.write(append(overview.Render(page, w.room), nil))
	for _, t := range page.Tables {
		if o.wants(t.Name) {
			w.table(t.Name, t.Write)
		}
	}
	return nil
}

// table writes one table, and says so where it is empty.
func (w *paper) table(name string, write func(b *bufio.Writer)) {
	var text bytes.Buffer
	b := bufio.NewWriter(&text)
	write(b)
	_ = b.Flush() // a Buffer takes everything
	if text.Len() == 0 {
		fmt.Fprintf(&text, "%s: there are none\n", name)
	}
	fmt.Fprintf(w.p.stdout, "%s\n", strings.TrimLeft(text.String(), "\n"))
}

// text writes the results of a kind that has no first screen: as much of its text as fits, or all where that is asked
// for.
func (w *paper) text(o *order, sum scenario.Summary) error {
	var text bytes.Buffer
	if err := sum.WriteText(&text); err != nil {
		return fmt.Errorf("the results can't be written: %w", err)
	}
	lines := bytes.SplitAfter(bytes.TrimSuffix(text.Bytes(), []byte("\n")), []byte("\n"))
	more := ""
	if room := w.room.Lines - 1; len(lines) > room && !o.wants(resultsTable) {
		more = fmt.Sprintf("\n  … and %s: --tables %s", tables.Plural(len(lines)-room+1, "more line"), resultsTable)
		lines = lines[:room-1]
	}
	fmt.Fprintf(w.p.stdout, "%s%s\n\n", bytes.TrimSuffix(bytes.Join(lines, nil), []byte("\n")), more)
	return nil
}

// foot is what stands under the results: speed, what happened to the run, what there is more of, and the trace hash.
func (p *program) foot(o *order, l *launch.Launch, out *launch.Outcome, d *document) string {
	var w strings.Builder
	p.speed(&w, out, d)
	workersLine(&w, d)
	turns(&w, d)
	comparisonLine(&w, d)
	passive(&w, d)
	if d.Until != nil {
		fmt.Fprintln(&w, d.Until)
	}
	for i := range d.Recoveries {
		if r := &d.Recoveries[i]; i < repeatedShown {
			fmt.Fprintf(&w, "%s: %s; %s lost\n", r.Reason, goesOn(r), tables.Seconds(r.Seconds))
		}
	}
	if more := len(d.Recoveries) - repeatedShown; more > 0 {
		fmt.Fprintf(&w, "  … and %s, which the JSON output has\n", tables.Plural(more, "more recovery"))
	}
	if d.Moves != nil {
		for _, line := range d.Moves.lines() {
			fmt.Fprintln(&w, line)
		}
	}
	if d.Checkpoints != nil {
		fmt.Fprintln(&w, d.Checkpoints)
	}
	if more := further(o, l.Scenario(), d); more != "" {
		fmt.Fprintln(&w, more)
	}
	if out.TraceHash == "" {
		fmt.Fprintln(&w, "trace hash: none, because the run was interrupted")
	} else {
		fmt.Fprintf(&w, "trace hash %s\n", out.TraceHash)
	}
	return w.String()
}

// further says what to type for more; "" where all was asked for.
func further(o *order, s scenario.Scenario, d *document) string {
	var names []string
	for _, name := range tableNames(s) {
		if !o.wants(name) && (name != workersTable || len(d.PerWorker) > 1) && (name != resultsTable) {
			names = append(names, name)
		}
	}
	var ways []string
	switch len(names) {
	case 0:
	case 1:
		ways = append(ways, "--tables "+names[0])
	default:
		ways = append(ways, "--tables "+tablesAll+" or "+strings.Join(names, ","))
	}
	if o.json == "" {
		ways = append(ways, "--json FILE")
	}
	if o.out == "" {
		ways = append(ways, "--out DIR")
	}
	if o.report == "" {
		ways = append(ways, "--report FILE")
	}
	if _, ok := s.(scenario.Tabular); ok && o.csv == "" {
		ways = append(ways, "--csv FILE")
	}
	if len(ways) == 0 {
		return ""
	}
	return "more: " + strings.Join(ways, "; ")
}

// workersLine says in short what the workers did; not for a single one.
func workersLine(w io.Writer, d *document) {
	if len(d.PerWorker) < 2 {
		return
	}
	least, most := [2]float64{}, [2]float64{} // blocked, CPU
	for i := range d.PerWorker {
		r := &d.PerWorker[i]
		for k, x := range [2]float64{100 * r.BlockedSeconds / max(r.WallSeconds, 1e-9), r.CPUSeconds} {
			if i == 0 {
				least[k], most[k] = x, x
			}
			least[k], most[k] = min(least[k], x), max(most[k], x)
		}
	}
	cpu := fmt.Sprintf("CPU %.2f to %.2f s", least[1], most[1])
	if d.Transport == launch.TransportInproc {
		cpu = fmt.Sprintf("CPU %.2f s together", most[1]) // the first row has that of all
	}
	fmt.Fprintf(w, "workers: %s, blocked %.0f to %.0f %% of the time\n", cpu, least[0], most[0])
}

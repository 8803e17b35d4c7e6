package service

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// rowsMax bounds every table of the text: a page for people. The JSON has all.
const rowsMax = 40

// WriteText writes the results for people: aligned tables, units on every number.
func (r *Results) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	r.writeHead(b)
	r.writeServers(b)
	r.writeBalancers(b)
	writeEvents(b, "outages", r.Outages)
	writeEvents(b, "spikes", r.Spikes)
	r.writeConfidence(b)
	r.writeReplications(b)
	r.writeEndpoints(b)
	r.writeEdges(b)
	r.writeSampled(b)
	return b.Flush()
}

func (r *Results) writeHead(b *bufio.Writer) {
	n := len(r.Replications)
	fmt.Fprintf(b, "service scenario %s: %s", r.spec.Name, plural(n, "replication"))
	if r.Interrupted {
		fmt.Fprintf(b, " of %s, INTERRUPTED after %s in all; rates are over the time reached\n\n", seconds(r.HorizonSeconds), seconds(r.SimulatedSeconds))
	} else {
		fmt.Fprintf(b, " of %s\n\n", seconds(r.HorizonSeconds))
	}
	fmt.Fprintf(b, "requests    %s generated = %s completed + %s dropped + %s in flight\n",
		count(r.RequestsGenerated), count(r.RequestsCompleted), count(r.RequestsDropped), count(r.RequestsInFlight))
	fmt.Fprintf(b, "generator   %s: %s requests/s; %s active users, the mean of %s\n",
		r.Generator.ID, number(r.Generator.RateRPS), number(r.Generator.UsersMean), plural(int(r.Generator.Windows), "window"))
	fmt.Fprintf(b, "throughput  %s requests/s", number(r.ThroughputRPS))
	if c := r.Confidence; c != nil {
		fmt.Fprintf(b, "; 95 %% confidence %s to %s", number(c.ThroughputRPS.Low), number(c.ThroughputRPS.High))
	}
	b.WriteByte('\n')
	l := r.Latency
	if l == nil {
		b.WriteString("latency     no request completed\n")
		return
	}
	fmt.Fprintf(b, "latency     mean %s", seconds(l.Mean))
	if c := r.Confidence; c != nil && c.LatencyMean != nil {
		fmt.Fprintf(b, "; 95 %% confidence %s to %s", seconds(c.LatencyMean.Low), seconds(c.LatencyMean.High))
	}
	fmt.Fprintf(b, "\n            p50 %s, p90 %s, p95 %s, p99 %s, p99.9 %s\n", seconds(l.P50), seconds(l.P90), seconds(l.P95), seconds(l.P99), seconds(l.P999))
	fmt.Fprintf(b, "            min %s, max %s, standard deviation %s\n", seconds(l.Min), seconds(l.Max), seconds(l.StdDev))
}

func (r *Results) writeServers(b *bufio.Writer) {
	t := newTable("servers", "requests", "utilisation", "ready mean", "max", "I/O mean", "max", "MB mean", "max", "waiting for MB", "max", "residence")
	for i := range r.spec.Servers {
		id := r.spec.Servers[i].ID
		s := r.Servers[id]
		t.row(id, count(s.Requests), percent(s.Utilisation), number(s.ReadyQueueMean), count(s.ReadyQueueMax), number(s.IOMean), count(s.IOMax),
			number(s.RAMMean), number(s.RAMMax), number(s.RAMQueueMean), count(s.RAMQueueMax), secondsOrNone(s.ResidenceMean))
	}
	t.write(b)
}

// writeEndpoints lists the endpoints of servers that have several.
func (r *Results) writeEndpoints(b *bufio.Writer) {
	t := newTable("endpoints", "requests", "share")
	for i := range r.spec.Servers {
		id := r.spec.Servers[i].ID
		s := r.Servers[id]
		if len(s.Endpoints) < 2 {
			continue
		}
		for _, e := range s.Endpoints {
			t.row(id+" "+e.Name, count(e.Requests), percent(per(float64(e.Requests), float64(s.Requests))))
		}
	}
	t.write(b)
}

func (r *Results) writeBalancers(b *bufio.Writer) {
	t := newTable("load balancers", "requests", "share")
	for i := range r.spec.Balancers {
		lb := &r.spec.Balancers[i]
		res := r.Balancers[lb.ID]
		t.row(lb.ID, count(res.Requests), "")
		for _, target := range lb.Covers {
			n := res.Targets[target]
			t.row("  to "+target, count(n), percent(per(float64(n), float64(res.Requests))))
		}
	}
	t.write(b)
}

func (r *Results) writeEdges(b *bufio.Writer) {
	t := newTable("edges", "sent", "dropped", "in transit", "concurrent mean", "max")
	for _, e := range r.spec.Edges {
		res := r.Edges[e.ID]
		t.row(e.ID, count(res.Sent), count(res.Dropped), count(res.InTransit), number(res.ConcurrentMean), count(res.ConcurrentMax))
	}
	t.write(b)
}

func writeEvents(b *bufio.Writer, what string, events []EventResult) {
	heads := []string{what, "from", "to", "requests/s", "throughput/s", "latency mean", "p95", "transit mean"}
	if len(events) > 0 && events[0].SpikeS == 0 {
		heads = heads[:len(heads)-1] // an outage is of no edge
	}
	t := newTable(heads...)
	for i := range events {
		e := &events[i]
		if e.SpikeS > 0 {
			t.row(e.ID + ": " + e.Target + " + " + seconds(e.SpikeS))
		} else {
			t.row(e.ID + ": " + e.Target + " down")
		}
		t.phase("  before", e.Before, len(heads))
		t.phase("  during", e.During, len(heads))
		t.phase("  after", e.After, len(heads))
	}
	t.write(b)
}

// phase adds the row of one phase, in as many columns as the table has.
func (t *table) phase(name string, p *Phase, columns int) {
	if p == nil {
		t.row(name, "none")
		return
	}
	t.row([]string{name, seconds(p.From), seconds(p.To), number(p.RequestsRPS), number(p.ThroughputRPS),
		secondsOrNone(p.LatencyMean), secondsOrNone(p.LatencyP95), secondsOrNone(p.TransitMean)}[:columns]...)
}

func (r *Results) writeSampled(b *bufio.Writer) {
	t := newTable("sampled every "+seconds(r.spec.Settings.SamplePeriod), "mean", "max", "samples")
	add := func(id string, sampled map[string]Sampled) {
		for _, metric := range r.spec.Settings.Sampled {
			if s, ok := sampled[metric]; ok {
				t.row(id+" "+metric, number(s.Mean), number(s.Max), count(s.Samples))
			}
		}
	}
	for _, s := range r.spec.Servers {
		add(s.ID, r.Servers[s.ID].Sampled)
	}
	for _, e := range r.spec.Edges {
		add(e.ID, r.Edges[e.ID].Sampled)
	}
	t.write(b)
}

func (r *Results) writeConfidence(b *bufio.Writer) {
	c := r.Confidence
	if c == nil {
		return
	}
	t := newTable(fmt.Sprintf("95 %% confidence, %s", plural(c.Replications, "replication")), "mean", "±", "from", "to")
	add := func(what string, i *Interval, form func(float64) string) {
		if i != nil {
			t.row(what, form(i.Mean), form(i.HalfWidth), form(i.Low), form(i.High))
		}
	}
	add("throughput, requests/s", &c.ThroughputRPS, number)
	add("latency mean", c.LatencyMean, seconds)
	add("latency p50", c.LatencyP50, seconds)
	add("latency p95", c.LatencyP95, seconds)
	add("latency p99", c.LatencyP99, seconds)
	for i := range r.spec.Servers {
		id := r.spec.Servers[i].ID
		s := c.Servers[id]
		add(id+" utilisation", &s.Utilisation, percent)
		add(id+" ready queue", &s.ReadyQueueMean, number)
	}
	t.write(b)
}

func (r *Results) writeReplications(b *bufio.Writer) {
	if len(r.Replications) < 2 {
		return
	}
	t := newTable("replications", "reached", "generated", "completed", "dropped", "in flight", "throughput/s", "latency mean", "p50", "p95", "p99")
	for _, row := range r.Replications {
		t.row(strconv.Itoa(row.Index), seconds(row.Reached), count(row.Generated), count(row.Completed), count(row.Dropped), count(row.InFlight),
			number(row.ThroughputRPS), secondsOrNone(row.LatencyMean), secondsOrNone(row.LatencyP50), secondsOrNone(row.LatencyP95), secondsOrNone(row.LatencyP99))
	}
	t.write(b)
}

// table is aligned text: the first column to the left, the rest to the right.
type table struct {
	rows  [][]string
	width []int
	more  int // rows beyond rowsMax
}

func newTable(heads ...string) *table {
	t := &table{}
	t.row(heads...)
	return t
}

func (t *table) row(cells ...string) {
	if len(t.rows) > rowsMax {
		t.more++
		return
	}
	t.rows = append(t.rows, cells)
	for i, c := range cells {
		if i == len(t.width) {
			t.width = append(t.width, 0)
		}
		t.width[i] = max(t.width[i], utf8.RuneCountInString(c))
	}
}

// write writes the table after an empty line, unless it has only its head.
func (t *table) write(b *bufio.Writer) {
	if len(t.rows) < 2 {
		return
	}
	b.WriteByte('\n')
	for _, cells := range t.rows {
		line := cells[0] + strings.Repeat(" ", t.width[0]-utf8.RuneCountInString(cells[0]))
		for i, c := range cells[1:] {
			line += strings.Repeat(" ", 2+t.width[i+1]-utf8.RuneCountInString(c)) + c
		}
		b.WriteString(strings.TrimRight(line, " "))
		b.WriteByte('\n')
	}
	if t.more > 0 {
		fmt.Fprintf(b, "  … and %s, which the JSON output has\n", plural(t.more, "row"))
	}
}

// count writes a whole number in groups of three digits.
func count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// number writes four significant digits, and all digits before the point.
func number(x float64) string {
	if math.Abs(x) >= 1000 {
		return count(int64(math.Round(x)))
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}

func percent(x float64) string { return strconv.FormatFloat(100*x, 'f', 1, 64) + " %" }

// seconds writes a duration in the unit that suits it.
func seconds(x float64) string {
	switch a := math.Abs(x); {
	case a == 0 || a >= 1:
		return number(x) + " s"
	case a >= 1e-3:
		return number(1e3*x) + " ms"
	case a >= 1e-6:
		return number(1e6*x) + " µs"
	}
	return number(1e9*x) + " ns"
}

func secondsOrNone(x *float64) string {
	if x == nil {
		return "-"
	}
	return seconds(*x)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(int64(n)) + " " + noun + "s"
}

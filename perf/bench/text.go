// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"io"
	"runtime"
	"strings"
)

// WriteText writes a row as text.
func WriteText(w io.Writer, r *Row) {
	fmt.Fprintf(w, "%s\n", title(r))
	if r.Note != "" {
		fmt.Fprintf(w, "    not measured: %s\n", r.Note)
		return
	}
	if r.Remark != "" {
		fmt.Fprintf(w, "    remark      %s\n", r.Remark)
	}
	if r.RTT != nil {
		p50 := each(r.rounds, sample.p50)
		fmt.Fprintf(w, "    round trip  p50 %s (%s .. %s over %d rounds)%s\n", nanosText(float64(r.RTT.P50)),
			nanosText(p50.Min), nanosText(p50.Max), len(r.rounds), r.RTT.rest())
	}
	if r.spec.By != ByCore {
		rate := each(r.rounds, sample.rate)
		unit := "events"
		if r.RTT != nil {
			unit = "round trips"
		}
		whole := ""
		if r.rounds[0].steady > 0 {
			whole = "  over all " + rateText(each(r.rounds, sample.overall).Median)
		}
		fmt.Fprintf(w, "    rate        %s %s (%s .. %s)  %s%s\n", rateText(rate.Median), unit, rateText(rate.Min),
			rateText(rate.Max), bytesText(r.BytesPerSecond), whole)
	}
	fmt.Fprintf(w, "    cost        %.2f s of CPU over %.2f s%s  %.2g allocations an event\n", r.CPUSeconds,
		r.seconds(), r.cpuText(), r.Allocs)
	if r.Limit == r.Bench {
		if r.LimitPauses != nil {
			fmt.Fprintf(w, "    pauses      best with %d x PAUSE between two looks (%s)\n", *r.LimitPauses, r.pauses)
		}
		return
	}
	verdict := ""
	if met, text := r.spec.Goal.check(r); text != "" {
		verdict = "  goal: " + text + ", missed"
		if met {
			verdict = "  goal: " + text + ", reached"
		}
	}
	fmt.Fprintf(w, "    ratio       %.4g x %s (%.4g .. %.4g, %s)%s\n", r.Ratio.Median, r.limitText(), r.Ratio.Min,
		r.Ratio.Max, r.spec.By.better(), verdict)
	writeDisco(w, r)
}

// writeDisco writes what disco did in the same rounds.
func writeDisco(w io.Writer, r *Row) {
	d := r.Disco
	if d == nil {
		return
	}
	figures := rateText(d.RatePerSecond) + " events"
	if d.RTT != nil {
		figures = fmt.Sprintf("p50 %s%s", nanosText(float64(d.RTT.P50)), d.RTT.rest())
	}
	fmt.Fprintf(w, "    disco       %s\n", figures)
	fmt.Fprintf(w, "                %.4g x %s (%.4g .. %.4g, %s)\n", d.Ratio.Median, r.Bench, d.Ratio.Min, d.Ratio.Max,
		r.spec.By.better())
}

// rest is the percentiles beyond the median; "": they aren't known.
func (r *RTT) rest() string {
	if r.Max == 0 {
		return ""
	}
	return fmt.Sprintf("  p90 %s  p99 %s  p99.9 %s  max %s", nanosText(float64(r.P90)), nanosText(float64(r.P99)),
		nanosText(float64(r.P999)), nanosText(float64(r.Max)))
}

// limitText names the limit and its figure.
func (r *Row) limitText() string {
	if len(r.limits) == 0 {
		return r.Limit
	}
	figure := rateText(each(r.limits, sample.rate).Median)
	if r.spec.By == ByTrip {
		figure = nanosText(each(r.limits, sample.p50).Median)
	}
	text := fmt.Sprintf("%s, which was %s", r.Limit, figure)
	if r.LimitPauses != nil {
		text += fmt.Sprintf(" at its best, %d x PAUSE between two looks (%s)", *r.LimitPauses, r.pauses)
	}
	return text
}

// cpuText is the CPU time of an event, or of a round trip, beside the limit's.
func (r *Row) cpuText() string {
	if r.CPUNanos == 0 {
		return "" // there are no events, as in rows of waiting
	}
	text := fmt.Sprintf(", %s an event", nanosText(r.CPUNanos))
	if r.RTT != nil {
		text = fmt.Sprintf(", %s a round trip", nanosText(r.CPUNanos))
	}
	if r.CPURatio == nil || r.Limit == r.Bench {
		return text
	}
	return text + fmt.Sprintf(" (%.4g x the limit's, %.4g .. %.4g)", r.CPURatio.Median, r.CPURatio.Min, r.CPURatio.Max)
}

// seconds is the time of all rounds.
func (r *Row) seconds() (s float64) {
	for _, round := range r.rounds {
		s += float64(round.nanos) / 1e9
	}
	return s
}

func title(r *Row) string {
	parts := []string{r.Bench, sizeText(r.PayloadBytes)}
	if r.Batch > 0 && (r.RTT == nil || r.Batch > 1) {
		parts = append(parts, fmt.Sprintf("batch %d", r.Batch))
	}
	if r.Wait != "" {
		parts = append(parts, r.Wait)
	}
	if r.Processes == 1 {
		parts = append(parts, "threads of one process")
	} else {
		parts = append(parts, fmt.Sprintf("%d processes", r.Processes))
	}
	return strings.Join(parts, ", ")
}

// Conditions describes where the rows were measured: the machine, as far as it is known.
func Conditions(o Options) string {
	pin := "not pinned"
	if o.Pin {
		pin = "pinned"
	}
	return fmt.Sprintf("%s/%s, %s, %s, %d processors, %d rounds of %v, rings of %s, %s",
		runtime.GOOS, runtime.GOARCH, runtime.Version(), cpuModel(), runtime.NumCPU(), o.Rounds, o.Time, sizeText(
			o.Ring), pin)
}

func nanosText(ns float64) string {
	switch {
	case ns < 10e3:
		return fmt.Sprintf("%.0f ns", ns)
	case ns < 10e6:
		return fmt.Sprintf("%.1f µs", ns/1e3)
	}
	return fmt.Sprintf("%.1f ms", ns/1e6)
}

func rateText(rate float64) string {
	switch {
	case rate >= 1e6:
		return fmt.Sprintf("%.2f M/s", rate/1e6)
	case rate >= 1e3:
		return fmt.Sprintf("%.1f k/s", rate/1e3)
	}
	return fmt.Sprintf("%.0f /s", rate)
}

func bytesText(rate float64) string {
	if rate >= 1e9 {
		return fmt.Sprintf("%.2f GB/s", rate/1e9)
	}
	return fmt.Sprintf("%.1f MB/s", rate/1e6)
}

func sizeText(bytes int) string {
	switch {
	case bytes >= mib && bytes%mib == 0:
		return fmt.Sprintf("%d MiB", bytes/mib)
	case bytes >= kib && bytes%kib == 0:
		return fmt.Sprintf("%d KiB", bytes/kib)
	}
	return fmt.Sprintf("%d B", bytes)
}
